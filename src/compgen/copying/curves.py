"""Where a training run passes its transition, how wide it is, and in which order things happen.

Covers rules on one curve (step, value) and statistics over seeds. Reads no files and knows no model. Rules:

* transition step: the first step at which a curve falls below a threshold, linear between evaluations;
* width: steps between 90 % and 10 % of the drop from the curve's plateau before the transition to its minimum;
* change point: the split of the log-step axis that leaves the least squared error of two constant pieces;
* half-way step of an event: where a curve first passes half of its own way from its start to its extreme.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from compgen.statistics import Interval, bootstrap_mean, bootstrap_statistic, paired_bootstrap, wilson

FloatArray = NDArray[np.float64]
FLAT = 1e-12
"""A mean squared deviation below this is rounding: a flat curve has no change point."""


@dataclass(frozen=True)
class Curve:
    """A quantity through training."""

    steps: FloatArray
    """(evaluation,), ascending from 0."""
    values: FloatArray
    """(evaluation,)"""

    @staticmethod
    def of(steps: ArrayLike, values: ArrayLike) -> "Curve":
        """From any two sequences.

        Raises:
            ValueError: lengths differ, fewer than two points, a value is not finite, or steps do not ascend.
        """
        x, y = np.asarray(steps, dtype=np.float64), np.asarray(values, dtype=np.float64)
        if x.shape != y.shape or x.ndim != 1 or x.size < 2:
            raise ValueError(f"a curve needs two vectors of one length of at least 2, not {x.shape} and {y.shape}")
        if not (np.isfinite(x).all() and np.isfinite(y).all() and (np.diff(x) > 0).all()):
            raise ValueError("a curve needs finite values at ascending steps")
        return Curve(x, y)


def first_below(curve: Curve, level: float) -> float | None:
    """The first step at which the curve is at or below a level, linear between evaluations; None if it never is."""
    below = np.flatnonzero(curve.values <= level)
    if below.size == 0:
        return None
    right = int(below[0])
    if right == 0:
        return float(curve.steps[0])
    high, low = curve.values[right - 1], curve.values[right]
    share = (high - level) / (high - low)
    return float(curve.steps[right - 1] + share * (curve.steps[right] - curve.steps[right - 1]))


def first_above(curve: Curve, level: float) -> float | None:
    """The first step at which the curve is at or above a level, linear between evaluations; None if it never is."""
    return first_below(Curve(curve.steps, -curve.values), -level)


def drop_width(curve: Curve, threshold: float, upper: float = 0.9, lower: float = 0.1) -> float | None:
    """Steps from `upper` to `lower` of the drop around the transition; None without a transition.

    The drop runs from the median before the transition to the minimum of the run, so that neither the start from
    random weights nor one noisy evaluation defines it. The upper crossing is the last one before the transition.
    """
    step = first_below(curve, threshold)
    if step is None or step <= curve.steps[0]:
        return None
    plateau = float(np.median(curve.values[curve.steps < step]))
    floor = float(curve.values.min())
    drop = plateau - floor
    end = first_below(Curve(curve.steps, curve.values), floor + lower * drop)
    start = _last_above_before(curve, floor + upper * drop, step)
    return None if end is None or start is None else end - start


def _last_above_before(curve: Curve, level: float, step: float) -> float | None:
    """The step at which the curve leaves a level for the last time before `step`."""
    above = np.flatnonzero((curve.values >= level) & (curve.steps < step))
    if above.size == 0:
        return None
    left = int(above[-1])
    if left + 1 == curve.steps.size:
        return float(curve.steps[left])
    rest = Curve(curve.steps[left : left + 2], curve.values[left : left + 2])
    return first_below(rest, level)


@dataclass(frozen=True)
class ChangePoint:
    """The best two-piece description of a curve."""

    step: float
    before: float
    after: float
    explained: float
    """Share of the squared deviation from the mean that two pieces remove: near 1 for a step, .75 for a ramp."""


def change_point(curve: Curve, grid: int = 400) -> ChangePoint:
    """The least-squares split into two constant pieces on the log-step axis.

    The curve is first interpolated on a uniform grid of log(step) from its first positive step, so that dense early
    evaluations do not count more than their share of the axis. The change lies at the split's geometric middle.

    Raises:
        ValueError: fewer than two positive steps.
    """
    positive = curve.steps > 0
    if positive.sum() < 2:
        raise ValueError("a change point needs two positive steps")
    logs = np.log(curve.steps[positive])
    axis = np.linspace(logs[0], logs[-1], grid)
    values = np.interp(axis, logs, curve.values[positive])
    left = np.arange(1, grid)
    sums, total = np.cumsum(values)[:-1], values.sum()
    between = sums**2 / left + (total - sums) ** 2 / (grid - left)  # minimizing the error maximizes this
    split = int(np.argmax(between))
    deviation = float(((values - values.mean()) ** 2).sum())
    gain = float(between[split] - total**2 / grid)
    return ChangePoint(
        step=float(np.exp((axis[split] + axis[split + 1]) / 2)),
        before=float(values[: split + 1].mean()),
        after=float(values[split + 1 :].mean()),
        explained=min(gain / deviation, 1.0) if deviation > FLAT * grid else 0.0,
    )


def half_way(curve: Curve, falling: bool = False) -> float | None:
    """The first step at which the curve has gone half of its own way from its first value to its extreme.

    None where it never moves in the stated direction.
    """
    signed = -curve.values if falling else curve.values
    start, extreme = float(signed[0]), float(signed.max())
    if extreme <= start:
        return None
    return first_above(Curve(curve.steps, signed), (start + extreme) / 2)


# ---- over seeds ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Summary:
    """A statistic over the seeds in which it exists."""

    value: float | None
    interval: Interval | None
    n: int

    def as_dict(self) -> dict[str, object]:
        """Plain JSON values."""
        return {"value": self.value, "interval": self.interval and self.interval.as_dict(), "n": self.n}


def summarize(values: Sequence[float | None], resamples: int = 10_000) -> Summary:
    """Mean and bootstrap interval over the seeds that have a value."""
    present = [value for value in values if value is not None]
    if not present:
        return Summary(None, None, 0)
    return Summary(float(np.mean(present)), bootstrap_mean(present, resamples=resamples), len(present))


def summarize_median(values: Sequence[float | None], resamples: int = 10_000) -> Summary:
    """Median and bootstrap interval over the seeds that have a value."""
    present = [value for value in values if value is not None]
    if not present:
        return Summary(None, None, 0)
    interval = bootstrap_statistic(present, _median, resamples=min(resamples, 2000))
    return Summary(float(np.median(present)), interval, len(present))


def probability(happened: Sequence[bool]) -> Summary:
    """Share of seeds and Wilson interval."""
    count, n = sum(happened), len(happened)
    return Summary(count / n, wilson(count, n), n) if n else Summary(None, None, 0)


def lag(
    earlier: Sequence[float | None], later: Sequence[float | None], resamples: int = 10_000
) -> tuple[Summary, Summary]:
    """Mean lag later − earlier in steps, paired over seeds, and the share of seeds in which `earlier` came first.

    Seeds in which one of the two never happened are left out.
    """
    pairs = [(a, b) for a, b in zip(earlier, later, strict=True) if a is not None and b is not None]
    if not pairs:
        return Summary(None, None, 0), Summary(None, None, 0)
    first, second = np.array(pairs).T
    mean = Summary(float(np.mean(second - first)), paired_bootstrap(second, first, resamples=resamples), len(pairs))
    return mean, probability([bool(a < b) for a, b in pairs])


def order_of_events(steps: Mapping[str, Sequence[float | None]]) -> list[str]:
    """Names of events by the median of their steps, earliest first; events that never happen are left out."""
    medians = {name: [value for value in values if value is not None] for name, values in steps.items()}
    present = {name: float(np.median(values)) for name, values in medians.items() if values}
    return sorted(present, key=lambda name: present[name])


def _median(values: FloatArray) -> float:
    return float(np.median(values))
