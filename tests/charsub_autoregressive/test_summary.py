"""The summary on small synthetic evaluations whose answers are known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compgen.charsub.autoregressive.summary import Seeds, _first_below, _predicted, _share
from compgen.run.context import FinishedJob
from compgen.run.workspace import write_json

SEEDS = (3, 1)


@pytest.fixture
def jobs(tmp_path: Path) -> list[FinishedJob]:
    """Two seeds; the composed model is right on 3 of 4 strings for seed 1 and on 1 of 4 for seed 3."""
    found = []
    for seed in SEEDS:
        directory = tmp_path / f"autoregressive-evaluate-seed{seed}"
        directory.mkdir()
        right = np.array([True, seed == 1, seed == 1, False])
        np.savez(directory / "items.npz", **{"finetuned/experts/2/composed": right})
        cell = {"regime": "finetuned", "sweep": "experts", "setting": 2, "arm": "composed", "premature": 0.25 * seed}
        (directory / "cells.jsonl").write_text(json.dumps(cell) + "\n", encoding="utf-8")
        write_json(directory / "metrics.json", {"seed": seed, "regions": [], "projections": []})
        write_json(directory / "manifest.json", {"kind": "charsub_autoregressive_evaluate"})
        found.append(FinishedJob(directory))
    return found


def test_seeds_are_ordered_and_means_are_over_seeds(jobs: list[FinishedJob]) -> None:
    seeds = Seeds(jobs, resamples=200)
    assert seeds.numbers == [1, 3]
    exact = seeds.exact("finetuned", "experts", 2, "composed")
    assert exact["value"] == pytest.approx((0.75 + 0.25) / 2)
    assert exact["n"] == 8
    assert exact["interval"]["low"] <= 0.5 <= exact["interval"]["high"]


def test_cells_are_found_by_regime_sweep_setting_and_arm(jobs: list[FinishedJob]) -> None:
    seeds = Seeds(jobs, resamples=200)
    assert [cell["premature"] for cell in seeds.cell("finetuned", "experts", 2, "composed")] == [0.25, 0.75]
    assert seeds.settings("finetuned", "experts") == [2]
    assert seeds.settings("scratch", "experts") == []


def test_the_predicted_exact_match_multiplies_independent_steps() -> None:
    pairs: list[dict[str, Any]] = [{"holds": {"active": [[9, 10]], "inactive": [[10, 10]], "end": [[4, 8]]}}]
    assert _predicted(pairs, 0, 3) == pytest.approx((3 / 27 * 0.9 + 24 / 27) ** 16 * 0.5)


def test_the_break_is_the_first_k_below_one_half() -> None:
    assert _first_below([1.0, 0.8, 0.49, 0.9]) == 3
    assert _first_below([1.0, 0.8]) == 3


def test_shares_of_nothing_are_zero() -> None:
    assert _share({"first": 3, "other": 1}, "first") == 0.75
    assert _share({"first": 0, "other": 0}, "first") == 0.0
