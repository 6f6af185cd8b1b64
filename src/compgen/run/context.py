"""What a job sees of the run layer: its inputs, its directory, and where to put what it measures.

Job modules import this file and nothing else of `run`, so that a change of manifests, locks or tracking
leaves the results of finished jobs valid.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

MANIFEST = "manifest.json"
METRICS = "metrics.json"
HISTORY = "history.jsonl"


def read_json(path: Path) -> Any:
    """The value stored in a UTF-8 JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class FinishedJob:
    """A finished output directory, read-only."""

    directory: Path

    @property
    def name(self) -> str:
        """The directory's own name, for example `train-two-layer-seed0`."""
        return self.directory.name

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """Everything that is recorded about how the job ran."""
        manifest: dict[str, Any] = read_json(self.directory / MANIFEST)
        return manifest

    @property
    def kind(self) -> str:
        """The kind of job, for example `copying_train`."""
        return str(self.manifest["kind"])

    @property
    def config(self) -> dict[str, Any]:
        """The job's resolved configuration."""
        config: dict[str, Any] = self.manifest["config"]
        return config

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What the job returned."""
        metrics: dict[str, Any] = read_json(self.directory / METRICS)
        return metrics

    def history(self) -> list[dict[str, Any]]:
        """The rows that the job logged, in order."""
        path = self.directory / HISTORY
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


class Checkpoint(Protocol):
    """A resumable state that survives a kill. Saving is atomic; there is one state at a time."""

    def load(self) -> dict[str, Any] | None:
        """The last saved state (tensors on the CPU), or None where there is none yet."""

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the saved state: nested dicts, lists, numbers, strings and tensors only."""

    def due(self) -> bool:
        """Whether enough wall time has passed since the last save to pay for another."""


class JobContext(Protocol):
    """The world of one running job."""

    directory: Path
    """Where artifacts go. It becomes the finished directory when the job returns."""

    inputs: Mapping[str, FinishedJob]
    """Finished jobs by the names of their directories, in the order given, verified against their manifests."""

    checkpoint: Checkpoint

    def log(self, values: Mapping[str, float | int]) -> None:
        """Add one row to history.jsonl and to the tracker.

        Keys are `group/name`; each group has its own step, `group/step`, present in every row.
        """

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Store a table of samples as tables/<name>.json and in the tracker."""

    def progress(self, done: int, total: int, note: str = "") -> None:
        """Tell how far the job is; prints an estimate of the time that is left, not more often than useful."""
