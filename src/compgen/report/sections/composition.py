"""Composing language models: the paper's table in miniature, protocols, many experts, stopping."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from compgen.report.claims import number
from compgen.report.figure import COLORS, MARKERS, Figure, RunTree, blank, plot_points
from compgen.report.view import Table
from compgen.run.context import FinishedJob

SUMMARY, GEMMA_SUMMARY, REAL_SUMMARY = "composition/summary", "composition/gemma-summary", "composition/real-summary"
BENCHMARKS = {
    "gsm8k": "word problems\n(GSM8K form)",
    "math": "MATH form",
    "humaneval_plus": "functions\n(HumanEval+ form)",
    "mbpp_plus": "functions\n(MBPP+ form)",
}
ARMS = {
    "base": "base",
    "math": "math expert",
    "code": "code expert",
    "composed": "composed (paper's rule)",
    "nucleus": "composed, base's nucleus",
    "adaptive": "composed, adaptive weights",
    "mixture": "mixture",
    "mean-log": "mean of log-probabilities",
    "task-arithmetic-0.3": "task arithmetic λ = .3",
    "task-arithmetic-0.5": "task arithmetic λ = .5",
    "task-arithmetic-1.0": "task arithmetic λ = 1",
    "ties": "TIES",
    "dare": "DARE",
    "dare-ties": "DARE with TIES",
    "linear": "linear",
}
MANY = {
    "composed": "2 experts",
    "k2-oracle": "2, oracle stop",
    "k2-base": "2, end: base",
    "k2-mean": "2, end: mean",
    "k2-max": "2, end: max",
    "k2-gate": "2, end: gate",
    "k3": "3 experts",
    "k3-oracle": "3, oracle stop",
    "k3-mean": "3, end: mean",
    "k3-clip": "3, tail clip",
    "k4": "4 experts",
    "k4-oracle": "4, oracle stop",
    "k4-base": "4, end: base",
    "k4-mean": "4, end: mean",
    "k4-max": "4, end: max",
    "k4-gate": "4, end: gate",
    "k4-mask": "4, plausibility mask",
    "k4-kl": "4, KL gate",
    "k4-clip": "4, tail clip",
    "k4-largest": "4, largest delta",
    "k4-adaptive": "4, adaptive weights",
    "k4-mean-mask": "4, mask and end: mean",
    "k4-mean-kl": "4, KL gate and end: mean",
    "k4-mean-clip": "4, clip and end: mean",
    "k4-mean-largest": "4, largest and end: mean",
    "k4-task-arithmetic-0.5": "4, task arithmetic λ = .5",
    "k4-task-arithmetic-1.0": "4, task arithmetic λ = 1",
    **{
        f"gemma-k{k}{suffix}": f"{k} of MergeBench's{words}"
        for k in (3, 4, 5)
        for suffix, words in {
            "": "",
            "-oracle": ", oracle stop",
            "-mean": ", end: mean",
            "-clip": ", tail clip",
        }.items()
    },
    "gemma-k5-task-arithmetic-0.5": "5 of MergeBench's, task arithmetic λ = .5",
}
MAIN_ARMS = ("base", "math", "code", "composed")


def introduction() -> str:
    """What was done, in plain words."""
    return (
        "Paper 1's study of language models in miniature, with everything made on the spot. A base of the Gemma 2 "
        "architecture with about a million parameters is trained on text that the project writes: plain "
        "sentences, word problems and Python functions of other families than those that are asked. From it four "
        "experts are fine-tuned: math (word problems in GSM8K's and MATH's form), code (functions in HumanEval+'s "
        "and MBPP+'s form), number sequences, and records in JSON. The base has also read the content of the "
        "skills as prose, never as questions with answers: it can do what it does not do when asked. Each expert "
        "is held to the base's distribution on the base's own text. No test question, nor its wording with other "
        "numbers, occurs in training.\n\n"
        "Every arm answers the same questions under one protocol (controlled), through lm-eval's tasks and "
        "evalplus's tests. Decoding runs on behind the first stop string, so that the very same generations are "
        "also scored as the authors' code scores them: raw completions of code, their patterns for answers. Under "
        "the protocol authors the arms are prompted as in the authors' notebooks, the composed model with "
        "examples and single models without. The paper's own models need a GPU and the model hub: PROFILE=paper."
    )


def gemma_introduction() -> str:
    """What is to be done where the paper's own models can be had."""
    return (
        "The paper's own study: Gemma 2 2B with MergeBench's math and coding experts on GSM8K, MATH, HumanEval+ "
        "and MBPP+, under the authors' protocol and under one protocol for every arm. It needs a GPU and access "
        "to the model hub: PROFILE=paper. What the authors report and what an independent evaluation found stand "
        "below as claims; a cell counts as met within twice the sampling error of a difference between two runs."
    )


def real_introduction() -> str:
    """What a published model answers to the real questions on a laptop."""
    return (
        "The same jobs on published weights and the real questions, small enough for two cores: "
        "SmolLM2-135M-Instruct, which a Python package ships, is the base, and the same weights under a context of "
        "two worked examples are a math expert and a code expert. Eight questions of each benchmark, 160 new tokens: "
        "this shows that the path is real, its intervals are wide. It needs the benchmarks' files: "
        "REAL_DATA=<directory>, or REAL_DATA=hub."
    )


