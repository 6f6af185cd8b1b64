"""The laptop study's tokenizer: byte-level pairs, single digits, Gemma's special tokens; trained on the corpus."""

from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<eos>", "<bos>", "<unk>")
PAD, END, BEGIN = 0, 1, 2


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """Train a tokenizer that round-trips every text and begins every sequence with exactly one `<bos>`."""
    tokens = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokens.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokens.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokens.train_from_iterator(texts, trainer)
    tokens.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", BEGIN)])
    names = dict(zip(("pad_token", "eos_token", "bos_token", "unk_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens, padding_side="left", clean_up_tokenization_spaces=False, **names
    )


def encode(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a text without the one that begins a sequence."""
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
