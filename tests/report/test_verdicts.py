"""Verdicts from intervals, and reasons where there is no result."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compgen.report.claims import Claim, Condition, load_claims
from compgen.report.figure import RunTree
from compgen.report.verdicts import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    SMOKE,
    Measurement,
    compare,
    count,
    judge,
    read_measurement,
    results,
    why_not_run,
)

AT_MOST = Condition("error", "at_most", float("-inf"), 0.05)
FIELDS = [
    *("id", "paper", "location", "statement", "protocol", "paper_value", "prediction", "value", "interval"),
    *("n", "seeds", "verdict", "rule", "reason", "files", "command"),
]
Entry = Callable[..., dict[str, Any]]


def measurement(low: float, high: float) -> Measurement:
    return Measurement((low + high) / 2, low, high, "percentile bootstrap", 8, (0, 1))


def claim_of(*conditions: Condition) -> Claim:
    return Claim("copying.a", "paper", "1", "text", "aligned", 1.0, None, "copying/summary", conditions)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.01, 0.04, REPRODUCED),
        (0.01, 0.05, REPRODUCED),
        (0.04, 0.06, INCONCLUSIVE),
        (0.05, 0.06, INCONCLUSIVE),
        (0.051, 0.06, NOT_REPRODUCED),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, verdict: str) -> None:
    assert compare(AT_MOST, measurement(low, high)) == verdict


@given(st.floats(-10, 10), st.floats(0, 10), st.floats(-10, 10), st.floats(0, 10))
def test_a_wider_interval_never_turns_one_decision_into_the_other(
    start: float, width: float, low: float, more: float
) -> None:
    condition = Condition("x", "within", low, low + 1)
    narrow = compare(condition, measurement(start, start + width))
    wide = compare(condition, measurement(start - more, start + width + more))
    assert wide in {narrow, INCONCLUSIVE}


@given(st.floats(-10, 10))
def test_a_value_without_interval_is_never_inconclusive(value: float) -> None:
    assert compare(Condition("x", "within", -1, 1), measurement(value, value)) != INCONCLUSIVE


def test_the_synthetic_run_has_every_verdict_with_its_reason(run: RunTree, reference: Path) -> None:
    verdicts = {verdict.claim.id: verdict for verdict in judge(load_claims(reference), run)}
    assert {identity: verdict.verdict for identity, verdict in verdicts.items()} == {
        "copying.two_layers_learn_the_rule": REPRODUCED,
        "copying.one_layer_stays": NOT_REPRODUCED,
        "copying.transition_is_sharp": INCONCLUSIVE,
        "copying.pool_1000": NOT_RUN,
        "theory.normalizer_is_a_covariance": NOT_RUN,
    }
    reason = verdicts["copying.one_layer_stays"].reason
    assert reason == (
        "error_one_layer is 0.84, its interval 0.81 … 0.88 lies wholly outside the rule ≥ 0.9 "
        "(still falling at the last step)."
    )
    assert "reports no measurement error_pool_1000" in verdicts["copying.pool_1000"].reason
    assert verdicts["theory.normalizer_is_a_covariance"].reason == "theory/summary failed: UserError: the disk is full."


def test_evidence_and_command_are_named(run: RunTree, reference: Path) -> None:
    first = judge(load_claims(reference), run)[0]
    assert first.files == ("copying/summary/metrics.json", "copying/train-seed0/metrics.json")
    assert first.command == "make copying"


def test_results_have_the_stated_fields_and_counts_add_up(run: RunTree, reference: Path) -> None:
    verdicts = judge(load_claims(reference), run)
    written = results(verdicts, run)
    assert (written["run"], written["profile"]) == ("laptop", "laptop")
    assert all(list(entry) == FIELDS for entry in written["claims"])
    assert count(verdicts) == {REPRODUCED: 1, NOT_REPRODUCED: 1, INCONCLUSIVE: 1, NOT_RUN: 2}
    not_run = written["claims"][3]
    assert (not_run["value"], not_run["interval"], not_run["n"], not_run["seeds"]) == (None, None, None, [])
    assert not_run["reason"]


def judged(run_directory: Path, job_writer: Callable[..., Path], values: dict[str, Any], *conditions: Condition) -> Any:
    directory = run_directory.parent / "single"
    job_writer(directory, "copying/summary", "copying_summary", {"measurements": values})
    return judge([claim_of(*conditions)], RunTree(directory))[0]


def test_one_violated_condition_decides_whatever_the_others_say(
    run_directory: Path, job_writer: Callable[..., Path], measurement_entry: Entry
) -> None:
    values = {"error": measurement_entry(0.01, 0.0, 0.02), "late": measurement_entry(0.5, 0.4, 0.6)}
    low = Condition("late", "at_most", float("-inf"), 0.3)
    absent = Condition("absent", "at_most", float("-inf"), 0.3)
    verdict = judged(run_directory, job_writer, values, AT_MOST, low, absent)
    assert verdict.verdict == NOT_REPRODUCED
    assert verdict.reason.startswith("late is 0.5")
    assert verdict.headline.value == 0.01


def test_a_measurement_without_value_gives_its_note(run_directory: Path, job_writer: Callable[..., Path]) -> None:
    values = {"error": {"value": None, "note": "pool 1000 is no part of this profile"}}
    verdict = judged(run_directory, job_writer, values, AT_MOST)
    assert verdict.verdict == NOT_RUN
    assert verdict.reason == "copying/summary did not measure error: pool 1000 is no part of this profile."


def test_an_enumerated_value_needs_no_interval(
    run_directory: Path, job_writer: Callable[..., Path], measurement_entry: Entry
) -> None:
    judged(run_directory, job_writer, {"error": measurement_entry(0.0)}, AT_MOST)
    enumerated = replace(claim_of(AT_MOST), protocol="exact")
    verdict = judge([enumerated], RunTree(run_directory.parent / "single"))[0]
    assert verdict.verdict == REPRODUCED
    assert verdict.reason == "error is 0 (no interval), which meets the rule ≤ 0.05."
    assert verdict.as_dict()["interval"] is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_run_decides_nothing_alone(
    run_directory: Path, job_writer: Callable[..., Path], measurement_entry: Entry, value: float
) -> None:
    verdict = judged(run_directory, job_writer, {"error": measurement_entry(value)}, AT_MOST)
    assert verdict.verdict == INCONCLUSIVE
    assert verdict.reason.startswith(f"error is {value:g} in one run: its spread is unknown")


def test_a_misspelt_measurement_names_the_nearest(
    run_directory: Path, job_writer: Callable[..., Path], measurement_entry: Entry
) -> None:
    verdict = judged(run_directory, job_writer, {"errors": measurement_entry(0.0)}, AT_MOST)
    assert "(the nearest is errors)" in verdict.reason


@pytest.mark.parametrize(
    "change",
    [
        {"n": 0},
        {"seeds": None},
        {"interval": {"low": 1}},
        {"value": "x"},
        {"interval": {"low": 2, "high": 1, "method": ""}},
    ],
)
def test_a_malformed_measurement_is_a_defect_of_its_job(measurement_entry: Entry, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="copying/summary: error: malformed measurement"):
        read_measurement("copying/summary: error", {**measurement_entry(1.0), **change})


def test_a_smoke_run_is_marked_in_every_reason(run_directory: Path, reference: Path) -> None:
    run = RunTree(run_directory, "smoke", run_name="smoke")
    verdicts = judge(load_claims(reference), run)
    assert all(verdict.reason.startswith(SMOKE) for verdict in verdicts)
    assert results(verdicts, run)["profile"] == "smoke"
    assert verdicts[0].command == "make copying PROFILE=smoke"


def test_a_run_with_a_name_of_its_own_repeats_the_job_itself(run_directory: Path, reference: Path) -> None:
    run = RunTree(run_directory, "laptop", run_name="short")
    commands = [verdict.command for verdict in judge(load_claims(reference), run)]
    assert commands[0] == "python -m compgen job=copying_summary seed=0"
    assert commands[-1] == "make theory PROFILE=laptop RUN=short"


def reason_without(directory: Path) -> str:
    return judge([claim_of(AT_MOST)], RunTree(directory, standing=frozenset()))[0].reason


def test_reasons_for_no_result(tmp_path: Path, job_writer: Callable[..., Path]) -> None:
    assert reason_without(tmp_path / "a") == "copying/summary has not been run."
    (tmp_path / "b/copying/summary.partial").mkdir(parents=True)
    assert reason_without(tmp_path / "b") == "copying/summary was begun but has not finished."
    job_writer(tmp_path / "c", "copying/summary", "copying_summary", {})
    assert "is stale" in reason_without(tmp_path / "c")
    failed = tmp_path / "d/copying/train.partial"
    failed.mkdir(parents=True)
    (failed / "failure.json").write_text('{"error": "ValueError: no"}', encoding="utf-8")
    assert reason_without(tmp_path / "d") == "copying/summary has not been run. copying/train failed: ValueError: no."


def test_a_claim_of_a_job_that_the_profile_does_not_have_names_the_profile_that_does(tmp_path: Path) -> None:
    run = RunTree(tmp_path / "laptop")
    (run.directory / ".make").mkdir(parents=True)
    (run.directory / ".make" / "dag.txt").write_text(" composition/summary|composition_summary||profile=laptop\n")
    assert why_not_run(run, "composition/gemma-summary").endswith("not part of profile laptop: use PROFILE=paper.")
    assert "REAL_DATA=<directory" in why_not_run(run, "composition/real-summary")
    assert why_not_run(run, "composition/summary") == "composition/summary has not been run."
