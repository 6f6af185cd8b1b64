"""The autoregressive protocol over all seeds: measurements for claims, series for figures.

An interval over strings resamples seeds first, then the strings of each; one over a number a seed resamples seeds. Arms
are compared on the same strings.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compgen.charsub.autoregressive.arms import COMPOSED, TASK_ARITHMETIC
from compgen.charsub.autoregressive.zoo import Regime
from compgen.charsub.rules import SYMBOLS
from compgen.run.context import FinishedJob
from compgen.statistics import area_under_curve, bootstrap_mean, cluster_bootstrap_mean

EVALUATE = "charsub_autoregressive_evaluate"
STOPS = ("premature", "late", "no_stop", "stop_error")
FEATURES = (
    "log_normalizer_high",
    "log_normalizer_low",
    "log_normalizer_size",
    "co_activity",
    "divergence",
    "new_top",
    "end_surplus",
    "uncertainty",
    "letters",
)
"""Per-string diagnostics; `letters`, the number of symbols that a rule changes, is the trivial baseline."""
FEWEST = 5
"""Strings of either outcome that a cell needs for an area under the curve."""
Items = NDArray[np.float64]


class Seeds:
    """The evaluation jobs, seed by seed."""

    def __init__(self, jobs: Sequence[FinishedJob], resamples: int) -> None:
        """Take the evaluation jobs among some finished jobs."""
        chosen = sorted((job for job in jobs if job.kind == EVALUATE), key=lambda job: int(job.metrics["seed"]))
        self.numbers = [int(job.metrics["seed"]) for job in chosen]
        self.metrics = [job.metrics for job in chosen]
        self.files = [f"charsub/{job.name}/metrics.json" for job in chosen]
        self._resamples = resamples
        self._items = [_load_items(job) for job in chosen]
        self._cells = [_load_cells(job) for job in chosen]

    @property
    def keys(self) -> list[str]:
        """The names of all per-string arrays."""
        return list(self._items[0])

    def items(self, key: str) -> list[Items]:
        """One per-string array, by seed."""
        return [items[key] for items in self._items]

    def cell(self, regime: str, sweep: str, setting: int, arm: str) -> list[dict[str, Any]]:
        """One row of counts and rates, by seed."""
        return [cells[(regime, sweep, setting, arm)] for cells in self._cells]

    def settings(self, regime: str, sweep: str) -> list[int]:
        """The settings of a sweep, increasing."""
        return sorted({key[2] for key in self._cells[0] if key[:2] == (regime, sweep)})

    def arms(self, regime: str, sweep: str, setting: int) -> list[str]:
        """The arms of one setting, in their order."""
        return [key[3] for key in self._cells[0] if key[:3] == (regime, sweep, setting)]

    def over_strings(self, values: Sequence[Items], note: str = "", differences: bool = False) -> dict[str, Any]:
        """A measurement from one vector over strings a seed; `differences` as in the bootstrap."""
        interval = cluster_bootstrap_mean(values, resamples=self._resamples, differences=differences)
        mean = float(np.mean([seed.mean() for seed in values]))
        return self._measurement(mean, interval.as_dict(), sum(map(len, values)), note)

    def over_seeds(self, values: Sequence[float], note: str = "") -> dict[str, Any]:
        """A measurement from one number a seed."""
        interval = bootstrap_mean(values, resamples=self._resamples).as_dict() if len(values) > 1 else None
        return self._measurement(float(np.mean(values)), interval, len(values), note)

    def exact(self, regime: str, sweep: str, setting: int, arm: str) -> dict[str, Any]:
        """Exact match of one cell."""
        return self.over_strings(self.items(f"{regime}/{sweep}/{setting}/{arm}"))

    def _measurement(self, value: float, interval: dict[str, Any] | None, n: int, note: str) -> dict[str, Any]:
        found = {"value": value, "interval": interval, "n": n, "seeds": self.numbers, "files": self.files}
        return {**found, "note": note} if note else found


def _load_items(job: FinishedJob) -> dict[str, Items]:
    with np.load(job.directory / "items.npz") as arrays:
        return {name: values.astype(np.float64) for name, values in arrays.items()}


def _load_cells(job: FinishedJob) -> dict[tuple[str, str, int, str], dict[str, Any]]:
    lines = (job.directory / "cells.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return {(row["regime"], row["sweep"], row["setting"], row["arm"]): row for row in rows}


def summarize(jobs: Sequence[FinishedJob], resamples: int) -> dict[str, Any]:
    """Everything about the autoregressive protocol."""
    seeds = Seeds(jobs, resamples)
    experts, lengths = _experts(seeds), _lengths(seeds)
    predictions = {regime: _predict(seeds, regime) for regime in _regimes(seeds, "experts")}
    curves = _areas(seeds)
    measurements = {
        **_expert_measurements(seeds, experts),
        **_pair_measurements(seeds),
        **_overlap_measurements(seeds),
        **_length_measurements(seeds, lengths),
        **_area_measurements(seeds, curves),
        **_prediction_measurements(seeds, predictions),
    }
    return {
        "measurements": dict(sorted(measurements.items())),
        "experts": experts,
        "lengths": lengths,
        "regions": _regions(seeds),
        "predictions": predictions,
        "overlap": _overlap(seeds),
    }


def _regimes(seeds: Seeds, sweep: str) -> list[str]:
    return [str(regime) for regime in Regime if seeds.settings(str(regime), sweep)]


def point(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a figure needs of a measurement."""
    interval = found["interval"] or {"low": found["value"], "high": found["value"]}
    return {"value": found["value"], "low": interval["low"], "high": interval["high"], "n": found["n"]}


