"""Many small GPT-2 models in one: stacked parameters with a leading model axis, run by batched matrix products.

Covers transformers' GPT-2 (pre-LayerNorm, learned positions, tanh-approximated GELU, tied unembedding, three dropouts)
for models too small to fill a processor alone. Every model of a stack is what it would be alone: own initialization,
own dropout, no shared numbers. Training is in `training.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from compgen.randomness import numpy_stream, torch_stream

INITIAL_DEVIATION = 0.02
EPSILON = 1e-5
BLOCK = 2**16
"""Dropout masks are drawn for so many values of a model at a time."""

Parameters = dict[str, Tensor]
"""Every tensor has shape (model, ...). Matrices are (model, input, output), as in GPT-2."""
Cache = list[tuple[Tensor, Tensor]]
"""Keys and values of the positions so far, by layer: (model · sequence, head, position, channel)."""


@dataclass(frozen=True)
class ModelShape:
    """The shape of one of the stacked models; defaults are the authors' toy (dossier 2.1)."""

    vocabulary: int = 27
    positions: int = 32
    width: int = 64
    layers: int = 2
    heads: int = 2
    dropout: float = 0.1


def initialize(shape: ModelShape, seeds: Sequence[int]) -> Parameters:
    """One model for every seed, as GPT-2 does: normal of deviation .02, residual outputs scaled by 1/√(2·layers).

    A model depends on its own seed only, not on the others of the stack.
    """
    singles = [_initialize_one(shape, seed) for seed in seeds]
    return {name: torch.stack([single[name] for single in singles]) for name in singles[0]}


def _initialize_one(shape: ModelShape, seed: int) -> Parameters:
    generator = torch_stream(seed, "gpt2")

    def normal(*size: int, scale: float = 1.0) -> Tensor:
        return torch.randn(*size, generator=generator) * INITIAL_DEVIATION * scale

    width, residual = shape.width, 1 / math.sqrt(2 * shape.layers)
    found = {"token": normal(shape.vocabulary, width), "position": normal(shape.positions, width)}
    for layer in range(shape.layers):
        found |= {
            f"{layer}.norm1.weight": torch.ones(width),
            f"{layer}.norm1.bias": torch.zeros(width),
            f"{layer}.attention.weight": normal(width, 3 * width),
            f"{layer}.attention.bias": torch.zeros(3 * width),
            f"{layer}.mixed.weight": normal(width, width, scale=residual),
            f"{layer}.mixed.bias": torch.zeros(width),
            f"{layer}.norm2.weight": torch.ones(width),
            f"{layer}.norm2.bias": torch.zeros(width),
            f"{layer}.hidden.weight": normal(width, 4 * width),
            f"{layer}.hidden.bias": torch.zeros(4 * width),
            f"{layer}.output.weight": normal(4 * width, width, scale=residual),
            f"{layer}.output.bias": torch.zeros(width),
        }
    return found | {"norm.weight": torch.ones(width), "norm.bias": torch.zeros(width)}


def forward(
    parameters: Mapping[str, Tensor],
    shape: ModelShape,
    tokens: Tensor,
    dropout: "Dropout | None" = None,
    cache: Cache | None = None,
) -> Tensor:
    """Next-token logits of all models.

    Args:
        parameters: of M models.
        shape: of each of them.
        tokens: (model, batch, position), token ids.
        dropout: gives the masks in training; None in evaluation.
        cache: keys and values of the positions before `tokens`; extended in place. An empty list starts one.

    Returns:
        (model, batch, position, vocabulary).

    Raises:
        ValueError: more positions than the model has.
    """
    models, batch, length = tokens.shape
    past = cache[0][0].shape[2] if cache else 0
    if past + length > shape.positions:
        raise ValueError(f"{past + length} positions, but the model has {shape.positions}")
    offsets = torch.arange(models)[:, None, None] * shape.vocabulary
    embedded = F.embedding(tokens + offsets, parameters["token"].flatten(0, 1))  # (model, batch, position, width)
    embedded = embedded + parameters["position"][:, None, past : past + length]
    residual = _drop(embedded.flatten(1, 2), dropout)  # (model, row, width), one row for every token of the batch
    for layer in range(shape.layers):
        attended = _attend(parameters, shape, layer, residual, batch, dropout, cache)
        residual = _add_dropped(residual, attended, dropout)
        hidden = _linear(parameters, f"{layer}.hidden", _norm(parameters, f"{layer}.norm2", residual))
        output = _linear(parameters, f"{layer}.output", F.gelu(hidden, approximate="tanh"))
        residual = _add_dropped(residual, output, dropout)
    logits = _norm(parameters, "norm", residual) @ parameters["token"].transpose(1, 2)
    return logits.view(models, batch, length, shape.vocabulary)


