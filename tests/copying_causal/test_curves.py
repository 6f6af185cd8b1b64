"""Transition rules on curves whose transition is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compgen.copying import curves
from compgen.copying.curves import Curve

STEPS = np.array([0, 1, 2, 4, 8, 16, 32, 64, 128, *range(200, 6001, 200)], dtype=float)


def ramp(start: float, end: float, high: float = 0.98, low: float = 0.02) -> Curve:
    """A plateau, a linear drop from step `start` to step `end`, a floor."""
    return Curve.of(STEPS, np.interp(STEPS, [start, end], [high, low]))


@given(st.floats(400, 4000), st.floats(400, 1800))
def test_transition_of_a_linear_drop_is_at_its_middle(start: float, width: float) -> None:
    step = curves.first_below(ramp(start, start + width), 0.5)
    assert step == pytest.approx(start + width / 2, abs=60)  # the corners fall between evaluations 200 steps apart


def test_width_of_a_linear_drop_is_eight_tenths_of_it() -> None:
    assert curves.drop_width(ramp(2000, 3000), 0.5) == pytest.approx(800)


def test_width_ignores_the_start_from_random_weights() -> None:
    curve = ramp(2000, 3000, high=0.9)
    early = curve.values + np.where(curve.steps < 10, 0.09, 0.0)
    assert curves.drop_width(Curve.of(STEPS, early), 0.5) == pytest.approx(800)


def test_a_curve_that_stays_up_has_no_transition_and_no_width() -> None:
    flat = Curve.of(STEPS, np.full(STEPS.size, 0.98))
    assert curves.first_below(flat, 0.5) is None
    assert curves.drop_width(flat, 0.5) is None
    assert curves.half_way(flat, falling=True) is None


def test_change_point_finds_a_step_and_explains_it() -> None:
    values = np.where(STEPS < 2500, 0.98, 0.02)
    found = curves.change_point(Curve.of(STEPS, values))
    assert 2400 <= found.step <= 2600
    assert found.explained > 0.97
    assert (found.before, found.after) == (pytest.approx(0.98, abs=0.02), pytest.approx(0.02, abs=0.02))


def test_change_point_explains_three_quarters_of_a_ramp_in_log_steps() -> None:
    steps = np.geomspace(1, 10_000, 60)
    found = curves.change_point(Curve.of(steps, np.log(steps)), grid=2000)
    assert found.explained == pytest.approx(0.75, abs=0.005)
    assert found.step == pytest.approx(100, rel=0.05)


def test_change_point_is_the_best_of_all_splits() -> None:
    generator = np.random.default_rng(0)
    curve = Curve.of(STEPS, generator.random(STEPS.size))
    logs = np.log(STEPS[1:])
    axis = np.linspace(logs[0], logs[-1], 50)
    values = np.interp(axis, logs, curve.values[1:])
    errors = [values[:k].var() * k + values[k:].var() * (50 - k) for k in range(1, 50)]
    split = int(np.argmin(errors))
    assert curves.change_point(curve, grid=50).step == pytest.approx(np.exp((axis[split] + axis[split + 1]) / 2))


def test_half_way_is_relative_to_the_curve_itself() -> None:
    rising = Curve.of(STEPS, np.interp(STEPS, [1000, 2000], [0.67, 0.93]))
    assert curves.half_way(rising) == pytest.approx(1500)
    assert curves.half_way(ramp(1000, 2000), falling=True) == pytest.approx(1500)


def test_lag_is_paired_over_seeds_and_leaves_out_missing_ones() -> None:
    mean, first = curves.lag([100, 200, None, 300], [150, 260, 400, 340])
    assert (mean.value, mean.n) == (pytest.approx(50), 3)
    assert mean.interval is not None
    assert 40 <= mean.interval.low <= mean.interval.high <= 60
    assert first.value == 1


def test_order_is_by_median_and_leaves_out_what_never_happens() -> None:
    steps = {"late": [3.0, 4.0], "early": [1.0, None], "never": [None, None]}
    assert curves.order_of_events(steps) == ["early", "late"]


def test_probability_counts_the_seeds_that_never_made_it() -> None:
    share = curves.probability([True] * 7 + [False])
    assert share.value == 7 / 8
    assert share.interval is not None
    assert share.interval.low < 7 / 8 < share.interval.high


@pytest.mark.parametrize(
    ("steps", "values"), [([0, 1], [1.0]), ([0], [1.0]), ([0, 0], [1.0, 2.0]), ([0, 1], [1.0, np.nan])]
)
def test_what_is_not_a_curve_is_refused(steps: list[float], values: list[float]) -> None:
    with pytest.raises(ValueError, match="curve"):
        Curve.of(steps, values)
