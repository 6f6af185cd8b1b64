"""Sequences `x SEP y EOS`: tokens, position indices, and batches for training.

Every batch holds strings of one length, so that there is no padding. Covers drawing strings and laying them out; what
y should be is a rule's affair.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from compgen.charsub.autoregressive_config import AutoregressiveDataConfig, PositionScheme
from compgen.charsub.rules import SYMBOLS

SEPARATOR = len(SYMBOLS)
END = SEPARATOR + 1
VOCABULARY = END + 1


@dataclass(frozen=True)
class Batch:
    """Strings of one length for several models."""

    tokens: Tensor
    """(model, string, 2·length + 1): x SEP y, what the models read."""
    positions: Tensor
    """(model, string, 2·length + 1), the index of each token."""
    targets: Tensor
    """(model, string, length + 1): y EOS, what they should say from SEP on."""


def prompts(strings: Tensor) -> Tensor:
    """x SEP for strings (..., length): (..., length + 1)."""
    return torch.cat((strings, torch.full_like(strings[..., :1], SEPARATOR)), -1)


def with_end(strings: Tensor, steps: int | None = None) -> Tensor:
    """y EOS for strings (..., length), filled up with EOS to `steps` tokens."""
    missing = 1 if steps is None else steps - strings.shape[-1]
    return torch.cat((strings, strings.new_full((*strings.shape[:-1], missing), END)), -1)


def position_indices(length: int, read: int, scheme: PositionScheme) -> Tensor:
    """Indices of x SEP and of the first `read` tokens of y, counted from 0: (length + 1 + read,)."""
    start = 0 if scheme is PositionScheme.coupled else length + 1
    return torch.cat((torch.arange(length + 1), start + torch.arange(read)))


def index_count(data: AutoregressiveDataConfig, scheme: PositionScheme) -> int:
    """How many indices the longest evaluated string needs, with the overrun that generation allows."""
    reach = data.longest_evaluated + data.overrun + 1
    return reach if scheme is PositionScheme.coupled else data.longest_evaluated + 1 + reach


def highest_offset(length: int, data: AutoregressiveDataConfig, scheme: PositionScheme) -> int:
    """The largest first index at which a training string of this length still fits."""
    used = length + 1 if scheme is PositionScheme.coupled else 2 * length + 1
    return index_count(data, scheme) - used


def draw_length(data: AutoregressiveDataConfig, generator: torch.Generator) -> int:
    """A length, uniform over the training range."""
    return int(torch.randint(data.shortest, data.longest + 1, (), generator=generator))


def draw_strings(count: int, length: int, generator: torch.Generator) -> Tensor:
    """Strings of independent uniform symbols, (string, length)."""
    return torch.randint(len(SYMBOLS), (count, length), generator=generator)


def draw_batch(
    tables: Tensor,
    size: int,
    length: int,
    data: AutoregressiveDataConfig,
    scheme: PositionScheme,
    generators: list[torch.Generator],
    hazard: float = 0.0,
) -> Batch:
    """Fresh strings for every model, from the model's own generator.

    Args:
        tables: (model, symbol), what each model's rule makes of a symbol.
        size: strings per model.
        length: of every string.
        data: which indices occur.
        scheme: how tokens get them.
        generators: one per model.
        hazard: the probability, at every symbol of y, that EOS is the target instead.
    """
    strings = torch.stack([draw_strings(size, length, generator) for generator in generators])
    offsets = torch.stack([_draw_offsets(size, length, data, scheme, generator) for generator in generators])
    models = torch.arange(len(generators))[:, None, None]
    answers = tables[models, strings]  # (model, string, length)
    indices = position_indices(length, length, scheme) + offsets[..., None]
    targets = with_end(answers)
    if hazard:
        early = torch.stack([torch.rand(targets.shape[1:], generator=generator) for generator in generators]) < hazard
        targets = targets.masked_fill(early, END)
    return Batch(torch.cat((prompts(strings), answers), -1), indices, targets)


def _draw_offsets(
    size: int, length: int, data: AutoregressiveDataConfig, scheme: PositionScheme, generator: torch.Generator
) -> Tensor:
    """First indices: 0 for some strings, as in generation, uniform for the others."""
    offsets = torch.randint(highest_offset(length, data, scheme) + 1, (size,), generator=generator)
    return offsets * (torch.rand(size, generator=generator) < data.offset_share)
