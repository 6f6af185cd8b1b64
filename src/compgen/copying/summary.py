"""What the training runs say together: curves over seeds, and the measurements that claims refer to.

Covers the errors of trained models. Progress measures, transitions and causal checks bring measurements of their own.
An arm is a set of runs that differ only in the seed; its name is the job's without `train-` and `-seed…`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compgen.copying.arms import arm_name
from compgen.copying.results import load_counts
from compgen.run.context import FinishedJob
from compgen.statistics import FloatArray, bootstrap_mean, bootstrap_statistic, borrowed_spread, paired_bootstrap

SETS = ("id", "ood", "pool")
EARLY_STEP, LATE_STEP = 2000, 4000
"""Between these steps the paper's second phase falls (dossier 1.6)."""
RESAMPLES = 2000
HALF = 0.5
PROFILES = ("error_by_offset", "error_by_token")
FIRST_OFFSETS, LATER_OFFSETS = slice(0, 1), slice(4, 10)


@dataclass(frozen=True)
class Arm:
    """The runs of one setting."""

    name: str
    jobs: tuple[FinishedJob, ...]

    @property
    def seeds(self) -> list[int]:
        """One a run."""
        return [job.config["seed"] for job in self.jobs]

    @property
    def files(self) -> list[str]:
        """The evidence, relative to the run tree."""
        return [f"copying/{job.name}/metrics.json" for job in self.jobs]

    def curves(self) -> list[list[dict[str, float]]]:
        """The evaluated rows of every run."""
        return [[row for row in job.history() if "evaluation/step" in row] for job in self.jobs]

    @property
    def last_step(self) -> int:
        """The last step that all runs reached: seeds are compared there, however long some go on."""
        return min(int(job.metrics["steps"]) for job in self.jobs)

    @property
    def ending_there(self) -> list[FinishedJob]:
        """The runs whose last step that is, which have the large final evaluation at it."""
        return [job for job in self.jobs if job.metrics["steps"] == self.last_step]

    def final(self, test_set: str, definition: str) -> list[float]:
        """The error of every run at the last common step: of the large test sets, if all runs end there."""
        if len(self.ending_there) == len(self.jobs):
            return [job.metrics["final"][test_set][definition]["value"] for job in self.jobs]
        return _errors_at(self, self.last_step, test_set, definition)

    def has(self, test_set: str) -> bool:
        """Whether the runs were tested on a set."""
        return all(test_set in job.metrics["final"] for job in self.jobs)


def arms_of(jobs: Iterable[FinishedJob]) -> dict[str, Arm]:
    """The training runs by arm, in the order of their names."""
    grouped: dict[str, list[FinishedJob]] = {}
    for job in jobs:
        if job.kind == "copying_train":
            grouped.setdefault(arm_name(job), []).append(job)
    return {name: Arm(name, tuple(members)) for name, members in sorted(grouped.items())}


def summarize(jobs: Sequence[FinishedJob]) -> dict[str, Any]:
    """Curves, final errors and measurements of all training runs, and the measurements of all other jobs."""
    arms = arms_of(jobs)
    measurements: dict[str, Any] = {}
    for job in jobs:
        measurements.update(job.metrics.get("measurements", {}))
    reference = arms.get("two-layer")
    learned = learned_at(reference)
    for arm in arms.values():
        measurements.update(_withheld_if_short(arm, learned, _final_measurements(arm, reference)))
    if "two-layer" in arms:
        measurements.update(_transition_measurements(arms["two-layer"]))
    if "two-layer" in arms and "pool1000" in arms:
        measurements["pool1000_lead"] = _lead(arms["pool1000"], arms["two-layer"])
    return {
        "arms": {name: _describe(arm) for name, arm in arms.items()},
        "measurements": dict(sorted(measurements.items())),
    }


def learned_at(reference: Arm | None) -> int | None:
    """The first step at which the paper's model is right on more than half of the targets, in the mean over seeds."""
    if reference is None:
        return None
    curves = _curves_over_seeds(reference)
    steps = [step for step, error in zip(curves["step"], curves["ood_aligned"]["mean"], strict=True) if error < HALF]
    return steps[0] if steps else None


