"""Progress measures of trained models through training, each against its null (dossier 1.5, items S2, S3, S4, S6).

Covers two-layer models of one head a layer. Attention measures are taken on out-of-distribution sequences, weight
measures on the second layer's W_QK and the first layer's W_OV. The nulls are random subspaces, freshly initialized
models, and uniform attention.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compgen.copying.arms import arm_name, common_step
from compgen.copying.causal_config import MeasureConfig
from compgen.copying.config import CopyingTrainConfig, trained_config
from compgen.copying.interventions import FIRST, SECOND, record
from compgen.copying.model import AttentionTransformer
from compgen.copying.sequences import CopyBatch
from compgen.copying.training import Source, kept_steps, load_model
from compgen.measures import (
    Factored,
    ThinSvd,
    composition_score,
    copy_queries,
    diagonal_score,
    duplicate_token_score,
    gaussian_heads_null,
    induction_score,
    inner_match,
    match_null,
    output_value,
    previous_token_score,
    query_key,
    thin_svd,
    uniform_attention_at_offset,
    upper_p_value,
)
from compgen.randomness import numpy_stream, stream_seed, torch_stream
from compgen.run.context import FinishedJob
from compgen.statistics import bootstrap_mean

TWO_LAYER = "two-layer"
MEASURES = ("previous", "induction", "duplicate", "match_largest", "match_rms", "diagonal", "composition")
SIGNIFICANT = 0.05
Progress = Callable[[int, int], None]


def measurable(job: FinishedJob) -> bool:
    """Whether a training run is one of the two-layer, one-head models that the measures are for."""
    model = job.config["model"]
    return job.kind == "copying_train" and (model["layers"], model["heads"], model["feedforward"]) == (2, 1, 0)


def measure_runs(jobs: Sequence[FinishedJob], config: MeasureConfig, progress: Progress) -> dict[str, Any]:
    """Every measure at every checkpoint of every run, the nulls, and the measurements for claims."""
    chosen = [job for job in jobs if measurable(job)]
    total = sum(len(kept_steps(job)) for job in chosen)
    runs, done = {}, 0
    for job in chosen:
        runs[job.name] = _measure_run(job, config)
        done += len(runs[job.name]["step"])
        progress(done, total)
    nulls = measure_nulls(trained_config(chosen[0].config), config)
    return {"runs": runs, "nulls": nulls, "measurements": measurements(runs, nulls, config.rank)}


def _measure_run(job: FinishedJob, config: MeasureConfig) -> dict[str, Any]:
    trained = trained_config(job.config)
    batch = ood_batch(trained, config)
    steps = kept_steps(job)
    rows = [measure(load_model(job, trained, step), batch, config) for step in steps]
    full = sorted({_nearest(steps, wanted) for wanted in config.full_steps})
    return {
        "arm": arm_name(job),
        "seed": trained.seed,
        "step": steps,
        **{name: [row[name] for row in rows] for name in MEASURES},
        "spectra": {str(step): spectra(load_model(job, trained, step), config.ranks) for step in full},
    }


def _nearest(steps: Sequence[int], wanted: int) -> int:
    return min(steps, key=lambda step: abs(step - wanted))


def ood_batch(trained: CopyingTrainConfig, config: MeasureConfig) -> CopyBatch:
    """The out-of-distribution sequences on which attention is measured, the same for every run of a data setting."""
    return Source(trained.data, None).draw_ood(config.sequences, torch_stream(config.seed, "measure"))


@torch.no_grad()
def measure(model: AttentionTransformer, batch: CopyBatch, config: MeasureConfig) -> dict[str, float]:
    """All measures of one model."""
    first, second = record(model, batch.tokens).patterns  # (sequence, head, query, key)
    distance = batch.starts[:, 1] - batch.starts[:, 0]
    queries = copy_queries(batch.starts[:, 1], batch.lengths, batch.tokens.shape[1])
    later, earlier = bridge_factors(model)
    match = inner_match(thin_svd(later), thin_svd(earlier), config.rank)
    return {
        "previous": _single(previous_token_score(first.transpose(0, 1))),
        "induction": _single(induction_score(second.transpose(0, 1), distance, queries)),
        "duplicate": _single(duplicate_token_score(second.transpose(0, 1), distance, queries)),
        "match_largest": float(match.largest[-1]),
        "match_rms": float(match.rms[-1]),
        "diagonal": diagonal_score(later, earlier),
        "composition": composition_score(later, earlier),
    }


def bridge_factors(model: AttentionTransformer) -> tuple[Factored, Factored]:
    """W_QK of the second layer and W_OV of the first, as factors."""
    later, earlier = model.head_factors(SECOND, 0), model.head_factors(FIRST, 0)
    return (
        query_key(later["query"].detach(), later["key"].detach()),
        output_value(earlier["output"].detach(), earlier["value"].detach()),
    )


def bridge_svds(model: AttentionTransformer) -> tuple[ThinSvd, ThinSvd]:
    """Singular vectors of both."""
    later, earlier = bridge_factors(model)
    return thin_svd(later), thin_svd(earlier)


def spectra(model: AttentionTransformer, ranks: int) -> dict[str, list[float]]:
    """The match at every rank and both spectra (S4)."""
    later, earlier = bridge_svds(model)
    match = inner_match(later, earlier, ranks)
    return {
        "largest": match.largest.tolist(),
        "rms": match.rms.tolist(),
        "query_key_values": later.values[:ranks].tolist(),
        "output_value_values": earlier.values[:ranks].tolist(),
    }


def _single(scores: Tensor) -> float:
    """The score of the only head."""
    return float(scores.flatten()[0])


def measure_nulls(trained: CopyingTrainConfig, config: MeasureConfig) -> dict[str, Any]:
    """What every measure is under chance: freshly initialized models, random subspaces, uniform attention."""
    batch = ood_batch(trained, config)
    fresh = [
        measure(
            AttentionTransformer(trained.model, trained.data.vocabulary, stream_seed(config.seed, "null", i)),
            batch,
            config,
        )
        for i in range(config.null_models)
    ]
    gaussian = gaussian_heads_null(
        trained.model.width, trained.model.width, config.null_draws, stream_seed(config.seed, "gaussian")
    )
    null = match_null(trained.model.width, config.ranks, config.null_draws, numpy_stream(config.seed, "subspaces"))
    every = np.ones((len(batch), batch.tokens.shape[1]), dtype=bool)
    queries = copy_queries(batch.starts[:, 1], batch.lengths, batch.tokens.shape[1]).numpy()
    distance = (batch.starts[:, 1] - batch.starts[:, 0]).numpy()
    return {
        "initialized": {name: _quantiles([row[name] for row in fresh]) for name in MEASURES},
        "subspaces": {
            "largest": [_quantiles(null.largest[:, rank].tolist()) for rank in range(config.ranks)],
            "rms": [_quantiles(null.rms[:, rank].tolist()) for rank in range(config.ranks)],
            "largest_draws": null.largest[:, config.rank - 1].tolist(),
        },
        "gaussian": {
            "diagonal": _quantiles(gaussian.diagonal.tolist()),
            "composition": _quantiles(gaussian.composition.tolist()),
        },
        "uniform": {
            "previous": uniform_attention_at_offset(1, every),
            "induction": uniform_attention_at_offset(distance - 1, queries),
        },
    }


def _quantiles(values: Sequence[float]) -> dict[str, float]:
    low, middle, high = np.quantile(values, [0.025, 0.5, 0.975])
    return {"low": float(low), "median": float(middle), "high": float(high), "n": len(values)}


def measurements(runs: dict[str, Any], nulls: dict[str, Any], rank: int) -> dict[str, Any]:
    """What the claims about progress refer to."""
    two_layer = {name: run for name, run in runs.items() if run["arm"] == TWO_LAYER}
    last = common_step([run["step"] for run in two_layer.values()])
    found: dict[str, Any] = {}
    for name in MEASURES:
        for when, step in (("initial", 0), ("final", last)):
            values = [run[name][run["step"].index(step)] for run in two_layer.values()]
            found[f"{name}_{when}"] = {**over_runs(two_layer, values), "note": f"at step {step}"}
    draws = nulls["subspaces"]["largest_draws"]
    matches = [run["match_largest"][run["step"].index(last)] for run in two_layer.values()]
    significant = [upper_p_value(match, draws) < SIGNIFICANT for match in matches]
    note = f"p < {SIGNIFICANT} against random subspaces at rank {rank}"
    found["match_largest_significant_share"] = {**over_runs(two_layer, list(map(float, significant))), "note": note}
    for name, run in runs.items():
        if run["arm"].startswith("pool"):
            single = {name: run}
            for measure_name in MEASURES:
                found[f"{measure_name}_final_{run['arm']}"] = over_runs(single, [run[measure_name][-1]])
            p_value = upper_p_value(run["match_largest"][-1], draws)
            found[f"match_largest_p_value_{run['arm']}"] = {**over_runs(single, [p_value]), "note": note}
    return found


def over_runs(runs: dict[str, Any], values: Sequence[float]) -> dict[str, Any]:
    """Mean over runs with a bootstrap interval; none where there is one run."""
    return {
        "value": float(np.mean(values)),
        "interval": bootstrap_mean(values).as_dict() if len(values) > 1 else None,
        "n": len(values),
        "seeds": [run["seed"] for run in runs.values()],
        "files": [f"copying/{name}/metrics.json" for name in runs],
    }


@torch.no_grad()
def maps(job: FinishedJob, config: MeasureConfig) -> dict[str, Tensor]:
    """Attention patterns and weight products before and after training (S3), under names that say what they are."""
    trained = trained_config(job.config)
    batch = ood_batch(trained, config).rows(0, config.map_sequences)
    steps = kept_steps(job)
    found: dict[str, Tensor] = {"tokens": batch.tokens, "starts": batch.starts, "lengths": batch.lengths}
    for when, step in (("before", steps[0]), ("after", steps[-1])):
        model = load_model(job, trained, step)
        for layer, pattern in enumerate(record(model, batch.tokens).patterns):
            found[f"{when}_attention{layer}"] = pattern[:, 0].contiguous()
        later, earlier = bridge_factors(model)
        products = {"query_key": later.dense(), "output_value": earlier.dense()}
        products["product"] = products["query_key"] @ products["output_value"]
        found.update({f"{when}_{name}": value.contiguous() for name, value in products.items()})
    return found
