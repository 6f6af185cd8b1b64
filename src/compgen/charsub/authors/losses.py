"""Epoch losses of the authors' schedule against the reference re-run of it, with a tolerance from the seeds' spread.

The reference is one more seed of the same procedure, so it should lie where one more of our seeds would: within the
prediction interval of a normal law of the logarithms, widened by the reference's rounding, and by Bonferroni for the
number of values compared.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from compgen.charsub.authors_config import Start
from compgen.run.context import FinishedJob
from compgen.statistics import bootstrap_mean

REFERENCE: dict[str, tuple[float, ...]] = {
    "identity": (0.2198, 0.00331, 0.00077, 0.00023, 8e-5),
    "AK": (0.22447, 0.00339, 0.00079, 0.00024, 8e-5),
}
"""Mean losses of the five epochs, in nats (dossier 2.3: the authors' schedule, one seed)."""
ROUNDING: dict[str, tuple[float, ...]] = {
    "identity": (5e-5, 5e-6, 5e-6, 5e-6, 5e-6),
    "AK": (5e-6, 5e-6, 5e-6, 5e-6, 5e-6),
}
"""Half a unit of the last digit given."""
CONFIDENCE = 0.95


def loss_measurements(jobs: Sequence[FinishedJob]) -> dict[str, Any]:
    """Losses of every epoch of the two models, and their distance from the reference in units of the tolerance."""
    scratch = [job for job in jobs if job.kind == "charsub_train" and job.config["start"] == Start.scratch.value]
    by_seed = {int(seed): losses for job in scratch for seed, losses in job.metrics["epoch_losses"].items()}
    seeds, files = sorted(by_seed), [f"charsub/{job.name}/metrics.json" for job in scratch]
    measured: dict[str, Any] = {}
    distances = {}
    for model, reference in REFERENCE.items():
        for epoch in range(min(len(reference), len(by_seed[seeds[0]][model]))):
            losses = np.array([by_seed[seed][model][epoch] for seed in seeds])
            tolerance = _tolerance(losses, ROUNDING[model][epoch] / reference[epoch])
            note = f"reference {reference[epoch]:g}"
            if tolerance is not None:
                distances[f"{model}, epoch {epoch + 1}"] = abs(_log_distance(losses, reference[epoch])) / tolerance
                note += f", tolerance a factor of {np.exp(tolerance):.3g} from the spread of {len(seeds)} seeds"
            measured[f"loss_{model}_epoch{epoch + 1}"] = {
                "value": float(losses.mean()),
                "interval": bootstrap_mean(losses).as_dict(),
                "n": len(losses),
                "seeds": seeds,
                "note": note,
                "files": files,
            }
    if distances:
        worst = max(distances, key=lambda name: distances[name])
        measured["loss_distance_worst"] = {
            "value": float(distances[worst]),
            "interval": None,
            "n": len(distances),
            "seeds": seeds,
            "note": f"largest of {len(distances)}, at {worst}; 1 is the tolerance",
            "files": files,
        }
    return measured


def _log_distance(losses: Any, reference: float) -> float:
    return float(np.log(reference) - np.log(losses).mean())


def _tolerance(losses: Any, relative_rounding: float) -> float | None:
    """How far, in logarithms, one more seed may lie from the mean of these; None of fewer than two."""
    if len(losses) < 2:
        return None
    compared = sum(map(len, REFERENCE.values()))
    quantile = float(stats.t.ppf(1 - (1 - CONFIDENCE) / (2 * compared), len(losses) - 1))
    deviation = float(np.log(losses).std(ddof=1))
    return quantile * deviation * float(np.sqrt(1 + 1 / len(losses))) + relative_rounding
