"""Composing language models over all seeds: measurements for the claims, and tables for the figures.

Covers what is compared with what. Reading and pairing are in `results.py`; claims and their rules in data/reference.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compgen.evaluation.diagnosed import area_measurements
from compgen.evaluation.results import Cell, Key, Results, Vector
from compgen.inputs import DIAGNOSE, of_kind
from compgen.run.context import FinishedJob
from compgen.statistics import bootstrap_mean

FAIR, AUTHORS = "controlled", "authors"
OWN = {
    "gsm8k": "math",
    "math": "math",
    "humaneval_plus": "code",
    "mbpp_plus": "code",
    "sequences": "sequences",
    "records": "records",
}
"""The expert whose skill a benchmark asks for."""
TABLE = ("gsm8k", "math", "humaneval_plus", "mbpp_plus")
"""The benchmarks of the paper's table."""
OTHER = {"math": "code", "code": "math"}
TASK_ARITHMETIC = "task-arithmetic-"
PUBLISHED = "gemma-k"
"""How the arms with experts of the hub begin."""
SCORERS = {
    "gsm8k": ("numeric", "harness_strict", "harness_flexible", "authors"),
    "math": ("boxed", "last_expression", "harness", "authors"),
    "humaneval_plus": ("cut", "raw"),
    "mbpp_plus": ("cut", "raw"),
}
STOPS = ("premature", "no_stop", "end_token", "run_on")


def summarize(jobs: Sequence[FinishedJob], resamples: int) -> dict[str, Any]:
    """Everything about the composed language models."""
    results = Results(jobs, resamples)
    table = _table(results)
    measurements = {
        **_accuracies(results),
        **_assumptions(results),
        **_composed_against_experts(results),
        **_against_baselines(results),
        **_many_experts(results),
        **_published_experts(results),
        **area_measurements(of_kind(jobs, DIAGNOSE), results, resamples),
    }
    return {
        "measurements": dict(sorted(measurements.items())),
        "table": table,
        "scorers": _scorers(results),
        "stops": _stops(results),
        "protocols": _protocols(results),
    }


def keys(arm: str, benchmarks: Sequence[str] = TABLE, protocol: str = FAIR) -> list[Key]:
    """An arm's cells on some benchmarks."""
    return [(protocol, arm, benchmark) for benchmark in benchmarks]


def _table(results: Results) -> list[dict[str, Any]]:
    """Every arm on every benchmark under every protocol."""
    return [
        {"protocol": protocol, "arm": arm, "benchmark": benchmark, **results.accuracy(protocol, arm, benchmark)}
        for protocol, arm, benchmark in results.keys
    ]


def _accuracies(results: Results) -> dict[str, Any]:
    return {
        f"accuracy_{protocol}_{arm}_{benchmark}": results.accuracy(protocol, arm, benchmark)
        for protocol, arm, benchmark in results.keys
    }


def _assumptions(results: Results) -> dict[str, Any]:
    """Whether base and experts are what the study needs them to be."""
    base = [results.accuracy(FAIR, "base", benchmark) | {"note": benchmark} for benchmark in TABLE]
    own = [
        results.accuracy(FAIR, expert, benchmark) | {"note": f"{expert} on {benchmark}"}
        for benchmark, expert in OWN.items()
        if results.has(FAIR, expert, benchmark)
    ]
    foreign = [
        results.accuracy(FAIR, OTHER[OWN[benchmark]], benchmark) | {"note": f"{OTHER[OWN[benchmark]]} on {benchmark}"}
        for benchmark in TABLE
    ]
    return {
        "base_best_benchmark": max(base, key=_value),
        "expert_worst_benchmark": min(own, key=_value),
        "expert_best_foreign_benchmark": max(foreign, key=_value),
    }


def _value(measurement: Mapping[str, Any]) -> float:
    """A withheld value sorts first, so that it is seen."""
    value = measurement["value"]
    return float("-inf") if value is None else float(value)


