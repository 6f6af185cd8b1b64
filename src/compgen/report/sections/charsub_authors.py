"""Character substitution in the authors' protocol: length, number of experts, remedies, and how composition fails."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from compgen.report.figure import COLORS, MARKERS, Figure, RunTree, blank, plot_band
from compgen.run.context import FinishedJob

SUMMARY = "charsub/authors-summary"
SOURCES = (f"{SUMMARY}/metrics.json",)
STARTS = {"scratch": "experts from scratch", "finetuned": "experts fine-tuned from the base"}
REMEDIES = {
    "product": "paper's rule",
    "plausibility_mask": "plausibility mask",
    "kl_gate": "KL gate",
    "tail_clip": "tail clip",
    "largest_delta": "largest delta",
}
BASELINES = {
    "product": "paper's rule",
    "mixture": "mixture",
    "mean_log_probability": "mean of log-probabilities",
    "product_without_base": "product without base",
    "uniform": "weights 1/k",
    "task_arithmetic": "task arithmetic (weights)",
}
LENGTH = "16"


def introduction() -> str:
    """What was done, in plain words."""
    return (
        "The authors' toy: 27 symbols, small GPT-2 models that map every symbol of a string to a symbol at the same "
        "position, and experts that each replace one letter. This is their published schedule (2,000 strings of length "
        "16, one at a time, five epochs), with several seeds. Nothing is sampled and nothing stops here; the "
        "free-running protocol is the next section. The paper combines two experts. We combine up to eight, trained "
        "from scratch as theirs or fine-tuned from the base, with the paper's rule, with remedies for its failure, and "
        "with baselines. An exact match is a string in which every position is right."
    )


def figures(run: RunTree) -> list[Figure]:
    """The figures that the finished jobs allow."""
    job = run.job(SUMMARY)
    if job is None:
        return []
    return [
        _against_experts(job, "remedies", REMEDIES),
        _against_experts(job, "baselines", BASELINES),
        _against_length(job),
        _normalizer(job),
        _anatomy(job),
        _breaks(job),
    ]


def _n(job: FinishedJob) -> str:
    found = job.metrics["measurements"]["exact_scratch_product_k2"]
    return f"{len(found['seeds'])} seeds, {found['n']} strings a point"


def _lines(axes: Axes, job: FinishedJob, start: str, arms: dict[str, str]) -> None:
    for index, (arm, label) in enumerate(arms.items()):
        cells = job.metrics["sweep"][start][arm][LENGTH]
        plot_band(
            axes,
            range(1, len(cells) + 1),
            [cell["value"] for cell in cells],
            [cell["low"] for cell in cells],
            [cell["high"] for cell in cells],
            label,
            COLORS[index],
            marker=MARKERS[index],
            zorder=5 if arm == "product" else 2,
        )


def _against_experts(job: FinishedJob, kind: str, arms: dict[str, str]) -> Figure:
    def draw() -> Canvas:
        canvas, axes = blank(1, 2, width=8.4, height=3.6, sharey=True)
        for panel, (start, title) in zip(axes, STARTS.items(), strict=True):
            _lines(panel, job, start, arms)
            panel.set_title(title)
            panel.set_xlabel("experts combined, k")
        axes[0].set_ylabel("exact match, strings of length 16")
        axes[0].legend(fontsize=8, loc="lower left")
        return canvas

    titles = {
        "remedies": "Composed accuracy against the number of experts, with and without remedies",
        "baselines": "The paper's rule against other ways of combining",
    }
    return Figure(
        f"charsub-authors-{kind}",
        titles[kind],
        f"All arms on the same strings and models ({_n(job)}); bands are 95 % bootstrap intervals over seeds, then "
        "strings. Lines that lie on each other at 1 or near 0 are equal there.",
        draw,
        SOURCES,
    )


def _against_length(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.4)
        series: dict[str, Any] = job.metrics["lengths"]
        names = {
            "scratch/single/identity": "identity alone",
            "scratch/single/AK": "A → K alone",
            "scratch/single/MB": "M → B alone",
            "scratch/pair": "both composed",
        }
        for index, (name, label) in enumerate(names.items()):
            points = series["exact"][name]
            plot_band(
                axes,
                series["length"],
                [p["value"] for p in points],
                [p["low"] for p in points],
                [p["high"] for p in points],
                label,
                COLORS[index],
                marker=MARKERS[index],
            )
        axes.axvline(16, color=COLORS[6], linewidth=0.8, linestyle=":")
        axes.set_ylim(None, 1.002)
        axes.set_xlabel("string length (training: 16)")
        axes.set_ylabel("exact match")
        axes.legend()
        return canvas

    return Figure(
        "charsub-authors-length",
        "Two experts, single and composed, at every length",
        "Exact match on random strings with 95 % intervals (bootstrap over seeds, then strings; Wilson where all "
        "strings are right). The paper reports 100 % without saying for how many strings or seeds.",
        draw,
        SOURCES,
    )


def _bounds(row: dict[str, Any], name: str) -> tuple[float, float, float] | None:
    """Value and interval of a diagnostic; None where no seed has it."""
    found = row[name]
    return None if found is None else (found["value"], found["interval"]["low"], found["interval"]["high"])


def _normalizer(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, axes = blank(1, 2, width=8.4, height=3.4)
        for panel, (start, title) in zip(axes, STARTS.items(), strict=True):
            rows = job.metrics["diagnostics"][start]
            for index, where in enumerate(("active", "inactive")):
                found = [(k, _bounds(row, f"log_normalizer_{where}")) for k, row in enumerate(rows, start=1)]
                points = [(k, *bounds) for k, bounds in found if bounds is not None]
                x, value, low, high = zip(*points, strict=True)
                plot_band(panel, x, value, low, high, f"{where} positions", COLORS[index], marker=MARKERS[index])
            panel.set_title(title)
            panel.set_xlabel("experts combined, k")
        axes[0].set_ylabel("mean log Z (nats)")
        axes[0].legend()
        return canvas

    return Figure(
        "charsub-authors-log-normalizer",
        "log Z warns before accuracy falls, and its sign tells the mode",
        "Mean log-normalizer of the paper's rule at positions where some rule acts and elsewhere; 95 % bootstrap over "
        "seeds. Positive: tails of many experts add up. Negative: bystanders suppress the expert that should act.",
        draw,
        SOURCES,
    )


def _anatomy(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, axes = blank(1, 2, width=8.4, height=3.4, sharey=True)
        for panel, (start, title) in zip(axes, STARTS.items(), strict=True):
            rows = job.metrics["diagnostics"][start]
            experts = list(range(1, len(rows) + 1))
            active = [row["errors_active"]["value"] for row in rows]
            passive = [row["errors_inactive"]["value"] for row in rows]
            panel.bar(experts, active, color=COLORS[0], label="a rule should act")
            panel.bar(experts, passive, bottom=active, color=COLORS[1], hatch="//", label="no rule should act")
            panel.set_title(title)
            panel.set_xlabel("experts combined, k")
        axes[0].set_ylabel("wrong symbols (mean over seeds)")
        axes[0].legend()
        return canvas

    return Figure(
        "charsub-authors-errors",
        "Where the paper's rule errs",
        "Wrong symbols in all test strings of length 16, split by whether a rule should act there; the split uses the "
        "mean number of errors times the mean share.",
        draw,
        SOURCES,
    )


def _breaks(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        canvas, (axes,) = blank(width=5.2, height=4.0)
        for index, (start, title) in enumerate(STARTS.items()):
            rows = job.metrics["breaks"][start]
            spread = 0.3 / max(len(rows), 1)
            shifts = [spread * (number - (len(rows) - 1) / 2) for number in range(len(rows))]
            axes.plot(
                [row["predicted"]["relabelled"] + shift for row, shift in zip(rows, shifts, strict=True)],
                [row["observed"] - shift for row, shift in zip(rows, shifts, strict=True)],
                marker=MARKERS[index],
                linestyle="",
                alpha=0.7,
                color=COLORS[index],
                label=title,
            )
        axes.plot([1, 9], [1, 9], color=COLORS[6], linewidth=0.8, linestyle=":")
        axes.set_xlabel("predicted from k = 2")
        axes.set_ylabel("observed")
        axes.legend()
        return canvas

    return Figure(
        "charsub-authors-break",
        "The k at which composition breaks: predicted from two experts, and observed",
        "One point a seed, moved slightly apart; first k at which fewer than half of the strings are right, 9 when "
        "that never happens. The predictor extrapolates margins linearly and was stated before looking.",
        draw,
        SOURCES,
    )
