"""One small adapter per model family: where a checkpoint keeps what `compgen.heads.parts` names.

Covers GPT-2, GPT-NeoX (Pythia), Llama (SmolLM, Llama 2 and 3), Mistral, OLMo, Qwen2, Falcon with rotary positions,
Gemma and Gemma 2, as transformers 5 implements them. Another family is added with `register_family`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from compgen.errors import UserError
from compgen.heads.parts import Attention, Norm, Projection, Rotary

CHANGING_ROTATIONS = ("dynamic", "longrope")
NEEDED = (
    "an adapter is a Family with attention(decoder, layer), final_norm(decoder) and begins_with_token. Its Attention "
    "gives module, mixer (the output projection), norm (before attention: gain, shift and whether it subtracts the "
    "mean), query, key, value (heads, head width, model) and output (heads, model, head width), each with its bias, "
    "scaling of the scores, rotary (frequencies and which channels are paired, or None), and where the model has them "
    "window, softcap, clip and writing_gain. See compgen.heads.parts for shapes, and register_family"
)


@dataclass(frozen=True)
class Family:
    """How to read models of one architecture."""

    attention: Callable[[Any, int], Attention]
    """From the decoder (the model without its language-model head) and a layer."""
    final_norm: Callable[[Any], Norm]
    """The norm before the language-model head."""
    begins_with_token: bool
    """Whether texts of this family begin with a special token (the authors' choice, where they had the family)."""


def family_of(model_type: str) -> Family:
    """The adapter of an architecture, by its `config.model_type`.

    Raises:
        UserError: no adapter is known; the message says what one must give.
    """
    if model_type not in _FAMILIES:
        raise UserError(f"model_type={model_type!r}: heads are known for {sorted(_FAMILIES)}; {NEEDED}")
    return _FAMILIES[model_type]


def register_family(model_type: str, family: Family) -> None:
    """Add an adapter, or replace one."""
    _FAMILIES[model_type] = family


# ---- reading weights -----------------------------------------------------------------------------------------------
def matrix(module: nn.Module) -> Tensor:
    """The weight (output, input) of a linear layer, whichever way the checkpoint keeps it.

    Raises:
        UserError: the weight is quantized, or is not on this machine's devices.
    """
    weight = module.weight
    assert isinstance(weight, Tensor)
    if not weight.is_floating_point():
        raise UserError(f"{type(module).__name__} holds {weight.dtype}: load the model without quantization")
    if weight.is_meta:
        raise UserError(f"{type(module).__name__} is offloaded: load the model with memory for all its weights")
    weight = weight.detach()
    return weight.T if isinstance(module, Conv1D) else weight


def vector(module: nn.Module) -> Tensor | None:
    """The bias of a layer, if it has one."""
    bias = getattr(module, "bias", None)
    return bias.detach() if isinstance(bias, Tensor) else None


def by_head(module: nn.Module, heads: int) -> Projection:
    """A projection whose rows are heads one after another."""
    weight, bias = matrix(module).unflatten(0, (heads, -1)), vector(module)
    return Projection(weight, None if bias is None else bias.unflatten(0, (heads, -1)))


def mixed_by_head(module: nn.Module, heads: int) -> Projection:
    """The output projection: its columns are heads one after another."""
    return Projection(matrix(module).unflatten(1, (heads, -1)).transpose(0, 1), vector(module))


def fused(module: nn.Module, groups: int, blocks: tuple[int, int, int]) -> tuple[Projection, Projection, Projection]:
    """Query, key and value from one matrix: per group so many query, key and value heads, one after another."""
    bias = vector(module)
    weights = matrix(module).unflatten(0, (groups, sum(blocks), -1)).split(blocks, dim=1)
    biases = (None,) * 3 if bias is None else bias.unflatten(0, (groups, sum(blocks), -1)).split(blocks, dim=1)
    query, key, value = (
        Projection(weight.flatten(0, 1), None if shift is None else shift.flatten(0, 1))
        for weight, shift in zip(weights, biases, strict=True)
    )
    return query, key, value


def layer_norm(module: nn.Module) -> Norm:
    """LayerNorm with gain and shift."""
    return Norm(module, matrix(module), vector(module), centered=True)


def rms_norm(module: nn.Module) -> Norm:
    """RMSNorm with a gain."""
    return Norm(module, matrix(module), None, centered=False)


def gemma_norm(module: nn.Module) -> Norm:
    """RMSNorm whose gain is kept as its distance from one."""
    return Norm(module, 1 + matrix(module), None, centered=False)


def rotary_of(module: Any) -> Rotary:
    """The model's own frequencies, with what its configuration does to them.

    Raises:
        UserError: the frequencies change with the length of the text, so that no one matrix describes a head.
    """
    if module.rope_type in CHANGING_ROTATIONS:
        raise UserError(f"rope_type={module.rope_type!r}: rotations that depend on the text's length are not covered")
    return Rotary(module.inv_freq.detach(), magnitude=float(module.attention_scaling))


# ---- families ------------------------------------------------------------------------------------------------------
def _gpt2(decoder: Any, layer: int) -> Attention:
    block = decoder.h[layer]
    heads = decoder.config.num_attention_heads
    weights = matrix(block.attn.c_attn).unflatten(0, (3, heads, -1))
    biases = block.attn.c_attn.bias.detach().unflatten(0, (3, heads, -1))
    query, key, value = (Projection(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    output = mixed_by_head(block.attn.c_proj, heads)
    norm = layer_norm(block.ln_1)
    return Attention(block.attn, block.attn.c_proj, norm, query, key, value, output, block.attn.scaling, None)


def _gpt_neox(decoder: Any, layer: int) -> Attention:
    block = decoder.layers[layer]
    attention, heads = block.attention, decoder.config.num_attention_heads
    return Attention(
        attention,
        attention.dense,
        layer_norm(block.input_layernorm),
        *fused(attention.query_key_value, heads, (1, 1, 1)),
        mixed_by_head(attention.dense, heads),
        attention.scaling,
        rotary_of(decoder.rotary_emb),
    )


def _falcon(decoder: Any, layer: int) -> Attention:
    config, block = decoder.config, decoder.h[layer]
    if config.alibi:
        raise UserError("alibi=True: only Falcon models with rotary positions are supported")
    attention, heads = block.self_attention, config.num_attention_heads
    groups = attention.num_kv_heads
    return Attention(
        attention,
        attention.dense,
        layer_norm(block.ln_attn if hasattr(block, "ln_attn") else block.input_layernorm),
        *fused(attention.query_key_value, groups, (heads // groups, 1, 1)),
        mixed_by_head(attention.dense, heads),
        attention.inv_norm_factor,
        rotary_of(decoder.rotary_emb),
    )


def _separate(read_norm: Callable[[nn.Module], Norm]) -> Callable[[Any, int], Attention]:
    """The layout of Llama and all that follow it: four separate projections."""

    def attention(decoder: Any, layer: int) -> Attention:
        config, block = decoder.config, decoder.layers[layer]
        module, heads, groups = block.self_attn, config.num_attention_heads, config.num_key_value_heads
        window = getattr(module, "sliding_window", None)
        if config.model_type == "mistral":  # whose layers do not hold it
            window = config.sliding_window
        return Attention(
            module,
            module.o_proj,
            read_norm(block.input_layernorm),
            by_head(module.q_proj, heads),
            by_head(module.k_proj, groups),
            by_head(module.v_proj, groups),
            mixed_by_head(module.o_proj, heads),
            module.scaling,
            rotary_of(decoder.rotary_emb),
            window=window,
            softcap=getattr(module, "attn_logit_softcapping", None),
            clip=getattr(config, "clip_qkv", None),
            writing_gain=read_norm(block.post_attention_layernorm).gain if config.model_type == "gemma2" else None,
        )

    return attention


def _plain_norm(module: nn.Module) -> Norm:
    """OLMo's LayerNorm, which has no parameters."""
    return Norm(module, torch.ones(()), None, centered=True)


_FAMILIES = {
    "gpt2": Family(_gpt2, lambda decoder: layer_norm(decoder.ln_f), begins_with_token=False),
    "gpt_neox": Family(_gpt_neox, lambda decoder: layer_norm(decoder.final_layer_norm), begins_with_token=False),
    "falcon": Family(_falcon, lambda decoder: layer_norm(decoder.ln_f), begins_with_token=False),
    "llama": Family(_separate(rms_norm), lambda decoder: rms_norm(decoder.norm), begins_with_token=True),
    "mistral": Family(_separate(rms_norm), lambda decoder: rms_norm(decoder.norm), begins_with_token=True),
    "qwen2": Family(_separate(rms_norm), lambda decoder: rms_norm(decoder.norm), begins_with_token=False),
    "olmo": Family(_separate(_plain_norm), lambda decoder: _plain_norm(decoder.norm), begins_with_token=False),
    "gemma": Family(_separate(gemma_norm), lambda decoder: gemma_norm(decoder.norm), begins_with_token=True),
    "gemma2": Family(_separate(gemma_norm), lambda decoder: gemma_norm(decoder.norm), begins_with_token=True),
}
