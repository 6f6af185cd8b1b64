"""Removing heads from a running model: zero, mean and resample ablation through hooks, without touching a weight.

A head is removed where heads are mixed: its slice of the output projection's input is replaced at every position, in
every forward pass inside the block, so that generation with a cache sees the same model as one long pass. Masks offered
by the model itself (`head_mask`) are not used: current models accept and ignore them.
Sources: zero ablation as in the authors' code; mean ablation as in Wang et al. 2022; resample ablation as in Chan et
al. 2022.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import Cache

from compgen.errors import require
from compgen.heads.views import Head, HeadView
from compgen.randomness import numpy_stream

ROWS = 4096
"""Sequences of a batch beyond this many borrow from the same reference sequences again."""
Reader = Callable[[int, Tensor], None]


class Replacement(Protocol):
    """What stands in for the outputs of removed heads."""

    def values(self, layer: int, heads: list[int], sequences: int, positions: range) -> Tensor:
        """What these heads give at these positions, broadcast to (sequence, position, head, head width)."""
        ...


@dataclass(frozen=True)
class Zero:
    """Nothing, as in the authors' code."""

    def values(self, layer: int, heads: list[int], sequences: int, positions: range) -> Tensor:
        """Zeros for every head."""
        del layer, heads, sequences, positions
        return torch.zeros(1)


@dataclass(frozen=True)
class Mean:
    """A head's mean output over the positions of reference sequences, see `mean_outputs`."""

    outputs: dict[int, Tensor]
    """By layer: (head, head width)."""

    def values(self, layer: int, heads: list[int], sequences: int, positions: range) -> Tensor:
        """The mean of each head, the same everywhere."""
        del sequences, positions
        return self.outputs[layer][heads]


@dataclass(frozen=True)
class Resample:
    """A head's output at the same position of another sequence, see `record_outputs`.

    The removed heads of one sequence borrow from one reference sequence, drawn once by the seed and the sequence's
    place in the batch: decoding step by step sees the same values as one pass. Beyond the reference's length its
    positions are used again from the start.
    """

    outputs: dict[int, Tensor]
    """By layer: (reference sequence, position, head, head width)."""
    seed: int
    donors: Tensor = field(init=False)
    """(place in the batch,): the reference sequence of each."""

    def __post_init__(self) -> None:
        references = len(next(iter(self.outputs.values())))
        drawn = numpy_stream(self.seed, "resample").integers(0, references, ROWS)
        object.__setattr__(self, "donors", torch.from_numpy(drawn))

    def values(self, layer: int, heads: list[int], sequences: int, positions: range) -> Tensor:
        """The outputs of the donors: (sequence, position, head, head width)."""
        stored = self.outputs[layer]
        rows = self.donors[torch.arange(sequences) % ROWS]
        columns = torch.tensor(positions) % stored.shape[1]
        return stored[rows[:, None], columns[None, :]][:, :, heads]


@contextmanager
def ablated(view: HeadView, heads: Iterable[Head], replacement: Replacement | None = None) -> Iterator[None]:
    """Inside the block the model runs without these heads; afterwards, also after an error, as before.

    Args:
        view: of the model, which may be on several devices.
        heads: to remove; none leaves every number as it is, bit by bit.
        replacement: what stands in for their outputs; None is zero.

    Raises:
        ConfigError: the model has no such head.
    """
    chosen = sorted(set(heads))
    view.check(chosen)
    counter = _PositionCounter()
    by_layer = {layer: [head.index for head in chosen if head.layer == layer] for layer in {h.layer for h in chosen}}
    with ExitStack() as hooks:
        if chosen:
            handle = view.decoder.register_forward_pre_hook(counter, with_kwargs=True)
            hooks.callback(handle.remove)
        for layer, indices in by_layer.items():
            remover = _Remover(view.query_heads, layer, indices, replacement or Zero(), counter)
            hooks.callback(view.mixer(layer).register_forward_pre_hook(remover).remove)
        yield


