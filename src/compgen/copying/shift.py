"""The out-of-distribution test taken apart: which of its changes costs what, and shifts beyond it.

The paper's test changes the token law and the segment length at once (dossier 1.1). Covers each alone, the distance
between the copies, the context length, a third copy, rare and frequent tokens, and tokens that were never trained. All
errors are aligned; every model sees the same sequences.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from compgen.copying.arms import common_step
from compgen.copying.causal_config import OOD_LENGTH, ShiftConfig
from compgen.copying.config import CopyingTrainConfig, DataConfig, trained_config
from compgen.copying.errors import evaluate
from compgen.copying.interventions import predictor
from compgen.copying.model import AttentionTransformer
from compgen.copying.progress import measurable, over_runs
from compgen.copying.sequences import CopyBatch, draw_sequences, token_law
from compgen.copying.training import kept_steps, load_model
from compgen.randomness import stream_seed, torch_stream
from compgen.run.context import FinishedJob
from compgen.statistics import bootstrap_mean, paired_bootstrap

FIXED_LENGTH = 15
"""Segment length where something else is varied: within the training range, with room for gaps and a third copy."""
Progress = Callable[[int, int], None]


def measure_shifts(jobs: Sequence[FinishedJob], config: ShiftConfig, progress: Progress) -> dict[str, Any]:
    """Every condition on every two-layer model, summaries over seeds, and the measurements for claims."""
    chosen = [job for job in jobs if measurable(job)]
    step = common_step([kept_steps(job) for job in chosen])
    sets = draw_conditions(trained_config(chosen[0].config).data, config)
    runs: dict[str, Any] = {}
    for number, job in enumerate(chosen, start=1):
        runs[job.name] = _measure_run(job, step, sets, config)
        progress(number, len(chosen))
    conditions = {name: _over(runs, name) for name in next(iter(runs.values()))["errors"]}
    return {"step": step, "runs": runs, "conditions": conditions, "measurements": _measurements(runs, conditions)}


def draw_conditions(data: DataConfig, config: ShiftConfig) -> dict[str, CopyBatch]:
    """The test sequences of every condition, by name."""
    train, uniform = token_law(data.law, data.vocabulary), token_law(data.ood_law, data.vocabulary)
    shortest, longest = data.segment_minimum, data.segment_maximum

    def draw(name: str, law: Tensor, low: int, high: int, length: int = data.length, **options: Any) -> CopyBatch:
        generator = torch_stream(config.seed, name)
        segment_law = options.pop("segment_law", law)
        return draw_sequences(config.sequences, length, law, segment_law, low, high, generator, **options)

    sets = {
        "none": draw("none", train, shortest, longest),
        "law_only": draw("law_only", uniform, shortest, longest),
        "length_only": draw("length_only", train, OOD_LENGTH, OOD_LENGTH),
        "both": draw("both", uniform, OOD_LENGTH, OOD_LENGTH),
    }
    for size in config.lengths:
        sets[f"length_{size}"] = draw(f"length_{size}", train, size, size)
    for gap in config.gaps:
        sets[f"gap_{gap}"] = draw(f"gap_{gap}", uniform, FIXED_LENGTH, FIXED_LENGTH, gap=gap)
    for context in config.contexts:
        sets[f"context_{context}"] = draw(f"context_{context}", uniform, OOD_LENGTH, OOD_LENGTH, context)
    for name, tokens in (("rare", slice(-config.rare_tokens, None)), ("frequent", slice(0, config.rare_tokens))):
        law = torch.zeros_like(train)
        law[tokens] = 1 / config.rare_tokens
        sets[f"{name}_tokens"] = draw(f"{name}_tokens", train, shortest, longest, segment_law=law)
    sets["three_copies"] = draw("three_copies", uniform, FIXED_LENGTH, FIXED_LENGTH, repeats=3)
    return sets


@torch.no_grad()
def _measure_run(job: FinishedJob, step: int, sets: dict[str, CopyBatch], config: ShiftConfig) -> dict[str, Any]:
    trained = trained_config(job.config)
    model = load_model(job, trained, step)

    def error(batch: CopyBatch, of: AttentionTransformer, copy: int = 1) -> float:
        return evaluate(predictor(of), batch, trained.data.vocabulary, copy).error("aligned")

    errors = {name: error(batch, model) for name, batch in sets.items() if name != "three_copies"}
    errors["second_copy"] = error(sets["three_copies"], model)
    errors["third_copy"] = error(sets["three_copies"], model, copy=2)
    errors["fresh_tokens"] = error(sets["rare_tokens"], _with_fresh_tokens(job, step, trained, config))
    return {"seed": trained.seed, "errors": errors}


def _with_fresh_tokens(
    job: FinishedJob, step: int, trained: CopyingTrainConfig, config: ShiftConfig
) -> AttentionTransformer:
    """The model with embedding and unembedding of the rarest tokens drawn anew, as if they had never been trained."""
    model = load_model(job, trained, step)
    seed = stream_seed(config.seed, "fresh", trained.seed)
    fresh = AttentionTransformer(trained.model, trained.data.vocabulary, seed)
    rows = slice(-config.rare_tokens, None)
    model.embedding.weight[rows] = fresh.embedding.weight[rows]
    model.unembedding.weight[rows] = fresh.unembedding.weight[rows]
    model.unembedding.bias[rows] = fresh.unembedding.bias[rows]
    return model


def _over(runs: dict[str, Any], name: str) -> dict[str, Any]:
    """Mean and interval over seeds of one condition."""
    values = [run["errors"][name] for run in runs.values()]
    interval = bootstrap_mean(values)
    return {"value": sum(values) / len(values), "low": interval.low, "high": interval.high, "n": len(values)}


def _measurements(runs: dict[str, Any], conditions: dict[str, Any]) -> dict[str, Any]:
    found = {f"error_{name}": over_runs(runs, [run["errors"][name] for run in runs.values()]) for name in conditions}
    found["effect_of_law"] = _difference(runs, "law_only", "none")
    found["effect_of_length"] = _difference(runs, "length_only", "none")
    found["third_minus_second_copy"] = _difference(runs, "third_copy", "second_copy")
    return found


def _difference(runs: dict[str, Any], first: str, second: str) -> dict[str, Any]:
    """Mean over seeds of a difference between two conditions, paired by seed."""
    pairs = [(run["errors"][first], run["errors"][second]) for run in runs.values()]
    found = over_runs(runs, [a - b for a, b in pairs])
    if len(pairs) > 1:
        found["interval"] = paired_bootstrap([a for a, _ in pairs], [b for _, b in pairs]).as_dict()
    return found