def _composed_against_experts(results: Results) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for benchmark in TABLE:
        expert = OWN[benchmark]
        cell = ([(FAIR, "composed", benchmark)], [(FAIR, expert, benchmark)])
        found[f"composed_minus_{expert}_{benchmark}"] = results.difference(*cell)
        if expert == "code":
            found[f"composed_minus_code_{benchmark}_raw"] = results.difference(*cell, metric="raw")
            found[f"code_cut_minus_raw_{benchmark}"] = _scorer_gap(results, "code", benchmark, "cut", "raw")
    found["composed_least_retained"] = _least_retained(results)
    found["code_gap_raw_minus_cut"] = _gap_change(results)
    found["composed_math_authors_minus_boxed"] = _scorer_gap(results, "composed", "math", "authors", "boxed")
    return found


def _scorer_gap(results: Results, arm: str, benchmark: str, first: str, second: str) -> dict[str, Any]:
    """One scorer's value minus another's on the same generations."""
    return results.mean(
        [(FAIR, arm, benchmark)],
        lambda cell: cell.vector(first) - cell.vector(second),
        f"{first} minus {second} on the same generations",
        differences=True,
    )


def _gap_change(results: Results) -> dict[str, Any]:
    """(composed − code expert) on HumanEval+ scored raw, minus the same scored cut."""
    return results.contrast(
        (FAIR, "composed", "humaneval_plus"),
        (FAIR, "code", "humaneval_plus"),
        lambda cell: cell.vector("raw") - cell.vector("cut"),
        "raw minus cut, composed minus code expert, on the same generations",
    )


def _least_retained(results: Results) -> dict[str, Any]:
    """(composed − base) / (expert − base) on the benchmark where it is least; seeds give the interval."""
    shares = {}
    for benchmark in TABLE:
        composed, expert, base = (
            results.seed_means(FAIR, arm, benchmark) for arm in ("composed", OWN[benchmark], "base")
        )
        shares[benchmark] = [
            (composed[seed] - base[seed]) / (expert[seed] - base[seed])
            for seed in composed
            if expert[seed] > base[seed]
        ]
    fullest = {benchmark: values for benchmark, values in shares.items() if values}
    if not fullest:
        note = "no expert is better than the base: there is no gain to keep"
        return {"value": None, "interval": None, "n": 0, "seeds": results.seeds, "note": note}
    least = min(fullest, key=lambda benchmark: float(np.mean(fullest[benchmark])))
    return _over_seeds(results, fullest[least], least)


def _over_seeds(results: Results, values: Sequence[float], note: str) -> dict[str, Any]:
    interval = bootstrap_mean(values, resamples=results.resamples).as_dict() if len(values) > 1 else None
    found = {"value": float(np.mean(values)), "interval": interval, "n": len(values), "seeds": results.seeds}
    return {**found, "note": note}


def _against_baselines(results: Results) -> dict[str, Any]:
    """Over the four benchmarks of the paper's table together."""
    arms = {arm for protocol, arm, _ in results.keys if protocol == FAIR}
    found = {
        f"composed_minus_{arm}": results.difference(keys("composed"), keys(arm))
        for arm in sorted(arms - {"composed", "sequences", "records"})
        if all(results.has(*key) for key in keys(arm))
    }
    found["composed_minus_router"] = results.difference(
        keys("composed"), [(FAIR, OWN[benchmark], benchmark) for benchmark in TABLE]
    )
    grid = [name for name in found if name.startswith(f"composed_minus_{TASK_ARITHMETIC}")]
    if grid:
        best = min(grid, key=lambda name: _value(found[name]))
        found["composed_minus_best_task_arithmetic"] = {**found[best], "note": f"{best}; {found[best]['note']}"}
    return found


