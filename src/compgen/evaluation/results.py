"""The judged answers of all arms and seeds, as vectors over samples that can be compared.

Covers reading the outputs of scoring jobs and comparing two arms on the same samples, which is refused where their
protocols differ. What is measured with it is in `summary.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compgen.errors import UserError
from compgen.evaluation.protocol import Extraction, TaskProtocol, require_comparable
from compgen.evaluation.samples import Outcome, Score, read_scores
from compgen.inputs import SCORE, of_kind
from compgen.run.context import FinishedJob
from compgen.statistics import cluster_bootstrap_mean, mcnemar

Vector = NDArray[np.float64]
Key = tuple[str, str, str]
"""Protocol, arm, benchmark."""


@dataclass(frozen=True)
class Cell:
    """One arm of one seed on one benchmark under one protocol."""

    scores: tuple[Score, ...]
    protocol: TaskProtocol
    facts: dict[str, Any]
    """What the scoring job counted: stop reasons, premature stops, samples of the whole benchmark."""
    file: str

    @property
    def errors(self) -> int:
        """How many samples the infrastructure failed on."""
        return sum(score.outcome is Outcome.error for score in self.scores)

    def vector(self, metric: str | None = None) -> Vector:
        """One value a sample: right or not by the protocol's extraction, or another scorer's value."""
        if metric is None:
            return np.array([score.outcome is Outcome.correct for score in self.scores], dtype=np.float64)
        return np.array([score.metrics[metric] for score in self.scores], dtype=np.float64)


class Results:
    """Every cell of a run, by protocol, arm, benchmark and seed."""

    def __init__(self, jobs: Sequence[FinishedJob], resamples: int) -> None:
        """Read the scoring jobs among some finished jobs.

        Raises:
            UserError: there is none.
        """
        self.resamples = resamples
        self._cells: dict[Key, dict[int, Cell]] = {}
        for job in of_kind(jobs, SCORE):
            self._read(job)
        if not self._cells:
            raise UserError(f"inputs={[job.name for job in jobs]}: name at least one finished job of kind {SCORE}")

    def _read(self, job: FinishedJob) -> None:
        for unit in job.metrics["units"]:
            key = (unit["protocol_name"], unit["arm"], unit["benchmark"])
            file = job.directory / unit["file"]
            cell = Cell(
                scores=tuple(read_scores(file)),
                protocol=protocol_from(unit["protocol"]),
                facts=unit,
                file=_relative(job, file),
            )
            seeds = self._cells.setdefault(key, {})
            if unit["seed"] in seeds:
                raise UserError(
                    f"{job.name}: arm {unit['arm']} on {unit['benchmark']} was scored twice for seed {unit['seed']}"
                )
            seeds[unit["seed"]] = cell

    @property
    def keys(self) -> list[Key]:
        """All (protocol, arm, benchmark), in order."""
        return sorted(self._cells)

    @property
    def seeds(self) -> list[int]:
        """All seeds."""
        return sorted({seed for cells in self._cells.values() for seed in cells})

    def has(self, protocol: str, arm: str, benchmark: str) -> bool:
        """Whether the arm was measured."""
        return (protocol, arm, benchmark) in self._cells

    def cells(self, protocol: str, arm: str, benchmark: str) -> dict[int, Cell]:
        """The cells of all seeds."""
        return self._cells[(protocol, arm, benchmark)]

    def accuracy(self, protocol: str, arm: str, benchmark: str, metric: str | None = None) -> dict[str, Any]:
        """The share of right answers, or the mean of another scorer's value."""
        return self.mean([(protocol, arm, benchmark)], lambda cell: cell.vector(metric))

    def mean(
        self, keys: Sequence[Key], values: Callable[[Cell], Vector], note: str = "", differences: bool = False
    ) -> dict[str, Any]:
        """A measurement over all samples of some cells, seeds resampled first; `differences` as in the bootstrap."""
        seeds = sorted(set.intersection(*(set(self._cells[key]) for key in keys)))
        chosen = [[self._cells[key][seed] for key in keys] for seed in seeds]
        vectors = [np.concatenate([values(cell) for cell in cells]) for cells in chosen]
        used = [cell for cells in chosen for cell in cells]
        return self._measurement(vectors, seeds, used, note, differences)

    def difference(
        self,
        first: Sequence[Key],
        second: Sequence[Key],
        metric: str | None = None,
    ) -> dict[str, Any]:
        """The first arm's accuracy minus the second's, sample by sample, with McNemar's p value in the note.

        Raises:
            ConfigError: the arms were measured under different protocols.
        """
        seeds = sorted(set.intersection(*(set(self._cells[key]) for key in (*first, *second))))
        vectors, pairs, used = [], [], []
        for seed in seeds:
            parts = []
            for ours, theirs in zip(first, second, strict=True):
                a, b = self._cells[ours][seed], self._cells[theirs][seed]
                require_comparable(ours[1], a.protocol, theirs[1], b.protocol)
                if [score.id for score in a.scores] != [score.id for score in b.scores]:
                    raise UserError(f"{ours[1]} and {theirs[1]} answered different samples of {ours[2]}")
                parts.append(a.vector(metric) - b.vector(metric))
                pairs.append((a.vector(metric), b.vector(metric)))
                used += [a, b]
            vectors.append(np.concatenate(parts))
        p = mcnemar(np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs]))
        note = f"paired by sample; McNemar p = {p:.2g} over the pooled samples"
        return self._measurement(vectors, seeds, used, note, differences=True)

    def contrast(self, first: Key, second: Key, values: Callable[[Cell], Vector], note: str) -> dict[str, Any]:
        """The mean over samples of a quantity of the first arm minus that of the second.

        Raises:
            ConfigError: the arms were measured under different protocols.
        """
        seeds = sorted(set(self._cells[first]) & set(self._cells[second]))
        pairs = [(self._cells[first][seed], self._cells[second][seed]) for seed in seeds]
        for a, b in pairs:
            require_comparable(first[1], a.protocol, second[1], b.protocol)
        used = [cell for pair in pairs for cell in pair]
        return self._measurement([values(a) - values(b) for a, b in pairs], seeds, used, note, differences=True)

    def seed_means(self, protocol: str, arm: str, benchmark: str) -> dict[int, float]:
        """An arm's accuracy by seed."""
        return self.seed_means_over([(protocol, arm, benchmark)])

    def seed_means_over(self, chosen: Sequence[Key]) -> dict[int, float]:
        """Accuracy over the samples of some cells, by seed."""
        return {
            seed: float(np.concatenate([self._cells[key][seed].vector() for key in chosen]).mean())
            for seed in sorted(set.intersection(*(set(self._cells[key]) for key in chosen)))
        }

    def _measurement(
        self, vectors: list[Vector], seeds: list[int], cells: list[Cell], note: str, differences: bool
    ) -> dict[str, Any]:
        errors = sum(cell.errors for cell in cells)
        files = sorted({cell.file for cell in cells})
        n = sum(map(len, vectors))
        if errors:
            note = f"{errors} of {n} answers could not be judged: the value is withheld until they are"
            return {"value": None, "interval": None, "n": n, "seeds": seeds, "files": files, "note": note}
        interval = cluster_bootstrap_mean(vectors, resamples=self.resamples, differences=differences).as_dict()
        value = float(np.mean([vector.mean() for vector in vectors]))
        found = {"value": value, "interval": interval, "n": n, "seeds": seeds, "files": files}
        return {**found, "note": note} if note else found


def _relative(job: FinishedJob, file: Path) -> str:
    return f"{job.directory.parent.name}/{job.name}/{file.relative_to(job.directory).as_posix()}"


def protocol_from(values: dict[str, Any]) -> TaskProtocol:
    """A task's protocol from its plain values."""
    return TaskProtocol(**{**values, "stop": tuple(values["stop"]), "extraction": Extraction(values["extraction"])})