def _experts(seeds: Seeds) -> dict[str, Any]:
    """By regime and arm, over k: exact match and how outputs stop."""
    found: dict[str, Any] = {}
    for regime in _regimes(seeds, "experts"):
        counts = seeds.settings(regime, "experts")
        for arm in [name for name in seeds.arms(regime, "experts", counts[0]) if not name.startswith("alone:")]:
            cells = [seeds.cell(regime, "experts", k, arm) for k in counts]
            found.setdefault(regime, {"k": counts, "arms": {}})["arms"][arm] = {
                "exact": [seeds.exact(regime, "experts", k, arm) for k in counts],
                **{stop: [seeds.over_seeds([row[stop] for row in rows]) for rows in cells] for stop in STOPS},
            }
        found[regime]["best_alone"] = [_best_alone(seeds, regime, k) for k in counts]
    return found


def _best_alone(seeds: Seeds, regime: str, k: int) -> dict[str, Any]:
    """The single expert that is right most often on the joint task, over all seeds."""
    alone = [arm for arm in seeds.arms(regime, "experts", k) if arm.startswith("alone:")]
    best = max(alone, key=lambda arm: float(np.mean([v.mean() for v in seeds.items(f"{regime}/experts/{k}/{arm}")])))
    return {**seeds.exact(regime, "experts", k, best), "note": best}


