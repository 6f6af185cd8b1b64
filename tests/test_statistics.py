"""Intervals against closed forms and scipy, tests against enumeration, coverage by simulation."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from compgen.statistics import (
    Interval,
    area_under_curve,
    area_under_curve_interval,
    bootstrap_mean,
    bootstrap_statistic,
    borrowed_spread,
    clopper_pearson,
    cluster_bootstrap_mean,
    mcnemar,
    paired_bootstrap,
    wilson,
)

COVERAGE_TRIALS = 300


@pytest.mark.parametrize(("successes", "n"), [(0, 10), (1, 7), (81, 263), (1000, 1000)])
def test_wilson_solves_its_defining_equation(successes: int, n: int) -> None:
    interval = wilson(successes, n)
    z = stats.norm.ppf(0.975)
    for bound in (interval.low, interval.high):
        assert (successes / n - bound) ** 2 == pytest.approx(z**2 * bound * (1 - bound) / n, abs=1e-12)


def test_clopper_pearson_bounds_have_the_stated_tail_probabilities() -> None:
    interval = clopper_pearson(7, 20)
    assert stats.binom.sf(6, 20, interval.low) == pytest.approx(0.025)
    assert stats.binom.cdf(7, 20, interval.high) == pytest.approx(0.025)


@pytest.mark.parametrize(("successes", "n"), [(1, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, n)


@given(st.integers(1, 500), st.floats(0, 1))
def test_proportion_intervals_hold_the_proportion_and_stay_within_zero_and_one(n: int, share: float) -> None:
    successes = round(n * share)
    for interval in (wilson(successes, n), clopper_pearson(successes, n)):
        assert -1e-12 <= interval.low <= successes / n + 1e-12
        assert successes / n - 1e-12 <= interval.high <= 1 + 1e-12


def test_bootstrap_of_the_mean_equals_enumeration_of_all_resamples() -> None:
    values = np.array([0.0, 1.0, 3.0, 7.0])
    every_mean = [np.mean(choice) for choice in product(values, repeat=4)]
    expected = np.quantile(every_mean, [0.025, 0.975])
    interval = bootstrap_mean(values, resamples=100_000)
    assert [interval.low, interval.high] == pytest.approx(list(expected), abs=0.26)  # one step of the grid


def test_bootstrap_of_the_mean_agrees_with_scipy() -> None:
    values = np.random.default_rng(1).gamma(2.0, size=200)
    reference = stats.bootstrap((values,), np.mean, method="percentile", rng=np.random.default_rng(2))
    interval = bootstrap_mean(values)
    assert interval.low == pytest.approx(reference.confidence_interval.low, abs=0.01)
    assert interval.high == pytest.approx(reference.confidence_interval.high, abs=0.01)


def test_binary_values_take_the_binomial_path_with_the_same_law() -> None:
    values = np.repeat([0.0, 1.0], [30, 70])
    shifted = bootstrap_mean(values * 2 + 1)  # no longer binary: items are drawn
    interval = bootstrap_mean(values)
    assert interval.low == pytest.approx((shifted.low - 1) / 2, abs=0.011)
    assert interval.high == pytest.approx((shifted.high - 1) / 2, abs=0.011)


def test_bootstraps_repeat_and_depend_on_their_seed_only() -> None:
    values = np.random.default_rng(0).normal(size=9)
    np.random.default_rng(5).normal()
    assert bootstrap_mean(values, seed=3) == bootstrap_mean(values, seed=3)
    assert bootstrap_mean(values, seed=3) != bootstrap_mean(values, seed=4)


def test_bounded_memory_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(size=50)
    whole = bootstrap_mean(values, resamples=999)
    monkeypatch.setattr("compgen.statistics.VALUES_AT_ONCE", 120)
    assert bootstrap_mean(values, resamples=999) == whole


def test_one_value_says_that_its_spread_is_unknown() -> None:
    for interval in (bootstrap_mean([2.5]), cluster_bootstrap_mean([[2.5]]), bootstrap_statistic([2.5], np.mean)):
        assert interval == Interval(2.5, 2.5, "one value: its spread is unknown")


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [[1.0, 2.0]]])
def test_unusable_values_are_refused(values: list[object]) -> None:
    with pytest.raises(ValueError, match="value"):
        bootstrap_mean(values)


def test_bootstrap_of_a_statistic_keeps_rows_together() -> None:
    x = np.arange(20.0)
    interval = bootstrap_statistic(
        np.stack([x, 2 * x + 1], axis=1), lambda rows: float(np.polyfit(rows[:, 0], rows[:, 1], 1)[0]), resamples=200
    )
    assert (interval.low, interval.high) == pytest.approx((2.0, 2.0))


def test_a_statistic_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="not finite"):
        bootstrap_statistic([0.0, 1.0, 2.0], lambda sample: float("nan"), resamples=5)


def test_pairing_removes_what_the_pairs_share() -> None:
    generator = np.random.default_rng(0)
    shared = generator.normal(0, 10, 40)
    interval = paired_bootstrap(shared + 1, shared)
    assert (interval.low, interval.high) == pytest.approx((1.0, 1.0))
    assert interval.method.startswith("paired")


def test_pairs_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        paired_bootstrap([1.0, 2.0], [1.0])


def test_mcnemar_equals_the_binomial_tail_by_hand() -> None:
    a = [1] * 9 + [0] * 1 + [1] * 50
    b = [0] * 9 + [1] * 1 + [1] * 50
    assert mcnemar(a, b) == pytest.approx(2 * (1 + 10) / 2**10)
    assert mcnemar(b, a) == mcnemar(a, b)


def test_mcnemar_of_equal_arms_is_one_and_other_values_are_refused() -> None:
    assert mcnemar([True, False], [True, False]) == 1.0
    with pytest.raises(ValueError, match="0 or 1"):
        mcnemar([0.5, 1], [0, 1])


def test_seeds_are_clusters_not_samples() -> None:
    by_seed = [np.full(500, level) + 0.01 * np.arange(500) / 500 for level in (0.2, 0.5, 0.8)]
    clustered = cluster_bootstrap_mean(by_seed)
    pooled = bootstrap_mean(np.concatenate(by_seed))
    assert clustered.high - clustered.low > 5 * (pooled.high - pooled.low)


def test_every_seed_weighs_the_same_whatever_its_number_of_items() -> None:
    interval = cluster_bootstrap_mean([[0.25] * 1000, [0.75] * 10], confidence=0.01)
    assert (interval.low, interval.high) == pytest.approx((0.5, 0.5))


def test_all_right_in_every_seed_is_not_certainty() -> None:
    interval = cluster_bootstrap_mean([[True] * 100, [True] * 100])
    assert interval.low == pytest.approx(wilson(200, 200).low)
    assert "Wilson" in interval.method


def test_area_under_the_curve_counts_pairs_with_ties_half() -> None:
    generator = np.random.default_rng(0)
    scores = generator.integers(0, 6, 60).astype(float)
    labels = generator.integers(0, 2, 60)
    positives, negatives = scores[labels == 1], scores[labels == 0]
    wins = (positives[:, None] > negatives).sum() + 0.5 * (positives[:, None] == negatives).sum()
    assert area_under_curve(scores, labels) == pytest.approx(wins / (positives.size * negatives.size))
    reference = stats.mannwhitneyu(positives, negatives).statistic / (positives.size * negatives.size)
    assert area_under_curve(scores, labels) == pytest.approx(reference)


def test_area_interval_agrees_with_scipy_two_sample_bootstrap() -> None:
    generator = np.random.default_rng(0)
    positives, negatives = generator.normal(1, 1, 40), generator.normal(0, 1, 60)

    def area(first: np.ndarray, second: np.ndarray) -> float:
        return float((first[:, None] > second).mean() + 0.5 * (first[:, None] == second).mean())

    reference = stats.bootstrap(
        (positives, negatives), area, method="percentile", vectorized=False, n_resamples=2000, rng=generator
    ).confidence_interval
    labels = np.repeat([1, 0], [40, 60])
    interval = area_under_curve_interval(np.concatenate([positives, negatives]), labels)
    assert (interval.low, interval.high) == pytest.approx((reference.low, reference.high), abs=0.015)


def test_area_needs_both_classes() -> None:
    with pytest.raises(ValueError, match="both must occur"):
        area_under_curve([0.1, 0.2], [1, 1])


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_wilson_covers_as_often_as_it_says(share: float) -> None:
    counts = np.arange(201)
    covered = [interval.low <= share <= interval.high for interval in (wilson(int(c), 200) for c in counts)]
    assert stats.binom.pmf(counts, 200, share)[covered].sum() == pytest.approx(0.95, abs=0.025)


def test_the_bootstrap_of_the_mean_covers_nearly_as_often_as_it_says() -> None:
    generator = np.random.default_rng(7)
    covered = 0
    for _ in range(COVERAGE_TRIALS):
        interval = bootstrap_mean(generator.exponential(size=60), resamples=500)
        covered += interval.low <= 1 <= interval.high
    assert 0.89 <= covered / COVERAGE_TRIALS <= 0.98


def test_the_cluster_bootstrap_covers_where_pooling_does_not() -> None:
    generator = np.random.default_rng(8)
    clustered = pooled = 0
    for _ in range(COVERAGE_TRIALS):
        by_seed = generator.normal(0, 1, (12, 1)) + generator.normal(0, 1, (12, 30))
        wide = cluster_bootstrap_mean(list(by_seed), resamples=500)
        narrow = bootstrap_mean(by_seed.ravel(), resamples=500)
        clustered += wide.low <= 0 <= wide.high
        pooled += narrow.low <= 0 <= narrow.high
    assert clustered / COVERAGE_TRIALS >= 0.87
    assert pooled / COVERAGE_TRIALS < 0.6


@settings(max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30))
def test_the_bootstrap_interval_lies_within_the_data(values: list[float]) -> None:
    interval = bootstrap_mean(values, resamples=200)
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack


def test_one_draw_with_a_borrowed_spread_covers_the_mean_as_often_as_stated() -> None:
    generator = np.random.default_rng(0)
    draws = generator.normal(3.0, 2.0, (4000, 9))
    intervals = [borrowed_spread(row[0], row[1:]) for row in draws]
    covered = np.mean([interval.low <= 3.0 <= interval.high for interval in intervals])
    assert covered == pytest.approx(0.95, abs=0.01)


def test_a_spread_is_not_borrowed_from_one_draw() -> None:
    with pytest.raises(ValueError, match="1 comparable draws"):
        borrowed_spread(0.5, [0.4])


@pytest.mark.parametrize(("value", "low", "high"), [(0.0, -1, 1), (1.0, 0, 1), (-1.0, -1, 0)])
def test_arms_that_always_differ_alike_have_an_interval_on_both_sides_of_what_is_possible(
    value: float, low: float, high: float
) -> None:
    found = cluster_bootstrap_mean([np.full(10, value), np.full(10, value)], differences=True)
    bound = wilson(0, 20).high
    expected = {0.0: (-bound, bound), 1.0: (1 - bound, 1.0), -1.0: (-1.0, bound - 1)}[value]
    assert (found.low, found.high) == pytest.approx(expected)
    assert low <= found.low < found.high <= high
    assert found.low <= value <= found.high