def _many_experts(results: Results) -> dict[str, Any]:
    """What a third and a fourth expert do to the first two skills, and what mends it."""
    if not results.has(FAIR, "k4", "gsm8k"):
        return {}
    found = {
        "k3_minus_composed": results.difference(keys("k3"), keys("composed")),
        "k4_minus_composed": results.difference(keys("k4"), keys("composed")),
        "oracle_stop_recovers_k4": _recovered(results, "k4-oracle"),
        "premature_k4_minus_k2": _stop_gap(results, "premature"),
        "no_stop_k4_minus_k2": _stop_gap(results, "no_stop"),
    }
    for arm in sorted({arm for _, arm, _ in results.keys if arm.startswith("k4-")}):
        name = arm.replace("-", "_")
        if all(results.has(*key) for key in keys(arm)):
            found[f"{name}_minus_k4"] = results.difference(keys(arm), keys("k4"))
            found[f"{name}_minus_composed"] = results.difference(keys(arm), keys("composed"))
    return found


def _published_experts(results: Results) -> dict[str, Any]:
    """The same for the hub's experts, k = 3 to 5: each arm against two experts, and each remedy against none."""
    arms = {arm for protocol, arm, _ in results.keys if protocol == FAIR and arm.startswith(PUBLISHED)}
    found = {}
    for arm in sorted(arm for arm in arms if all(results.has(*key) for key in keys(arm))):
        name, plain = arm.replace("-", "_"), arm[: len(PUBLISHED) + 1]
        found[f"{name}_minus_composed"] = results.difference(keys(arm), keys("composed"))
        if arm != plain and plain in arms:
            found[f"{name}_minus_{plain.removeprefix('gemma-')}"] = results.difference(keys(arm), keys(plain))
    return found


def _stop_gap(results: Results, stop: str) -> dict[str, Any]:
    a, b = keys("k4"), keys("composed")
    return results.difference(a, b, metric=stop)


def _recovered(results: Results, arm: str) -> dict[str, Any]:
    """(arm − k4) / (k2 − k4) by seed; nothing to recover is not a number."""
    means = {name: results.seed_means_over(keys(name)) for name in (arm, "k4", "composed")}
    lost = [means["composed"][seed] - means["k4"][seed] for seed in means["k4"]]
    if min(lost) < 0.05:
        note = f"four experts lose {min(lost):.3f} against two in some seed: too little to speak of a share"
        return {"value": None, "interval": None, "n": len(lost), "seeds": results.seeds, "note": note}
    shares = [(means[arm][seed] - means["k4"][seed]) / gap for seed, gap in zip(means["k4"], lost, strict=True)]
    return _over_seeds(results, shares, "share of the loss, by seed")


def _scorers(results: Results) -> list[dict[str, Any]]:
    """What other scorers say of the same generations."""
    rows = []
    for protocol, arm, benchmark in results.keys:
        for scorer in SCORERS.get(benchmark, ()):
            found = results.accuracy(protocol, arm, benchmark, scorer)
            rows.append({"protocol": protocol, "arm": arm, "benchmark": benchmark, "scorer": scorer, **found})
    return rows


def _stops(results: Results) -> list[dict[str, Any]]:
    """How answers stop, by arm, over the four benchmarks."""
    rows = []
    for arm in sorted({arm for protocol, arm, _ in results.keys if protocol == FAIR}):
        chosen = [key for key in keys(arm) if results.has(*key)]
        if chosen:
            stops = {stop: results.mean(chosen, _metric(stop)) for stop in STOPS}
            rows.append({"arm": arm, "accuracy": results.mean(chosen, lambda cell: cell.vector()), **stops})
    return rows


def _metric(name: str) -> Callable[[Cell], Vector]:
    return lambda cell: cell.vector(name)


def _protocols(results: Results) -> list[dict[str, Any]]:
    """Every task's protocol in full, as it was run."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for key in results.keys:
        protocol, arm, benchmark = key
        for cell in results.cells(*key).values():
            entry = found.setdefault(
                (protocol, benchmark, cell.protocol.digest),
                {"protocol": protocol, "benchmark": benchmark, "digest": cell.protocol.digest, "arms": []},
            )
            if arm not in entry["arms"]:
                entry["arms"].append(arm)
            entry["values"] = cell.protocol.as_dict()
    return [found[key] for key in sorted(found)]
