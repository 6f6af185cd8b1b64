"""GSM8K-like rows, and small tokenizers of two kinds."""

from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from compgen.heads.prompts.prompt import Rows

Merges = list[tuple[str, str]]


@pytest.fixture(scope="session")
def rows() -> Rows:
    """Sums; test and train have no question in common."""
    made = [
        {"question": f"What is {n} plus {n + 2}?", "answer": f"It is {n}+{n + 2}=<<...>>.\n#### {2 * n + 2}"}
        for n in range(40)
    ]
    return Rows(test=made[:15], train=made[15:])


@pytest.fixture(scope="session")
def bytes_with() -> Callable[..., Any]:
    """Makes a byte-level BPE tokenizer with the merges of given words; with or without a token that begins texts."""

    def make(*words: str, begin: bool = False, split: bool = True) -> Any:
        letters = pre_tokenizers.ByteLevel.alphabet()
        vocabulary = {letter: place for place, letter in enumerate(["<s>", "</s>", *sorted(letters)])}
        merges: Merges = []
        for word in (text.replace(" ", "Ġ") for text in words):
            for end in range(2, len(word) + 1):
                if word[:end] not in vocabulary:
                    merges.append((word[: end - 1], word[end - 1]))
                    vocabulary[word[:end]] = len(vocabulary)
        made = Tokenizer(models.BPE(vocabulary, merges))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=split)
        made.decoder = decoders.ByteLevel()
        if begin:
            made.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        return PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")

    return make


@pytest.fixture(scope="session")
def words_only() -> Any:
    """A tokenizer of whole words, to which every symbol is unknown."""
    names = ["<unk>", "is", "animal", "sport", "plant"]
    made = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>")
