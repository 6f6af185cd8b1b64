"""What one attention layer is made of, in the words that all model families share.

Weights follow PyTorch's `Linear` (y = x Wᵀ) and `compgen.measures`: W_Q, W_K, W_V are (head, model), W_O is (model,
head), stacked over heads. Everything is in the checkpoint's own layout and detached, and as a rule shares memory with
the model.
Families fill these parts in (`compgen.heads.families`); `compgen.heads.views` reads them.
"""

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor, nn


class NormGain(Enum):
    """Whether the norms' linear parts belong to a head's weights."""

    apart = "apart"
    """The checkpoint's matrices as they are: they act on the norm's output."""
    folded = "folded"
    """With the norm's gain and, for LayerNorm, its subtraction of the mean: they act on the residual stream divided by
    its spread. W_O takes up the gain of a norm after attention where there is one."""


class RotaryPairs(Enum):
    """Which channels of a head are turned together."""

    halves = "halves"
    """Channel i with channel i + (rotary dimension) / 2, as in checkpoints of Hugging Face."""
    adjacent = "adjacent"
    """Channel 2i with channel 2i + 1, as in the first rotary models."""


@dataclass(frozen=True)
class Rotary:
    """Rotary positions of one layer; channels beyond the rotary dimension are not turned."""

    frequencies: Tensor
    """(pair,): radians per position."""
    pairs: RotaryPairs = RotaryPairs.halves
    magnitude: float = 1.0
    """Factor on turned queries and on turned keys (other than 1 only for some extensions of the context)."""

    @property
    def dimension(self) -> int:
        """How many channels of a head are turned."""
        return 2 * len(self.frequencies)

    def channels(self) -> tuple[Tensor, Tensor]:
        """The first and the second channel of every pair: both (pair,)."""
        first = torch.arange(len(self.frequencies))
        if self.pairs is RotaryPairs.halves:
            return first, first + len(first)
        return 2 * first, 2 * first + 1

    def between(self, distance: float, head_width: int) -> Tensor:
        """R with q̃ᵀ k̃ = qᵀ R k, for a query that stands `distance` positions after its key: (head, head), float64.

        q̃ and k̃ are the turned query and key; only their distance matters.
        """
        angle = -distance * self.frequencies.double().cpu()  # the key as seen from the query's frame
        first, second = self.channels()
        turn = torch.eye(head_width, dtype=torch.float64)
        turn[first, first] = turn[second, second] = self.magnitude**2 * angle.cos()
        turn[second, first] = self.magnitude**2 * angle.sin()
        turn[first, second] = -(self.magnitude**2) * angle.sin()
        return turn


@dataclass(frozen=True)
class Norm:
    """The linear part of a norm: x ↦ gain · (x − mean, if centered) / spread + shift."""

    module: nn.Module
    gain: Tensor
    """(model,), or () where it is one number for all channels."""
    shift: Tensor | None
    """(model,) or None where the norm has no bias."""
    centered: bool

    def fold(self, weight: Tensor) -> Tensor:
        """The matrix that acts on the undivided residual stream: (..., model) to (..., model)."""
        scaled = weight * self.gain
        return scaled - scaled.mean(-1, keepdim=True) if self.centered else scaled

    def fold_bias(self, weight: Tensor, bias: Tensor | None) -> Tensor | None:
        """What the norm's shift adds to the bias of a matrix (..., head, model): (..., head)."""
        if self.shift is None:
            return bias
        shifted = weight @ self.shift
        return shifted if bias is None else shifted + bias


@dataclass(frozen=True)
class Projection:
    """The weights of all heads for one role."""

    weight: Tensor
    """(head of the role, head width, model); (query head, model, head width) for the output."""
    bias: Tensor | None
    """(head of the role, head width); (model,) for the output; None where there is none."""


@dataclass(frozen=True)
class Attention:
    """One attention layer. Key and value heads serve equally many consecutive query heads."""

    module: nn.Module
    """Its forward returns the output and, with eager attention, the pattern (batch, query head, query, key)."""
    mixer: nn.Module
    """The output projection: its input is (batch, position, query heads · head width)."""
    norm: Norm
    """Before attention."""
    query: Projection
    key: Projection
    value: Projection
    output: Projection
    scaling: float
    """Factor on qᵀk before the softmax."""
    rotary: Rotary | None
    """None for learned positions."""
    window: int | None = None
    """A query sees this many positions, itself included; None sees all before it."""
    softcap: float | None = None
    """Scores s become softcap · tanh(s / softcap)."""
    clip: float | None = None
    """Queries, keys and values are clamped to ± this before anything else. No weight matrix knows of it."""
    writing_gain: Tensor | None = None
    """(model,): gain of a norm on the attention's output before it joins the residual stream."""
