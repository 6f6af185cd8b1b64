"""Intervals and paired tests for the numbers that the pipeline reports.

Covers proportions (Wilson, Clopper-Pearson), percentile bootstraps over independent units, over pairs and
over units within seeds, one draw with a borrowed spread, the exact McNemar test, and the area under the ROC
curve. It does not decide about claims (see `compgen.report.verdicts`) and knows nothing of models or files.

Every function is deterministic: the random stream of a bootstrap comes from its `seed` argument only.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

FloatArray = NDArray[np.float64]
RESAMPLES = 10_000
VALUES_AT_ONCE = 4_000_000
"""How many resampled values are held in memory at a time."""


@dataclass(frozen=True)
class Interval:
    """Bounds in the unit of the value that they belong to, and the name of the method that gave them."""

    low: float
    high: float
    method: str

    def as_dict(self) -> dict[str, Any]:
        """The interval as plain JSON values."""
        return asdict(self)


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927).

    Raises:
        ValueError: `n` is not positive or `successes` lies outside 0…n.
    """
    _check_counts(successes, n)
    bounds = stats.binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return Interval(float(bounds.low), float(bounds.high), f"Wilson {_percent(confidence)}")


def clopper_pearson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """The exact interval of a proportion, never too narrow (Clopper and Pearson 1934).

    Raises:
        ValueError: `n` is not positive or `successes` lies outside 0…n.
    """
    _check_counts(successes, n)
    bounds = stats.binomtest(successes, n).proportion_ci(confidence, method="exact")
    return Interval(float(bounds.low), float(bounds.high), f"Clopper-Pearson {_percent(confidence)}")


def bootstrap_mean(values: ArrayLike, seed: int = 0, resamples: int = RESAMPLES, confidence: float = 0.95) -> Interval:
    """Percentile bootstrap of the mean over independent units: seeds, or samples of one model.

    One value gives an interval of no width whose method says so: nothing is known about its spread.

    Args:
        values: shape (unit,), finite.

    Raises:
        ValueError: no value, a value that is not finite, or more than one dimension.
    """
    sample = _vector(values)
    if sample.size == 1:
        return _single(float(sample[0]))
    means = _resampled_means(sample, resamples, np.random.default_rng(seed))
    return _percentile(means, confidence, f"percentile bootstrap over {sample.size} values")


def borrowed_spread(value: float, comparable: ArrayLike, confidence: float = 0.95) -> Interval:
    """Interval of a mean of which one draw is known, its standard deviation that of a comparable population.

    Exact for normal draws of equal variance: value ± t(n - 1) · s, with s over the n comparable draws.

    Raises:
        ValueError: there are fewer than two comparable draws.
    """
    sample = _vector(comparable)
    if len(sample) < 2:
        raise ValueError(f"{len(sample)} comparable draws: a spread needs two or more")
    reach = float(stats.t.ppf((1 + confidence) / 2, len(sample) - 1) * sample.std(ddof=1))
    method = f"one draw, spread of {len(sample)} comparable draws (t), {_percent(confidence)}"
    return Interval(value - reach, value + reach, method)


