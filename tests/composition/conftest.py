"""Tiny Gemma-2-shaped models with a tokenizer, made once for all tests of composed models."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import Gemma2Config, Gemma2ForCausalLM, PreTrainedTokenizerFast

BEGIN, END = 2, 1
WINDOW = 16


def gemma(seed: int, vocabulary: int = 300, window: int = WINDOW) -> Gemma2ForCausalLM:
    config = Gemma2Config(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        query_pre_attn_scalar=16,
        sliding_window=window,
        max_position_embeddings=1024,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
        attn_implementation="eager",
    )
    torch.manual_seed(seed)
    model = Gemma2ForCausalLM(config).eval()
    for name, parameter in model.named_parameters():  # so that context decides, and no choice is a near tie
        if "post_" in name:
            parameter.data += 3
        elif "q_proj" in name or "k_proj" in name or "embed" in name:
            parameter.data *= 4
    return model


def perturbed(model: Gemma2ForCausalLM, seed: int, size: float = 0.006) -> Gemma2ForCausalLM:
    other = Gemma2ForCausalLM(model.config).eval()
    other.load_state_dict(model.state_dict())
    generator = torch.Generator().manual_seed(seed)
    for parameter in other.parameters():
        parameter.data += size * torch.randn(parameter.shape, generator=generator)
    return other


def byte_tokenizer(specials: Sequence[str] = ("<pad>", "<eos>", "<bos>", "<unk>")) -> PreTrainedTokenizerFast:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*specials, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", vocabulary["<bos>"])])
    names = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, padding_side="left", **names)


def rows(lengths: Sequence[int], seed: int = 0) -> list[list[int]]:
    """Random rows of tokens that begin with the begin token."""
    generator = torch.Generator().manual_seed(seed)
    return [[BEGIN, *torch.randint(4, 260, (length - 1,), generator=generator).tolist()] for length in lengths]


def left_padded(items: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and mask, (row, column)."""
    width = max(map(len, items))
    ids = torch.tensor([[0] * (width - len(item)) + list(item) for item in items])
    mask = torch.tensor([[0] * (width - len(item)) + [1] * len(item) for item in items])
    return ids, mask


@pytest.fixture(scope="session")
def trio() -> list[Any]:
    """A base and two experts."""
    base = gemma(0)
    return [base, perturbed(base, 1), perturbed(base, 2)]


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def saved(trio: list[Any], tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The trio as checkpoint directories."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for name, model in zip(("base", "math", "code"), trio, strict=True):
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return [folder / name for name in ("base", "math", "code")]


@pytest.fixture(scope="session")
def adapters(trio: list[Any], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two LoRA adapters on the base, their weights random."""
    from peft import LoraConfig, get_peft_model

    found = []
    for seed in (5, 6):
        base = perturbed(trio[0], 0, size=0.0)
        torch.manual_seed(seed)
        model = get_peft_model(base, LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], lora_alpha=8))
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.data = 0.3 * torch.randn(parameter.shape)
        found.append(tmp_path_factory.mktemp("adapter"))
        model.save_pretrained(found[-1])
    return found
