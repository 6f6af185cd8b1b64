"""Character substitution in free-running generation: number of experts, stopping, length, overlap, prediction."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from compgen.report.figure import COLORS, MARKERS, Figure, RunTree, blank, plot_band
from compgen.run.context import FinishedJob

SUMMARY = "charsub/autoregressive-summary"
SOURCES = (f"{SUMMARY}/metrics.json",)
REGIMES = {
    "scratch": "experts from scratch",
    "finetuned": "experts fine-tuned from the base",
    "hasty": "hasty experts (fine-tuned)",
}
REMEDIES = {
    "composed": "paper's rule",
    "plausibility_mask": "plausibility mask",
    "kl_gate": "KL gate",
    "tail_clip": "tail clip",
    "largest_delta": "largest delta",
    "told_to_stop": "paper's rule, oracle stop",
}
BASELINES = {
    "composed": "paper's rule",
    "mixture": "mixture",
    "mean_log_probability": "mean of log-probabilities",
    "product_without_base": "product without base",
    "uniform": "weights 1/k",
    "task_arithmetic": "task arithmetic (weights)",
}
POLICIES = {
    "composed": "sum (paper)",
    "end_base": "base",
    "end_mean": "mean",
    "end_max": "max",
    "end_gate": "gate",
}


def introduction() -> str:
    """What was done, in plain words."""
    return (
        "The same task as the paper's theory has it and its code has not: the model reads a string, a separator, and "
        "then writes the answer symbol by symbol until it stops by itself. Strings in training have 1 to 16 symbols. "
        "The schedule is ours, since the paper has none for this. An output is exact when every symbol and the stop "
        "are right. Three regimes: experts from scratch, experts fine-tuned from the base, and hasty ones, in which "
        "all components share a small chance to stop after every symbol, as instruction-tuned models share one. All "
        "arms see the same strings."
    )


def figures(run: RunTree) -> list[Figure]:
    """The figures that the finished jobs allow."""
    job = run.job(SUMMARY)
    if job is None:
        return []
    return [
        _against_experts(job, "remedies", REMEDIES, "The paper's rule in free-running generation, with remedies"),
        _against_experts(job, "baselines", BASELINES, "The paper's rule against other ways of combining"),
        _stops(job),
        _lengths(job),
        _normalizer(job),
        _overlap(job),
        _areas(job),
    ]


def _points(axes: Axes, x: Any, points: list[dict[str, Any]], label: str, index: int) -> None:
    low, high = ([_bound(point, side) for point in points] for side in ("low", "high"))
    plot_band(axes, x, [p["value"] for p in points], low, high, label, COLORS[index % 8], marker=MARKERS[index % 8])


def _bound(point: dict[str, Any], side: str) -> float:
    """A bound of a point or of a measurement."""
    interval = point.get("interval", point)
    return float(interval[side]) if interval else float(point["value"])


def _seeds(job: FinishedJob) -> str:
    found = next(iter(job.metrics["measurements"].values()))
    return f"{len(found['seeds'])} seeds"


def _against_experts(job: FinishedJob, name: str, arms: dict[str, str], title: str) -> Figure:
    experts: dict[str, Any] = job.metrics["experts"]

    def draw() -> Canvas:
        canvas, panels = blank(1, len(experts), width=3.4 * len(experts), height=3.6, sharey=True)
        for panel, (regime, series) in zip(panels, experts.items(), strict=True):
            for index, (arm, label) in enumerate(arms.items()):
                if arm in series["arms"]:
                    _points(panel, series["k"], series["arms"][arm]["exact"], label, index)
            panel.set_title(REGIMES[regime], fontsize=9)
            panel.set_xlabel("experts combined, k")
        panels[0].set_ylabel("exact match")
        panels[0].set_ylim(-0.02, 1.03)
        panels[min(1, len(panels) - 1)].legend(fontsize=7)
        return canvas

    return Figure(
        f"charsub-autoregressive-{name}",
        title,
        f"Exact match on strings of the training lengths' maximum, {_seeds(job)}, the same strings for every arm; "
        "bands are 95 % bootstrap intervals over seeds, then strings. Task arithmetic needs a shared start.",
        draw,
        SOURCES,
    )


def _stops(job: FinishedJob) -> Figure:
    experts: dict[str, Any] = job.metrics["experts"]

    def draw() -> Canvas:
        canvas, panels = blank(1, len(experts), width=3.4 * len(experts), height=3.4, sharey=True)
        for panel, (regime, series) in zip(panels, experts.items(), strict=True):
            for index, (arm, label) in enumerate(POLICIES.items()):
                _points(panel, series["k"], series["arms"][arm]["premature"], label, index)
            panel.set_title(REGIMES[regime], fontsize=9)
            panel.set_xlabel("experts combined, k")
        panels[0].set_ylabel("outputs that stop too early")
        panels[0].set_ylim(-0.02, 1.03)
        panels[-1].legend(fontsize=7, title="end of sequence")
        return canvas

    return Figure(
        "charsub-autoregressive-stops",
        "Stopping: what the end token's policy does",
        f"Share of premature stops, mean and 95 % bootstrap over {_seeds(job)}. Under the paper's rule the experts' "
        "log-ratios for the end token add up like all others.",
        draw,
        SOURCES,
    )


def _lengths(job: FinishedJob) -> Figure:
    lengths: dict[str, Any] = job.metrics["lengths"]

    def draw() -> Canvas:
        canvas, panels = blank(1, len(lengths), width=4.2 * len(lengths), height=3.6, sharey=True)
        for panel, (regime, entry) in zip(panels, lengths.items(), strict=True):
            for index, (arm, points) in enumerate(list(entry["alone"].items())[:3]):
                label = {"alone:base": "base, copying"}.get(arm, f"{arm.removeprefix('alone:')} alone, its rule")
                _points(panel, entry["length"], points, label, index)
            for index, count in enumerate(key for key in entry if key.isdigit()):
                _points(
                    panel, entry["length"], entry[count]["arms"]["composed"], f"{count} experts composed", 3 + index
                )
            panel.axvline(16, color=COLORS[6], linewidth=0.8, linestyle=":")
            panel.set_title(REGIMES[regime], fontsize=9)
            panel.set_xlabel("string length (trained up to 16)")
        panels[0].set_ylabel("exact match")
        panels[0].set_ylim(-0.02, 1.03)
        panels[-1].legend(fontsize=7)
        return canvas

    return Figure(
        "charsub-autoregressive-length",
        "Length: the composition keeps what its components can do",
        f"Exact match, 95 % intervals over seeds, then strings ({_seeds(job)}). Components on their own rules, "
        "compositions on all of theirs. Right of the dotted line no model was trained.",
        draw,
        SOURCES,
    )


def _normalizer(job: FinishedJob) -> Figure:
    regions: dict[str, Any] = job.metrics["regions"]

    def draw() -> Canvas:
        canvas, panels = blank(1, len(regions), width=3.4 * len(regions), height=3.2)
        for panel, (regime, found) in zip(panels, regions.items(), strict=True):
            for index, (region, points) in enumerate(found["log_normalizer"].items()):
                kept = [(k, point) for k, point in zip(found["k"], points, strict=True) if point is not None]
                if kept:
                    _points(panel, [k for k, _ in kept], [point for _, point in kept], region, index)
            panel.set_title(REGIMES[regime], fontsize=9)
            panel.set_xlabel("experts combined, k")
        panels[0].set_ylabel("mean log Z (nats)")
        panels[0].legend(fontsize=7, title="where")
        return canvas

    return Figure(
        "charsub-autoregressive-log-normalizer",
        "log Z on the composition's own outputs",
        f"Mean over tokens where a rule should act, where none should, and where the output should end; 95 % bootstrap "
        f"over {_seeds(job)}.",
        draw,
        SOURCES,
    )


def _overlap(job: FinishedJob) -> Figure:
    rows: list[dict[str, Any]] = job.metrics["overlap"]

    def draw() -> Canvas:
        canvas, (left, right) = blank(1, 2, width=8.2, height=3.4, sharey=True)
        percent = [row["percent"] for row in rows]
        _points(left, percent, [row["exact"] for row in rows], "either target accepted", 0)
        _points(left, percent, [row["exact_elsewhere"] for row in rows], "uncontested positions only", 1)
        contested = [row for row in rows if row["percent"]]
        labels = {
            "first": "first expert's target",
            "rival": "second expert's",
            "unchanged": "the letter itself",
            "other": "other",
        }
        for index, (name, label) in enumerate(labels.items()):
            _points(right, [row["percent"] for row in contested], [row[name] for row in contested], label, index)
        left.set_ylabel("share")
        left.set_title("exact match", fontsize=9)
        right.set_title("what is written at contested letters", fontsize=9)
        for panel in (left, right):
            panel.set_xlabel("contested letters (% of each expert's four)")
            panel.set_ylim(-0.02, 1.03)
            panel.legend(fontsize=7)
        return canvas

    return Figure(
        "charsub-autoregressive-overlap",
        "Overlap: two experts that want the same letters",
        f"Two experts of four letters each, fine-tuned, the paper's rule; 95 % intervals ({_seeds(job)}).",
        draw,
        SOURCES,
    )


def _areas(job: FinishedJob) -> Figure:
    measured: dict[str, Any] = job.metrics["measurements"]
    prefix = "auc_"
    present = [name for name, found in measured.items() if found["value"] is not None]
    names = [name for name in present if name.startswith(prefix) and "_over_letters_" not in name]
    regimes = [regime for regime in REGIMES if any(name.endswith(f"_{regime}") for name in names)]
    features = sorted({_feature(name, regimes) for name in names})

    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.8)
        for index, regime in enumerate(regimes):
            for row, feature in enumerate(features):
                name = f"{prefix}{feature}_{regime}"
                if name in names:
                    found = measured[name]
                    y = row + 0.22 * (index - 1)
                    axes.plot([_bound(found, "low"), _bound(found, "high")], [y, y], color=COLORS[index], linewidth=1.6)
                    label = REGIMES[regime] if row == 0 else None
                    axes.plot(
                        [found["value"]], [y], marker=MARKERS[index], color=COLORS[index], linestyle="", label=label
                    )
        axes.axvline(0.5, color=COLORS[6], linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(features)), [feature.replace("_", " ") for feature in features])
        axes.set_xlabel("area under the curve for failing strings")
        axes.set_xlim(0, 1.02)
        if regimes:
            axes.legend(fontsize=7)
        return canvas

    return Figure(
        "charsub-autoregressive-areas",
        "Which diagnostic tells a failing string from a right one",
        f"Mean over the k at which some strings fail and some do not, 95 % bootstrap over {_seeds(job)}. 'letters' is "
        "the baseline: the number of symbols that a rule changes.",
        draw,
        SOURCES,
    )


def _feature(name: str, regimes: list[str]) -> str:
    regime = next(regime for regime in regimes if name.endswith(f"_{regime}"))
    return name.removeprefix("auc_").removesuffix(f"_{regime}")