def figures(run: RunTree) -> list[Figure]:
    """The figures that the finished jobs allow."""
    job = run.job(SUMMARY)
    return [] if job is None else [_arms(job), _scorers(job), _many(job), _stops(job)]


def gemma_figures(run: RunTree) -> list[Figure]:
    """The same for the paper's models."""
    job = run.job(GEMMA_SUMMARY)
    return [] if job is None else [_arms(job), _scorers(job), _many(job), _stops(job)]


def real_figures(run: RunTree) -> list[Figure]:
    """The same for published weights on a laptop."""
    job = run.job(REAL_SUMMARY)
    return [] if job is None else [_arms(job), _scorers(job)]


def tables(run: RunTree) -> list[Table]:
    """The table of arms and benchmarks, and the protocols in full."""
    job = run.job(SUMMARY)
    return [] if job is None else [_arm_table(job), _protocol_table(job)]


def gemma_tables(run: RunTree) -> list[Table]:
    """The same for the paper's models."""
    job = run.job(GEMMA_SUMMARY)
    return [] if job is None else [_arm_table(job), _protocol_table(job)]


def real_tables(run: RunTree) -> list[Table]:
    """The same for published weights on a laptop."""
    job = run.job(REAL_SUMMARY)
    return [] if job is None else [_arm_table(job), _protocol_table(job)]


def _name(job: FinishedJob, figure: str) -> str:
    """Figures of all three studies stand on one page."""
    return f"{job.name.removesuffix('summary') or 'composition-'}{figure}"


def _sources(job: FinishedJob) -> tuple[str, ...]:
    return (f"composition/{job.name}/metrics.json",)


def _cells(job: FinishedJob, protocol: str = "controlled") -> dict[tuple[str, str], dict[str, Any]]:
    rows: list[dict[str, Any]] = job.metrics["table"]
    return {(row["arm"], row["benchmark"]): row for row in rows if row["protocol"] == protocol}


def _note(job: FinishedJob) -> str:
    found = next(iter(job.metrics["table"]))
    return f"{len(found['seeds'])} seeds; {found['interval']['method'] if found['interval'] else 'no interval'}"


def _plot(axes: Axes, x: Sequence[float], cells: Sequence[Mapping[str, Any]], label: str, index: int) -> None:
    known = [(place, cell) for place, cell in zip(x, cells, strict=True) if cell["value"] is not None]
    if known:
        places, kept = [place for place, _ in known], [cell for _, cell in known]
        low, high = ([_bound(cell, side) for cell in kept] for side in ("low", "high"))
        values = [cell["value"] for cell in kept]
        color, marker = COLORS[index % 8], MARKERS[index % 8]
        plot_points(axes, places, values, low, high, label, color, marker=marker, linestyle="none")


def _bound(cell: Mapping[str, Any], side: str) -> float:
    return float(cell["interval"][side]) if cell["interval"] else float(cell["value"])


def _arms(job: FinishedJob) -> Figure:
    cells = _cells(job)
    arms = [arm for arm in ARMS if (arm, "gsm8k") in cells]

    def draw() -> Canvas:
        canvas, axes = blank(1, len(BENCHMARKS), 10.5, 0.34 * len(arms) + 1.2, sharey=True)
        for index, (benchmark, title) in enumerate(BENCHMARKS.items()):
            for row, arm in enumerate(arms):
                cell = cells[(arm, benchmark)]
                if cell["value"] is not None:
                    reach = [
                        [max(cell["value"] - _bound(cell, "low"), 0)],
                        [max(_bound(cell, "high") - cell["value"], 0)],
                    ]
                    axes[index].errorbar(
                        cell["value"], row, xerr=reach, fmt=MARKERS[index], color=COLORS[index], capsize=2.5
                    )
            axes[index].set_title(title)
            axes[index].set_xlim(-0.05, 1.05)
            axes[index].set_xlabel("accuracy")
        axes[0].set_yticks(range(len(arms)), [ARMS[arm] for arm in arms])
        axes[0].invert_yaxis()
        return canvas

    return Figure(
        _name(job, "arms"),
        "The paper's table in miniature, with baselines",
        f"Accuracy of every arm on four benchmarks under one protocol. {_note(job)}.",
        draw,
        _sources(job),
    )


