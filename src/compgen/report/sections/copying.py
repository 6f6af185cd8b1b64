"""The copying study's own figures: errors through training, pools of segments, positions and tokens, variants."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from compgen.report.figure import COLORS, MARKERS, Figure, RunTree, blank, paper_line, plot_band, plot_points
from compgen.run.context import FinishedJob

SUMMARY = "copying/summary"
SOURCES = (f"{SUMMARY}/metrics.json",)
LABELS = {
    "two-layer": "two layers",
    "one-layer": "one layer",
    "mlp": "two layers + MLP",
    "four-layer": "4 layers × 4 heads",
    "eight-layer": "8 layers × 8 heads",
    "rotary100": "rotary base 100",
    "vocabulary128": "vocabulary 128",
    "two-level": "two-level token law",
    "uniform": "uniform token law",
}
SETS = {"ood": "out of distribution", "id": "in distribution, fresh segments", "pool": "training pool"}


def introduction() -> str:
    """What was done, in plain words."""
    return (
        "A small attention-only transformer reads sequences in which one random segment occurs twice, and learns to "
        "predict the next token. Out of distribution the tokens are uniform and the segment has 25 tokens, in training "
        "it has 10 to 19 tokens of a Zipf-like law. The generator, model, optimizer and schedule are the authors' "
        "(their code); the paper shows one seed, we show several. Two definitions of the error are measured on the "
        "same models: the authors' judges one token after the segment, which nobody can predict, so that even a "
        "perfect copier scores about .047 out of distribution; the aligned one judges only tokens that can be copied, "
        "and a perfect copier scores 0. All curves are aligned unless they say otherwise."
    )


def figures(run: RunTree) -> list[Figure]:
    """The figures that the finished jobs allow."""
    job = run.job(SUMMARY)
    if job is None:
        return []
    arms: dict[str, Any] = job.metrics["arms"]
    found = [_error_curves(job), _every_seed(job), _loss_curves(job), _definitions(job)]
    found += [_by_position(job), _by_token(job)]
    if any(name.startswith("pool") for name in arms):
        found += [_pool_curves(job), _pool_final(job)]
    if any(name in arms for name in list(LABELS)[2:]):
        found.append(_variants(job))
    return found


def _seeds(job: FinishedJob, arm: str) -> str:
    entry = job.metrics["arms"][arm]
    return f"{LABELS.get(arm, arm)}: {len(entry['seeds'])} seed{'s' if len(entry['seeds']) > 1 else ''}"


def _main_arms(job: FinishedJob) -> list[str]:
    return [name for name in ("two-layer", "one-layer") if name in job.metrics["arms"]]


def _curve(axes: Axes, job: FinishedJob, arm: str, measure: str, label: str, index: int, style: str = "-") -> None:
    """The mean of an arm's runs with its band; thin from where the shorter runs have ended."""
    curves = job.metrics["arms"][arm]["curves"]
    band, runs = curves[measure], curves["n"]
    steps = _on_log_axis(curves["step"])
    common = sum(n == max(runs) for n in runs)
    color = COLORS[index % len(COLORS)]
    mean, low, high = (band[name][:common] for name in ("mean", "low", "high"))
    plot_band(axes, steps[:common], mean, low, high, label, color, linestyle=style)
    if common < len(steps):
        rest = slice(common - 1, None)
        axes.plot(steps[rest], band["mean"][rest], color=color, linestyle=style, linewidth=0.8)


def _on_log_axis(steps: list[float]) -> list[float]:
    """Steps with 0, which has no place on a logarithmic axis, moved to just before 1."""
    return [max(step, 0.7) for step in steps]


def _error_axis(axes: Axes) -> None:
    axes.set_ylim(-0.02, 1.03)


def _step_axis(axes: Axes, label: str) -> None:
    axes.set_xscale("log")
    axes.set_xlabel("training step (first point: before training)")
    axes.set_ylabel(label)


