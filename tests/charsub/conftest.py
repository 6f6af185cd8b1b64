"""A job context without a run layer: files in a temporary directory, and checkpoints that tests can make due."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from compgen.run.context import FinishedJob


class Stopped(Exception):
    """The job was killed."""


class MemoryCheckpoint:
    """Saves to memory through torch's own serialization; may stop the job right after a save."""

    def __init__(self, path: Path, stops_after: int | None = None) -> None:
        self.path, self.stops_after, self.saves = path, stops_after, 0

    def load(self) -> dict[str, Any] | None:
        return torch.load(self.path, weights_only=True) if self.path.exists() else None

    def save(self, state: Mapping[str, Any]) -> None:
        torch.save(dict(state), self.path)
        self.saves += 1
        if self.saves == self.stops_after:
            raise Stopped

    def due(self) -> bool:
        return True


class Context:
    def __init__(self, directory: Path, inputs: Mapping[str, FinishedJob], stops_after: int | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.inputs = inputs
        self.checkpoint = MemoryCheckpoint(directory / "resume.pt", stops_after)
        self.rows: list[dict[str, Any]] = []

    def log(self, values: Mapping[str, float | int]) -> None:
        self.rows.append(dict(values))

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        assert all(len(row) == len(columns) for row in rows)

    def progress(self, done: int, total: int, note: str = "") -> None:
        assert 0 <= done <= total

    def finish(self, kind: str, config: Any, metrics: Mapping[str, Any]) -> FinishedJob:
        """Write what the run layer would write."""
        text = json.dumps(metrics, allow_nan=False)
        (self.directory / "metrics.json").write_text(text, encoding="utf-8")
        manifest = {"kind": kind, "config": asdict(config)}
        (self.directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return FinishedJob(self.directory)


@pytest.fixture
def context(tmp_path: Path) -> Callable[..., Context]:
    """Build a context; the first argument names its directory."""

    def build(name: str = "job", inputs: Sequence[FinishedJob] = (), stops_after: int | None = None) -> Context:
        return Context(tmp_path / name, {job.name: job for job in inputs}, stops_after)

    return build
