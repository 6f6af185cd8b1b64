"""The laptop study's architecture: Gemma 2 at about a million parameters."""

from pathlib import Path
from typing import Any

import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, GenerationConfig

from compgen.finetuning.config import TinyModelConfig
from compgen.finetuning.tokenizer import BEGIN, END, PAD


def new_model(config: TinyModelConfig, vocabulary: int, seed: int) -> Any:
    """A randomly initialized model in float32; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Gemma2ForCausalLM._from_config(_architecture(config, vocabulary), attn_implementation="eager")
    model.generation_config = GenerationConfig(bos_token_id=BEGIN, eos_token_id=END, pad_token_id=PAD)
    return model


def save_checkpoint(model: Any, tokenizer: Any, directory: Path) -> None:
    """Write a Hugging Face folder with everything that loading needs."""
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)


def _architecture(config: TinyModelConfig, vocabulary: int) -> Gemma2Config:
    return Gemma2Config(
        vocab_size=vocabulary,
        hidden_size=config.width,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.key_value_heads,
        head_dim=config.head_width,
        intermediate_size=config.feedforward,
        sliding_window=config.sliding_window,
        query_pre_attn_scalar=config.head_width,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
        max_position_embeddings=config.positions,
        tie_word_embeddings=True,
        pad_token_id=PAD,
        eos_token_id=END,
        bos_token_id=BEGIN,
        dtype="float32",
    )
