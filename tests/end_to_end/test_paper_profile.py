"""The paper's own study on tiny checkpoints: its jobs and configuration files as they are, other models and sizes.

The smoke run's base and experts stand in for the hub's models, its questions for the real ones.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compgen.commands import open_run
from compgen.config import compose_root, resolve_job
from compgen.evaluation.preflight import Machine
from compgen.launch import run_resolved
from compgen.run.context import FinishedJob
from compgen.run.dag import DagJob
from compgen.run.paths import project_root

STAND_INS = {
    "base": "base-seed0/model", "math": "expert-math-seed0/model", "code": "expert-code-seed0/model",
    "instruction": "expert-sequences-seed0/model", "multilingual": "expert-records-seed0/model",
    "safety": "merge-seed0/merges/linear",
}  # fmt: skip
TASKS = ("gsm8k", "math", "humaneval_plus", "mbpp_plus")
SIZES = [
    "composition.evaluation.limit=1",
    *(f"protocol.controlled.single.{task}.max_new_tokens=3" for task in TASKS),
    *(f"protocol.authors.{arms}.{task}.max_new_tokens=3" for arms in ("single", "composed") for task in TASKS),
    *(f"protocol.controlled.single.{task}.shots=1" for task in TASKS[:2]),
    "protocol.authors.composed.gsm8k.shots=1",
]
ARMS = {"controlled": ("base", "math", "code", "composed", "ties", "gemma-k5-mean"), "authors": ("base", "composed")}


@pytest.fixture(scope="module")
def dag(make: Any) -> dict[str, DagJob]:
    """The paper profile's jobs of Gemma, by name."""
    outputs = make.outputs
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "WANDB"))}
    command = ["make", "dag-file", "PROFILE=paper", "RUN=paper", f"OUTPUTS={outputs}"]
    subprocess.run(command, cwd=project_root(), env=environment, check=True)
    return {job.name: job for job in open_run(f"{outputs}/paper").jobs if "gemma" in job.name}


def run_job(job: DagJob, models: Path, out: Path, more: list[str]) -> FinishedJob:
    """One job of the paper's DAG with other models and sizes."""
    named = [f"composition.gemma.{name}.source={models}/composition/{place}" for name, place in STAND_INS.items()]
    inputs = [models / "composition/corpus", *(out / name for name in job.inputs)]
    place = [f"out={out / job.name}", f"run.directory={out}", "run.name=paper", "tracker.enabled=false"]
    overrides = [*job.overrides_with_kind, *named, *SIZES, *more, *place, f"inputs=[{','.join(map(str, inputs))}]"]
    return run_resolved(resolve_job(compose_root(overrides)), "test")


def test_the_papers_own_study_runs_on_tiny_checkpoints(
    dag: dict[str, DagJob], smoke_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls, directory: cls(10**12, 10**12)))
    preflight = run_job(dag["composition/gemma-preflight"], smoke_run, tmp_path, [])
    assert preflight.metrics["bytes"].keys() == STAND_INS.keys()
    run_job(dag["composition/gemma-merge"], smoke_run, tmp_path, [])
    scored = []
    for protocol, arms in ARMS.items():
        for arm in arms:
            run_job(
                dag[f"composition/generate-gemma-{protocol}-{arm}"],
                smoke_run,
                tmp_path,
                ["protocol.authors.dtype=float32"],
            )
            scored.append(run_job(dag[f"composition/score-gemma-{protocol}-{arm}"], smoke_run, tmp_path, []))
    assert all(unit["error"] == 0 for job in scored for unit in job.metrics["units"])
