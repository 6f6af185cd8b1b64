"""The transition of every two-layer run: its step, width and order of events, and what holding a head does to it.

The rules on single curves are in `curves.py`; here runs are read and put together.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from compgen.copying.arms import arm_name
from compgen.copying.causal_config import TransitionConfig
from compgen.copying.curves import (
    Curve,
    Summary,
    change_point,
    drop_width,
    first_below,
    half_way,
    lag,
    order_of_events,
    probability,
    summarize,
    summarize_median,
)
from compgen.run.context import FinishedJob
from compgen.statistics import bootstrap_mean

TWO_LAYER = "two-layer"
RISING = ("previous", "induction", "match_largest", "match_rms", "diagonal")
LEADS = (("previous", "induction"), ("match_rms", "ood"), ("previous", "ood"), ("induction", "ood"))
TOGETHER = {"id": 300, "previous": 500, "induction": 500, "match_rms": 500}
"""Steps within which an event counts as simultaneous with the fall of the out-of-distribution error."""


def error_curve(job: FinishedJob, test_set: str) -> Curve:
    """The aligned error of a training run."""
    rows = [row for row in job.history() if "evaluation/step" in row]
    return Curve.of([row["evaluation/step"] for row in rows], [row[f"evaluation/{test_set}_aligned"] for row in rows])


def describe(jobs: Sequence[FinishedJob], config: TransitionConfig) -> dict[str, Any]:
    """Transitions of the free runs over seeds, and those of the held runs against the same seeds."""
    progress = next(job for job in jobs if job.kind == "copying_measure").metrics["runs"]
    free = {job.config["seed"]: job for job in jobs if job.kind == "copying_train" and arm_name(job) == TWO_LAYER}
    runs = [_describe_run(job, progress[job.name], config) for job in free.values()]
    held = [_describe_held(job, free, config) for job in jobs if job.kind == "copying_clamp_train"]
    files = [f"copying/{job.name}/history.jsonl" for job in free.values()]
    measured = _measurements(runs, config) | _held_measurements(held)
    seeds = [run["seed"] for run in runs]
    return {
        "runs": runs,
        "held": held,
        "order": order_of_events({name: [run["events"][name] for run in runs] for name in runs[0]["events"]}),
        "measurements": {name: _complete(found, files, seeds) for name, found in measured.items()},
    }


def _complete(found: Mapping[str, Any], files: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
    """A measurement with its evidence, or why there is none."""
    if found["value"] is not None:
        return {"files": list(files), "seeds": list(seeds), **found}
    note = "it did not happen in any of the runs that were made"
    return {"files": list(files), "seeds": list(seeds), "note": note, **found}


def _describe_run(job: FinishedJob, measures: Mapping[str, Any], config: TransitionConfig) -> dict[str, Any]:
    ood, in_distribution = error_curve(job, "ood"), error_curve(job, "id")
    change = change_point(ood, config.change_grid)
    events = {name: half_way(Curve.of(measures["step"], measures[name])) for name in RISING}
    return {
        "seed": job.config["seed"],
        "step": first_below(ood, config.threshold),
        "width": drop_width(ood, config.threshold, config.upper, config.lower),
        "change_point": {"step": change.step, "explained": change.explained},
        "events": {**events, "ood": half_way(ood, falling=True), "id": half_way(in_distribution, falling=True)},
    }


def _describe_held(job: FinishedJob, free: Mapping[int, FinishedJob], config: TransitionConfig) -> dict[str, Any]:
    """A run with the first layer held, beside the free run of the same seed."""
    curve = error_curve(job, "ood")
    reference = free.get(job.config["seed"])
    return {
        "name": job.name,
        "seed": job.config["seed"],
        "mode": job.config["clamp"]["mode"],
        "step": first_below(curve, config.threshold),
        "free_step": first_below(error_curve(reference, "ood"), config.threshold) if reference else None,
        "final_error": float(curve.values[-1]),
        "curve": {"step": curve.steps.tolist(), "ood": curve.values.tolist()},
    }


def _measurements(runs: Sequence[Mapping[str, Any]], config: TransitionConfig) -> dict[str, Any]:
    steps = [run["step"] for run in runs]
    events = {name: [run["events"][name] for run in runs] for name in runs[0]["events"]}
    found = {
        "transition_step": summarize(steps, config.resamples),
        "transition_step_median": summarize_median(steps, config.resamples),
        "transition_width": summarize([run["width"] for run in runs], config.resamples),
        "transition_probability": probability([step is not None for step in steps]),
        "change_point_step": summarize([run["change_point"]["step"] for run in runs], config.resamples),
        "change_point_explained": summarize([run["change_point"]["explained"] for run in runs], config.resamples),
    }
    found |= {f"event_{name}": summarize_median(values, config.resamples) for name, values in events.items()}
    for name, steps_apart in TOGETHER.items():
        pairs = zip(events[name], events["ood"], strict=True)
        near = [a is not None and b is not None and abs(a - b) <= steps_apart for a, b in pairs]
        found[f"share_{name}_within_{steps_apart}"] = probability(near)
    for first, second in LEADS:
        mean, share = lag(events[first], events[second], config.resamples)
        found[f"lag_{first}_to_{second}"], found[f"share_{first}_before_{second}"] = mean, share
    return {name: summary.as_dict() for name, summary in found.items()}


def _held_measurements(held: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How much the held head moves the transition, in steps, and the error where it is forbidden."""
    previous = [run for run in held if run["mode"] == "previous"]
    delays = [run["step"] - run["free_step"] for run in previous if None not in (run["step"], run["free_step"])]
    forbidden = [run for run in held if run["mode"] == "forbid"]
    errors = [run["final_error"] for run in forbidden]
    learned = probability([run["step"] is not None for run in previous])
    return {
        "clamp_previous_delay": _held(previous, summarize(delays)),
        "clamp_previous_probability": _held(previous, learned),
        "clamp_forbid_ood_error": _held(
            forbidden, Summary(sum(errors) / len(errors), bootstrap_mean(errors), len(errors))
        )
        if errors
        else _held(forbidden, Summary(None, None, 0)),
    }


def _held(runs: Sequence[Mapping[str, Any]], summary: Summary) -> dict[str, Any]:
    return {
        **summary.as_dict(),
        "seeds": [run["seed"] for run in runs],
        "files": [f"copying/{run['name']}/history.jsonl" for run in runs],
    }
