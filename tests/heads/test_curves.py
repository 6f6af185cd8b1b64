"""Removal curves from answers made by hand: what is lost, beyond what a control loses, and more than its twin loses."""

import json
from pathlib import Path
from typing import Any

import pytest

from compgen.heads.config import HeadsSummaryConfig, PublishedCurve
from compgen.heads.curves import Curves
from compgen.run.context import FinishedJob


def finished(directory: Path, kind: str, metrics: dict[str, Any], config: dict[str, Any]) -> FinishedJob:
    directory.mkdir(parents=True)
    (directory / "manifest.json").write_text(json.dumps({"kind": kind, "config": config}))
    (directory / "metrics.json").write_text(json.dumps(metrics))
    return FinishedJob(directory)


def rows(task: str, metric: str, values: dict[tuple[str, int, int], list[float]]) -> list[dict[str, Any]]:
    return [
        {
            "task": task,
            "set": name,
            "count": count,
            "draw": draw,
            "id": f"{place}",
            metric: value,
            "log_probability": -2.0,
        }
        for (name, count, draw), given in values.items()
        for place, value in enumerate(given)
    ]


@pytest.fixture
def summary(tmp_path: Path) -> dict[str, Any]:
    before, none = ("none", 0, 0), [1.0, 1.0, 1.0, 1.0]
    induction, first, second = ("induction", 2, 0), ("matched", 2, 0), ("matched", 2, 1)
    answers = [
        *rows("ioi-names", "choice", {before: none, induction: [1, 1, 1, 0], first: none, second: none}),
        *rows("ioi-symbols", "choice", {before: none, induction: [0, 0, 1, 0], first: [1, 1, 1, 0], second: none}),
    ]
    scores = {
        "architecture": {"layers": 4, "query_heads": 5},
        "definitions": {
            "controlled": {
                "sequences": 3,
                "lists": {
                    "induction": [{"layer": 3, "head": 1, "score": 0.9, "interval": {"low": 0.8, "high": 1.0}}],
                    "copying": [{"layer": 3, "head": 1, "score": 0.9, "interval": None}],
                },
            }
        },
    }
    jobs = [
        finished(tmp_path / "heads/toy-scores", "heads_scores", scores, {"seed": 0}),
        finished(tmp_path / "heads/toy-removal-all", "heads_removal", {}, {}),
    ]
    (jobs[1].directory / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers))
    curve = PublishedCurve("ioi-names", "llama", [0, 10], [1.0, 0.5])
    config = HeadsSummaryConfig(count=2, main="toy", resamples=500, published=[curve], published_heads={"llama": 100})
    return Curves(jobs, config).summary()


def test_what_is_lost_is_counted_prompt_by_prompt(summary: dict[str, Any]) -> None:
    found = summary["measurements"]
    assert found["main_ioi-names_lost_induction"]["value"] == 0.25
    assert found["main_ioi-symbols_lost_induction"]["value"] == 0.75
    assert found["main_ioi-symbols_lost_matched"]["value"] == pytest.approx(0.125)
    assert found["main_ioi-symbols_lost_matched"]["n"] == 8
    assert found["main_ioi-symbols_before"]["value"] == 1.0


def test_the_excess_is_what_the_induction_heads_cost_beyond_the_control(summary: dict[str, Any]) -> None:
    assert summary["measurements"]["main_ioi-symbols_excess_matched"]["value"] == pytest.approx(0.625)


def test_the_shift_compares_a_task_with_its_twin(summary: dict[str, Any]) -> None:
    shift = summary["measurements"]["main_ioi-symbols_shift"]
    assert shift["value"] == 0.5
    assert shift["interval"]["low"] <= 0.5 <= shift["interval"]["high"]
    assert shift["files"] == ["heads/toy-removal-all/answers.jsonl"]


def test_the_top_head_is_measured_with_its_interval(summary: dict[str, Any]) -> None:
    assert summary["measurements"]["main_top_induction"]["note"] == "head 3.1"
    assert "main_top_copying" not in summary["measurements"], "a score without an interval is no measurement"


def test_curves_begin_where_nothing_is_removed_and_know_every_draw(summary: dict[str, Any]) -> None:
    chosen = [curve for curve in summary["curves"] if (curve["task"], curve["metric"]) == ("ioi-symbols", "choice")]
    by_set = {curve["set"]: curve["points"] for curve in chosen}
    assert [point["count"] for point in by_set["induction"]] == [0, 2]
    assert by_set["matched"][1]["draws"] == [0.75, 1.0]
    assert {curve["heads"] for curve in chosen} == {20}


def test_the_authors_curves_are_laid_over_the_share_of_heads(summary: dict[str, Any]) -> None:
    assert summary["published"] == [
        {"task": "ioi-names", "model": "llama", "share": [0.0, 0.1], "accuracy": [1.0, 0.5]}
    ]
