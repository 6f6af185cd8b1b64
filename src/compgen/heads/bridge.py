"""The bridge between previous-token and induction heads: what later keys read against what earlier heads write.

Covers the scores of pairs of heads (diagonal score, subspace match, K-composition), the common subspace of several heads
and angles between such subspaces. A pair is a later head, whose W_QK counts, and an earlier one, whose W_OV counts.
Singular vectors come from the thin factors, once for each head, and a pair costs two products of (head, model) by
(model, head): no (model, model) matrix is formed. Whether a score is more than chance: `compgen.heads.bridge_nulls`.
Causal effects of the subspace: `compgen.heads.edits`.
Sources: Song, Xu, Zhong 2025 (diagonal score, subspace match, common bridge); Elhage et al. 2021 (K-composition). The
authors leave out rotary positions in the diagonal score, and norms everywhere: distance 0 and gain apart.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from compgen import measures
from compgen.errors import require
from compgen.heads.parts import NormGain
from compgen.heads.views import Head, HeadView
from compgen.measures import Factored, FloatArray, ThinSvd

MEASURES = ("diagonal", "largest", "rms", "composition")
"""z of the diagonal of W_QK W_OV; σ_max and √(mean σ²) of the inner match; ‖W_QK W_OV‖ / (‖W_QK‖ ‖W_OV‖)."""
Pair = tuple[Head, Head]
"""The later and the earlier head."""
PairTable = dict[Pair, FloatArray]
"""The MEASURES of each pair: (measure,)."""
PairScores = dict[str, FloatArray]
"""By measure: (later, earlier), or what the function says."""
PAIRS_AT_ONCE = 256


class HeadSvds:
    """The singular vectors of W_QK and W_OV, each computed when first asked for and then kept.

    A kept head takes 2 · model · head numbers for each of the two matrices, in float64 on `device`.
    """

    def __init__(
        self, view: HeadView, distance: float = 0, gain: NormGain = NormGain.folded, device: str | torch.device = "cpu"
    ) -> None:
        """Compute nothing yet.

        Args:
            view: of the model, which must not change afterwards.
            distance: between query and key, of the rotation inside W_QK; 0 is none.
            gain: whether the norms belong to the matrices.
            device: where to compute.
        """
        self.view, self.distance, self.gain, self.device = view, distance, gain, torch.device(device)
        self._query_key: dict[Head, ThinSvd] = {}
        self._output_value: dict[Head, ThinSvd] = {}

    def query_key(self, head: Head) -> ThinSvd:
        """Of W_QK: right vectors are what its keys read."""
        if head not in self._query_key:
            self._query_key[head] = self._svd(self.view.query_key(head, self.distance, self.gain))
        return self._query_key[head]

    def output_value(self, head: Head) -> ThinSvd:
        """Of W_OV: left vectors are what it writes."""
        if head not in self._output_value:
            self._output_value[head] = self._svd(self.view.output_value(head, self.gain))
        return self._output_value[head]

    def _svd(self, matrix: Factored) -> ThinSvd:
        return measures.thin_svd(Factored(matrix.left.to(self.device), matrix.right.to(self.device)))


# ---- pairs of heads ------------------------------------------------------------------------------------------------
def pair_scores(svds: HeadSvds, later: Sequence[Head], earlier: Sequence[Head], rank: int = 10) -> PairScores:
    """The scores of every pair of two lists, also of pairs that cannot compose (see `composable`).

    Args:
        svds: of the model.
        later: induction heads, in the paper.
        earlier: previous-token heads.
        rank: of the subspaces that are matched.

    Returns:
        By measure: (later, earlier).

    Raises:
        ConfigError: a list is empty, the rank is impossible, or the model has no such head.
    """
    require(bool(later) and bool(earlier), "heads", [*later, *earlier], "give at least one later and one earlier head")
    table = table_of_pairs(svds, ((one, other) for one in later for other in earlier), rank)
    return grid(table, later, earlier)


def table_of_pairs(svds: HeadSvds, pairs: Iterable[Pair], rank: int) -> PairTable:
    """The scores of any pairs, each once.

    Raises:
        ConfigError: the rank is impossible, or the model has no such head.
    """
    width = svds.view.head_width
    require(1 <= rank <= width, "rank", rank, f"from 1 to the width of a head, {width}")
    partners: dict[Head, dict[Head, None]] = {}
    for later, earlier in pairs:
        partners.setdefault(later, {})[earlier] = None
    table: PairTable = {}
    for later, unique in partners.items():
        heads = list(unique)
        for start in range(0, len(heads), PAIRS_AT_ONCE):
            chunk = heads[start : start + PAIRS_AT_ONCE]
            rows = _scores_of_row(svds.query_key(later), [svds.output_value(head) for head in chunk], rank)
            table |= {(later, head): row for head, row in zip(chunk, rows, strict=True)}
    return table


def _scores_of_row(later: ThinSvd, earlier: Sequence[ThinSvd], rank: int) -> FloatArray:
    """One later head against several earlier ones: (earlier, measure).

    With W_QK = U S Vᵀ and W_OV = U' S' V'ᵀ, the product is U (S Vᵀ U' S') V'ᵀ: its norm, its trace and its sum need
    only the small matrix in brackets.
    """
    left, values, right = (torch.stack(parts) for parts in zip(*((s.left, s.values, s.right) for s in earlier)))
    overlap = later.right.mT @ left  # (earlier, inner, inner)
    core = later.values[:, None] * overlap * values[:, None, :]
    entries = later.left.shape[0] * right.shape[1]
    mean_diagonal = (core * (right.mT @ later.left).mT).sum((-2, -1)) / later.left.shape[0]
    mean = ((later.left.sum(0) @ core) * right.sum(1)).sum(-1) / entries
    energy = core.pow(2).sum((-2, -1))
    tiny = torch.finfo(torch.float64).tiny
    diagonal = (mean_diagonal - mean) / (energy / entries - mean**2).clamp_min(tiny).sqrt()
    leading = overlap[:, :rank, :rank]
    largest = torch.linalg.matrix_norm(leading, 2).clamp_max(1)
    rms = (leading.pow(2).sum((-2, -1)) / rank).sqrt()
    composition = energy.sqrt() / (later.values.norm() * values.norm(dim=-1)).clamp_min(tiny)
    rows: FloatArray = torch.stack([diagonal, largest, rms, composition], -1).cpu().numpy()
    return rows


def grid(table: PairTable, later: Sequence[Head], earlier: Sequence[Head]) -> PairScores:
    """Scores of a table as one matrix by measure: (later, earlier)."""
    stacked = np.array([[table[one, other] for other in earlier] for one in later])  # (later, earlier, measure)
    return {name: stacked[..., place] for place, name in enumerate(MEASURES)}


def composable(pair: Pair) -> bool:
    """Whether the later head can read what the earlier one writes: whether it is in a later layer."""
    return pair[1].layer < pair[0].layer


# ---- common subspaces ----------------------------------------------------------------------------------------------
def common_subspace(
    view: HeadView, heads: Sequence[Head], rank: int, distance: float = 0, gain: NormGain = NormGain.apart
) -> Tensor:
    """What the keys of these heads read together: the paper's bridge subspace.

    The leading right singular vectors of [W_QK¹; …; W_QKᴷ] (K · model, model). Each W_Qᵀ is replaced by the small
    triangle of its QR, which has the same Gram matrix, so that the stack is (K · head, model).

    Args:
        view: of the model.
        heads: the induction heads.
        rank: of the subspace.
        distance: between query and key, of the rotation inside W_QK; 0 is none.
        gain: whether the norms belong to the matrices. It decides in which basis the vectors are: apart, of the norm's
            output, on which W_K acts; folded, of the residual stream.

    Returns:
        (model, rank): orthonormal columns, in order of importance, float64 on the CPU.

    Raises:
        ConfigError: there are no heads or their matrices have fewer than `rank` singular vectors.
    """
    return _leading_right(view, [view.query_key(head, distance, gain) for head in heads], rank)


def written_subspace(view: HeadView, heads: Sequence[Head], rank: int, gain: NormGain = NormGain.apart) -> Tensor:
    """What these heads write together: the leading left singular vectors of [W_OV¹, …, W_OVᴷ] (model, K · model).

    Arguments, result and errors are those of `common_subspace`; folded, the gain of a norm after attention counts.
    """
    return _leading_right(view, [view.output_value(head, gain).transposed() for head in heads], rank)


def _leading_right(view: HeadView, matrices: Sequence[Factored], rank: int) -> Tensor:
    largest = min(len(matrices) * view.head_width, view.width)
    require(1 <= rank <= largest, "rank", rank, f"{len(matrices)} heads have at most {largest} directions")
    pieces = [
        torch.linalg.qr(matrix.left.double().cpu(), mode="r").R @ matrix.right.double().cpu() for matrix in matrices
    ]
    _, _, right = torch.linalg.svd(torch.cat(pieces), full_matrices=False)
    return right[:rank].mT


def bridge_angles(
    view: HeadView,
    first: Sequence[Head],
    second: Sequence[Head],
    rank: int,
    distance: float = 0,
    gain: NormGain = NormGain.apart,
) -> FloatArray:
    """Principal angles between the bridge subspaces of two lists of heads: (rank,), ascending, in radians.

    For what one list reads against what another writes: `measures.principal_angles` of `common_subspace` and
    `written_subspace`, with the gain folded, so that both are in the basis of the residual stream.

    Raises:
        ConfigError: as `common_subspace`.
    """
    bases = [common_subspace(view, heads, rank, distance, gain) for heads in (first, second)]
    return measures.principal_angles(*bases)
