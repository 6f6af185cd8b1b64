"""A tiny composed model with a tokenizer of words, whose experts differ from the base."""

from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import Gemma2Config, Gemma2ForCausalLM, PreTrainedTokenizerFast

from compgen.composition.causal_lm import ComposedForCausalLM

WORDS = 60
WINDOW = 12


def gemma(seed: int) -> Any:
    """A random Gemma 2 with sharp distributions, so that greedy choices have no ties."""
    torch.manual_seed(seed)
    config = Gemma2Config(
        vocab_size=WORDS + 4,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        intermediate_size=64,
        sliding_window=WINDOW,
        query_pre_attn_scalar=16,
        max_position_embeddings=256,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=2,
    )
    model = Gemma2ForCausalLM._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.15)
    return model


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    """`w7` is token 11; texts get a begin token."""
    names = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"w{number}" for number in range(WORDS))]
    words = Tokenizer(models.WordLevel({name: place for place, name in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    return PreTrainedTokenizerFast(
        tokenizer_object=words, bos_token="<bos>", eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    )


@pytest.fixture(scope="session")
def composed() -> ComposedForCausalLM:
    """Base and two experts."""
    return ComposedForCausalLM.from_modules(gemma(0), [gemma(1), gemma(2)])
