"""The authors' protocol over all seeds: measurements that claims refer to, and series for the figures.

Intervals over strings resample seeds first, then the strings of each; those over one number a seed resample seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compgen.charsub.authors.evaluation import TRAINING_LENGTH
from compgen.charsub.authors.losses import loss_measurements
from compgen.charsub.authors.prediction import first_below
from compgen.charsub.authors.sweep import PAPER
from compgen.charsub.authors_config import TRAINED_PAIR, Start
from compgen.composition.options import Remedy
from compgen.run.context import FinishedJob
from compgen.statistics import Interval, bootstrap_mean, cluster_bootstrap_mean

SWEEP_LENGTHS = (4, 16, 24, 32)
PREDICTORS = ("log_normalizer", "replicated", "relabelled", "constant")
REMEDIES = tuple(remedy.value for remedy in Remedy if remedy is not Remedy.none)
Number = Callable[[Any], float | None]


class Evaluations:
    """The evaluated seeds, in order, whichever jobs evaluated them."""

    def __init__(self, jobs: Sequence[FinishedJob], resamples: int) -> None:
        """Take the `charsub_evaluate` jobs among some finished jobs."""
        self._resamples = resamples
        by_seed = {
            int(seed): (job, metrics)
            for job in jobs
            if job.kind == "charsub_evaluate"
            for seed, metrics in job.metrics["seeds"].items()
        }
        self.seeds = sorted(by_seed)
        self.metrics = [by_seed[seed][1] for seed in self.seeds]
        self._jobs = [by_seed[seed][0] for seed in self.seeds]

    @cached_property
    def outcomes(self) -> list[dict[str, NDArray[np.int8]]]:
        """By seed and name, right symbols before the first wrong one of every string."""
        found = []
        for seed, job in zip(self.seeds, self._jobs, strict=True):
            with np.load(job.directory / f"outcomes-seed{seed}.npz") as arrays:
                found.append(dict(arrays))
        return found

    def exact(self, name: str, length: int, k: int | None = None) -> list[NDArray[np.float64]]:
        """By seed, whether each string is an exact match at some length; `k` selects a row of a sweep."""
        chosen = [seed[name] if k is None else seed[name][k - 1] for seed in self.outcomes]
        return [(values >= length).astype(np.float64) for values in chosen]

    def over_strings(self, values: Sequence[NDArray[np.float64]], note: str = "") -> dict[str, Any]:
        """A measurement from one vector of strings a seed."""
        mean = float(np.mean([seed.mean() for seed in values]))
        interval = cluster_bootstrap_mean(values, resamples=self._resamples)
        return self.measurement(mean, interval, sum(map(len, values)), note)

    def over_seeds(self, number: Number, note: str = "") -> dict[str, Any] | None:
        """A measurement from one number a seed; seeds without one are left out, None if none is left."""
        found = [value for value in map(number, self.metrics) if value is not None]
        if not found:
            return None
        interval = bootstrap_mean(found, resamples=self._resamples)
        return self.measurement(float(np.mean(found)), interval, len(found), note)

    def measurement(self, value: float, interval: Interval | None, n: int, note: str = "") -> dict[str, Any]:
        """A measurement in the form that claims read."""
        described = {"value": value, "interval": interval.as_dict() if interval else None, "n": n, "seeds": self.seeds}
        files = sorted({f"charsub/{job.name}/metrics.json" for job in self._jobs})
        return {**described, **({"note": note} if note else {}), "files": files}


def summarize(jobs: Sequence[FinishedJob], resamples: int) -> dict[str, Any]:
    """Everything about the authors' protocol."""
    found = Evaluations(jobs, resamples)
    lengths, sweep = _lengths(found), _sweep(found)
    experts = len(found.metrics[0][Start.scratch.value]["diagnostics"])
    diagnostics = {start.value: _diagnostics(found, start, experts) for start in Start}
    breaks = {start.value: _breaks(found, start) for start in Start}
    overlap = _overlap(found)
    measurements: dict[str, Any] = {
        **loss_measurements(jobs),
        **_length_measurements(found, lengths),
        **_sweep_measurements(found, sweep, experts),
        **_diagnostic_measurements(diagnostics),
        **_off_task(found),
        **_break_measurements(found),
        **_interaction_measurements(found),
        **_overlap_measurements(overlap),
    }
    return {
        "measurements": dict(sorted((name, value) for name, value in measurements.items() if value is not None)),
        "lengths": lengths,
        "sweep": sweep,
        "diagnostics": diagnostics,
        "breaks": breaks,
        "overlap": overlap,
    }