def _withheld_if_short(arm: Arm, learned: int | None, found: dict[str, Any]) -> dict[str, Any]:
    """No verdict from a run that stops before the paper's model has learned: it says nothing about what could be."""
    if learned is None or arm.last_step >= learned:
        return found
    trained = f"this profile trains it for {arm.last_step} steps"
    note = f"{trained}, and the paper's model needs about {learned}: use PROFILE=paper"
    return {name: {**entry, "value": None, "interval": None, "note": note} for name, entry in found.items()}


def _final_measurements(arm: Arm, reference: Arm | None) -> dict[str, Any]:
    name = arm.name.replace("-", "_")
    measured = [test_set for test_set in SETS if arm.has(test_set)]
    found = {f"{test_set}_error_{name}": _final(arm, test_set, "aligned", reference) for test_set in measured}
    found[f"ood_error_{name}_authors"] = _final(arm, "ood", "authors", reference)
    found[f"ood_floor_{name}"] = _difference(arm, arm.final("ood", "authors"), arm.final("ood", "aligned"))
    found[f"ood_minus_id_{name}"] = _difference(arm, arm.final("ood", "aligned"), arm.final("id", "aligned"))
    for words, offsets in (("first", FIRST_OFFSETS), ("later", LATER_OFFSETS)):
        ending = Arm(arm.name, tuple(arm.ending_there))
        found[f"ood_error_{name}_{words}_offsets"] = _over_seeds(
            ending, [_offset_error(j, offsets) for j in ending.jobs]
        )
    return found


def _final(arm: Arm, test_set: str, definition: str, reference: Arm | None) -> dict[str, Any]:
    """The mean over runs with its interval over seeds; one run borrows the spread of the reference's seeds.

    Without a reference of several seeds the interval of one run is over its test sequences alone, and says so.
    """
    values = arm.final(test_set, definition)
    if len(values) > 1:
        return _over_seeds(arm, values)
    (job,) = arm.jobs
    wrong, judged = load_counts(job.directory, test_set, definition)
    found = {"value": values[0], "n": len(wrong), "seeds": arm.seeds, "files": arm.files}
    if reference is not None and len(reference.jobs) > 1:
        kind = test_set if reference.has(test_set) else "id"
        spread = borrowed_spread(values[0], _errors_at(reference, arm.last_step, kind, definition))
        interval = {"low": max(spread.low, 0.0), "high": min(spread.high, 1.0), "method": spread.method}
        note = f"after {arm.last_step} steps, one seed; spread over seeds as that of the {reference.name} model there"
        return {**found, "interval": interval, "note": note, "files": [*arm.files, *reference.files]}
    sequences = bootstrap_statistic(np.stack([wrong.numpy(), judged.numpy()], 1), _share, resamples=RESAMPLES)
    method = f"{sequences.method} (test sequences, one seed)"
    note = f"after {arm.last_step} steps; the interval does not hold the spread over seeds"
    return {**found, "interval": {**sequences.as_dict(), "method": method}, "note": note}


def _errors_at(arm: Arm, step: int, test_set: str, definition: str) -> list[float]:
    """The error of every run at a step of its training."""
    return [_row_at(curve, step)[f"evaluation/{test_set}_{definition}"] for curve in arm.curves()]


def _share(counts: FloatArray) -> float:
    """Wrong over judged predictions of some sequences, (sequence, 2)."""
    return float(counts[:, 0].sum() / counts[:, 1].sum())


def _over_seeds(arm: Arm, values: Sequence[float], note: str = "") -> dict[str, Any]:
    return {
        "value": float(np.mean(values)),
        "interval": bootstrap_mean(values).as_dict() if len(values) > 1 else None,
        "n": len(values),
        "seeds": arm.seeds,
        "note": note or f"at step {arm.last_step}",
        "files": arm.files,
    }


def _difference(arm: Arm, first: Sequence[float], second: Sequence[float]) -> dict[str, Any]:
    found = _over_seeds(arm, [a - b for a, b in zip(first, second, strict=True)])
    if len(first) > 1:
        found["interval"] = paired_bootstrap(first, second).as_dict()
    return found


