"""The exact theory as an experiment: many random instances of every theorem, and what they say together.

A distance that a theorem says is zero is reported by its largest value over all instances, which has no interval: one
violation refutes. The size of an effect where assumptions are violated is reported by its mean with a bootstrap
interval over instances.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from compgen.composition import guarantees, theorems
from compgen.composition.task_arithmetic import log_linear, transformer
from compgen.composition.theory_config import ExactConfig, TaskArithmeticConfig
from compgen.randomness import numpy_stream
from compgen.statistics import Interval, bootstrap_mean, wilson

EXACT = (
    "factorized_marginal_distance",
    "factorized_log_normalizer",
    "dependent_log_normalizer",
    "switching_distance",
    "switching_log_normalizer",
    "interval_distance",
    "interval_log_normalizer",
    "covariance_identity_gap",
    "moment_identity_gap",
    "reweighting_identity_gap",
    "feature_causal_stepwise",
    "feature_causal_global",
    "feature_noncausal_global",
    "feature_random_causal_stepwise",
    "feature_random_causal_global",
    "feature_random_noncausal_global",
    "margin_disagreements",
)
"""What must be zero on every instance."""
EFFECTS = (
    "dependent_marginal_difference",
    "switching_marginal_difference",
    "interval_log_normalizer_elsewhere",
    "overlap_log_normalizer",
    "overlap_stepwise_against_global",
    "feature_noncausal_stepwise",
    "feature_random_noncausal_stepwise",
)
"""What must not be."""
EVERYWHERE = ("overlap_stepwise_against_global", "feature_noncausal_stepwise", "feature_random_noncausal_stepwise")
"""Effects that no random instance escapes: their smallest values are measured too."""
SMALL_SHARE = 0.01
"""Up to this share the interference of a bystander is fitted by a power law."""
Progress = Callable[[int, int], None]
Theorem = Callable[[np.random.Generator], theorems.Numbers]


def measure_exact(config: ExactConfig, seed: int, progress: Progress) -> dict[str, Any]:
    """Every theorem on `config.instances` random instances."""
    values: dict[str, list[float]] = {}
    bounds, doses = [], []
    for instance in range(config.instances):
        for name, theorem in _theorems(config, instance).items():
            for key, value in theorem(numpy_stream(seed, name, instance)).items():
                values.setdefault(key, []).append(value)
        bounds.append(_length_bound(config, numpy_stream(seed, "bound", instance)))
        generator = numpy_stream(seed, "dose", instance)
        doses.append(theorems.interference_dose(generator, config.vocabulary, config.length, config.shares))
        progress(instance + 1, config.instances)
    return {
        "values": values,
        "bound": _medians(bounds, "length", config.bound_lengths),
        "bound_mean_ratios": [float(np.mean([row["ratio"] for row in rows])) for rows in bounds],
        "bound_largest_ratios": [max(row["ratio"] for row in rows) for rows in bounds],
        "bound_exceeded_after_lapse": [float(rows[-1]["lapsed_error"] > rows[-1]["bound"]) for rows in bounds],
        "sharpest_step_gaps": [_sharpest_gap(config, numpy_stream(seed, "sharp", i)) for i in range(config.instances)],
        "dose": _medians(doses, "share", config.shares),
        "dose_slopes": [_dose_slope(rows) for rows in doses],
        "interference": _interference_points(config, seed),
        "tails": [guarantees.vanishing_divergence(tail, config.tail_experts) for tail in config.tail_probabilities],
        "seed": seed,
    }


def _theorems(config: ExactConfig, instance: int) -> Mapping[str, Theorem]:
    vocabulary, length = config.vocabulary, config.length
    experts = 2 + instance % (config.identity_experts - 1)
    return {
        "factorized": lambda generator: theorems.factorized_conditionals(generator, vocabulary, length),
        "dependent": lambda generator: theorems.dependent_blocks(generator, vocabulary, length),
        "switching": lambda generator: theorems.switching_skills(generator, vocabulary, length),
        "interval": lambda generator: theorems.interval_skills(generator, vocabulary + 2, length),
        "overlap": lambda generator: theorems.overlapping_skills(generator, vocabulary, length),
        "identities": lambda generator: theorems.interference_identities(generator, vocabulary, length, experts),
        "features": lambda generator: theorems.feature_maps(generator, vocabulary, length),
        "margin": lambda generator: guarantees.margin_criterion(generator, 10, config.bound_experts),
    }


def _length_bound(config: ExactConfig, generator: np.random.Generator) -> list[theorems.Numbers]:
    return guarantees.length_bound(
        generator, config.vocabulary + 2, config.bound_experts, config.bound_lengths, config.bound_trusted
    )


def _sharpest_gap(config: ExactConfig, generator: np.random.Generator) -> float:
    """How far the sharpest step is from the bound, as a share of the bound."""
    error, closeness = 10 ** generator.uniform(-5, -2), 10 ** generator.uniform(-3, -0.5)
    bound = guarantees.step_error_bound(error, closeness, config.bound_experts)
    return abs(guarantees.sharpest_step(error, closeness, config.bound_experts) - bound) / bound


def _dose_slope(rows: Sequence[theorems.Numbers]) -> float:
    """The exponent of the distance's growth with the share, fitted up to SMALL_SHARE (or the first two shares)."""
    fitted = [row for row in rows if row["share"] <= SMALL_SHARE]
    fitted = fitted if len(fitted) >= 2 else list(rows[:2])
    shares, distances = (np.log([row[key] for row in fitted]) for key in ("share", "distance"))
    return float(np.polyfit(shares, distances, 1)[0])