@dataclass
class _PositionCounter:
    """Before each pass of the decoder: how many positions came before, according to its cache."""

    first: int = 0

    def __call__(self, module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        del module
        caches = [value for value in (*arguments, *named.values()) if isinstance(value, Cache)]
        self.first = int(caches[0].get_seq_length()) if caches else 0


@dataclass
class _Remover:
    """Replaces the slices of some heads in the input of an output projection."""

    query_heads: int
    layer: int
    heads: list[int]
    replacement: Replacement
    counter: _PositionCounter

    def __call__(self, module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        del module
        mixed, *others = arguments  # (batch, position, query heads · head width)
        by_head = mixed.unflatten(-1, (self.query_heads, -1)).clone()
        positions = range(self.counter.first, self.counter.first + mixed.shape[1])
        by_head[:, :, self.heads] = self.replacement.values(self.layer, self.heads, len(mixed), positions).to(mixed)
        return (by_head.flatten(-2), *others)


# ---- what removed heads are replaced by ----------------------------------------------------------------------------
@torch.no_grad()
def mean_outputs(
    view: HeadView, layers: Iterable[int], tokens: Tensor, mask: Tensor | None = None, batch_size: int = 8
) -> Mean:
    """The mean output of every head of some layers over all positions of reference sequences.

    Args:
        layers: those with heads to remove.
        tokens: (sequence, position).
        mask: (sequence, position), 1 where a token counts; None counts all.
        batch_size: sequences in one forward pass; the result does not depend on it beyond rounding.
    """
    counted = torch.ones_like(tokens) if mask is None else mask
    sums = {layer: torch.zeros(view.query_heads, view.head_width, dtype=torch.float64) for layer in layers}
    for start in range(0, len(tokens), batch_size):
        rows = slice(start, start + batch_size)
        weight = counted[rows].double().cpu()

        def add(layer: int, by_head: Tensor, weight: Tensor = weight) -> None:
            sums[layer] += torch.einsum("bphw,bp->hw", by_head.double().cpu(), weight)

        _read(view, sums, tokens[rows], None if mask is None else mask[rows], add)
    return Mean({layer: total / counted.sum().item() for layer, total in sums.items()})


@torch.no_grad()
def record_outputs(
    view: HeadView, layers: Iterable[int], tokens: Tensor, batch_size: int = 8, seed: int = 0
) -> Resample:
    """The outputs of every head of some layers on reference sequences, to resample from.

    Args:
        layers: those with heads to remove: layers · sequences · positions · model numbers are kept.
        tokens: (sequence, position), all of one length and without padding, on which to run the model.
        batch_size: sequences in one forward pass.
        seed: draws the reference sequence of every place in a batch.

    Raises:
        ConfigError: there are no reference sequences.
    """
    require(len(tokens) > 0, "tokens", tuple(tokens.shape), "give at least one reference sequence")
    parts: dict[int, list[Tensor]] = {layer: [] for layer in layers}
    for start in range(0, len(tokens), batch_size):
        rows = tokens[start : start + batch_size]
        _read(view, parts, rows, None, lambda layer, by_head: parts[layer].append(by_head.clone()))
    return Resample({layer: torch.cat(pieces) for layer, pieces in parts.items()}, seed)


def _read(view: HeadView, layers: Iterable[int], tokens: Tensor, mask: Tensor | None, reader: Reader) -> None:
    """Run the decoder once and show `reader` each layer's head outputs (sequence, position, head, head width)."""

    def hook(layer: int) -> Callable[[nn.Module, Sequence[Tensor]], None]:
        return lambda _, arguments: reader(layer, arguments[0].unflatten(-1, (view.query_heads, -1)))

    with ExitStack() as hooks:
        for layer in layers:
            hooks.callback(view.mixer(layer).register_forward_pre_hook(hook(layer)).remove)
        device = view.model.device
        view.decoder(tokens.to(device), attention_mask=None if mask is None else mask.to(device), use_cache=False)