def _offset_error(job: FinishedJob, offsets: slice) -> float:
    """Error out of distribution at some positions of the second copy, all equally often judged."""
    return float(np.mean(job.metrics["final"]["ood"]["error_by_offset"]["error"][offsets]))


def _transition_measurements(arm: Arm) -> dict[str, Any]:
    found = {}
    for step in (EARLY_STEP, LATE_STEP):
        note = f"at step {int(_row_at(arm.curves()[0], step)['evaluation/step'])}"
        for test_set in ("id", "ood"):
            values = _errors_at(arm, step, test_set, "aligned")
            found[f"{test_set}_error_two_layer_step{step}"] = _over_seeds(arm, values, note)
    return found


def _lead(pool: Arm, fresh: Arm) -> dict[str, Any]:
    """How much lower the pool's error is at the early step than that of the same seeds with fresh segments."""
    by_seed = dict(zip(fresh.seeds, fresh.curves(), strict=True))
    pairs = [(curve, by_seed[seed]) for seed, curve in zip(pool.seeds, pool.curves(), strict=True) if seed in by_seed]
    values = [
        _row_at(a, EARLY_STEP)["evaluation/ood_aligned"] - _row_at(b, EARLY_STEP)["evaluation/ood_aligned"]
        for a, b in pairs
    ]
    return {**_over_seeds(pool, values, f"at step {EARLY_STEP}"), "files": [*pool.files, *fresh.files]}


def _row_at(curve: Sequence[Mapping[str, float]], step: int) -> Mapping[str, float]:
    """The row of the step, or of the last one before it."""
    return max((row for row in curve if row["evaluation/step"] <= step), key=lambda row: row["evaluation/step"])


def _describe(arm: Arm) -> dict[str, Any]:
    """What the figures draw of one arm."""
    return {
        "seeds": arm.seeds,
        "steps": [job.metrics["steps"] for job in arm.jobs],
        "files": arm.files,
        "curves": _curves_over_seeds(arm),
        "runs": [_run(curve) for curve in arm.curves()],
        **{key: {name: _errors_by(arm, name, key) for name in ("id", "ood")} for key in PROFILES},
    }


def _run(curve: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """One run's own error curves."""
    names = {"step": "step", "ood": "ood_aligned", "id": "id_aligned"}
    return {name: [row[f"evaluation/{key}"] for row in curve] for name, key in names.items()}


def _errors_by(arm: Arm, test_set: str, key: str) -> dict[str, list[Any]]:
    """Error by position in the segment or by token: mean and interval over runs, None where nothing was judged."""
    runs = [job.metrics["final"][test_set][key] for job in arm.jobs]
    columns = [
        [error for error in column if error is not None] for column in zip(*(run["error"] for run in runs), strict=True)
    ]
    bands = [_band([column]) if column else {} for column in columns]
    return {
        **{name: [band[name][0] if band else None for band in bands] for name in ("mean", "low", "high")},
        "n": [sum(counts) for counts in zip(*(run["n"] for run in runs), strict=True)],
    }


def _curves_over_seeds(arm: Arm) -> dict[str, Any]:
    """Mean and bootstrap interval over the runs that reached each step; `n` counts them."""
    by_step: dict[int, list[dict[str, float]]] = {}
    for curve in arm.curves():
        for row in curve:
            by_step.setdefault(int(row["evaluation/step"]), []).append(row)
    steps = sorted(by_step)
    names = [key for key in by_step[steps[0]][0] if key != "evaluation/step"]
    return {
        "step": steps,
        "n": [len(by_step[step]) for step in steps],
        **{
            name.removeprefix("evaluation/"): _band([[row[name] for row in by_step[step]] for step in steps])
            for name in names
        },
    }


def _band(values: Sequence[Sequence[float]]) -> dict[str, list[float]]:
    intervals = [bootstrap_mean(v, resamples=1000) for v in values]
    return {
        "mean": [float(np.mean(v)) for v in values],
        "low": [interval.low for interval in intervals],
        "high": [interval.high for interval in intervals],
    }
