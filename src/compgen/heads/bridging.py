"""What the bridge jobs say: fits of pairs against random ones, and what projections and exchanges cost.

Covers the measurements that claims refer to and the numbers of the figures. Pairs share heads, so that an interval over
pairs is too narrow; the induction heads are resampled instead, each with all its pairs.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compgen.inputs import HEADS_BRIDGE, of_kind
from compgen.run.context import FinishedJob
from compgen.statistics import bootstrap_mean, cluster_bootstrap_mean

Vector = NDArray[np.float64]
ANSWERS = "answers.jsonl"
SCORES = ("diagonal", "match", "composition")
CIRCUITS = ("query_key", "output_value")
PROJECTIONS = ("remove-bridge", "remove-random", "keep-bridge", "keep-random")


class Crossings:
    """The copying of one model under every edit."""

    def __init__(self, job: FinishedJob, resamples: int) -> None:
        """Read a bridge job."""
        self._file = f"{job.directory.parent.name}/{job.name}/{ANSWERS}"
        self._seed, self._resamples = job.metrics["seed"], resamples
        self._rows: dict[tuple[str, int], dict[int, list[float]]] = {}
        for row in map(json.loads, (job.directory / ANSWERS).read_text(encoding="utf-8").splitlines()):
            draws = self._rows.setdefault((row["edit"], row["rank"]), {})
            draws.setdefault(row["draw"], []).append(row["accuracy"])

    @property
    def ranks(self) -> list[int]:
        """Of the projections."""
        return sorted({rank for name, rank in self._rows if name == PROJECTIONS[0]})

    def vectors(self, name: str, rank: int = 0) -> list[Vector]:
        """One vector over sequences for each draw."""
        return [np.array(values, dtype=np.float64) for _, values in sorted(self._rows[name, rank].items())]

    def accuracy(self, name: str, rank: int = 0) -> dict[str, Any]:
        """Copying under an edit."""
        return self._measure(self.vectors(name, rank), False)

    def difference(self, first: tuple[str, int], second: tuple[str, int]) -> dict[str, Any]:
        """The first edit's accuracy minus the second's, sequence by sequence, over all pairs of draws."""
        pairs = [one - two for one in self.vectors(*first) for two in self.vectors(*second)]
        return self._measure(pairs, True)

    def _measure(self, vectors: Sequence[Vector], differences: bool) -> dict[str, Any]:
        interval = cluster_bootstrap_mean(vectors, resamples=self._resamples, differences=differences)
        value = float(np.mean([vector.mean() for vector in vectors]))
        n = sum(map(len, vectors))
        found = {"value": value, "interval": interval.as_dict(), "n": n, "seeds": [self._seed]}
        return {**found, "files": [self._file]}


def measurements(job: FinishedJob, name: str, resamples: int) -> dict[str, Any]:
    """All measurements of one model's bridge job, each beginning with the model's name."""
    crossings = Crossings(job, resamples)
    found = _fits(job, name, resamples)
    for rank in crossings.ranks:
        for edit in PROJECTIONS:
            found[f"{name}_{edit.replace('-', '_')}_{rank}"] = crossings.accuracy(edit, rank)
        pairs = {"random_minus_bridge_removed": ("remove-random", "remove-bridge")}
        pairs |= {"bridge_minus_random_kept": ("keep-bridge", "keep-random")}
        pairs |= {"bridge_kept_minus_removed": ("keep-bridge", "remove-bridge")}
        for label, (first, second) in pairs.items():
            found[f"{name}_{label}_{rank}"] = crossings.difference((first, rank), (second, rank))
    for circuit in CIRCUITS:
        pair = ((f"within-{circuit}", 0), (f"outside-{circuit}", 0))
        found[f"{name}_within_minus_outside_{circuit}"] = crossings.difference(*pair)
        found[f"{name}_lost_within_{circuit}"] = crossings.difference(("none", 0), pair[0])
    return found


def _fits(job: FinishedJob, name: str, resamples: int) -> dict[str, Any]:
    """How much better top pairs fit than random pairs of the same layers; induction heads are resampled."""
    found = {}
    pairs = job.metrics["pairs"]
    for score in SCORES:
        rival = float(np.mean([row[score] for row in pairs["random"]]))
        by_head: dict[str, list[float]] = {}
        for row in pairs["top"]:
            by_head.setdefault(row["later"], []).append(row[score] - rival)
        means = [float(np.mean(values)) for values in by_head.values()]
        interval = bootstrap_mean(means, resamples=resamples).as_dict() if len(means) > 1 else None
        best = max(row[score] for row in pairs["top"])
        null = [row[score] for row in pairs["random"]]
        exceeding = (1 + sum(value >= best for value in null)) / (1 + len(null))
        files = [f"{job.directory.parent.name}/{job.name}/metrics.json"]
        seeds, note = [job.metrics["seed"]], f"best pair {best:.2f}; p = {exceeding:.3g} among random pairs"
        base = {"n": len(pairs["top"]), "seeds": seeds, "files": files, "note": note}
        found[f"{name}_{score}_top_minus_random"] = {"value": float(np.mean(means)), "interval": interval, **base}
    return found


def drawn(job: FinishedJob, resamples: int) -> dict[str, Any]:
    """What the figures show of one model's bridge."""
    crossings = Crossings(job, resamples)
    circuits = [f"{kind}-{circuit}" for circuit in CIRCUITS for kind in ("within", "outside")]
    return {
        "pairs": {name: [_scores(row) for row in rows] for name, rows in job.metrics["pairs"].items()},
        "projections": {
            edit: [{"rank": rank, **crossings.accuracy(edit, rank)} for rank in crossings.ranks] for edit in PROJECTIONS
        },
        "exchanges": {name: crossings.accuracy(name) for name in ("none", *circuits)},
        "reached": job.metrics["reached"],
    }


def _scores(row: Mapping[str, Any]) -> dict[str, float]:
    return {score: row[score] for score in SCORES}


def bridge_jobs(jobs: Sequence[FinishedJob]) -> dict[str, FinishedJob]:
    """The bridge jobs by model."""
    return {job.name.removesuffix("-bridge"): job for job in of_kind(jobs, HEADS_BRIDGE)}
