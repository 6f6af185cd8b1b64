"""Fits of pairs of heads against dense matrices, the common subspace against a dense SVD, controls."""

from typing import Any

import numpy as np
import pytest
import torch

from compgen.heads.bridge import Bridge, all_pairs, common_subspace, random_pairs, random_subspace
from compgen.heads.parts import NormGain
from compgen.heads.views import Head, HeadView

RANK = 3
LATER, EARLIER = Head(1, 2), Head(0, 1)


@pytest.fixture
def view(model_of: Any) -> HeadView:
    return HeadView(model_of("llama"))


def dense(view: HeadView, gain: NormGain) -> tuple[Any, Any]:
    """W_QK of the later head and W_OV of the earlier one, multiplied out."""
    later, earlier = view.weights(LATER, gain), view.weights(EARLIER, gain)
    return (later.query.T @ later.key).double().numpy(), (earlier.output @ earlier.value).double().numpy()


@pytest.mark.parametrize("gain", list(NormGain))
def test_scores_of_a_pair_are_those_of_the_dense_matrices(view: HeadView, gain: NormGain) -> None:
    [found] = Bridge(view, RANK, gain).scores([(LATER, EARLIER)])
    reads, writes = dense(view, gain)
    product = reads @ writes
    assert found.diagonal == pytest.approx((np.diag(product).mean() - product.mean()) / product.std(), rel=1e-6)
    read = np.linalg.svd(reads)[2][:RANK]
    written = np.linalg.svd(writes)[0][:, :RANK]
    assert found.match == pytest.approx(np.linalg.norm(read @ written, 2), rel=1e-6)
    scale = np.linalg.norm(reads) * np.linalg.norm(writes)
    assert found.composition == pytest.approx(np.linalg.norm(product) / scale, rel=1e-6)


def test_pairs_are_composable_only_if_the_second_head_lies_lower() -> None:
    assert all_pairs([Head(1, 0), Head(0, 0)], [Head(0, 1), Head(1, 1)]) == [(Head(1, 0), Head(0, 1))]


def test_random_pairs_keep_the_layers_and_hold_no_head_under_test(view: HeadView) -> None:
    under_test = [LATER, EARLIER]
    found = random_pairs(view, under_test, [(LATER, EARLIER)], seed=0, times=30)
    assert len(found) == 30
    assert len(set(found)) > 1
    assert all((one.layer, two.layer) == (1, 0) for one, two in found)
    assert not {head for pair in found for head in pair} & set(under_test)


@pytest.mark.parametrize("distance", [0.0, 7.0])
def test_the_common_subspace_is_that_of_the_stacked_matrices(view: HeadView, distance: float) -> None:
    heads = [Head(1, 0), Head(1, 3)]
    stacked = torch.cat([view.query_key(head, distance, NormGain.folded).dense().double() for head in heads])
    expected = torch.linalg.svd(stacked)[2][:RANK].T
    found = common_subspace(view, heads, RANK, distance)
    assert torch.allclose(found.T @ found, torch.eye(RANK, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(found @ found.T, expected @ expected.T, atol=1e-6)


def test_random_subspaces_are_orthonormal_and_differ_by_draw() -> None:
    one, two = (random_subspace(24, RANK, 0, draw) for draw in (0, 1))
    assert torch.allclose(one.T @ one, torch.eye(RANK, dtype=torch.float64), atol=1e-12)
    assert not torch.allclose(one, two)
    assert torch.equal(one, random_subspace(24, RANK, 0, 0))