def _attend(
    parameters: Mapping[str, Tensor],
    shape: ModelShape,
    layer: int,
    residual: Tensor,
    batch: int,
    dropout: "Dropout | None",
    cache: Cache | None,
) -> Tensor:
    """What the heads of one layer add to the residual before dropout, (model, row, width)."""
    models, rows, width = residual.shape
    projected = _linear(parameters, f"{layer}.attention", _norm(parameters, f"{layer}.norm1", residual))
    heads = projected.view(models * batch, rows // batch, 3 * shape.heads, width // shape.heads).transpose(1, 2)
    query, key, value = heads.split(shape.heads, 1)  # (model · sequence, head, position, channel)
    if cache is not None:
        key, value = _extend(cache, layer, key, value)
    if dropout is None and cache is None:
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    else:
        scores = query @ key.transpose(-1, -2)  # (model · sequence, head, query, key)
        future = torch.full(scores.shape[-2:], -torch.inf).triu(1 + scores.shape[-1] - scores.shape[-2])
        weights = torch.add(future, scores, alpha=1 / math.sqrt(query.shape[-1])).softmax(-1)
        mixed = _drop(weights.view(models, -1, *weights.shape[1:]), dropout).view_as(weights) @ value
    return _linear(parameters, f"{layer}.mixed", mixed.transpose(1, 2).reshape(residual.shape))


def _extend(cache: Cache, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    if layer < len(cache):
        key, value = torch.cat([cache[layer][0], key], 2), torch.cat([cache[layer][1], value], 2)
        cache[layer] = (key, value)
    else:
        cache.append((key, value))
    return key, value


def _linear(parameters: Mapping[str, Tensor], name: str, values: Tensor) -> Tensor:
    """(model, row, input) to (model, row, output)."""
    return torch.baddbmm(parameters[f"{name}.bias"][:, None], values, parameters[f"{name}.weight"])


def _norm(parameters: Mapping[str, Tensor], name: str, values: Tensor) -> Tensor:
    normalized = F.layer_norm(values, values.shape[-1:], eps=EPSILON)
    return torch.addcmul(parameters[f"{name}.bias"][:, None], normalized, parameters[f"{name}.weight"][:, None])


def _drop(values: Tensor, dropout: "Dropout | None") -> Tensor:
    return values if dropout is None else values * dropout.mask(values.shape)


def _add_dropped(residual: Tensor, values: Tensor, dropout: "Dropout | None") -> Tensor:
    if dropout is None:
        return residual + values
    return torch.addcmul(residual, values, dropout.mask(values.shape))


class Dropout:
    """Inverted dropout for a stack: masks from one random stream a model, drawn for many steps at a time.

    A model's masks depend on its own seed and on their place in the stream; the place is all the state there is.
    """

    def __init__(self, rate: float, seeds: Sequence[int], *purpose: object, place: tuple[int, int] = (0, 0)) -> None:
        """Drop a share `rate`; model i's stream is that of seeds[i] for this purpose, continued from a `place`."""
        self._rate, self._seeds, self._purpose = rate, tuple(seeds), purpose
        self._block, self._offset = place
        self._masks = self._draw()

    @property
    def place(self) -> tuple[int, int]:
        """Where the stream stands."""
        return self._block, self._offset

    def mask(self, size: torch.Size) -> Tensor:
        """Zeros and 1/(1 − rate) in the shape of a stack (model, ...); may be a view that is not contiguous."""
        count = math.prod(size[1:])
        if count > BLOCK:
            raise ValueError(f"{count} masked values of a model at once, at most {BLOCK} are possible")
        if self._offset + count > BLOCK:
            self._block, self._offset = self._block + 1, 0
            self._masks = self._draw()
        mask = self._masks[:, self._offset : self._offset + count].view(size)
        self._offset += count
        return mask

    def _draw(self) -> Tensor:
        """(model, BLOCK), from 16 random bits a value."""
        streams = [numpy_stream(seed, "dropout", *self._purpose, self._block) for seed in self._seeds]
        words = np.stack([stream.bit_generator.random_raw(BLOCK // 4) for stream in streams])
        bits = torch.from_numpy(words.view(np.int16))
        dropped = round(self._rate * 2**16) - 2**15  # how many of the 2^16 values, counted from the lowest
        return (bits >= dropped) * (1 / (1 - self._rate))


def select(parameters: Mapping[str, Tensor], models: Sequence[int]) -> Parameters:
    """Some of the stacked models, in the order given."""
    return {name: value[list(models)] for name, value in parameters.items()}


def concatenate(stacks: Sequence[Mapping[str, Tensor]]) -> Parameters:
    """Several stacks as one."""
    return {name: torch.cat([stack[name] for stack in stacks]) for name in stacks[0]}


def repeat(parameters: Mapping[str, Tensor], times: int) -> Parameters:
    """Every model so often in a row, as copies that can be trained apart."""
    return {name: value.repeat_interleave(times, 0) for name, value in parameters.items()}


def save(parameters: Mapping[str, Tensor], path: Path) -> None:
    """Write a stack as safetensors."""
    save_file({name: value.detach().contiguous() for name, value in parameters.items()}, path)


def load(path: Path) -> Parameters:
    """Read a stack that `save` wrote."""
    stack: Parameters = load_file(path)
    return stack