def _interference_points(config: ExactConfig, seed: int) -> dict[str, list[float]]:
    points = [
        theorems.interference_point(numpy_stream(seed, "interference", i), config.vocabulary)
        for i in range(config.interference_points)
    ]
    covariances, surpluses = zip(*points, strict=True)
    return {"covariance": list(covariances), "normalizer_minus_one": list(surpluses)}


def _medians(
    instances: Sequence[Sequence[theorems.Numbers]], axis: str, points: Sequence[float]
) -> list[dict[str, float]]:
    """For every point of an axis the median and the quartiles over instances of what was measured there."""
    rows = []
    for index, point in enumerate(points):
        row = {axis: float(point)}
        for key in instances[0][index]:
            low, middle, high = np.quantile([rows[index][key] for rows in instances], [0.25, 0.5, 0.75])
            row |= {key: float(middle), f"{key}_low": float(low), f"{key}_high": float(high)}
        rows.append(row)
    return rows


def measure_task_arithmetic(config: TaskArithmeticConfig, seed: int, progress: Progress) -> dict[str, Any]:
    """The log-linear control and the transformers, one of each a model."""
    models = []
    for number in range(config.models):
        model_seed = seed * 1000 + number
        models.append(
            {"seed": model_seed, "log_linear": log_linear(config, model_seed), **transformer(config, model_seed)}
        )
        progress(number + 1, config.models)
    return {"models": models}


def exact_measurements(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Measurements of the enumerations."""
    values: Mapping[str, list[float]] = metrics["values"]
    seeds = [metrics["seed"]]
    found = {name: _worst(values[name], seeds) for name in EXACT}
    found |= {name: _mean(values[name], seeds) for name in EFFECTS}
    found["margin_survivals"] = _share(values["margin_survivals"], seeds)
    found |= {f"{name}_smallest": _smallest(values[name], seeds) for name in EVERYWHERE}
    found["bound_largest_ratio"] = _worst(metrics["bound_largest_ratios"], seeds)
    found["bound_mean_ratio"] = _mean(metrics["bound_mean_ratios"], seeds)
    found["bound_sharpest_gap"] = _worst(metrics["sharpest_step_gaps"], seeds)
    found["bound_exceeded_after_lapse"] = _share(metrics["bound_exceeded_after_lapse"], seeds)
    found["dose_slope"] = _mean(metrics["dose_slopes"], seeds)
    smallest = min(metrics["tails"], key=lambda row: row["tail"])
    found["tail_divergence"] = _worst([smallest["divergence"]], seeds)
    found["tail_wrong_choices"] = _smallest([row["choice_is_wrong"] for row in metrics["tails"]], seeds)
    found["tail_wrong_experts"] = _worst([row["expert_is_wrong"] for row in metrics["tails"]], seeds)
    return found


def task_arithmetic_measurements(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Measurements of the models."""
    models = metrics["models"]
    seeds = [model["seed"] for model in models]
    found = {"log_linear_distance": _worst([model["log_linear"]["distance"] for model in models], seeds)}
    for name in ("gap_slope", "relative_gap_slope", "divergence_slope", "added_accuracy", "composed_accuracy"):
        found[f"transformer_{name}"] = _mean([model[name] for model in models], seeds)
    controls = [model["output_layer"] for model in models]
    found["output_layer_distance"] = _worst([control["distance"] for control in controls], seeds)
    found["output_layer_expert_accuracy"] = _mean([control["expert_accuracy"] for control in controls], seeds)
    found["transformer_relative_gap"] = _mean([model["rows"][-1]["relative_gap"] for model in models], seeds)
    found["transformer_expert_accuracy"] = _mean([model["expert_accuracy"] for model in models], seeds)
    return found


def _worst(values: Sequence[float], seeds: Sequence[int]) -> dict[str, Any]:
    return _measurement(float(np.max(np.abs(values))), None, values, seeds, "the largest over all instances")


def _smallest(values: Sequence[float], seeds: Sequence[int]) -> dict[str, Any]:
    return _measurement(float(np.min(values)), None, values, seeds, "the smallest over all instances")


def _mean(values: Sequence[float], seeds: Sequence[int]) -> dict[str, Any]:
    interval = bootstrap_mean(values) if len(values) > 1 else None
    note = f"the mean; single instances from {np.min(values):.3g} to {np.max(values):.3g}"
    return _measurement(float(np.mean(values)), interval, values, seeds, note)


def _share(outcomes: Sequence[float], seeds: Sequence[int]) -> dict[str, Any]:
    """The share of independent instances in which something happened, each outcome 0 or 1."""
    interval = wilson(int(sum(outcomes)), len(outcomes))
    return _measurement(float(np.mean(outcomes)), interval, outcomes, seeds, "the share of instances")


def _measurement(
    value: float, interval: Interval | None, values: Sequence[float], seeds: Sequence[int], note: str
) -> dict[str, Any]:
    bounds = interval.as_dict() if interval else None
    return {"value": value, "interval": bounds, "n": len(values), "seeds": list(seeds), "note": note}
