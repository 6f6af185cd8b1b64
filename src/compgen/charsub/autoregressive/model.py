"""Stacked GPT-2 models whose tokens have indices of their own, and which answer at the last positions only.

Covers initialization and the forward pass; stacks are selected, joined and stored as in compgen.charsub.model. In the
last layer only keys and values are computed for x, which nobody asks for a next token: a third less work than the
general stack, in training and in generation. Training and generation are elsewhere.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from compgen.charsub.autoregressive_config import AutoregressiveModelConfig
from compgen.charsub.model import Parameters

EMBEDDING_DEVIATION = 0.1
NORM_EPSILON = 1e-5


def shapes(config: AutoregressiveModelConfig, vocabulary: int, indices: int) -> dict[str, tuple[int, ...]]:
    """The shape of every weight of one model; the output projection is the transposed token embedding."""
    width = config.width
    found: dict[str, tuple[int, ...]] = {"token_embedding": (vocabulary, width), "position_embedding": (indices, width)}
    for layer in range(config.layers):
        sizes = {
            "query": (width, width),
            "key_value": (width, 2 * width),
            "attention_output": (width, width),
            "feedforward_input": (width, 4 * width),
            "feedforward_output": (4 * width, width),
        }
        for name, size in sizes.items():
            found[f"layer{layer}.{name}.weight"] = size
            found[f"layer{layer}.{name}.bias"] = (1, size[1])
        for name in ("attention_norm", "feedforward_norm"):
            found |= {f"layer{layer}.{name}.weight": (1, width), f"layer{layer}.{name}.bias": (1, width)}
    return found | {"final_norm.weight": (1, width), "final_norm.bias": (1, width)}


def initialize(
    config: AutoregressiveModelConfig, vocabulary: int, indices: int, generators: Sequence[torch.Generator]
) -> Parameters:
    """Random weights, one model per generator: a model does not depend on which others are in its stack.

    Matrices have deviation 1/√width. With GPT-2's 0.02 the attention scores of so narrow a model start so flat that
    copying is not found within the budget.
    """
    models = [_initialize_one(shapes(config, vocabulary, indices), config.width, g) for g in generators]
    return {name: torch.stack([model[name] for model in models]) for name in models[0]}


def _initialize_one(sizes: dict[str, tuple[int, ...]], width: int, generator: torch.Generator) -> Parameters:
    weights = {}
    for name, size in sizes.items():
        if name.endswith("norm.weight"):
            weights[name] = torch.ones(size)
        elif name.endswith(".bias"):
            weights[name] = torch.zeros(size)
        else:
            deviation = EMBEDDING_DEVIATION if name.endswith("embedding") else 1 / math.sqrt(width)
            weights[name] = torch.randn(size, generator=generator) * deviation
    return weights


def forward(parameters: Parameters, heads: int, tokens: Tensor, positions: Tensor, last: int) -> Tensor:
    """Logits at the last positions.

    Args:
        parameters: every weight with a leading model axis.
        heads: attention heads per layer.
        tokens: (model, row, position).
        positions: the same shape, the index of each token.
        last: at how many final positions logits are wanted; the last layer computes no others.

    Returns:
        (model, row, last, vocabulary).
    """
    models, rows, length = tokens.shape
    hidden = _embed(parameters["token_embedding"], tokens) + _embed(parameters["position_embedding"], positions)
    layers = _layer_count(parameters)
    for layer in range(layers):
        kept = last if layer == layers - 1 else length
        hidden = _block(parameters, f"layer{layer}", hidden, heads, kept)  # (model, row, kept, width)
    hidden = _norm(parameters, "final_norm", hidden.reshape(models, rows * last, -1))
    logits = hidden @ parameters["token_embedding"].transpose(1, 2)
    return logits.view(models, rows, last, -1)


def _layer_count(parameters: Parameters) -> int:
    return sum(name.endswith("query.weight") for name in parameters)


def _embed(table: Tensor, indices: Tensor) -> Tensor:
    """Rows of each model's own table (model, entry, width), as one lookup in all tables laid end to end."""
    models, entries, width = table.shape
    shifted = indices + (torch.arange(models) * entries).view(-1, 1, 1)
    return functional.embedding(shifted, table.reshape(models * entries, width))


def _block(parameters: Parameters, layer: str, hidden: Tensor, heads: int, kept: int) -> Tensor:
    models, rows, length, width = hidden.shape
    normal = _norm(parameters, f"{layer}.attention_norm", hidden.reshape(models, rows * length, width))
    mixed = _attention(parameters, layer, normal.view(models, rows, length, width), heads, kept)
    hidden = hidden[:, :, length - kept :].reshape(models, rows * kept, width)
    hidden = hidden + _linear(parameters, f"{layer}.attention_output", mixed)
    inner = _linear(parameters, f"{layer}.feedforward_input", _norm(parameters, f"{layer}.feedforward_norm", hidden))
    inner = functional.gelu(inner, approximate="tanh")
    hidden = hidden + _linear(parameters, f"{layer}.feedforward_output", inner)
    return hidden.view(models, rows, kept, width)


def _attention(parameters: Parameters, layer: str, normal: Tensor, heads: int, kept: int) -> Tensor:
    """Causal attention from the last `kept` positions: (model, row · kept, width)."""
    models, rows, length, width = normal.shape
    query = _linear(parameters, f"{layer}.query", normal[:, :, length - kept :].reshape(models, rows * kept, width))
    query = query.view(models * rows, kept, heads, -1).transpose(1, 2)  # (model · row, head, query, dimension)
    both = _linear(parameters, f"{layer}.key_value", normal.reshape(models, rows * length, width))
    both = both.view(models * rows, length, 2, heads, -1)
    key, value = both.permute(2, 0, 3, 1, 4).unbind(0)  # (model · row, head, key, dimension)
    visible = torch.ones(kept, length, dtype=torch.bool).tril(length - kept)
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=visible)
    return mixed.transpose(1, 2).reshape(models, rows * kept, width)


def _linear(parameters: Parameters, name: str, inputs: Tensor) -> Tensor:
    return torch.baddbmm(parameters[f"{name}.bias"], inputs, parameters[f"{name}.weight"])


def _norm(parameters: Parameters, name: str, inputs: Tensor) -> Tensor:
    width = inputs.shape[-1]
    normal = functional.layer_norm(inputs, (width,), eps=NORM_EPSILON)
    return normal * parameters[f"{name}.weight"] + parameters[f"{name}.bias"]
