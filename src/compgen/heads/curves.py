"""What removal says: curves over the number of removed heads, and the measurements that claims refer to.

Covers reading the answers of removal jobs and comparing conditions prompt by prompt. Every condition answered the same
prompts, so that all differences are paired; draws of a random set are resampled first, then prompts.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compgen.heads.bridging import bridge_jobs, drawn, measurements
from compgen.heads.config import RANDOM_SETS, HeadsSummaryConfig
from compgen.inputs import HEADS_REMOVAL, HEADS_SCORES, of_kind
from compgen.run.context import FinishedJob
from compgen.statistics import cluster_bootstrap_mean

Vector = NDArray[np.float64]
ANSWERS = "answers.jsonl"
METRICS = ("accuracy", "choice", "strict", "greedy")
"""The first of these that a task has is its headline."""
LOG = "log_probability"
INSIDE = {
    "ioi-symbols": "ioi-names",
    "labels-symbols": "labels-original",
    "labels-permuted": "labels-original",
    "fuzzy-upper": "fuzzy-lower",
    "symbolized-symbols": "symbolized-names",
}
"""The twin inside the distribution of each task outside it."""
Key = tuple[str, int, int]
"""Set, count, draw."""
NOTHING: Key = ("none", 0, 0)


@dataclass(frozen=True)
class Answers:
    """All answers to one task, of one model."""

    task: str
    rows: Mapping[Key, list[dict[str, Any]]]
    file: str

    @cached_property
    def headline(self) -> str:
        """The metric that is drawn as accuracy."""
        first = self.rows[NOTHING][0]
        return next(name for name in METRICS if first.get(name) is not None)

    @property
    def metrics(self) -> list[str]:
        """The headline, and the log-probability of the answer where it was read."""
        read = self.rows[NOTHING][0].get(LOG) is not None
        return [self.headline, LOG] if read else [self.headline]

    def vector(self, key: Key, metric: str) -> Vector:
        """One value a prompt, in the order of the prompts."""
        return np.array([row[metric] for row in self.rows[key]], dtype=np.float64)

    def of_set(self, name: str, count: int, metric: str) -> list[Vector]:
        """One vector a draw."""
        keys = sorted(key for key in self.rows if key[:2] == (name, count))
        return [self.vector(key, metric) for key in keys]

    def lost(self, name: str, count: int, metric: str) -> list[Vector]:
        """What removal costs on each prompt, one vector a draw."""
        before = self.vector(NOTHING, metric)
        return [before - after for after in self.of_set(name, count, metric)]

    @property
    def sets(self) -> dict[str, list[int]]:
        """The counts by set, without the condition that removes nothing."""
        found: dict[str, set[int]] = {}
        for name, count, _ in self.rows:
            if name != NOTHING[0]:
                found.setdefault(name, set()).add(count)
        return {name: sorted(counts) for name, counts in found.items()}


def model_of(job: FinishedJob) -> str:
    """The model's name, which begins the names of its jobs."""
    return job.name.partition("-scores")[0].partition("-removal")[0]


def read_answers(jobs: Sequence[FinishedJob]) -> dict[str, dict[str, Answers]]:
    """Every task's answers by model and task."""
    found: dict[str, dict[str, Answers]] = {}
    for job in of_kind(jobs, HEADS_REMOVAL):
        grouped: dict[str, dict[Key, list[dict[str, Any]]]] = {}
        for row in map(json.loads, (job.directory / ANSWERS).read_text(encoding="utf-8").splitlines()):
            key = (row["set"], row["count"], row["draw"])
            grouped.setdefault(row["task"], {}).setdefault(key, []).append(row)
        for task, rows in grouped.items():
            file = f"{job.directory.parent.name}/{job.name}/{ANSWERS}"
            found.setdefault(model_of(job), {})[task] = Answers(task, rows, file)
    return found


