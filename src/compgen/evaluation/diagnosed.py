"""How well what the components said predicts which answers fail: areas under the curve over judged answers.

Covers the files of features and their comparison with scores. Where the features come from is in `diagnosing.py`;
free of torch, so that a summary is quick.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compgen.errors import UserError
from compgen.evaluation.results import Results, Vector
from compgen.evaluation.samples import Outcome
from compgen.run.context import FinishedJob
from compgen.statistics import area_under_curve, bootstrap_mean

LENGTH = "length"
FEATURES = (
    "log_normalizer_high",
    "log_normalizer_low",
    "log_normalizer_size",
    "co_activity",
    "divergence",
    "new_top",
    "end_surplus",
    "tail_leakage",
    "uncertainty",
    LENGTH,
)
"""Per-answer diagnostics, larger where failure is expected; `length`, the number of new tokens, is the trivial
baseline: the largest of many values grows with their number, and long answers have more places to fail."""
FEWEST = 5
"""Answers of either outcome that a cell needs for an area under the curve."""
Items = dict[str, dict[str, float]]
"""Features by the sample's id."""


def write_items(path: Path, items: Mapping[str, Mapping[str, float]]) -> None:
    """Write features as JSON lines, replacing the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": name, **values}) + "\n" for name, values in items.items()]
    path.write_text("".join(lines), encoding="utf-8")


def read_items(path: Path) -> Items:
    """The features of a file of JSON lines."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row.pop("id"): row for row in rows}


@dataclass(frozen=True)
class Judged:
    """The diagnosed answers of one arm and seed to one benchmark, with what became of them."""

    arm: str
    seed: int
    failed: Vector
    features: dict[str, Vector]
    files: tuple[str, str]

    def area(self, feature: str) -> float:
        """The probability that a failed answer has the larger value than one that is right."""
        return area_under_curve(self.features[feature], self.failed)


def area_measurements(diagnosed: Sequence[FinishedJob], results: Results, resamples: int) -> dict[str, Any]:
    """How well each diagnostic tells failed answers from right ones, by arm, and by how much it beats their length.

    The area under the curve is taken within every cell, a seed and a benchmark, that has at least `FEWEST` answers of
    either outcome, so that benchmarks of different difficulty are never mixed; measured is the mean over cells, with
    a bootstrap over them. `diagnosed` are jobs of kind composition_diagnose. Answers without a judgement are left out.

    Raises:
        UserError: an answer was diagnosed and not judged, or judged under another protocol.
    """
    judged = [_join(job, unit, results) for job in diagnosed for unit in job.metrics["units"].values()]
    found: dict[str, Any] = {}
    for arm in dict.fromkeys(cell.arm for cell in judged):
        own = [cell for cell in judged if cell.arm == arm]
        clear = [cell for cell in own if min(cell.failed.sum(), (1 - cell.failed).sum()) >= FEWEST]
        for feature in FEATURES:
            areas = [cell.area(feature) for cell in clear]
            found[f"auc_{feature}_{arm}"] = _measurement(own, areas, resamples)
            if feature != LENGTH:
                gains = [area - cell.area(LENGTH) for area, cell in zip(areas, clear, strict=True)]
                found[f"auc_{feature}_over_length_{arm}"] = _measurement(own, gains, resamples)
    return found


def _join(job: FinishedJob, unit: Mapping[str, Any], results: Results) -> Judged:
    key = (str(unit["protocol_name"]), str(unit["arm"]), str(unit["benchmark"]))
    seed = int(job.metrics["seed"])
    cell = results.cells(*key).get(seed) if results.has(*key) else None
    if cell is None or cell.protocol.digest != unit["protocol_digest"]:
        raise UserError(f"{job.name}: {'/'.join(key)} of seed {seed} was not judged as it was diagnosed: score again")
    items = read_items(job.directory / unit["file"])
    scores = [score for score in cell.scores if score.id in items and score.outcome is not Outcome.error]
    return Judged(
        arm=key[1],
        seed=seed,
        failed=np.array([score.outcome is not Outcome.correct for score in scores], dtype=np.float64),
        features={name: np.array([items[score.id][name] for score in scores]) for name in FEATURES},
        files=(f"{job.directory.parent.name}/{job.name}/{unit['file']}", cell.file),
    )


def _measurement(cells: Sequence[Judged], values: Sequence[float], resamples: int) -> dict[str, Any]:
    """The mean of one value a cell; `cells` are all that were looked at."""
    about: dict[str, Any] = {
        "n": len(values),
        "seeds": sorted({cell.seed for cell in cells}),
        "files": sorted({file for cell in cells for file in cell.files}),
    }
    if not values:
        note = f"in none of {len(cells)} cells do at least {FEWEST} answers fail and {FEWEST} succeed"
        return {"value": None, "interval": None, **about, "note": note}
    interval = bootstrap_mean(values, resamples=resamples).as_dict() if len(values) > 1 else None
    note = f"mean over {len(values)} of {len(cells)} cells (seed and benchmark) with {FEWEST} answers of either outcome"
    return {"value": float(np.mean(values)), "interval": interval, **about, "note": note}
