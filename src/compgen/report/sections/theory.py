"""The exact theory's figures: what vanishes and what not, interference, features, lengths, tails and weights."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from compgen.report.figure import COLORS, MARKERS, Figure, RunTree, blank, plot_band, series
from compgen.run.context import FinishedJob

EXACT = "theory/exact"
ARITHMETIC = "theory/task-arithmetic"
FLOOR = 1e-18
TOLERANCE = 1e-12
DISTANCES = {
    "factorized_marginal_distance": "factorized: marginals",
    "switching_distance": "disjoint skills: ideal switching",
    "interval_distance": "skills between stopping times: ideal machine",
    "feature_causal_stepwise": "causal features, step by step",
    "feature_causal_global": "causal features, global",
    "feature_noncausal_global": "non-causal features, global",
    "feature_noncausal_stepwise": "non-causal features, step by step",
    "dependent_marginal_difference": "disjoint but dependent: marginals",
    "switching_marginal_difference": "disjoint skills: one position's marginal",
    "overlap_stepwise_against_global": "overlapping skills: step by step vs global",
}
MAPS = {
    "causal": "differences (causal)",
    "random_causal": "random causal maps",
    "noncausal": "mirror (non-causal)",
    "random_noncausal": "random bijections (non-causal)",
}


def introduction() -> str:
    """What was done, in plain words."""
    return (
        "Distributions over all short sequences of a few symbols are written down explicitly, so that theorems can be "
        "checked by enumeration in double precision, on many random instances each. What a theorem says is equal must "
        "be equal to rounding on every instance. Where an assumption is violated on purpose, the size of the failure "
        "is reported. The last part compares adding weight differences with multiplying distributions. The paper's "
        "body was not available: its theorems are reconstructed from the abstract and secondary sources; the bound on "
        "lengths, the identities of the normalizer and all counterexamples are ours."
    )


def figures(run: RunTree) -> list[Figure]:
    """The figures that the finished jobs allow."""
    exact, arithmetic = run.job(EXACT), run.job(ARITHMETIC)
    found = [draw(exact) for draw in (_distances, _interference, _features, _bound, _tails)] if exact else []
    return [*found, _gap(arithmetic)] if arithmetic else found


def _distances(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=4.2)
        for row, name in enumerate(DISTANCES):
            values = np.maximum(np.array(job.metrics["values"][name]), FLOOR)
            color = COLORS[0] if values.max() < TOLERANCE else COLORS[1]
            low, middle, high = np.quantile(values, [0, 0.5, 1])
            axes.plot([low, high], [row, row], color=color, linewidth=3, solid_capstyle="butt")
            axes.plot([middle], [row], marker="o", color=color)
        axes.axvline(TOLERANCE, color=COLORS[6], linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_yticks(range(len(DISTANCES)), list(DISTANCES.values()))
        axes.invert_yaxis()
        axes.set_xlabel("total variation distance: range and median")
        return canvas

    n = len(next(iter(job.metrics["values"].values())))
    return Figure(
        "theory-distances",
        "Which equalities hold exactly, and which do not",
        f"{n} random instances of every construction, all sequences enumerated in float64. Left of the dotted line "
        f"({TOLERANCE:g}) is rounding. The non-causal map breaks the step-by-step rule and not the globally normalized "
        f"one.",
        draw,
        (f"{EXACT}/metrics.json",),
    )


def _interference(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (left, right) = blank(columns=2, height=3.4)
        points: dict[str, list[float]] = job.metrics["interference"]
        left.plot(points["covariance"], points["normalizer_minus_one"], "o", color=COLORS[0], markersize=3, alpha=0.5)
        ends = [min(points["covariance"]), max(points["covariance"])]
        left.plot(ends, ends, color=COLORS[6], linestyle=":", linewidth=1)
        left.set_xscale("symlog", linthresh=0.1)
        left.set_yscale("symlog", linthresh=0.1)
        left.set_xlabel("covariance of the density ratios")
        left.set_ylabel("Z − 1")
        rows: list[dict[str, float]] = job.metrics["dose"]
        _medians(right, rows, "share", "distance", 1, "total variation from the ideal")
        _medians(right, rows, "share", "log_normalizer", 0, "max |log Z|, nats")
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xlabel("how often the bystander interferes")
        right.legend()
        return canvas

    pairs, instances = len(job.metrics["interference"]["covariance"]), len(job.metrics["dose_slopes"])
    slope = float(np.mean(job.metrics["dose_slopes"]))
    return Figure(
        "theory-interference",
        "The normalizer measures interference, and interference has no threshold",
        f"Left: {pairs} random pairs of experts, one step each, on the dotted line of equality. Right: a bystander "
        f"that follows its own skill for a share of the time where another must act; medians and quartiles over "
        f"{instances} instances; fitted exponent {slope:.2f} at small shares, proportional growth would be 1.",
        draw,
        (f"{EXACT}/metrics.json",),
    )


def _medians(axes: Axes, rows: list[dict[str, float]], axis: str, key: str, index: int, label: str) -> None:
    """Medians over instances as a line, quartiles as its band."""
    shares, middle, low, high = (series(rows, name) for name in (axis, key, f"{key}_low", f"{key}_high"))
    plot_band(axes, shares, middle, low, high, label, COLORS[index], marker=MARKERS[index])


def _features(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.6)
        values = job.metrics["values"]
        for index, (name, label) in enumerate(MAPS.items()):
            globally, stepwise = (
                np.maximum(values[f"feature_{name}_{kind}"], FLOOR) for kind in ("global", "stepwise")
            )
            axes.plot(globally, stepwise, MARKERS[index], color=COLORS[index], markersize=3, alpha=0.4, label=label)
        axes.axhline(TOLERANCE, color=COLORS[6], linestyle=":", linewidth=1)
        axes.axvline(TOLERANCE, color=COLORS[6], linestyle=":", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("globally normalized: distance of the features' marginals")
        axes.set_ylabel("step by step: the same")
        axes.legend(loc="center", bbox_to_anchor=(0.66, 0.55))
        return canvas

    n = len(job.metrics["values"]["feature_causal_global"])
    return Figure(
        "theory-features",
        "Decoding step by step keeps features apart only where the map is causal",
        f"Total variation between the composition's and the expert's marginals in feature space, {n} random instances "
        f"a map, float64; below and left of the dotted lines ({TOLERANCE:g}) is rounding.",
        draw,
        (f"{EXACT}/metrics.json",),
    )


def _bound(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.4)
        rows: list[dict[str, float]] = job.metrics["bound"]
        _medians(axes, rows, "length", "bound", 0, "bound")
        _medians(axes, rows, "length", "error", 1, "exact error")
        _medians(axes, rows, "length", "lapsed_error", 2, "exact error, guarantee lapsed")
        axes.axvline(trusted, color=COLORS[6], linestyle=":", linewidth=1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("sequence length T")
        axes.set_ylabel("probability of any error")
        axes.legend()
        return canvas

    settings = job.config["exact"]
    trusted = settings["bound_trusted"]
    return Figure(
        "theory-length-bound",
        "Length generalization: the exact error and a bound from single steps",
        f"Medians and quartiles over {settings['instances']} instances with random guarantees ε (1e-5 to 1e-2) and δ "
        f"(1e-3 to .3), {settings['bound_experts']} experts. The guarantee of the third line lapses after {trusted} "
        f"steps (dotted). The bound is ours: from per-step errors and uniformly close log-ratios.",
        draw,
        (f"{EXACT}/metrics.json",),
    )


def _tails(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.2)
        rows: list[dict[str, float]] = job.metrics["tails"]
        for wrong, label, index in ((1.0, "composed choice is wrong", 1), (0.0, "composed choice is right", 0)):
            points = [(row["tail"], row["divergence"]) for row in rows if row["choice_is_wrong"] == wrong]
            if points:
                axes.plot(
                    *zip(*points, strict=True), marker=MARKERS[index], linestyle="", color=COLORS[index], label=label
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("base probability of the tail symbol")
        axes.set_ylabel("KL(expert‖base), nats")
        axes.legend()
        return canvas

    return Figure(
        "theory-tails",
        "A vanishing divergence does not protect the greedy choice",
        "Four experts, each of which raises a tail symbol a little. The divergence goes to zero with the tail, and the "
        "composition still prefers the tail symbol.",
        draw,
        (f"{EXACT}/metrics.json",),
    )


def _gap(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.6)
        models: list[dict[str, Any]] = job.metrics["models"]
        for index, (key, label) in enumerate(
            (("gap", "gap in logits (∝ λ²)"), ("divergence", "divergence, nats (∝ λ⁴)"))
        ):
            for number, model in enumerate(models):
                rows = model["rows"]
                axes.plot(
                    [row["strength"] for row in rows],
                    [max(row[key], FLOOR) for row in rows],
                    marker=MARKERS[index],
                    color=COLORS[index],
                    alpha=0.6,
                    linewidth=1,
                    label=label if number == 0 else None,
                )
        axes.plot(*_power(models, "gap", 2), color=COLORS[6], linestyle=":", linewidth=1)
        axes.plot(*_power(models, "divergence", 4), color=COLORS[6], linestyle=":", linewidth=1, label="exact powers")
        control = max(model["log_linear"]["gap"] for model in models)
        output = max(model["output_layer"]["gap"] for model in models)
        for index, (value, label) in enumerate(((control, "log-linear control"), (output, "output layer only")), 2):
            axes.plot([1.0], [max(value, FLOOR)], MARKERS[index], color=COLORS[index], label=f"{label}, λ = 1")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("λ, the share of each task vector")
        axes.set_ylabel("difference")
        axes.legend(fontsize=8)
        return canvas

    slopes = [float(np.mean([m[f"{key}_slope"] for m in job.metrics["models"]])) for key in ("gap", "divergence")]
    return Figure(
        "theory-task-arithmetic",
        "Adding task vectors against composing distributions",
        f"{len(job.metrics['models'])} one-layer transformers in float64, each with two experts that learned one "
        f"substitution each; one line a model. Measured exponents between the two smallest λ: gap {slopes[0]:.3f}, "
        f"divergence {slopes[1]:.3f}. Both controls are linear in what moved, and equal to rounding.",
        draw,
        (f"{ARITHMETIC}/metrics.json",),
    )


def _power(models: list[dict[str, Any]], key: str, exponent: int) -> tuple[list[float], list[float]]:
    """A power of λ through the mean of the models at the smallest λ."""
    first, last = models[0]["rows"][0]["strength"], models[0]["rows"][-1]["strength"]
    start = float(np.mean([model["rows"][0][key] for model in models]))
    return [first, last], [start, start * (last / first) ** exponent]
