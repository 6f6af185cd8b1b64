"""The keys and values of a prefix that all prompts share, computed once and laid before rows of different lengths.

A row stands as [nothing][prefix][rest], so that all rows end in the same column. The last columns of every row are fed
as one rectangle; a row whose rest is shorter than the rectangle feeds the end of the prefix again. Positions and masks
are those of a batch padded on the left, so a sliding window sees what it would see in the row alone.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

FEWEST_SHARED = 16
"""Below this many tokens a prefix is not worth its bookkeeping."""


def shared_length(prompts: Sequence[Sequence[int]]) -> int:
    """How many first tokens all prompts share, each keeping one token of its own; 0 where it is not worth it."""
    longest = min(len(prompt) for prompt in prompts) - 1
    first = prompts[0]
    same = next((n for n in range(longest) if any(prompt[n] != first[n] for prompt in prompts)), longest)
    return same if same >= FEWEST_SHARED and len(prompts) > 1 else 0


class SharedPrefix:
    """The cache of a prefix, of all components of a model."""

    def __init__(self, model: Any, ids: Sequence[int]) -> None:
        """Compute it; an empty prefix costs nothing."""
        self.length = len(ids)
        self._model = model
        self._cache = model.new_cache(keep_all=True)
        if ids:
            row = torch.tensor([list(ids)], device=model.device)
            with torch.no_grad():
                model(input_ids=row, cache=self._cache, use_cache=True, logits_to_keep=1)

    def rows(self, prompts: Sequence[Sequence[int]], padding: int) -> tuple[Any, Tensor, Tensor]:
        """A cache for some prompts that begin with the prefix, the chunk that is still to be fed, and the mask.

        Args:
            prompts: token ids, each longer than the prefix.
            padding: the token that stands where nothing stands.

        Returns:
            The cache of (row, prefix) columns; chunk (row, column); mask (row, prefix + column).
        """
        width = max(len(prompt) for prompt in prompts) - self.length
        device = self._model.device
        chunk = torch.full((len(prompts), width), padding, dtype=torch.long, device=device)
        mask = torch.zeros((len(prompts), self.length + width), dtype=torch.long, device=device)
        for place, prompt in enumerate(prompts):
            fed = min(len(prompt), width)
            chunk[place, width - fed :] = torch.tensor(prompt[len(prompt) - fed :])
            mask[place, self.length + width - len(prompt) :] = 1
        cached = [max(0, len(prompt) - width) for prompt in prompts]
        return self._shifted(cached), chunk, mask

    def _shifted(self, cached: Sequence[int]) -> Any:
        """Every row's first `cached` prefix tokens, moved to the right end of the prefix's columns."""
        cache = self._model.new_cache(keep_all=True)
        if not self.length:
            return cache
        for own, shared in zip(cache.parts, self._cache.parts, strict=True):
            for number, layer in enumerate(shared.layers):
                keys, values = (_shift(states, cached) for states in (layer.keys, layer.values))
                own.update(keys, values, number)
        return cache


def _shift(states: Tensor, cached: Sequence[int]) -> Tensor:
    """(1, head, prefix, channel) to (row, head, prefix, channel)."""
    length = states.shape[2]
    rows = states.new_zeros(len(cached), *states.shape[1:])
    for place, kept in enumerate(cached):
        rows[place, :, length - kept :] = states[0, :, :kept]
    return rows
