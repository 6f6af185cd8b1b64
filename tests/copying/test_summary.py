"""What the summary and the figures make of finished training jobs, with curves and errors written by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from compgen.copying.results import COUNTS
from compgen.copying.summary import arms_of, summarize
from compgen.report.figure import RunTree, draw_svg
from compgen.report.sections import copying
from compgen.run.context import FinishedJob

STEPS = [0, 1, 1000, 2000, 3000, 4000]
OOD = {0: [0.98, 0.98, 0.98, 0.97, 0.4, 0.04], 1: [0.98, 0.98, 0.97, 0.95, 0.6, 0.06]}
SEQUENCES = 40


def errors_by(error: list[float | None]) -> dict[str, Any]:
    return {"error": error, "n": [0 if e is None else 10 for e in error]}


def write_run(root: Path, name: str, seed: int, ood: list[float], sets: tuple[str, ...] = ("id", "ood")) -> FinishedJob:
    """A finished training job whose in-distribution error is the other one plus .02."""
    directory = root / "copying" / f"train-{name}-seed{seed}"
    directory.mkdir(parents=True)
    rows = []
    for step, error in zip(STEPS, ood, strict=True):
        row: dict[str, float] = {"evaluation/step": step}
        for test_set in sets:
            aligned = error + (0 if test_set == "ood" else 0.02)
            row |= {f"evaluation/{test_set}_aligned": aligned, f"evaluation/{test_set}_authors": aligned + 0.04}
            row[f"evaluation/{test_set}_loss"] = 4 * aligned
        rows += [row, {"train/step": step, "train/loss": 3.0}]
    (directory / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    final: dict[str, Any] = {}
    counts = {}
    for test_set in sets:
        value = rows[-2][f"evaluation/{test_set}_aligned"]
        wrong = torch.full((SEQUENCES,), 21 * value, dtype=torch.float64)
        for kind, shift in (("aligned", 0.0), ("authors", 0.04)):
            counts[f"{test_set}_{kind}_wrong"] = wrong + 21 * shift
            counts[f"{test_set}_{kind}_judged"] = torch.full((SEQUENCES,), 21.0, dtype=torch.float64)
        final[test_set] = {
            "aligned": {"value": value, "n": 21 * SEQUENCES},
            "authors": {"value": value + 0.04, "n": 21 * SEQUENCES},
            "loss": 3.0,
            "sequences": SEQUENCES,
            "error_by_offset": errors_by([0.95, 0.5, 0.3, 0.2, *[value] * 21, None, None]),
            "error_by_token": errors_by([value, None, value, value + 0.1 * seed]),
        }
    save_file(counts, directory / COUNTS)
    (directory / "metrics.json").write_text(json.dumps({"steps": STEPS[-1], "final": final}), encoding="utf-8")
    manifest = {"kind": "copying_train", "config": {"seed": seed}}
    (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return FinishedJob(directory)


@pytest.fixture
def jobs(tmp_path: Path) -> list[FinishedJob]:
    return [
        *(write_run(tmp_path, "two-layer", seed, ood) for seed, ood in OOD.items()),
        write_run(tmp_path, "one-layer", 0, [0.95] * 6),
        write_run(tmp_path, "pool1000", 0, [0.98, 0.98, 0.9, 0.5, 0.1, 0.03], ("id", "ood", "pool")),
    ]


def test_runs_that_differ_only_in_the_seed_make_an_arm(jobs: list[FinishedJob]) -> None:
    arms = arms_of(jobs)
    assert {name: arm.seeds for name, arm in arms.items()} == {"one-layer": [0], "pool1000": [0], "two-layer": [0, 1]}


def test_measurements_are_means_over_seeds_with_intervals_that_hold_them(jobs: list[FinishedJob]) -> None:
    found = summarize(jobs)["measurements"]
    assert found["ood_error_two_layer"]["value"] == pytest.approx(0.05)
    assert found["ood_error_two_layer"]["n"] == 2
    assert found["ood_error_two_layer_step2000"]["value"] == pytest.approx(0.96)
    assert found["id_error_two_layer_step4000"]["value"] == pytest.approx(0.07)
    assert found["ood_minus_id_two_layer"]["value"] == pytest.approx(-0.02)
    assert found["ood_floor_two_layer"]["value"] == pytest.approx(0.04)
    for name, entry in found.items():
        if entry["interval"]:
            assert entry["interval"]["low"] <= entry["value"] + 1e-12, name
            assert entry["interval"]["high"] >= entry["value"] - 1e-12, name


def test_a_single_run_borrows_the_spread_of_the_reference_seeds_at_its_step(jobs: list[FinishedJob]) -> None:
    entry = summarize(jobs)["measurements"]["ood_error_pool1000"]
    reach = 12.706 * np.std([0.04, 0.06], ddof=1)  # t with one degree of freedom, from a table
    assert entry["interval"]["low"] == 0.0
    assert entry["interval"]["high"] == pytest.approx(0.03 + reach, rel=1e-4)
    assert "one seed" in entry["note"]
    assert "copying/train-two-layer-seed1/metrics.json" in entry["files"]


def test_a_single_run_without_reference_has_an_interval_over_its_test_sequences_and_says_so(
    jobs: list[FinishedJob],
) -> None:
    entry = summarize(jobs[3:])["measurements"]["pool_error_pool1000"]
    assert entry["n"] == SEQUENCES
    assert "one seed" in entry["interval"]["method"]
    assert "does not hold the spread over seeds" in entry["note"]


def test_the_lead_of_a_pool_compares_equal_seeds_at_the_early_step(jobs: list[FinishedJob]) -> None:
    assert summarize(jobs)["measurements"]["pool1000_lead"]["value"] == pytest.approx(0.5 - 0.97)


def test_measurements_of_other_jobs_are_taken_over(jobs: list[FinishedJob], tmp_path: Path) -> None:
    other = tmp_path / "copying" / "transition"
    other.mkdir()
    (other / "manifest.json").write_text('{"kind": "copying_transition", "config": {}}', encoding="utf-8")
    entry = {"value": 2500.0, "interval": None, "n": 2, "seeds": [0, 1]}
    (other / "metrics.json").write_text(json.dumps({"measurements": {"step": entry}}), encoding="utf-8")
    assert summarize([*jobs, FinishedJob(other)])["measurements"]["step"] == entry


def test_curves_and_profiles_are_means_over_runs_with_bands(jobs: list[FinishedJob]) -> None:
    arm = summarize(jobs)["arms"]["two-layer"]
    assert arm["curves"]["step"] == STEPS
    assert arm["curves"]["n"] == [2] * len(STEPS)
    np.testing.assert_allclose(arm["curves"]["ood_aligned"]["mean"], np.mean(list(OOD.values()), 0))
    assert arm["runs"][1]["ood"] == OOD[1]
    by_token = arm["error_by_token"]["ood"]
    assert by_token["mean"] == pytest.approx([0.05, None, 0.05, 0.1])
    assert by_token["n"] == [20, 0, 20, 20]
    assert by_token["low"][3] == pytest.approx(0.04)
    assert by_token["high"][3] == pytest.approx(0.16)


def test_the_summary_is_plain_finite_json(jobs: list[FinishedJob]) -> None:
    summary = summarize(jobs)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_every_figure_draws_and_those_of_absent_runs_are_left_out(jobs: list[FinishedJob], tmp_path: Path) -> None:
    assert copying.figures(RunTree(tmp_path)) == []
    for chosen, expected in ((jobs, True), (jobs[:3], False)):
        directory = tmp_path / "copying" / "summary"
        directory.mkdir(exist_ok=True)
        (directory / "manifest.json").write_text('{"kind": "copying_summary", "config": {}}', encoding="utf-8")
        (directory / "metrics.json").write_text(json.dumps(summarize(chosen)), encoding="utf-8")
        figures = copying.figures(RunTree(tmp_path))
        names = [figure.name for figure in figures]
        assert len(set(names)) == len(names) >= 6
        assert ("copying-pool-final" in names) is expected
        for figure in figures:
            assert draw_svg(figure, tmp_path).startswith("<?xml")
