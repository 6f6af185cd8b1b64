"""Progress measures of induction circuits: from attention patterns and from weight factors, with their nulls.

Covers the previous-token, induction and duplicate-token scores; the diagonal score, subspace match, principal
angles and composition scores of W_QK and W_OV; and what each weight measure is under random matrices. Knows no
model: attention patterns and weight factors come in, numbers go out. Causal effects are not measured here.

Weights follow PyTorch's `Linear` (y = x Wᵀ): with W_Q, W_K, W_V of shape (head, model) and W_O of shape (model, head),

    W_QK = W_Qᵀ W_K   (model, model): rows are read by the query side, columns by the key side;
    W_OV = W_O W_V    (model, model): rows are written to the output, columns are read at the source.

So the right singular vectors of a later W_QK are what its keys read and the left singular vectors of an earlier
W_OV are what it writes; W_QK W_OV maps the source token of the earlier head to the query of the later one.
Sources: Song, Xu, Zhong 2025 (subspace match, diagonal score); Elhage et al. 2021 (composition scores);
Olsson et al. 2022 (head scores).
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from torch import Tensor

FloatArray = NDArray[np.float64]


# ---- attention patterns --------------------------------------------------------------------------------------------
def attention_at_offset(attention: Tensor, offset: int | Tensor, queries: Tensor | None = None) -> Tensor:
    """Mean attention from each query t to the key t − offset.

    Args:
        attention: (..., batch, query, key), rows sum to 1; leading dimensions are heads.
        offset: keys lie this far before their query; a number, or one per sequence (batch,).
        queries: (batch, query) bool, the queries that count; None counts all. Queries without such a key never count.

    Returns:
        (...): one score per head, the mean over all counted queries of all sequences.

    Raises:
        ValueError: no query counts.
    """
    batch, length = attention.shape[-3], attention.shape[-2]
    position = torch.arange(length, device=attention.device)
    offsets = torch.as_tensor(offset, device=attention.device).expand(batch)
    key = position[None, :] - offsets[:, None]  # (batch, query)
    counted = (key >= 0) & (key < attention.shape[-1])
    if queries is not None:
        counted &= queries
    if not counted.any():
        raise ValueError("no query has a key at that offset")
    index = key.clamp(0, attention.shape[-1] - 1)[..., None].expand(*attention.shape[:-1], 1)
    attended = attention.gather(-1, index)[..., 0]  # (..., batch, query)
    return (attended.double() * counted).sum((-2, -1)) / counted.sum()


def previous_token_score(attention: Tensor) -> Tensor:
    """Mean attention A[t, t − 1] over sequences and t ≥ 1 (the paper's PTH score).

    Args:
        attention: (..., batch, query, key).
    """
    return attention_at_offset(attention, 1)


def copy_queries(second_start: Tensor, segment_length: Tensor, length: int) -> Tensor:
    """The positions of the second copy whose next token copying can predict: all but its last.

    Args:
        second_start, segment_length: (batch,). length: number of positions.

    Returns:
        (batch, length) bool.
    """
    position = torch.arange(length, device=second_start.device)
    within = position[None, :] - second_start[:, None]  # (batch, position)
    return (within >= 0) & (within < segment_length[:, None] - 1)


def induction_score(attention: Tensor, distance: Tensor, queries: Tensor) -> Tensor:
    """Mean attention A[t, t − distance + 1] over the queries: to the token after the earlier occurrence (IH score).

    Args:
        attention: (..., batch, query, key). distance: (batch,), between the two copies.
        queries: (batch, query) bool, see `copy_queries`.
    """
    return attention_at_offset(attention, distance - 1, queries)


def duplicate_token_score(attention: Tensor, distance: Tensor, queries: Tensor) -> Tensor:
    """Mean attention A[t, t − distance] over the queries: to the earlier occurrence itself.

    Args:
        attention: (..., batch, query, key). distance: (batch,). queries: (batch, query) bool.
    """
    return attention_at_offset(attention, distance, queries)


# ---- weight factors ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Factored:
    """A matrix left @ right of rank at most the inner dimension, never multiplied out."""

    left: Tensor
    """(..., rows, inner)"""
    right: Tensor
    """(..., inner, columns)"""

    def __post_init__(self) -> None:
        if self.left.shape[-1] != self.right.shape[-2]:
            raise ValueError(f"factors {tuple(self.left.shape)} and {tuple(self.right.shape)} do not fit")

    def dense(self) -> Tensor:
        """The product itself (..., rows, columns): for maps and tests only."""
        return self.left @ self.right

    def transposed(self) -> "Factored":
        """The transposed matrix."""
        return Factored(self.right.mT, self.left.mT)

    def norm(self) -> Tensor:
        """Frobenius norm (...), from the inner Gram matrices."""
        return _frobenius(self.left, self.right)


def query_key(query_weight: Tensor, key_weight: Tensor) -> Factored:
    """W_QK of one head or a stack of heads.

    Args:
        query_weight, key_weight: (..., head, model), PyTorch layout.
    """
    return Factored(query_weight.mT, key_weight)


def output_value(output_weight: Tensor, value_weight: Tensor) -> Factored:
    """W_OV of one head or a stack of heads.

    Args:
        output_weight: (..., model, head). value_weight: (..., head, model), PyTorch layout.
    """
    return Factored(output_weight, value_weight)


@dataclass(frozen=True)
class ThinSvd:
    """left · diag(values) · rightᵀ with values descending."""

    left: Tensor
    """(..., rows, k)"""
    values: Tensor
    """(..., k)"""
    right: Tensor
    """(..., columns, k): columns are the right singular vectors."""


def thin_svd(matrix: Factored) -> ThinSvd:
    """Singular vectors by QR of both factors and an SVD of the small core: O(model · head²), in float64."""
    left_basis, left_core = torch.linalg.qr(matrix.left.double())  # (..., rows, k), (..., k, inner)
    right_basis, right_core = torch.linalg.qr(matrix.right.mT.double())
    left, values, right = torch.linalg.svd(left_core @ right_core.mT, full_matrices=False)
    return ThinSvd(left_basis @ left, values, right_basis @ right.mT)


def diagonal_score(later: Factored, earlier: Factored) -> float:
    """z = (mean of the diagonal − mean of all entries) / standard deviation of all entries, of later · earlier.

    The paper's diagonal score takes later = W_QK and earlier = W_OV. Means come from the factors; the deviation is
    the population's, over all entries.
    """
    core = (later.right @ earlier.left).double()
    left = later.left.double() @ core  # (rows, inner)
    right = earlier.right.double()  # (inner, columns)
    entries = left.shape[-2] * right.shape[-1]
    mean_diagonal = (left * right.mT).sum() / left.shape[-2]
    mean = (left.sum(-2) * right.sum(-1)).sum() / entries
    variance = _frobenius(left, right) ** 2 / entries - mean**2
    return float((mean_diagonal - mean) / variance.clamp_min(torch.finfo(torch.float64).tiny).sqrt())


@dataclass(frozen=True)
class Match:
    """How far two nested families of subspaces coincide, at ranks 1, 2, …"""

    largest: FloatArray
    """(rank,): σ_max, the cosine of the smallest principal angle (the paper's score)."""
    rms: FloatArray
    """(rank,): √(mean σ²), which counts every direction."""


def subspace_match(first: Tensor, second: Tensor, ranks: int) -> Match:
    """Match of the spans of the leading r columns of two orthonormal bases, for r = 1…ranks.

    Args:
        first, second: (model, at least `ranks`), orthonormal columns in order of importance.

    Raises:
        ValueError: a basis has fewer columns than `ranks`.
    """
    if min(first.shape[-1], second.shape[-1]) < ranks:
        raise ValueError(f"ranks={ranks}: the bases have {first.shape[-1]} and {second.shape[-1]} columns")
    overlap = (first[:, :ranks].mT @ second[:, :ranks]).double().numpy()  # (rank, rank)
    return match_of_overlap(overlap)


def match_of_overlap(overlap: FloatArray) -> Match:
    """The same from the matrix of inner products of two orthonormal bases (rank, rank)."""
    ranks = overlap.shape[0]
    largest = [np.linalg.norm(overlap[:rank, :rank], ord=2) for rank in range(1, ranks + 1)]
    energy = np.diagonal(np.cumsum(np.cumsum(overlap**2, axis=0), axis=1))  # Σσ² of every leading block
    return Match(np.minimum(largest, 1.0), np.sqrt(energy / np.arange(1, ranks + 1)))


def inner_match(query_key_later: ThinSvd, output_value_earlier: ThinSvd, ranks: int) -> Match:
    """What later keys read against what the earlier head writes: V_QK with U_OV (the paper's score)."""
    return subspace_match(query_key_later.right, output_value_earlier.left, ranks)


def outer_match(query_key_later: ThinSvd, output_value_earlier: ThinSvd, ranks: int) -> Match:
    """What later queries read against what the earlier head reads: U_QK with V_OV (the paper's second score)."""
    return subspace_match(query_key_later.left, output_value_earlier.right, ranks)


def principal_angles(first: Tensor, second: Tensor) -> FloatArray:
    """Principal angles between two subspaces, ascending, in radians.

    Args:
        first, second: (model, rank), orthonormal columns.
    """
    cosines = torch.linalg.svdvals(first.mT.double() @ second.double()).clamp(0, 1)
    return np.asarray(torch.arccos(cosines).numpy(), dtype=np.float64)


def composition_score(later: Factored, earlier: Factored) -> float:
    """‖later · earlier‖ / (‖later‖ ‖earlier‖), Frobenius (Elhage et al. 2021).

    K-composition: later = W_QK. Q-composition: later = W_QKᵀ. V-composition: later = W_OV of the later head.
    """
    product = Factored(later.left @ (later.right @ earlier.left), earlier.right)
    return float(product.norm() / (later.norm() * earlier.norm()))


def _frobenius(left: Tensor, right: Tensor) -> Tensor:
    left_gram = left.mT.double() @ left.double()  # (..., inner, inner)
    right_gram = right.double() @ right.mT.double()
    return (left_gram * right_gram).sum((-2, -1)).clamp_min(0).sqrt()


# ---- nulls ---------------------------------------------------------------------------------------------------------
def random_overlaps(model: int, ranks: int, draws: int, generator: np.random.Generator) -> FloatArray:
    """Overlap matrices of independent uniformly random orthonormal frames: (draw, rank, rank).

    Singular vectors of a Gaussian matrix are such frames. By symmetry one frame may be fixed to the first axes,
    so the overlap is the leading block of one random frame.
    """
    gaussian = generator.standard_normal((draws, model, ranks))
    basis, triangle = np.linalg.qr(gaussian)
    signs = np.sign(np.diagonal(triangle, axis1=1, axis2=2))  # a unique QR makes the frames uniform
    frames: FloatArray = basis * signs[:, None, :]
    return frames[:, :ranks, :]


def match_null(model: int, ranks: int, draws: int, generator: np.random.Generator) -> Match:
    """The match of independent random subspaces: both arrays (draw, rank).

    The mean of rms² is rank / model exactly; at rank 1 the squared match is Beta(1/2, (model − 1)/2).
    """
    overlaps = random_overlaps(model, ranks, draws, generator)
    blocks = [np.linalg.norm(overlaps[:, :r, :r], ord=2, axis=(1, 2)) for r in range(1, ranks + 1)]
    energy = np.cumsum(np.cumsum(overlaps**2, axis=1), axis=2)
    totals = np.diagonal(energy, axis1=1, axis2=2)  # (draw, rank)
    return Match(np.minimum(np.stack(blocks, axis=1), 1.0), np.sqrt(totals / np.arange(1, ranks + 1)))


def rank_one_match_p_value(match: float, model: int) -> float:
    """P(random match ≥ this) for two random directions: the closed form at rank 1."""
    return float(stats.beta(0.5, (model - 1) / 2).sf(match**2))


@dataclass(frozen=True)
class WeightNull:
    """Diagonal and K-composition scores of Gaussian heads: both (draw,)."""

    diagonal: FloatArray
    composition: FloatArray


def gaussian_heads_null(model: int, head: int, draws: int, seed: int) -> WeightNull:
    """Diagonal and K-composition scores of independent heads with Gaussian weights.

    The diagonal score is close to N(0, 1/model); both scores do not depend on the scale of the weights.
    """
    generator = torch.Generator().manual_seed(seed)
    diagonal, composition = np.empty(draws), np.empty(draws)
    for draw in range(draws):
        query, key, value, output = torch.randn(4, head, model, generator=generator, dtype=torch.float64)
        later, earlier = query_key(query, key), output_value(output.mT, value)
        diagonal[draw] = diagonal_score(later, earlier)
        composition[draw] = composition_score(later, earlier)
    return WeightNull(diagonal, composition)


def upper_p_value(value: float, null: ArrayLike) -> float:
    """Monte Carlo p value (1 + #{null ≥ value}) / (1 + draws), one-sided: large values are extreme."""
    draws = np.asarray(null, dtype=np.float64)
    return float((1 + np.count_nonzero(draws >= value)) / (1 + draws.size))


def uniform_attention_at_offset(offset: ArrayLike, queries: ArrayLike) -> float:
    """What `attention_at_offset` gives for uniform causal attention: the mean of 1 / (t + 1).

    Args:
        offset: (batch,) or a number. queries: (batch, query) bool.
    """
    counted = np.asarray(queries, dtype=bool)
    position = np.arange(counted.shape[1])
    offsets = np.broadcast_to(np.asarray(offset), counted.shape[:1])
    counted = counted & (position[None, :] >= offsets[:, None])
    return float((counted / (position + 1.0)).sum() / counted.sum())