class Curves:
    """The answers of every model, compared."""

    def __init__(self, jobs: Sequence[FinishedJob], config: HeadsSummaryConfig) -> None:
        """Read the removal and scores jobs among some finished jobs."""
        self._scores = {model_of(job): job for job in of_kind(jobs, HEADS_SCORES)}
        self._answers = read_answers(jobs)
        self._bridges = bridge_jobs(jobs)
        self._config = config

    def summary(self) -> dict[str, Any]:
        """Curves for the figures, measurements for the claims."""
        found: dict[str, Any] = {}
        for model in self._scores:
            found |= self._top_scores(model)
        for model, tasks in self._answers.items():
            for answers in tasks.values():
                found |= self._losses(model, answers)
            found |= self._shifts(model, tasks)
        for model, job in self._bridges.items():
            found |= measurements(job, self._named(model), self._config.resamples)
        pairs = [(model, one) for model, tasks in self._answers.items() for one in tasks.values()]
        curves = [row for model, one in pairs for row in self._curve(model, one)]
        bridges = {model: drawn(job, self._config.resamples) for model, job in self._bridges.items()}
        shown = {"curves": curves, "lists": self._lists(), "published": self._published(), "bridges": bridges}
        return {"measurements": dict(sorted(found.items())), **shown}

    def _published(self) -> list[dict[str, Any]]:
        """The authors' curves over the share of removed heads."""
        return [
            {
                "task": curve.task,
                "model": curve.model,
                "share": [count / self._config.published_heads[curve.model] for count in curve.counts],
                "accuracy": list(curve.accuracy),
            }
            for curve in self._config.published
        ]

    def _lists(self) -> dict[str, Any]:
        """The first heads of every list, by model and definition."""
        return {model: job.metrics["definitions"] for model, job in self._scores.items()}

    def _measure(self, vectors: Sequence[Vector], files: Sequence[str], differences: bool) -> dict[str, Any]:
        interval = cluster_bootstrap_mean(vectors, resamples=self._config.resamples, differences=differences)
        return {
            "value": float(np.mean([vector.mean() for vector in vectors])),
            "interval": interval.as_dict(),
            "n": sum(map(len, vectors)),
            "seeds": list(range(len(vectors))),
            "files": sorted(set(files)),
        }

    def _named(self, model: str) -> str:
        return "main" if model == self._config.main else model

    def _top_scores(self, model: str) -> dict[str, Any]:
        job = self._scores[model]
        entry = job.metrics["definitions"]["controlled"]
        return {
            f"{self._named(model)}_top_{kind}": {
                "value": rows[0]["score"],
                "interval": rows[0]["interval"],
                "n": entry["sequences"],
                "seeds": [job.config["seed"]],
                "files": [f"{job.directory.parent.name}/{job.name}/lists.json"],
                "note": f"head {rows[0]['layer']}.{rows[0]['head']}",
            }
            for kind, rows in entry["lists"].items()
            if rows[0]["interval"] is not None
        }

    def _losses(self, model: str, answers: Answers) -> dict[str, Any]:
        """What each set costs, and what the induction heads cost beyond it, at the claims' number of heads."""
        prefix = f"{self._named(model)}_{answers.task}"
        found = {f"{prefix}_before": self._before(answers)}
        for metric, suffix in zip(answers.metrics, ("", "_log"), strict=False):
            lost = {name: answers.lost(name, self._config.count, metric) for name in answers.sets}
            for name, vectors in lost.items():
                if vectors:
                    found[f"{self._named(model)}_{answers.task}_lost_{name}{suffix}"] = self._measure(
                        vectors, [answers.file], True
                    )
            if not lost.get("induction"):
                continue
            own = lost["induction"][0]
            for name in [name for name in lost if name != "induction" and lost[name]]:
                excess = [own - other for other in lost[name]]
                found[f"{self._named(model)}_{answers.task}_excess_{name}{suffix}"] = self._measure(
                    excess, [answers.file], True
                )
        return found

    def _before(self, answers: Answers) -> dict[str, Any]:
        return self._measure([answers.vector(NOTHING, answers.headline)], [answers.file], False)

    def _shifts(self, model: str, tasks: Mapping[str, Answers]) -> dict[str, Any]:
        """How much more the task outside the distribution loses than its twin inside, prompt by prompt."""
        found = {}
        for outside, inside in INSIDE.items():
            if outside not in tasks or inside not in tasks:
                continue
            pair = (tasks[outside], tasks[inside])
            for suffix, metric in (("", None), ("_log", LOG)):
                if metric is not None and not all(metric in one.metrics for one in pair):
                    continue
                lost = [one.lost("induction", self._config.count, metric or one.headline) for one in pair]
                if all(lost):
                    files = [one.file for one in pair]
                    found[f"{self._named(model)}_{outside}_shift{suffix}"] = self._measure(
                        [lost[0][0] - lost[1][0]], files, True
                    )
        return found

    def _curve(self, model: str, answers: Answers) -> list[dict[str, Any]]:
        rows = []
        for metric in answers.metrics:
            labels: dict[str, Any] = {"model": model, "task": answers.task, "metric": metric}
            start = self._measure([answers.vector(NOTHING, metric)], [answers.file], False)
            for name, counts in answers.sets.items():
                points = [{"count": 0, **start}]
                points += [self._point(answers, name, count, metric) for count in counts]
                rows.append({**labels, "set": name, "heads": self._heads(model), "points": points})
        return rows

    def _heads(self, model: str) -> int:
        """How many heads a model has."""
        architecture = self._scores[model].metrics["architecture"]
        return int(architecture["layers"]) * int(architecture["query_heads"])

    def _point(self, answers: Answers, name: str, count: int, metric: str) -> dict[str, Any]:
        vectors = answers.of_set(name, count, metric)
        point = {"count": count, **self._measure(vectors, [answers.file], False)}
        if name in {chosen.value for chosen in RANDOM_SETS}:
            point["draws"] = [float(vector.mean()) for vector in vectors]
        return point
