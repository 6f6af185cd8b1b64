"""A tiny job kind for the tests of the run layer: it sums numbers, and can be made to fail or to be killed."""

import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compgen.run.config import TrackerConfig
from compgen.run.context import JobContext
from compgen.run.execute import JobOrder

Runner = Callable[[Any, JobContext], Mapping[str, Any]]


@dataclass
class SumConfig:
    numbers: list[int]


def run_sum(config: SumConfig, context: JobContext) -> dict[str, Any]:
    (context.directory / "numbers.txt").write_text(" ".join(map(str, config.numbers)), encoding="utf-8")
    for step, number in enumerate(config.numbers):
        context.log({"sum/step": step, "sum/value": number})
    before = sum(job.metrics["sum"] for job in context.inputs.values())
    return {"sum": before + sum(config.numbers)}


@pytest.fixture
def job_module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """The module of the job kind `sum`; tests may replace its `run`."""
    module = types.ModuleType("compgen.jobs.sum")
    module.run = run_sum  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "compgen.jobs.sum", module)
    return module


@pytest.fixture
def order(tmp_path: Path, job_module: types.ModuleType) -> Callable[..., JobOrder]:
    """Build a job order below tmp_path; keyword arguments replace its fields."""

    def build(
        *numbers: int,
        out: str | None = "run/sum/job",
        inputs: Mapping[str, Path] | None = None,
        **changes: Any,
    ) -> JobOrder:
        values: dict[str, Any] = {
            "kind": "sum",
            "config": SumConfig(list(numbers)),
            "values": {"numbers": list(numbers)},
            "inputs": inputs or {},
            "out": tmp_path / out if out else None,
            "run_name": "run",
            "run_directory": tmp_path / "run",
            "profile": "smoke",
            "command": "python -m compgen job=sum",
            "tracker": TrackerConfig(enabled=False),
        }
        return JobOrder(**{**values, **changes})

    return build
