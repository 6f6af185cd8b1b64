"""Causal checks on trained two-layer models: what copying needs, by taking it away.

Covers removing heads, cutting the paths from the first to the second layer, and projecting the second layer's keys on
and off the bridge subspace with random subspaces of equal rank as control. All errors are aligned, on the same
out-of-distribution sequences for every model and intervention.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compgen.copying.arms import common_step
from compgen.copying.causal_config import InterventionConfig
from compgen.copying.config import trained_config
from compgen.copying.errors import evaluate
from compgen.copying.interventions import (
    DIRECT,
    FIRST,
    ROLES,
    SECOND,
    AblateHead,
    CutPaths,
    ProjectKeys,
    mean_first_addition,
    mean_head_output,
    predictor,
    projector,
)
from compgen.copying.model import AttentionTransformer, Hooks
from compgen.copying.progress import bridge_svds, measurable, over_runs
from compgen.copying.sequences import CopyBatch
from compgen.copying.training import Source, kept_steps, load_model
from compgen.randomness import numpy_stream, torch_stream
from compgen.run.context import FinishedJob

CLAIM_RANK = 10
"""The rank of the bridge in the claims: the paper's r for subspace matching."""
SUBSPACES = ("bridge", "written")
"""The bridge as read from W_QK (what keys read), and as read from W_OV (what the first layer writes)."""
Progress = Callable[[int, int], None]


def check_runs(jobs: Sequence[FinishedJob], config: InterventionConfig, progress: Progress) -> dict[str, Any]:
    """All interventions on every two-layer model, and the measurements for claims."""
    runs = {}
    chosen = [job for job in jobs if measurable(job)]
    step = common_step([kept_steps(job) for job in chosen])
    for number, job in enumerate(chosen, start=1):
        runs[job.name] = check_run(job, step, config)
        progress(number, len(chosen))
    return {"step": step, "runs": runs, "measurements": measurements(runs, config.projection_ranks)}


def check_run(job: FinishedJob, step: int, config: InterventionConfig) -> dict[str, Any]:
    """All interventions on one model after some steps."""
    trained = trained_config(job.config)
    model = load_model(job, trained, step)
    source = Source(trained.data, None)
    test = source.draw_ood(config.sequences, torch_stream(config.seed, "test"))
    reference = source.draw_ood(config.sequences, torch_stream(config.seed, "reference"))

    def error(hooks: Hooks | None) -> float:
        return evaluate(predictor(model, hooks), test, trained.data.vocabulary).error("aligned")

    return {
        "seed": trained.seed,
        "intact": error(None),
        "ablations": {name: error(hooks) for name, hooks in _ablations(model, reference).items()},
        "paths": {name: error(hooks) for name, hooks in _cuts(model, reference).items()},
        "projections": _projections(model, config, trained.seed, error),
    }


def _ablations(model: AttentionTransformer, reference: CopyBatch) -> dict[str, Hooks]:
    """Either head, replaced by zero or by its mean over other sequences."""
    found: dict[str, Hooks] = {}
    for name, layer in (("layer1", FIRST), ("layer2", SECOND)):
        mean = mean_head_output(model, reference, layer, 0)
        found[f"{name}_zero_ablated"] = AblateHead(layer, 0, torch.zeros_like(mean))
        found[f"{name}_mean_ablated"] = AblateHead(layer, 0, mean)
    return found


def _cuts(model: AttentionTransformer, reference: CopyBatch) -> dict[str, Hooks]:
    """Each path from the first layer cut alone, and all but the one to the keys."""
    mean = mean_first_addition(model, reference)
    plural = {"query": "queries", "key": "keys", "value": "values", DIRECT: DIRECT}
    found: dict[str, Hooks] = {f"cut_{plural[path]}": CutPaths(model, [path], mean) for path in (*ROLES, DIRECT)}
    found["only_keys"] = CutPaths(model, ["query", "value", DIRECT], mean)
    return found


def _projections(
    model: AttentionTransformer, config: InterventionConfig, seed: int, error: Callable[[Hooks | None], float]
) -> list[dict[str, Any]]:
    """Errors with the second layer's keys projected on and off each subspace, by rank."""
    later, earlier = bridge_svds(model)
    generator = numpy_stream(config.seed, "random-subspaces", seed)
    rows = []
    for rank in config.projection_ranks:
        bases = {"bridge": later.right[:, :rank], "written": earlier.left[:, :rank]}
        row: dict[str, Any] = {"rank": rank}
        for name, basis in bases.items():
            for words, keep in (("keep", True), ("remove", False)):
                row[f"{words}_{name}"] = error(ProjectKeys(projector(basis, keep)))
        randoms = [_random_basis(later.right.shape[0], rank, generator) for _ in range(config.random_subspaces)]
        for words, keep in (("keep", True), ("remove", False)):
            row[f"{words}_random"] = [error(ProjectKeys(projector(basis, keep))) for basis in randoms]
        rows.append(row)
    return rows


def _random_basis(width: int, rank: int, generator: np.random.Generator) -> Tensor:
    """Orthonormal columns of a uniformly random subspace, (width, rank), float64."""
    basis: Tensor = torch.linalg.qr(torch.from_numpy(generator.standard_normal((width, rank))))[0]
    return basis


def measurements(runs: Mapping[str, Any], ranks: Sequence[int]) -> dict[str, Any]:
    """What the claims about causes refer to."""
    rank = min(ranks, key=lambda r: abs(r - CLAIM_RANK))
    found = {"ood_error_intact": over_runs(dict(runs), [run["intact"] for run in runs.values()])}
    for group in ("ablations", "paths"):
        for name in next(iter(runs.values()))[group]:
            found[f"ood_error_{name}"] = over_runs(dict(runs), [run[group][name] for run in runs.values()])
    for subspace in SUBSPACES:
        for words in ("keep", "remove"):
            values = [_excess(run, rank, words, subspace) for run in runs.values()]
            note = f"rank {rank}; error minus the mean error with random subspaces of the same model"
            found[f"{words}_{subspace}_excess_error"] = {**over_runs(dict(runs), values), "note": note}
    return found


def _excess(run: Mapping[str, Any], rank: int, words: str, subspace: str) -> float:
    (row,) = [row for row in run["projections"] if row["rank"] == rank]
    return float(row[f"{words}_{subspace}"] - np.mean(row[f"{words}_random"]))