def point(found: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What a figure needs of a measurement."""
    if found is None:
        return None
    interval = found["interval"]
    return {"value": found["value"], "low": interval["low"], "high": interval["high"], "n": found["n"]}


def at(*path: str | int) -> Number:
    """A function that follows keys and indices into a seed's metrics."""

    def follow(value: Any) -> float | None:
        for key in path:
            value = value[key]
        return None if value is None else float(value)

    return follow


def _longest(found: Evaluations) -> int:
    """The longest length at which some string of the first seed was right throughout; at least 1."""
    return max(1, int(max(values.max() for values in found.outcomes[0].values())))


def _lengths(found: Evaluations) -> dict[str, Any]:
    """Exact match by length of the composed pair and of every single model, scratch and fine-tuned."""
    lengths = list(range(1, _longest(found) + 1))
    names = [name for name in found.outcomes[0] if name.split("/")[1] in ("pair", "single")]
    series = {name: [point(found.over_strings(found.exact(name, length))) for length in lengths] for name in names}
    return {"length": lengths, "exact": series}


def _length_measurements(found: Evaluations, lengths: Mapping[str, Any]) -> dict[str, Any]:
    scratch = f"{Start.scratch.value}/single/"
    single = [name for name in lengths["exact"] if name.startswith(scratch)]
    rows = [row for metrics in found.metrics for row in metrics["notebook"]]
    per_seed = [
        np.array([float(row["answer"] == row["expected"]) for row in metrics["notebook"]]) for metrics in found.metrics
    ]
    return {
        "composed_exact_worst_length": _worst(found, lengths, [f"{Start.scratch.value}/pair"]),
        "composed_exact_worst_length_finetuned": _worst(found, lengths, [f"{Start.finetuned.value}/pair"]),
        "single_exact_worst_length": _worst(found, lengths, single[: TRAINED_PAIR + 1]),
        "every_single_exact_worst_length": _worst(found, lengths, single),
        "every_single_exact_worst_length_finetuned": _worst(
            found, lengths, [name for name in lengths["exact"] if "finetuned/single/" in name]
        ),
        "notebook_strings_right": found.over_strings(per_seed, f"{len(rows) // len(found.seeds)} answers a seed"),
    }


def _worst(found: Evaluations, lengths: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The lowest exact match over lengths and models, with its own interval."""
    cells = [(p["value"], name, length) for name in names for length, p in enumerate(lengths["exact"][name], start=1)]
    _, name, length = min(cells)
    return found.over_strings(found.exact(name, length), f"lowest of {len(cells)} cells: {name}, length {length}")


def _sweep(found: Evaluations) -> dict[str, Any]:
    """Exact match by start, arm, length and k, as points."""
    longest = _longest(found)
    cells: dict[str, Any] = {}
    for name, values in found.outcomes[0].items():
        start, _, arm = name.partition("/arm/")
        if arm:
            cells.setdefault(start, {})[arm] = {
                str(length): [
                    point(found.over_strings(found.exact(name, length, k))) for k in range(1, len(values) + 1)
                ]
                for length in SWEEP_LENGTHS
                if length <= longest
            }
    return cells


def _sweep_measurements(found: Evaluations, sweep: Mapping[str, Any], experts: int) -> dict[str, Any]:
    """Exact match of every arm and k at the training length, and what each remedy gains at the largest k."""
    measured = {}
    for start, arms in sweep.items():
        for arm in arms:
            for k in range(1, experts + 1):
                exact = found.exact(f"{start}/arm/{arm}", TRAINING_LENGTH, k)
                measured[f"exact_{start}_{arm}_k{k}"] = found.over_strings(exact)
        paper = found.exact(f"{start}/arm/{PAPER}", TRAINING_LENGTH, experts)
        for remedy in REMEDIES:
            cured = found.exact(f"{start}/arm/{remedy}", TRAINING_LENGTH, experts)
            gain = [with_it - without for with_it, without in zip(cured, paper, strict=True)]
            measured[f"gain_{start}_{remedy}"] = found.over_strings(gain, f"paired by string, k = {experts}")
    return measured


def _diagnostics(found: Evaluations, start: Start, experts: int) -> list[dict[str, Any]]:
    """Every diagnostic by k, as measurements over seeds; None where no seed has one."""
    paths: dict[str, tuple[str, ...]] = {
        f"{name}_{where}": (name, where) for name in ("divergence", "tail_leakage") for where in ("active", "inactive")
    }
    for where in ("active", "inactive"):
        paths[f"log_normalizer_{where}"] = ("log_normalizer", where, "mean")
        paths[f"errors_{where}"] = ("errors", where)
    paths |= {name: (name,) for name in ("co_active", "new_top")}
    errors = {"active_share": "errors_active_share", "winner_base_log_probability": "winner_base_log_probability"}
    paths |= {name: ("errors", key) for key, name in errors.items()}
    paths["skill_not_applied"] = ("errors", "skill_not_applied")
    return [
        {name: found.over_seeds(at(start.value, "diagnostics", k, *path)) for name, path in paths.items()}
        for k in range(experts)
    ]


def _diagnostic_measurements(diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{name}_{start}_k{k}": value
        for start, rows in diagnostics.items()
        for k, row in enumerate(rows, start=1)
        for name, value in row.items()
    }


def _off_task(found: Evaluations) -> dict[str, Any]:
    keys = ("right_absolute", "tail_mean", "tail_absolute", "tail_largest", "tail_deviation")
    return {
        f"off_task_{key}_{start.value}": found.over_seeds(at(start.value, "off_task", key))
        for start in Start
        for key in keys
    }


def _breaks(found: Evaluations, start: Start) -> list[dict[str, Any]]:
    """Observed and predicted break of every seed and order of the experts."""
    rows = []
    for seed, metrics in zip(found.seeds, found.metrics, strict=True):
        for row in metrics[start.value]["breaks"]:
            predicted = {name: value["break"] for name, value in row["predicted"].items()}
            curves = {name: value["exact"] for name, value in row["predicted"].items()}
            observed = first_below(row["observed"])
            rows.append({"seed": seed, "first": row["first"], "observed": observed, "predicted": predicted})
            rows[-1] |= {"exact": row["observed"], "predicted_exact": curves}
    for row in rows:  # what knows no model at all: the mean break of the other seeds
        others = [other["observed"] for other in rows if other["seed"] != row["seed"]]
        row["predicted"]["constant"] = float(np.mean(others)) if others else None
    return rows


def _break_measurements(found: Evaluations) -> dict[str, Any]:
    """Observed breaks and the predictors' absolute errors, over seeds and orders."""
    measured = {}
    for start in Start:
        rows = _breaks(found, start)
        by_seed = [[row for row in rows if row["seed"] == seed] for seed in found.seeds]
        observed = [np.array([float(row["observed"]) for row in of_seed]) for of_seed in by_seed]
        measured[f"break_observed_{start.value}"] = found.over_strings(observed, f"{len(rows)} orders of the experts")
        for name in PREDICTORS:
            if rows[0]["predicted"][name] is None:
                continue
            predicted = [np.array([float(row["predicted"][name]) for row in of_seed]) for of_seed in by_seed]
            errors = [np.abs(said - seen) for said, seen in zip(predicted, observed, strict=True)]
            measured[f"break_error_{name}_{start.value}"] = found.over_strings(errors, "absolute, in experts")
    return measured


def _interaction_measurements(found: Evaluations) -> dict[str, Any]:
    paths = {
        "rival_first_share": ("rival", "first_share"),
        "rival_second_share": ("rival", "rival_share"),
        "rival_elsewhere_right": ("rival", "elsewhere_right"),
        "rival_first_probability": ("rival", "first_probability"),
        "rival_second_probability": ("rival", "rival_probability"),
        "chain_simultaneous_share": ("chained", "first_simultaneous"),
        "chain_sequential_share": ("chained", "first_sequential"),
        "chain_second_right": ("chained", "second_right"),
        "twice_exact": ("twice", "exact"),
        "twice_active_right": ("twice", "active_right"),
    }
    measured = {
        f"{name}_{start.value}": found.over_seeds(at(start.value, "interactions", *path))
        for start in Start
        for name, path in paths.items()
    }
    for start in Start:
        shares = at(start.value, "interactions", "rival", "winner_share")
        measured[f"rival_winner_share_{start.value}"] = found.over_seeds(shares)
    return measured


def _overlap(found: Evaluations) -> list[dict[str, Any]]:
    """By share of contested letters, measurements over seeds (fine-tuned experts)."""
    paths: dict[str, tuple[str, ...]] = {
        name: (name,) for name in ("exact", "first_share", "second_share", "either_share", "winner_share")
    }
    paths |= {f"right_{name}": ("right", name) for name in ("uncontested", "inactive")}
    paths |= {f"log_normalizer_{name}": ("log_normalizer", name) for name in ("contested", "uncontested", "inactive")}
    rows = []
    for index, row in enumerate(found.metrics[0][Start.finetuned.value]["overlap"]):
        cells = {n: found.over_seeds(at(Start.finetuned.value, "overlap", index, *path)) for n, path in paths.items()}
        rows.append({"overlap": row["shared_letters"] / row["letters"], **cells})
    return rows


def _overlap_measurements(overlap: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        f"overlap_{name}_{round(100 * row['overlap'])}": value
        for row in overlap
        for name, value in row.items()
        if name != "overlap"
    }
