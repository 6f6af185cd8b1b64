"""Bridge measurements from answers made by hand."""

import json
from pathlib import Path
from typing import Any

import pytest

from compgen.heads.bridging import drawn, measurements
from compgen.run.context import FinishedJob

ACCURACY = {
    ("none", 0, 0): [1.0, 0.8],
    ("remove-bridge", 4, 0): [0.0, 0.2],
    ("remove-random", 4, 0): [0.9, 0.7],
    ("remove-random", 4, 1): [0.7, 0.7],
    ("keep-bridge", 4, 0): [0.8, 0.6],
    ("keep-random", 4, 0): [0.0, 0.0],
    ("keep-random", 4, 1): [0.2, 0.0],
    **{(f"within-{circuit}", 0, 0): [0.5, 0.5] for circuit in ("query_key", "output_value")},
    **{(f"outside-{circuit}", 0, 0): [0.1, 0.3] for circuit in ("query_key", "output_value")},
}


@pytest.fixture
def job(tmp_path: Path) -> FinishedJob:
    directory = tmp_path / "heads" / "toy-bridge"
    directory.mkdir(parents=True)
    rows = [
        {"edit": edit, "rank": rank, "draw": draw, "id": str(place), "accuracy": value}
        for (edit, rank, draw), values in ACCURACY.items()
        for place, value in enumerate(values)
    ]
    (directory / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def pair(later: str, value: float) -> dict[str, Any]:
        return {"later": later, "earlier": "0.0", "diagonal": value, "match": value / 4, "composition": value / 8}

    pairs = {
        "top": [pair("1.0", 3.0), pair("1.0", 1.0), pair("1.1", 1.0)],
        "random": [pair("1.2", 0.5), pair("1.3", 0.3), pair("1.2", 0.4)],
        "initial": [pair("1.0", 0.0)],
    }
    metrics = {"seed": 0, "pairs": pairs, "reached": {"chosen": 1, "keys": 1, "reached": 2, "heads": 8}}
    (directory / "metrics.json").write_text(json.dumps(metrics))
    (directory / "manifest.json").write_text(json.dumps({"kind": "heads_bridge", "config": {}}))
    return FinishedJob(directory)


def test_projections_are_compared_sequence_by_sequence_over_all_draws(job: FinishedJob) -> None:
    found = measurements(job, "main", 500)
    assert found["main_random_minus_bridge_removed_4"]["value"] == pytest.approx(0.75 - 0.1)
    assert found["main_bridge_minus_random_kept_4"]["value"] == pytest.approx(0.7 - 0.05)
    assert found["main_bridge_kept_minus_removed_4"]["value"] == pytest.approx(0.6)
    assert found["main_within_minus_outside_query_key"]["value"] == pytest.approx(0.3)
    assert found["main_lost_within_output_value"]["value"] == pytest.approx(0.4)
    assert found["main_remove_random_4"]["n"] == 4


def test_fits_are_compared_with_random_pairs_head_by_head(job: FinishedJob) -> None:
    fit = measurements(job, "main", 500)["main_diagonal_top_minus_random"]
    assert fit["value"] == pytest.approx(((3 + 1) / 2 - 0.4 + 1 - 0.4) / 2)
    assert "p = 0.25 among random pairs" in fit["note"]
    assert fit["interval"]["low"] <= fit["value"] <= fit["interval"]["high"]


def test_figures_get_every_pair_rank_and_exchange(job: FinishedJob) -> None:
    shown = drawn(job, 500)
    assert {name: len(rows) for name, rows in shown["pairs"].items()} == {"top": 3, "random": 3, "initial": 1}
    assert [point["rank"] for point in shown["projections"]["keep-bridge"]] == [4]
    assert shown["exchanges"]["none"]["value"] == pytest.approx(0.9)