def _scorers(job: FinishedJob) -> Figure:
    rows = [row for row in job.metrics["scorers"] if row["protocol"] == "controlled"]
    found = {(row["arm"], row["benchmark"], row["scorer"]): row for row in rows}
    scorers_of = {name: list(dict.fromkeys(r["scorer"] for r in rows if r["benchmark"] == name)) for name in BENCHMARKS}

    def draw() -> Canvas:
        canvas, axes = blank(1, len(scorers_of), 10.5, 3.4, sharey=True)
        for place, (benchmark, scorers) in enumerate(scorers_of.items()):
            for index, scorer in enumerate(scorers):
                shift = (index - (len(scorers) - 1) / 2) * 0.18
                x = [position + shift for position in range(len(MAIN_ARMS))]
                cells = [found[(arm, benchmark, scorer)] for arm in MAIN_ARMS]
                _plot(axes[place], x, cells, scorer.replace("_", " "), index)
            axes[place].set_xticks(range(len(MAIN_ARMS)), MAIN_ARMS)
            axes[place].set_title(BENCHMARKS[benchmark])
            axes[place].legend(fontsize=7.5)
        axes[0].set_ylabel("accuracy")
        axes[0].set_ylim(-0.05, 1.05)
        return canvas

    return Figure(
        _name(job, "scorers"),
        "The same generations, scored in different ways",
        "Code as it was written (raw, as the authors' code does) and cut at the end of the function; answers by "
        "lm-eval's filters, by the authors' patterns, and as numbers or balanced braces (last expression: answers "
        f"without a box too). {_note(job)}.",
        draw,
        _sources(job),
    )


def _stop_rows(job: FinishedJob) -> list[dict[str, Any]]:
    by_arm = {row["arm"]: row for row in job.metrics["stops"]}
    return [by_arm[arm] for arm in MANY if arm in by_arm]


def _many(job: FinishedJob) -> Figure:
    rows = _stop_rows(job)

    def draw() -> Canvas:
        canvas, (axes,) = blank(1, 1, 8.5, 4.2)
        _plot(axes, range(len(rows)), [row["accuracy"] for row in rows], "", 0)
        axes.set_xticks(range(len(rows)), [MANY[row["arm"]] for row in rows], rotation=50, ha="right")
        axes.set_ylabel("accuracy on math and code")
        axes.set_ylim(-0.05, 1.05)
        return canvas

    return Figure(
        _name(job, "experts"),
        "More experts, stop policies and remedies",
        "Accuracy over the four benchmarks of the first two skills together, for two, three and four experts. Oracle "
        f"stop: end tokens are forbidden and the answer ends after as many tokens as the reference. {_note(job)}.",
        draw,
        _sources(job),
    )


def _stops(job: FinishedJob) -> Figure:
    rows = _stop_rows(job)
    names = {"premature": "stopped before an answer", "no_stop": "never stopped"}

    def draw() -> Canvas:
        canvas, (axes,) = blank(1, 1, 8.5, 4.2)
        for index, (name, label) in enumerate(names.items()):
            shift = (index - 0.5) * 0.25
            _plot(axes, [place + shift for place in range(len(rows))], [row[name] for row in rows], label, index + 1)
        axes.set_xticks(range(len(rows)), [MANY[row["arm"]] for row in rows], rotation=50, ha="right")
        axes.set_ylabel("share of answers")
        axes.set_ylim(-0.05, 1.05)
        axes.legend()
        return canvas

    return Figure(
        _name(job, "stops"),
        "How answers stop",
        "Share of answers whose end token comes before there is an answer, and of answers that only the limit on new "
        f"tokens or the benchmark's boundary ends. {_note(job)}.",
        draw,
        _sources(job),
    )


def _text(cell: Mapping[str, Any] | None) -> str:
    if cell is None:
        return "not asked"
    if cell["value"] is None:
        return f"withheld: {cell['note']}"
    return f"{100 * cell['value']:.1f} [{100 * _bound(cell, 'low'):.1f}, {100 * _bound(cell, 'high'):.1f}]"


def _arm_table(job: FinishedJob) -> Table:
    rows = []
    for protocol in ("controlled", "authors"):
        cells = _cells(job, protocol)
        names = {**MANY, **ARMS}
        for arm in [name for name in names if any(key[0] == name for key in cells)]:
            values = [_text(cells.get((arm, benchmark))) for benchmark in BENCHMARKS]
            rows.append((names[arm], protocol, *values))
    n = {benchmark: _cells(job)[("base", benchmark)]["n"] for benchmark in BENCHMARKS}
    titles = [f"{title.replace(chr(10), ' ')}, n = {n[benchmark]}" for benchmark, title in BENCHMARKS.items()]
    return Table(
        "Accuracy of every arm",
        "Percent with 95 % intervals (seeds resampled first, then samples); n counts samples over all seeds. Rows of "
        "different protocols are not comparable.",
        ("arm", "protocol", *titles),
        tuple(rows),
    )


def _protocol_table(job: FinishedJob) -> Table:
    rows = []
    for entry in job.metrics["protocols"]:
        values = dict(entry["values"])
        values.pop("benchmark")
        text = "; ".join(f"{name} {_value(value)}" for name, value in values.items())
        shown = ", ".join(entry["arms"][:4]) + (f" and {len(entry['arms']) - 4} more" if len(entry["arms"]) > 4 else "")
        rows.append((entry["benchmark"], entry["protocol"], entry["digest"], shown, text))
    return Table(
        "Protocols as they were run",
        "Arms whose digest on a benchmark differs are never compared.",
        ("benchmark", "protocol", "digest", "arms", "values"),
        tuple(rows),
    )


def _value(value: object) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(repr(item) for item in value) + "]"
    return number(value) if isinstance(value, int | float) else str(value)
