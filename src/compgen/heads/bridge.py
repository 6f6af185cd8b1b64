"""The common bridge: what induction heads read against what previous-token heads write, beside random pairs.

Covers the diagonal score, the subspace match and the K-composition score of pairs of heads, and the subspace that many
heads read together. Weights are taken with the norms' gains folded in, without rotation, as the paper's diagonal score
has none (dossier 2.7); its subspace takes W_QK at a distance, here in the checkpoint's own rotary layout (defect 3 of
dossier 4.3). Every head's singular vectors are computed once, from thin factors: O(K² d d_h²) for K² pairs.
Sources: Song, Xu, Zhong 2025; Elhage et al. 2021 (composition score).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compgen.heads.parts import NormGain
from compgen.heads.views import Head, HeadView
from compgen.measures import (
    Factored,
    ThinSvd,
    composition_score,
    diagonal_score,
    inner_match,
    thin_svd,
)
from compgen.randomness import numpy_stream

Pair = tuple[Head, Head]
"""Later head, earlier head."""


@dataclass(frozen=True)
class PairScores:
    """How well two heads fit together."""

    pair: Pair
    diagonal: float
    match: float
    """σ_max at the rank that was asked for."""
    match_rms: float
    composition: float

    def as_dict(self) -> dict[str, Any]:
        """As plain values."""
        later, earlier = self.pair
        scores = {"diagonal": self.diagonal, "match": self.match, "match_rms": self.match_rms}
        return {"later": str(later), "earlier": str(earlier), **scores, "composition": self.composition}


class Bridge:
    """Scores of pairs of heads of one model; singular vectors are kept."""

    def __init__(self, view: HeadView, rank: int, gain: NormGain = NormGain.folded) -> None:
        """Look at a model; `rank` is that of the subspace match."""
        self._view, self._rank, self._gain = view, rank, gain
        self._reads: dict[Head, tuple[Factored, ThinSvd]] = {}
        self._writes: dict[Head, tuple[Factored, ThinSvd]] = {}

    def scores(self, pairs: Sequence[Pair]) -> list[PairScores]:
        """The scores of some pairs, in their order."""
        return [self._score(*pair) for pair in pairs]

    def _score(self, later: Head, earlier: Head) -> PairScores:
        if later not in self._reads:
            self._reads[later] = _with_svd(self._view.query_key(later, gain=self._gain))
        if earlier not in self._writes:
            self._writes[earlier] = _with_svd(self._view.output_value(earlier, gain=self._gain))
        (reads, reads_svd), (writes, writes_svd) = self._reads[later], self._writes[earlier]
        match = inner_match(reads_svd, writes_svd, self._rank)
        return PairScores(
            (later, earlier),
            diagonal_score(reads, writes),
            float(match.largest[-1]),
            float(match.rms[-1]),
            composition_score(reads, writes),
        )


def _with_svd(matrix: Factored) -> tuple[Factored, ThinSvd]:
    own = Factored(matrix.left.detach().double().cpu(), matrix.right.detach().double().cpu())
    return own, thin_svd(own)


def all_pairs(later: Sequence[Head], earlier: Sequence[Head]) -> list[Pair]:
    """Every pair whose second head lies in a lower layer: others cannot be composed."""
    return [(one, two) for one in later for two in earlier if two.layer < one.layer]


def random_pairs(view: HeadView, excluded: Sequence[Head], like: Sequence[Pair], seed: int, times: int) -> list[Pair]:
    """For each pair some random pairs of the same two layers, without excluded heads; other layers where none is free.

    Args:
        view: the model's heads.
        excluded: the heads under test.
        like: the pairs under test, whose layers are matched.
        seed: of the draw.
        times: how many for each.
    """
    generator = numpy_stream(seed, "random pairs")
    free = [head for head in view.heads() if head not in set(excluded)] or view.heads()
    found = []
    for later, earlier in like:
        for _ in range(times):
            one = _pick([head for head in free if head.layer == later.layer] or free, generator)
            lower = [head for head in free if head.layer == earlier.layer] or free
            found.append((one, _pick(lower, generator)))
    return found


def _pick(heads: Sequence[Head], generator: np.random.Generator) -> Head:
    return heads[int(generator.integers(len(heads)))]


@torch.no_grad()
def common_subspace(
    view: HeadView, heads: Sequence[Head], rank: int, distance: float, gain: NormGain = NormGain.folded
) -> Tensor:
    """The leading right singular vectors of the stacked W_QK of some heads: what their keys read together.

    From the Gram matrix Σ W_QKᵀ W_QK = Σ W_Kᵀ Rᵀ (W_Q W_Qᵀ) R W_K, which needs one (model, model) matrix in all.

    Args:
        view: the model.
        heads: whose W_QK are stacked.
        rank: how many directions.
        distance: between query and key, in positions.
        gain: whether the norm's gain belongs to the weights.

    Returns:
        (model, rank), orthonormal, float64, the strongest direction first.
    """
    gram = torch.zeros(view.width, view.width, dtype=torch.float64)
    for head in heads:
        matrix = view.query_key(head, distance, gain)
        left, right = matrix.left.double().cpu(), matrix.right.double().cpu()
        gram += right.T @ (left.T @ left) @ right
    _, vectors = torch.linalg.eigh(gram)
    leading: Tensor = vectors.flip(-1)[:, :rank]
    return leading


def random_subspace(width: int, rank: int, seed: int, draw: int) -> Tensor:
    """A uniformly random subspace of the same rank, the control that the paper lacks: (width, rank), orthonormal."""
    gaussian = numpy_stream(seed, "random subspace", draw).standard_normal((width, rank))
    return torch.from_numpy(np.linalg.qr(gaussian)[0])
