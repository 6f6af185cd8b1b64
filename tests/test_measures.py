"""Progress measures against hand-made heads, brute force and closed forms."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from compgen import measures
from compgen.measures import Factored

MODEL = 24
HEAD = 6


def random_factors(seed: int, rows: int = MODEL, inner: int = HEAD, columns: int = MODEL) -> Factored:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, inner, generator=generator, dtype=torch.float64)
    return Factored(left, torch.randn(inner, columns, generator=generator, dtype=torch.float64))


def shift_attention(length: int, offset: int, batch: int = 2) -> torch.Tensor:
    """Every query attends the key `offset` before it, or the first key."""
    keys = (torch.arange(length) - offset).clamp_min(0)
    return torch.nn.functional.one_hot(keys, length).float().expand(batch, length, length)


class TestAttentionScores:
    def test_perfect_heads_score_one_and_the_others_zero(self) -> None:
        distance = torch.tensor([9, 9])
        queries = measures.copy_queries(torch.tensor([10, 11]), torch.tensor([6, 5]), 20)
        assert measures.previous_token_score(shift_attention(20, 1)) == 1
        assert measures.previous_token_score(shift_attention(20, 8)) < 0.1
        assert measures.induction_score(shift_attention(20, 8), distance, queries) == 1
        assert measures.induction_score(shift_attention(20, 9), distance, queries) == 0
        assert measures.duplicate_token_score(shift_attention(20, 9), distance, queries) == 1
        assert measures.duplicate_token_score(shift_attention(20, 8), distance, queries) == 0

    def test_agrees_with_a_plain_loop_over_sequences_heads_and_positions(self) -> None:
        generator = torch.Generator().manual_seed(1)
        attention = torch.rand(
            3, 4, 12, 12, generator=generator, dtype=torch.float64
        ).tril()  # (head, batch, query, key)
        attention /= attention.sum(-1, keepdim=True)
        start, segment = torch.tensor([5, 6, 7, 6]), torch.tensor([4, 5, 4, 3])
        distance = torch.tensor([4, 5, 6, 2])
        queries = measures.copy_queries(start, segment, 12)
        scores = measures.induction_score(attention, distance, queries)
        for head in range(3):
            picked = [
                float(attention[head, row, t, t - int(distance[row]) + 1])
                for row in range(4)
                for t in range(int(start[row]), int(start[row] + segment[row]) - 1)
            ]
            assert scores[head].item() == pytest.approx(np.mean(picked), abs=1e-12)

    def test_uniform_attention_has_the_closed_form(self) -> None:
        uniform = torch.ones(30, 30, dtype=torch.float64).tril() / torch.arange(1, 31)[:, None]
        queries = torch.ones(2, 30, dtype=torch.bool)
        expected = measures.uniform_attention_at_offset([3, 5], queries.numpy())
        score = measures.attention_at_offset(uniform.expand(2, 30, 30), torch.tensor([3, 5]), queries)
        assert score.item() == pytest.approx(expected, abs=1e-14)
        previous = measures.previous_token_score(uniform.expand(2, 30, 30))
        assert previous.item() == pytest.approx(np.mean(1 / np.arange(2, 31)))

    def test_no_query_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no query"):
            measures.attention_at_offset(shift_attention(5, 1), 7)

    def test_copy_queries_are_all_but_the_last_position_of_the_copy(self) -> None:
        queries = measures.copy_queries(torch.tensor([3]), torch.tensor([4]), 10)
        assert queries.nonzero()[:, 1].tolist() == [3, 4, 5]


class TestFactors:
    def test_thin_svd_equals_the_svd_of_the_whole_matrix(self) -> None:
        matrix = random_factors(3)
        thin = measures.thin_svd(matrix)
        left, values, right = torch.linalg.svd(matrix.dense())
        assert torch.allclose(thin.values, values[:HEAD], atol=1e-10)
        assert torch.allclose(thin.left @ torch.diag(thin.values) @ thin.right.mT, matrix.dense(), atol=1e-10)
        for ours, theirs in ((thin.left, left[:, :HEAD]), (thin.right, right[:HEAD].mT)):
            assert torch.allclose((ours * theirs).sum(0).abs(), torch.ones(HEAD, dtype=torch.float64), atol=1e-9)

    def test_weights_in_pytorch_layout_give_the_bilinear_form_of_the_scores(self) -> None:
        generator = torch.Generator().manual_seed(4)
        query, key = torch.nn.Linear(MODEL, HEAD, bias=False), torch.nn.Linear(MODEL, HEAD, bias=False)
        value, output = torch.nn.Linear(MODEL, HEAD, bias=False), torch.nn.Linear(HEAD, MODEL, bias=False)
        asking, asked = torch.randn(2, MODEL, generator=generator)
        w_qk = measures.query_key(query.weight, key.weight).dense()
        w_ov = measures.output_value(output.weight, value.weight).dense()
        assert torch.allclose(asking @ w_qk @ asked, query(asking) @ key(asked), atol=1e-5)
        assert torch.allclose(w_ov @ asked, output(value(asked)), atol=1e-5)

    @settings(max_examples=25, deadline=None)
    @given(st.integers(0, 10_000))
    def test_scores_agree_with_dense_brute_force(self, seed: int) -> None:
        later, earlier = random_factors(seed), random_factors(seed + 1)
        product = later.dense() @ earlier.dense()
        z = (product.diagonal().mean() - product.mean()) / product.std(correction=0)
        assert measures.diagonal_score(later, earlier) == pytest.approx(float(z), abs=1e-9)
        norm = torch.linalg.norm
        ratio = norm(product) / norm(later.dense()) / norm(earlier.dense())
        assert measures.composition_score(later, earlier) == pytest.approx(float(ratio), abs=1e-9)

    def test_mismatched_factors_are_refused(self) -> None:
        with pytest.raises(ValueError, match="do not fit"):
            Factored(torch.zeros(4, 3), torch.zeros(2, 4))


class TestMatch:
    def test_all_ranks_agree_with_an_svd_at_each_rank(self) -> None:
        later, earlier = measures.thin_svd(random_factors(5)), measures.thin_svd(random_factors(6))
        match = measures.inner_match(later, earlier, HEAD)
        for rank in range(1, HEAD + 1):
            values = torch.linalg.svdvals(later.right[:, :rank].mT @ earlier.left[:, :rank])
            assert match.largest[rank - 1] == pytest.approx(float(values.max()), abs=1e-10)
            assert match.rms[rank - 1] == pytest.approx(float(values.square().mean().sqrt()), abs=1e-10)

    def test_smallest_principal_angle_is_the_arc_cosine_of_the_match(self) -> None:
        later, earlier = measures.thin_svd(random_factors(7)), measures.thin_svd(random_factors(8))
        angles = measures.principal_angles(later.right, earlier.left)
        match = measures.inner_match(later, earlier, HEAD)
        assert math.cos(angles[0]) == pytest.approx(match.largest[-1], abs=1e-10)
        assert np.mean(np.cos(angles) ** 2) == pytest.approx(match.rms[-1] ** 2, abs=1e-10)

    def test_too_high_a_rank_is_refused(self) -> None:
        basis = torch.eye(MODEL)[:, :3]
        with pytest.raises(ValueError, match="ranks=4"):
            measures.subspace_match(basis, basis, 4)


class TestHandMadeInductionPair:
    """Residual stream = [own token | previous token]; the earlier head writes the token into the second half."""

    vocabulary = 12
    model = 24

    def earlier(self) -> Factored:
        read_own = torch.eye(self.vocabulary, self.model)  # (head, model)
        write_previous = torch.eye(self.model).roll(self.vocabulary, 0)[:, : self.vocabulary]  # (model, head)
        return measures.output_value(write_previous, read_own)

    def later(self) -> Factored:
        query = torch.eye(self.vocabulary, self.model)
        key = torch.eye(self.model)[self.vocabulary :]
        return measures.query_key(query, key)

    def test_keys_read_exactly_what_the_earlier_head_writes(self) -> None:
        match = measures.inner_match(
            measures.thin_svd(self.later()), measures.thin_svd(self.earlier()), self.vocabulary
        )
        assert match.largest[-1] == pytest.approx(1)
        assert match.rms[-1] == pytest.approx(1)

    def test_queries_and_values_do_not_read_it(self) -> None:
        later, earlier = measures.thin_svd(self.later()), measures.thin_svd(self.earlier())
        wrong_side = measures.subspace_match(later.left, earlier.left, self.vocabulary)
        assert wrong_side.largest[-1] == pytest.approx(0, abs=1e-12)
        assert measures.outer_match(later, earlier, self.vocabulary).rms[-1] == pytest.approx(1)
        assert measures.composition_score(self.later().transposed(), self.earlier()) == pytest.approx(0)
        assert measures.composition_score(self.later(), self.earlier()) == pytest.approx(self.vocabulary**-0.5)

    def test_a_token_meets_itself_on_the_diagonal(self) -> None:
        product = self.later().dense() @ self.earlier().dense()
        assert torch.equal(product[: self.vocabulary, : self.vocabulary], torch.eye(self.vocabulary))
        assert measures.diagonal_score(self.later(), self.earlier()) > 2
        transposed_by_mistake = self.later().dense() @ self.earlier().dense().mT
        assert transposed_by_mistake.abs().sum() == 0


class TestNulls:
    def test_random_match_has_its_closed_forms(self) -> None:
        null = measures.match_null(64, 10, 4000, np.random.default_rng(0))
        mean_square = (null.rms**2).mean(axis=0)
        assert np.allclose(mean_square, np.arange(1, 11) / 64, rtol=0.06)
        assert stats.kstest(null.largest[:, 0] ** 2, stats.beta(0.5, 63 / 2).cdf).pvalue > 1e-3
        assert null.largest[:, 9].mean() == pytest.approx(0.68, abs=0.03)  # the dossier's value at initialization

    def test_gaussian_matrices_have_the_law_of_random_subspaces(self) -> None:
        null = measures.match_null(MODEL, 4, 3000, np.random.default_rng(1))
        drawn = [
            measures.inner_match(
                measures.thin_svd(random_factors(2 * seed)), measures.thin_svd(random_factors(2 * seed + 1)), 4
            ).largest[3]
            for seed in range(600)
        ]
        assert stats.ks_2samp(drawn, null.largest[:, 3]).pvalue > 1e-3

    def test_rank_one_p_value_agrees_with_monte_carlo(self) -> None:
        null = measures.match_null(32, 1, 20_000, np.random.default_rng(2)).largest[:, 0]
        assert measures.rank_one_match_p_value(0.3, 32) == pytest.approx(measures.upper_p_value(0.3, null), abs=0.01)

    def test_gaussian_heads_have_the_expected_diagonal_spread(self) -> None:
        null = measures.gaussian_heads_null(48, 48, 600, seed=3)
        assert abs(null.diagonal.mean()) < 4 * 48**-0.5 / 600**0.5
        assert null.diagonal.std() == pytest.approx(48**-0.5, rel=0.15)
        assert null.composition.mean() == pytest.approx(48**-0.5, rel=0.05)

    def test_p_value_never_reaches_zero(self) -> None:
        assert measures.upper_p_value(5.0, np.zeros(99)) == pytest.approx(0.01)
        assert measures.upper_p_value(-1.0, np.zeros(99)) == 1
