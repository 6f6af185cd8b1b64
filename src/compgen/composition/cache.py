"""The keys and values of a composed model: one cache for every component, and rows laid behind a component's prompt.

Sliding-window layers follow the component's configuration. Which rows form a batch, and decoding, are elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Cache, DynamicCache


class ComposedCache(Cache):  # type: ignore[misc]
    """One DynamicCache for every component, handled as one cache whose length is that of the row itself."""

    def __init__(self, configs: Sequence[Any], prefixes: Sequence[int], keep_all: bool = False) -> None:
        """Make empty caches.

        Args:
            configs: of the components, the base first.
            prefixes: how many tokens every component sees before the row's own.
            keep_all: keep what has left a sliding window too, so that columns can be taken off or put together anew.
        """
        self.parts = [DynamicCache() if keep_all else DynamicCache(config=config) for config in configs]
        self.layer_class_to_replicate = None
        self.offloading = False
        self._prefix = prefixes[0]

    @property
    def layers(self) -> list[Any]:
        """All layers of all components; what transformers does with every layer is done with these."""
        return [layer for part in self.parts for layer in part.layers]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many columns of the rows are cached, prompts of components not counted."""
        return max(0, int(self.parts[0].get_seq_length(layer_idx)) - self._prefix)

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """Length and offset of a mask for the rows' own columns."""
        return self.get_seq_length(layer_idx) + query_length, 0

    def update(self, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Refused: a component writes into its own part."""
        raise TypeError("a ComposedCache is written through its parts, one for every component")

    @property
    def is_compileable(self) -> bool:
        """False: it grows."""
        return False

    @property
    def is_linear(self) -> list[bool]:
        """Whether layers have no positions, for the base."""
        return list(self.parts[0].is_linear) or [False]


@dataclass(frozen=True)
class Inputs:
    """What one component is fed."""

    ids: Tensor
    """(row, column)"""
    mask: Tensor | None
    """(row, cached + column)"""
    positions: Tensor
    """(row or 1, column)"""


def own_positions(mask: Tensor | None, past: int, columns: int, device: torch.device) -> Tensor:
    """Positions of the last columns, (row or 1, column): counted from each row's first token, 0 before it."""
    if mask is None:
        return torch.arange(past, past + columns, device=device)[None]
    return (mask.long().cumsum(-1) - 1).clamp(min=0)[:, -columns:]


def behind_prefix(rows: Inputs, prefix: Sequence[int], past: int, begin: int | None) -> Inputs:
    """The rows as a component with a prompt sees them: [nothing][begin token][prompt][rest of the row].

    The last columns stay the row's own, so that logits need no shifting.

    Raises:
        ValueError: a row has no token in the first chunk.
    """
    if not prefix:
        return rows
    if past:
        mask = None if rows.mask is None else _insert_ones(rows.mask, len(prefix))
        return Inputs(rows.ids, mask, rows.positions + len(prefix))
    return _first_rows(rows, prefix, begin)


def _insert_ones(mask: Tensor, width: int) -> Tensor:
    """(row, column) to (row, column + width): each row's run of ones begins where it did and is longer."""
    first = mask.long().argmax(-1, keepdim=True)
    columns = torch.arange(mask.shape[1] + width, device=mask.device)[None]
    source = torch.where(columns < first, columns, columns - width).clamp(min=0)
    inside = (columns >= first) & (columns < first + width)
    return mask.gather(1, source).masked_fill(inside, 1)


def _first_rows(rows: Inputs, prefix: Sequence[int], begin: int | None) -> Inputs:
    ids, width = rows.ids, len(prefix)
    mask = torch.ones_like(ids) if rows.mask is None else rows.mask.long()
    if not bool(mask.any(-1).all()):
        raise ValueError(
            "a row has no token in the first chunk: a component with a prompt cannot be fed in such chunks"
        )
    first = mask.argmax(-1, keepdim=True)  # (row, 1)
    start = first if begin is None else first + (ids.gather(1, first) == begin)
    columns = torch.arange(ids.shape[1] + width, device=ids.device)[None]
    source = torch.where(columns < start, columns, columns - width).clamp(min=0)  # (row, width + column)
    inside = (columns >= start) & (columns < start + width)
    tokens = torch.tensor(list(prefix), device=ids.device)
    prompt = tokens[(columns - start).clamp(0, width - 1)]
    shift = width * (columns >= start + width)
    positions = rows.positions.expand(ids.shape[0], -1).gather(1, source) + shift
    return Inputs(
        ids=torch.where(inside, prompt, ids.gather(1, source)),
        mask=None if rows.mask is None else mask.gather(1, source).masked_fill(inside, 1),
        positions=torch.where(inside, columns - first, positions),
    )
