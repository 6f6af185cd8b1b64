"""The studies on finished training runs: small real runs, made here, with what must come out."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from compgen.copying.causal_config import InterventionConfig, MeasureConfig, ShiftConfig, TransitionConfig
from compgen.copying.causality import check_runs
from compgen.copying.config import CopyingTrainConfig, DataConfig, EvaluationConfig, TrainConfig
from compgen.copying.progress import maps, measure_runs
from compgen.copying.shift import draw_conditions, measure_shifts
from compgen.copying.training import Trainer
from compgen.copying.transitions import describe
from compgen.run.context import FinishedJob
from compgen.run.fingerprint import canonical_json
from compgen.run.workspace import write_json

MEASURE = MeasureConfig(sequences=6, null_draws=50, null_models=3, full_steps=[0, 6], map_sequences=2)
SHIFT = ShiftConfig(sequences=6, lengths=[10, 25], gaps=[1, 8], contexts=[64, 96])


class Context:
    inputs: dict[str, FinishedJob] = {}  # noqa: RUF012

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.checkpoint = self

    def load(self) -> None: ...

    def due(self) -> bool:
        return False

    def log(self, values: dict[str, float]) -> None:
        with (self.directory / "history.jsonl").open("a", encoding="utf-8") as history:
            history.write(canonical_json(values) + "\n")

    def progress(self, done: int, total: int, note: str = "") -> None: ...


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[FinishedJob]:
    """Two seeds of a two-layer model after six steps."""
    jobs = []
    for seed in (0, 1):
        config = CopyingTrainConfig(
            seed=seed,
            train=TrainConfig(steps=6, batch=4),
            evaluation=EvaluationConfig(every=2, sequences=8, final_sequences=8, checkpoint_every=3),
        )
        directory = tmp_path_factory.mktemp("runs") / f"train-two-layer-seed{seed}"
        Trainer(config, Context(directory)).run()  # type: ignore[arg-type]
        write_json(directory / "manifest.json", {"kind": "copying_train", "config": asdict(config)})
        jobs.append(FinishedJob(directory))
    return jobs


def ignore(done: int, total: int) -> None: ...


def test_progress_is_measured_at_every_checkpoint_and_an_untrained_model_lies_within_its_null(
    runs: list[FinishedJob],
) -> None:
    found = measure_runs(runs, MEASURE, ignore)
    run = found["runs"]["train-two-layer-seed0"]
    assert run["step"] == [0, 1, 2, 3, 6]
    assert len(run["match_rms"]) == 5
    null = found["nulls"]["subspaces"]["rms"]
    assert null[9]["median"] == pytest.approx((10 / 64) ** 0.5, abs=0.03)  # mean of rms² is rank/width
    assert run["match_rms"][0] == pytest.approx((10 / 64) ** 0.5, abs=0.12)
    assert found["measurements"]["induction_initial"]["n"] == 2
    canonical_json(found)


def test_maps_hold_attention_that_sums_to_one_and_the_product_of_the_two_weights(runs: list[FinishedJob]) -> None:
    stored = maps(runs[0], MEASURE)
    torch.testing.assert_close(stored["after_attention1"].sum(-1), torch.ones(2, 64))
    torch.testing.assert_close(stored["after_product"], stored["after_query_key"] @ stored["after_output_value"])


def test_causal_checks_report_every_intervention_for_every_seed(runs: list[FinishedJob]) -> None:
    config = InterventionConfig(sequences=6, projection_ranks=[4, 64], random_subspaces=2)
    found = check_runs(runs, config, ignore)
    run = found["runs"]["train-two-layer-seed1"]
    whole = run["projections"][1]
    assert whole["keep_bridge"] == pytest.approx(run["intact"], abs=0.02)  # all 64 dimensions kept: nothing changed
    assert {"ood_error_cut_keys", "ood_error_only_keys", "remove_bridge_excess_error"} <= found["measurements"].keys()
    canonical_json(found)


def test_shift_conditions_differ_from_the_training_law_in_what_they_say() -> None:
    sets = draw_conditions(DataConfig(), SHIFT)
    assert set(sets["length_only"].lengths.tolist()) == {25}
    assert bool((sets["law_only"].lengths <= 19).all())
    gap = sets["gap_8"].starts[:, 1] - sets["gap_8"].starts[:, 0] - sets["gap_8"].lengths
    assert set(gap.tolist()) == {8}
    assert sets["context_96"].tokens.shape[1] == 96
    rare = sets["rare_tokens"]
    assert all(int(row[start]) >= 56 for row, start in zip(rare.tokens, rare.starts[:, 0], strict=True))
    assert sets["three_copies"].starts.shape[1] == 3


def test_shifts_are_measured_on_every_seed(runs: list[FinishedJob]) -> None:
    found = measure_shifts(runs, SHIFT, ignore)
    assert found["measurements"]["error_both"]["n"] == 2
    assert found["measurements"]["error_both"]["value"] > 0.9  # hardly trained
    canonical_json(found)


def synthetic(directory: Path, kind: str, config: dict[str, Any], metrics: dict[str, Any], fall: int) -> FinishedJob:
    """A finished run whose errors fall from .98 to .02 at a step."""
    directory.mkdir(parents=True)
    rows = [
        {"evaluation/step": step, "evaluation/ood_aligned": ood, "evaluation/id_aligned": ood + 0.01}
        for step in range(0, 6001, 200)
        for ood in [0.98 if step < fall else 0.02]
    ]
    (directory / "history.jsonl").write_text("".join(canonical_json(row) + "\n" for row in rows), encoding="utf-8")
    write_json(directory / "manifest.json", {"kind": kind, "config": config})
    write_json(directory / "metrics.json", metrics)
    return FinishedJob(directory)


def test_transitions_are_found_where_they_were_put(tmp_path: Path) -> None:
    names = ("previous", "induction", "match_largest", "match_rms", "diagonal")
    steps = list(range(0, 6001, 400))
    measures = {
        f"train-two-layer-seed{seed}": {
            "arm": "two-layer", "seed": seed, "step": steps,
            **{name: [0.1 if s < 2000 else 0.9 for s in steps] for name in names},
        }
        for seed in (0, 1)
    }  # fmt: skip
    jobs = [
        synthetic(tmp_path / f"train-two-layer-seed{seed}", "copying_train", {"seed": seed}, {}, fall)
        for seed, fall in ((0, 3000), (1, 3400))
    ]
    jobs.append(synthetic(tmp_path / "progress", "copying_measure", {}, {"runs": measures}, 1000))
    for mode, fall in (("previous", 1000), ("forbid", 9000)):
        config = {"seed": 0, "clamp": {"mode": mode}}
        jobs.append(synthetic(tmp_path / f"clamp-{mode}-seed0", "copying_clamp_train", config, {}, fall))

    found = describe(jobs, TransitionConfig(resamples=200))

    measured = found["measurements"]
    assert measured["transition_step"]["value"] == pytest.approx(3100, abs=100)
    assert measured["transition_probability"]["value"] == 1
    assert measured["share_previous_before_ood"]["value"] == 1
    assert measured["clamp_previous_delay"]["value"] == pytest.approx(-2000, abs=1)
    assert measured["clamp_forbid_ood_error"]["value"] == pytest.approx(0.98)
    assert found["order"][-2:] in (["ood", "id"], ["id", "ood"])
    canonical_json(found)