def _expert_measurements(seeds: Seeds, experts: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for regime, series in experts.items():
        for arm, values in series["arms"].items():
            for index, k in enumerate(series["k"]):
                found[f"exact_{regime}_{arm}_k{k}"] = values["exact"][index]
                for stop in STOPS:
                    found[f"{stop}_{regime}_{arm}_k{k}"] = values[stop][index]
        for index, k in enumerate(series["k"]):
            alone = series["best_alone"][index]
            found[f"exact_{regime}_best_alone_k{k}"] = alone
            found[f"gain_over_alone_{regime}_k{k}"] = _gain(seeds, regime, k, COMPOSED, alone["note"])
            if TASK_ARITHMETIC in series["arms"]:
                found[f"gain_over_task_arithmetic_{regime}_k{k}"] = _gain(seeds, regime, k, COMPOSED, TASK_ARITHMETIC)
            found[f"gain_of_oracle_stop_{regime}_k{k}"] = _gain(seeds, regime, k, "told_to_stop", COMPOSED)
            found[f"premature_cured_by_mean_{regime}_k{k}"] = _stop_change(seeds, regime, k, "end_mean")
        alone_cells = [
            seeds.exact(regime, "alone", s, a)
            for s in seeds.settings(regime, "alone")
            for a in seeds.arms(regime, "alone", s)
        ]
        found[f"worst_component_{regime}"] = min(alone_cells, key=lambda cell: float(cell["value"]))
        found[f"premature_alone_{regime}"] = _premature_alone(seeds, regime)
    return found


def _gain(seeds: Seeds, regime: str, k: int, arm: str, other: str) -> dict[str, Any]:
    """Exact match of one arm minus another's, string by string."""
    first, second = (seeds.items(f"{regime}/experts/{k}/{name}") for name in (arm, other))
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    return seeds.over_strings(gaps, f"paired by string, against {other}", differences=True)


def _stop_change(seeds: Seeds, regime: str, k: int, arm: str) -> dict[str, Any]:
    """Premature stops of a policy minus those of the paper's rule, by seed."""
    pairs = zip(seeds.cell(regime, "experts", k, arm), seeds.cell(regime, "experts", k, COMPOSED), strict=True)
    return seeds.over_seeds([a["premature"] - b["premature"] for a, b in pairs])


def _premature_alone(seeds: Seeds, regime: str) -> dict[str, Any]:
    """Premature stops of the experts alone, on their own tasks, in the mean."""
    rows = [
        seeds.cell(regime, "alone", s, a)
        for s in seeds.settings(regime, "alone")
        for a in seeds.arms(regime, "alone", s)
    ]
    return seeds.over_seeds(
        [float(np.mean([row[seed]["premature"] for row in rows])) for seed in range(len(seeds.numbers))]
    )


def _pair_measurements(seeds: Seeds) -> dict[str, Any]:
    """The prose's pair, chained rules, and the same expert more than once."""
    found = {}
    for regime in _regimes(seeds, "prose"):
        found[f"exact_{regime}_prose"] = seeds.exact(regime, "prose", seeds.settings(regime, "prose")[0], COMPOSED)
        found[f"exact_{regime}_chain_at_once"] = seeds.exact(regime, "chain", 0, COMPOSED)
        written = [row["written"] for row in seeds.cell(regime, "chain", 0, COMPOSED)]
        for letter in ("K", "R"):
            found[f"chain_{letter}_share_{regime}"] = seeds.over_seeds([_share(row, letter) for row in written])
        for copies in seeds.settings(regime, "copies"):
            found[f"exact_{regime}_copies_{copies}"] = seeds.exact(regime, "copies", copies, COMPOSED)
    return found


def _share(counts: Mapping[str, int], name: str) -> float:
    total = sum(counts.values())
    return counts[name] / total if total else 0.0


def _overlap(seeds: Seeds) -> list[dict[str, Any]]:
    """Over the share of contested letters: what stands there, and exact match, for the composed model."""
    regime, rows = str(Regime.finetuned), []
    for percent in seeds.settings(regime, "overlap"):
        cells = seeds.cell(regime, "overlap", percent, COMPOSED)
        row: dict[str, Any] = {"percent": percent, "exact": point(seeds.exact(regime, "overlap", percent, COMPOSED))}
        row["exact_elsewhere"] = point(seeds.over_seeds([cell["exact_elsewhere"] for cell in cells]))
        if percent:
            for name in ("first", "rival", "unchanged", "other"):
                row[name] = point(seeds.over_seeds([_share(cell["contested"], name) for cell in cells]))
        rows.append(row)
    return rows


def _overlap_measurements(seeds: Seeds) -> dict[str, Any]:
    regime, found = str(Regime.finetuned), {}
    for percent in seeds.settings(regime, "overlap"):
        cells = seeds.cell(regime, "overlap", percent, COMPOSED)
        found[f"overlap_exact_{percent}"] = seeds.exact(regime, "overlap", percent, COMPOSED)
        if percent:
            either = [_share(cell["contested"], "first") + _share(cell["contested"], "rival") for cell in cells]
            found[f"overlap_either_{percent}"] = seeds.over_seeds(either)
    return found


def _lengths(seeds: Seeds) -> dict[str, Any]:
    """Exact match by length: components on their own tasks, compositions, and the bound from the components' errors."""
    found: dict[str, Any] = {}
    for regime in _regimes(seeds, "length-alone"):
        lengths = seeds.settings(regime, "length-alone")
        alone = seeds.arms(regime, "length-alone", lengths[0])
        entry: dict[str, Any] = {"length": lengths}
        entry["alone"] = {arm: [point(seeds.exact(regime, "length-alone", n, arm)) for n in lengths] for arm in alone}
        for sweep in sorted(
            {
                key.split("/")[1]
                for key in seeds.keys
                if key.startswith(f"{regime}/length-") and "alone" not in key.split("/")[1]
            }
        ):
            count = int(sweep.removeprefix("length-"))
            arms = seeds.arms(regime, sweep, lengths[0])
            entry[str(count)] = {
                "arms": {arm: [point(seeds.exact(regime, sweep, n, arm)) for n in lengths] for arm in arms},
                "excess": [_excess(seeds, regime, sweep, count, n) for n in lengths],
            }
        found[regime] = entry
    return found


def _excess(seeds: Seeds, regime: str, sweep: str, count: int, length: int) -> dict[str, Any]:
    """Error of the composition minus the sum of the errors of base and experts on their own tasks, by seed.

    The theorem's guarantees pass to the composition, so that its error should not exceed that sum.
    """
    names = seeds.arms(regime, "length-alone", length)[: count + 1]
    own = [[1 - row["exact"] for row in seeds.cell(regime, "length-alone", length, name)] for name in names]
    composed = [1 - row["exact"] for row in seeds.cell(regime, sweep, length, COMPOSED)]
    return seeds.over_seeds(
        [error - sum(parts) for error, *parts in zip(composed, *own, strict=True)], f"length {length}"
    )


def _length_measurements(seeds: Seeds, lengths: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for regime, entry in lengths.items():
        longest = entry["length"][-1]
        alone = [seeds.exact(regime, "length-alone", longest, arm) for arm in entry["alone"]]
        found[f"worst_component_longest_{regime}"] = min(alone, key=lambda cell: float(cell["value"]))
        for count in (key for key in entry if key.isdigit()):
            found[f"composed_{count}_longest_{regime}"] = seeds.exact(regime, f"length-{count}", longest, COMPOSED)
            worst = max(entry[count]["excess"], key=lambda cell: float(cell["value"]))
            found[f"length_excess_{count}_{regime}"] = worst
    return found


def _regions(seeds: Seeds) -> dict[str, Any]:
    """Diagnostics of the composed model by regime, region and k, over the seeds that have them."""
    found: dict[str, Any] = {}
    rows = [row for metrics in seeds.metrics for row in metrics["regions"]]
    for regime in dict.fromkeys(row["regime"] for row in rows):
        for region in ("active", "inactive", "end"):
            chosen = [row for row in rows if row["regime"] == regime and row["region"] == region]
            counts = sorted({row["experts"] for row in chosen})
            for name in ("log_normalizer", "co_active", "new_top", "leaking", "end_surplus"):
                by_count = [
                    [row[name] for row in chosen if row["experts"] == k and row[name] is not None] for k in counts
                ]
                points = [point(seeds.over_seeds(values)) if values else None for values in by_count]
                found.setdefault(regime, {"k": counts}).setdefault(name, {})[region] = points
    return found


def _areas(seeds: Seeds) -> dict[str, dict[str, list[float]]]:
    """By regime and feature, each seed's area under the curve for failing strings, a mean over k."""
    found: dict[str, dict[str, list[float]]] = {}
    for regime in _regimes(seeds, "experts"):
        for feature in FEATURES:
            values = [_seed_area(seeds, seed, regime, feature) for seed in range(len(seeds.numbers))]
            found.setdefault(regime, {})[feature] = [value for value in values if value is not None]
    return found


def _seed_area(seeds: Seeds, seed: int, regime: str, feature: str) -> float | None:
    areas = []
    for k in seeds.settings(regime, "experts"):
        failed = seeds.items(f"{regime}/experts/{k}/{COMPOSED}")[seed] == 0
        if min(failed.sum(), (~failed).sum()) >= FEWEST:
            scores = np.nan_to_num(
                seeds.items(f"{regime}/experts/{k}/feature:{feature}")[seed], neginf=-1e9, posinf=1e9
            )
            areas.append(area_under_curve(scores, failed))
    return float(np.mean(areas)) if areas else None


def _area_measurements(seeds: Seeds, curves: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, Any]:
    found = {}
    for regime, features in curves.items():
        for feature, values in features.items():
            if not values:
                missing = {"value": None, "interval": None, "n": 0, "seeds": seeds.numbers, "files": seeds.files}
                note = f"at no k do at least {FEWEST} strings fail and {FEWEST} succeed"
                found[f"auc_{feature}_{regime}"] = {**missing, "note": note}
                found[f"auc_{feature}_over_letters_{regime}"] = {**missing, "note": note}
                continue
            found[f"auc_{feature}_{regime}"] = seeds.over_seeds(values)
            pairs = zip(values, features["letters"], strict=True)
            found[f"auc_{feature}_over_letters_{regime}"] = seeds.over_seeds([a - b for a, b in pairs])
    return found


def _predict(seeds: Seeds, regime: str) -> list[dict[str, Any]]:
    """By seed, the k at which fewer than half of the strings are right: observed, and predicted from pairs alone."""
    counts = seeds.settings(regime, "experts")
    rows = []
    for index, number in enumerate(seeds.numbers):
        observed = [float(seeds.items(f"{regime}/experts/{k}/{COMPOSED}")[index].mean()) for k in counts]
        pairs = [row for row in seeds.metrics[index]["projections"] if row["regime"] == regime]
        predicted = [_predicted(pairs, place, k) for place, k in enumerate(counts)]
        rows.append(
            {
                "seed": number,
                "observed_exact": observed,
                "predicted_exact": predicted,
                "observed": _first_below(observed),
                "predicted": _first_below(predicted),
            }
        )
    return rows


def _predicted(pairs: Sequence[Mapping[str, Any]], place: int, k: int) -> float:
    """Exact match if every step of a string of 16 held independently, k of 27 symbols being active."""
    share = k / len(SYMBOLS)
    holds = {
        region: _pooled([row["holds"][region][place] for row in pairs]) for region in ("active", "inactive", "end")
    }
    return float((share * holds["active"] + (1 - share) * holds["inactive"]) ** 16 * holds["end"])


def _pooled(counts: Sequence[Sequence[int]]) -> float:
    total = sum(steps for _, steps in counts)
    return sum(kept for kept, _ in counts) / total if total else 1.0


def _first_below(values: Sequence[float], threshold: float = 0.5) -> int:
    return next((k for k, value in enumerate(values, start=1) if value < threshold), len(values) + 1)


def _prediction_measurements(seeds: Seeds, predictions: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    found = {}
    numbers: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "observed": lambda row: float(row["observed"]),
        "predicted": lambda row: float(row["predicted"]),
        "error": lambda row: abs(float(row["predicted"]) - float(row["observed"])),
    }
    for regime, rows in predictions.items():
        for name, number in numbers.items():
            found[f"break_{name}_{regime}"] = seeds.over_seeds([number(row) for row in rows])
    return found