def bootstrap_statistic(
    values: ArrayLike,
    statistic: Callable[[FloatArray], float],
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Interval:
    """Percentile bootstrap of any statistic of independent units.

    Args:
        values: shape (unit, ...); whole rows are resampled, so that paired columns stay together.
        statistic: from a resample of the same shape to a finite number. It is called `resamples` times.

    Raises:
        ValueError: no value, a value that is not finite, or a statistic that is not finite on some resample.
    """
    sample = _finite(values)
    if sample.ndim == 0:
        raise ValueError("values must have at least one dimension")
    if sample.shape[0] == 1:
        return _single(float(statistic(sample)))
    generator = np.random.default_rng(seed)
    units = sample.shape[0]
    draws = (statistic(sample[generator.integers(0, units, units)]) for _ in range(resamples))
    drawn = np.fromiter(draws, dtype=np.float64, count=resamples)  # (resample,)
    if not np.isfinite(drawn).all():
        raise ValueError("the statistic is not finite on some resample: define it there, for example by clipping")
    return _percentile(drawn, confidence, f"percentile bootstrap over {units} values")


def paired_bootstrap(
    a: ArrayLike, b: ArrayLike, seed: int = 0, resamples: int = RESAMPLES, confidence: float = 0.95
) -> Interval:
    """Percentile bootstrap of mean(a − b) where a[i] and b[i] come from the same unit.

    Args:
        a, b: shape (unit,), the same unit at the same index.

    Raises:
        ValueError: the shapes differ, or as for `bootstrap_mean`.
    """
    first, second = _pair(a, b)
    interval = bootstrap_mean(first - second, seed, resamples, confidence)
    return Interval(interval.low, interval.high, f"paired {interval.method}")


def mcnemar(a: ArrayLike, b: ArrayLike) -> float:
    """Exact two-sided McNemar test that two arms are right equally often on the same samples.

    Args:
        a, b: shape (sample,), true where the arm is right.

    Returns:
        The p value; 1 where the arms never differ.

    Raises:
        ValueError: the shapes differ, there is no sample, or a value is neither 0 nor 1.
    """
    first, second = _pair(a, b)
    if not (_is_binary(first) and _is_binary(second)):
        raise ValueError("McNemar's test needs right/wrong values, 0 or 1")
    only_first = int(np.sum(first > second))
    only_second = int(np.sum(second > first))
    if only_first + only_second == 0:
        return 1.0
    return float(stats.binomtest(only_first, only_first + only_second, 0.5).pvalue)


def cluster_bootstrap_mean(
    values_by_seed: Sequence[ArrayLike],
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    differences: bool = False,
) -> Interval:
    """Percentile bootstrap of the mean of the seeds' means: seeds are resampled, then items within each.

    For a difference of two arms pass the item-wise differences of every seed. Where all items are right, or
    all are wrong, resampling shows no spread; then Wilson's interval of the pooled items is returned, and for arms that
    never differ the same on both sides of zero.

    Args:
        values_by_seed: one vector of shape (item,) per seed; the lengths may differ.
        differences: whether the values are differences of right and wrong, −1, 0 or 1, and not shares.

    Raises:
        ValueError: no seed, an empty seed, or a value that is not finite.
    """
    clusters = [_vector(values) for values in values_by_seed]
    if not clusters:
        raise ValueError("there must be at least one seed")
    pooled = np.concatenate(clusters)
    if differences and pooled.size > 1 and np.ptp(pooled) == 0 and abs(pooled[0]) in (0, 1):
        return _equal_differences(int(pooled[0]), pooled.size, confidence)
    if _is_binary(pooled) and np.ptp(pooled) == 0 and pooled.size > 1:
        interval = wilson(int(pooled.sum()), pooled.size, confidence)
        return Interval(interval.low, interval.high, f"{interval.method} over pooled items, all equal")
    if pooled.size == 1:
        return _single(float(pooled[0]))
    generator = np.random.default_rng(seed)
    picks = generator.integers(0, len(clusters), (resamples, len(clusters)))  # (resample, slot)
    means = np.empty(picks.shape)
    for index, cluster in enumerate(clusters):
        chosen = picks == index
        means[chosen] = _resampled_means(cluster, int(chosen.sum()), generator)
    method = f"percentile bootstrap over {len(clusters)} seeds, then items"
    return _percentile(means.mean(axis=1), confidence, method)


def _equal_differences(value: int, n: int, confidence: float) -> Interval:
    """Of a mean of equal differences −1, 0 or 1, from Wilson's interval of a share that was never, or always, met."""
    never = wilson(0, n, confidence)
    method = f"{never.method} over pooled differences, all equal"
    low, high = {0: (-never.high, never.high), 1: (1 - never.high, 1.0), -1: (-1.0, never.high - 1)}[value]
    return Interval(low, high, method)


def area_under_curve(scores: ArrayLike, labels: ArrayLike) -> float:
    """The probability that a positive has a higher score than a negative, ties counted half (Mann-Whitney).

    Args:
        scores: shape (item,). labels: shape (item,), 1 or true for positives.

    Raises:
        ValueError: the shapes differ, a label is neither 0 nor 1, or one of the classes is empty.
    """
    positives, negatives = _class_counts(scores, labels)
    return float(_areas(positives[None], negatives[None])[0])


def area_under_curve_interval(
    scores: ArrayLike, labels: ArrayLike, seed: int = 0, resamples: int = RESAMPLES, confidence: float = 0.95
) -> Interval:
    """Percentile bootstrap of the area under the ROC curve; positives and negatives are resampled apart.

    Raises:
        ValueError: as for `area_under_curve`.
    """
    positives, negatives = _class_counts(scores, labels)
    generator = np.random.default_rng(seed)
    at_once = max(1, VALUES_AT_ONCE // positives.size)
    areas: list[FloatArray] = []
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        drawn_positives = _resampled_counts(positives, rows, generator)  # (resample, level)
        drawn_negatives = _resampled_counts(negatives, rows, generator)
        areas.append(_areas(drawn_positives, drawn_negatives))
    method = f"percentile bootstrap over {int(positives.sum())} positives and {int(negatives.sum())} negatives"
    return _percentile(np.concatenate(areas), confidence, method)


def _class_counts(scores: ArrayLike, labels: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """How many positives and negatives have each distinct score, from the lowest up: two vectors (level,)."""
    score, label = _pair(scores, labels)
    if not _is_binary(label) or np.ptp(label) == 0:
        raise ValueError("labels must be 0 or 1, and both must occur")
    levels, where = np.unique(score, return_inverse=True)
    positives = np.bincount(where, weights=label, minlength=levels.size).astype(np.float64)
    negatives = np.bincount(where, weights=1 - label, minlength=levels.size).astype(np.float64)
    return positives, negatives


def _resampled_counts(counts: FloatArray, rows: int, generator: np.random.Generator) -> FloatArray:
    total = counts.sum()
    drawn: FloatArray = generator.multinomial(int(total), counts / total, size=rows).astype(np.float64)
    return drawn


def _areas(positives: FloatArray, negatives: FloatArray) -> FloatArray:
    """Areas from counts per score level, both of shape (resample, level)."""
    below = np.cumsum(negatives, axis=1) - negatives / 2  # negatives below, ties half
    wins = (positives * below).sum(axis=1)
    areas: FloatArray = wins / (positives.sum(axis=1) * negatives.sum(axis=1))
    return areas


def _resampled_means(sample: FloatArray, resamples: int, generator: np.random.Generator) -> FloatArray:
    """Means of `resamples` resamples of a vector, in bounded memory."""
    if _is_binary(sample):  # the number of ones in a resample is binomial: the same law, without drawing items
        return generator.binomial(sample.size, sample.mean(), resamples) / sample.size
    means = np.empty(resamples)
    at_once = max(1, VALUES_AT_ONCE // sample.size)
    for start in range(0, resamples, at_once):
        rows = min(at_once, resamples - start)
        means[start : start + rows] = sample[generator.integers(0, sample.size, (rows, sample.size))].mean(axis=1)
    return means


def _percentile(drawn: FloatArray, confidence: float, method: str) -> Interval:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence}: must lie between 0 and 1")
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(low), float(high), f"{method}, {_percent(confidence)}")


def _single(value: float) -> Interval:
    return Interval(value, value, "one value: its spread is unknown")


def _percent(confidence: float) -> str:
    return f"{100 * confidence:g} %"


def _is_binary(sample: FloatArray) -> bool:
    return bool(np.isin(sample, (0.0, 1.0)).all())


def _finite(values: ArrayLike) -> FloatArray:
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise ValueError("there must be at least one value")
    if not np.isfinite(sample).all():
        raise ValueError("all values must be finite")
    return sample


def _vector(values: ArrayLike) -> FloatArray:
    sample = _finite(values)
    if sample.ndim != 1:
        raise ValueError(f"values must be a vector, not of shape {sample.shape}")
    return sample


def _pair(a: ArrayLike, b: ArrayLike) -> tuple[FloatArray, FloatArray]:
    first, second = _vector(a), _vector(b)
    if first.shape != second.shape:
        raise ValueError(f"paired values must have one shape, not {first.shape} and {second.shape}")
    return first, second


def _check_counts(successes: int, n: int) -> None:
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}: n must be positive and successes within 0…n")
