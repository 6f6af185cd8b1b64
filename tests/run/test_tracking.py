"""What W&B stored, read back with its own offline reader, against what the job logged."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compgen.errors import UserError
from compgen.run.config import TrackerConfig
from compgen.run.context import FinishedJob, JobContext, read_json
from compgen.run.execute import JobOrder, execute
from compgen.run.paths import JobPaths
from compgen.run.tracking import final_scalars, mode, track, tracked_mode

ROWS = 300


def run_with_two_groups(config: Any, context: JobContext) -> dict[str, Any]:
    """Two groups of metrics whose steps interleave and run backwards against each other."""
    for step in range(ROWS):
        context.log({"train/step": step, "train/loss": 1.0 / (step + 1)})
        context.log({"evaluation/step": ROWS - step, "evaluation/error": step / ROWS})
    context.table("samples", ["prompt", "answer"], [["a", 1], ["b", None]])
    (context.directory / "weights.safetensors").write_bytes(b"\0" * 64)
    return {"measurements": {"error": {"value": 0.25, "interval": {"low": 0.2, "high": 0.3}}}, "note": "text"}


@pytest.fixture(scope="module")
def wandb_command() -> list[str]:
    return [str(Path(sys.executable).with_name("wandb")), "leet", "inspect", "--json"]


def records(command: list[str], job: FinishedJob) -> list[dict[str, Any]]:
    (log,) = JobPaths(job.directory).tracking.rglob("*.wandb")
    output = subprocess.run([*command, str(log.parent)], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@pytest.fixture
def tracked(order: Callable[..., JobOrder], job_module: Any, monkeypatch: pytest.MonkeyPatch) -> FinishedJob:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    job_module.run = run_with_two_groups
    return execute(order(1, tracker=TrackerConfig()))


def test_every_logged_row_is_stored_with_group_kind_tags_config_summary_table_and_artifacts(
    tracked: FinishedJob, wandb_command: list[str]
) -> None:
    stored = records(wandb_command, tracked)
    history = [record for record in stored if record["type"] == "history"]
    text = json.dumps(stored)
    logged = tracked.history()

    assert len(logged) == 2 * ROWS
    assert sum("train/loss" in json.dumps(record) for record in history) == ROWS
    assert sum("evaluation/error" in json.dumps(record) for record in history) == ROWS
    for wanted in (
        "profile-smoke",
        tracked.manifest["fingerprint"],
        "sum-job-result",
        "sum-job-checkpoint",
        "tables/samples",
        '"error"',
    ):
        assert wanted in text, wanted
    (run,) = [record for record in stored if record["type"] == "run"]
    assert '"sum"' in json.dumps(run)


def test_offline_is_the_default_and_a_job_is_written_once(tracked: FinishedJob) -> None:
    place = JobPaths(tracked.directory).tracking
    assert read_json(place / "tracked.json")["mode"] == "offline"
    before = sorted(path.name for path in place.rglob("*"))
    track(tracked, TrackerConfig())
    assert sorted(path.name for path in place.rglob("*")) == before


def test_a_result_that_was_replaced_counts_as_not_written(tracked: FinishedJob, order: Callable[..., JobOrder]) -> None:
    assert tracked_mode(tracked) == "offline"
    replaced = execute(order(2, replace_stale=True))
    assert tracked_mode(replaced) is None


def test_an_unknown_mode_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "sometimes")
    with pytest.raises(UserError, match="WANDB_MODE=sometimes"):
        mode()


def test_final_scalars_name_measurements_by_their_id() -> None:
    metrics = {"measurements": {"error": {"value": 0.5, "interval": {"low": 0.4, "high": 0.6, "method": "x"}, "n": 9}}}
    assert final_scalars(metrics) == {"error": 0.5, "error.interval.low": 0.4, "error.interval.high": 0.6, "error.n": 9}