def _error_curves(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, axes = blank(1, 2, height=3.6, sharey=True)
        for panel, test_set in zip(axes, ("ood", "id"), strict=True):
            for index, arm in enumerate(_main_arms(job)):
                _curve(panel, job, arm, f"{test_set}_aligned", LABELS[arm], index)
            _step_axis(panel, "error (share of judged tokens)" if test_set == "ood" else "")
            _error_axis(panel)
            panel.set_title(SETS[test_set])
        axes[0].legend()
        return canvas

    seeds = "; ".join(_seeds(job, arm) for arm in _main_arms(job))
    return Figure(
        "copying-error-curves",
        "Error through training: two layers learn the rule, one layer does not",
        f"Mean over seeds with 95 % bootstrap bands over seeds ({seeds}; the thin line is the first seed alone, from "
        "where the shorter runs end). Aligned error on the same test sequences at every step and for every seed.",
        draw,
        SOURCES,
    )


def _every_seed(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.6)
        arm = job.metrics["arms"]["two-layer"]
        for index, (seed, run) in enumerate(zip(arm["seeds"], arm["runs"], strict=True)):
            color = COLORS[index % len(COLORS)]
            axes.plot(_on_log_axis(run["step"]), run["ood"], color=color, linewidth=1.2, label=f"seed {seed}")
        _step_axis(axes, "error out of distribution")
        _error_axis(axes)
        axes.legend(ncols=2, fontsize=7, loc="lower left")
        return canvas

    return Figure(
        "copying-every-seed",
        "When the rule is learned depends on the seed",
        "Two layers, aligned error out of distribution, one line a run; the test sequences are the same for all.",
        draw,
        SOURCES,
    )


def _loss_curves(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank()
        styles = {"ood": "-", "id": "--"}
        for index, arm in enumerate(_main_arms(job)):
            for test_set, style in styles.items():
                label = f"{LABELS[arm]}, {SETS[test_set]}"
                _curve(axes, job, arm, f"{test_set}_loss", label, index, style)
        _step_axis(axes, "cross-entropy (nats per token)")
        axes.legend()
        return canvas

    return Figure(
        "copying-loss-curves",
        "Loss over all positions through training",
        "Mean next-token cross-entropy over all 63 positions, bands over seeds as above. The loss hardly moves where "
        "the error collapses, since most positions are background.",
        draw,
        SOURCES,
    )


def _definitions(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.4)
        for index, definition in enumerate(("aligned", "authors")):
            _curve(axes, job, "two-layer", f"ood_{definition}", f"{definition} definition", index)
        paper_line(axes, 1 / 21 * (1 - 1 / 64), "floor of the authors' definition")
        _step_axis(axes, "error out of distribution")
        _error_axis(axes)
        axes.legend()
        return canvas

    return Figure(
        "copying-error-definitions",
        "The same models by both definitions of the error",
        "Two layers, out of distribution, bands over seeds. The authors' mask is applied to input positions, so that "
        "one judged target of 21 is background; the dashed line is what a perfect copier would score.",
        draw,
        SOURCES,
    )


def _pools(job: FinishedJob) -> list[tuple[int, str]]:
    names = [name for name in job.metrics["arms"] if name.startswith("pool")]
    return sorted((int(name.removeprefix("pool")), name) for name in names)


def _pool_curves(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        pools = _pools(job)
        if len(pools) > 6:
            pools = pools[:: max(1, len(pools) // 5)]
        canvas, axes = blank(1, 3, width=9, height=3.4, sharey=True)
        for panel, test_set in zip(axes, ("pool", "id", "ood"), strict=True):
            for index, (size, name) in enumerate(pools):
                _curve(panel, job, name, f"{test_set}_aligned", f"{size} segments", index)
            if test_set != "pool":
                _curve(panel, job, "two-layer", f"{test_set}_aligned", "fresh segments", len(pools))
            panel.set_title(SETS[test_set])
            _step_axis(panel, "error" if test_set == "pool" else "")
            _error_axis(panel)
        axes[1].legend(fontsize=8)
        return canvas

    return Figure(
        "copying-pool-curves",
        "Data diversity: what models trained on a pool of segments learn, and when",
        "Aligned error on trained segments, on fresh segments of the training law, and out of distribution; one seed a "
        "pool (no band: the spread over seeds was not measured), two layers. The third set is missing in the paper.",
        draw,
        SOURCES,
    )


def _pool_final(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.4)
        pools = _pools(job)
        for index, test_set in enumerate(("pool", "id", "ood")):
            entries = {size: job.metrics["measurements"][f"{test_set}_error_{name}"] for size, name in pools}
            judged = {size: entry for size, entry in entries.items() if entry["value"] is not None}
            sizes, found = list(judged), list(judged.values())
            plot_band(
                axes,
                sizes,
                [entry["value"] for entry in found],
                [entry["interval"]["low"] for entry in found],
                [entry["interval"]["high"] for entry in found],
                SETS[test_set],
                COLORS[index],
                marker=MARKERS[index],
            )
        axes.set_xscale("log")
        axes.set_xlabel("segments in the training pool")
        axes.set_ylabel("error after training")
        _error_axis(axes)
        axes.legend()
        return canvas

    return Figure(
        "copying-pool-final",
        "Memorizing or learning the rule, by the size of the pool",
        "Aligned error after the last step, one seed a pool; bands are 95 % bootstrap intervals over test sequences "
        "and do not hold the spread over seeds.",
        draw,
        SOURCES,
    )


def _by_position(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.4)
        for arm, style in zip(_main_arms(job), ("-", "--"), strict=False):
            for index, (test_set, stop) in enumerate((("ood", 25), ("id", 19))):
                errors = job.metrics["arms"][arm]["error_by_offset"][test_set]
                mean, low, high = (errors[name][:stop] for name in ("mean", "low", "high"))
                label = f"{LABELS[arm]}, {SETS[test_set]}"
                positions = range(1, stop + 1)
                plot_band(
                    axes, positions, mean, low, high, label, COLORS[index], linestyle=style, marker=MARKERS[index]
                )
        axes.axvline(4.5, color=COLORS[6], linewidth=0.8, linestyle=":")
        axes.set_xlabel("position in the second copy (judged from the fifth token on)")
        axes.set_ylabel("error")
        _error_axis(axes)
        axes.legend(fontsize=8, loc="center right")
        return canvas

    return Figure(
        "copying-error-by-position",
        "Error by position in the second copy",
        "After training, mean and 95 % bootstrap band over seeds (one layer: one seed, no band). Nothing announces the "
        "first token of a copy; the error can fall only once the copy has begun. In distribution fewer segments reach "
        "the last positions.",
        draw,
        SOURCES,
    )


def _by_token(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, axes = blank(1, 2, height=3.2, sharey=True)
        for panel, test_set in zip(axes, ("ood", "id"), strict=True):
            for index, arm in enumerate(_main_arms(job)):
                errors = job.metrics["arms"][arm]["error_by_token"][test_set]
                judged = [token for token, n in enumerate(errors["n"]) if n]
                mean, low, high = ([errors[name][token] for token in judged] for name in ("mean", "low", "high"))
                options = {"fmt": MARKERS[index], "markersize": 3, "capsize": 0}
                plot_points(panel, judged, mean, low, high, LABELS[arm], COLORS[index], **options)
            panel.set_title(SETS[test_set])
            panel.set_xlabel("token (0 is the most frequent in training)")
            _error_axis(panel)
        axes[0].set_ylabel("error")
        axes[0].legend(fontsize=8, loc="center right")
        return canvas

    return Figure(
        "copying-error-by-token",
        "Error by the token to be copied",
        "After training, aligned definition, mean and 95 % bootstrap interval over seeds (one layer: one seed). Rare "
        "tokens are judged less often in distribution, so their points scatter more.",
        draw,
        SOURCES,
    )


def _variants(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.8)
        names = ["two-layer", *(name for name in list(LABELS)[2:] if name in job.metrics["arms"])]
        for index, name in enumerate(names):
            _curve(axes, job, name, "ood_aligned", LABELS[name], index)
        _step_axis(axes, "error out of distribution")
        _error_axis(axes)
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        return canvas

    return Figure(
        "copying-variants",
        "Variants of architecture and data",
        "Aligned error out of distribution; the reference is the mean over seeds with its band, each variant is one "
        "seed and ends at the profile's number of steps for variants.",
        draw,
        SOURCES,
    )
