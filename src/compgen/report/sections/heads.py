"""Heads of language models: which there are, and what their removal costs."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from compgen.report.figure import COLORS, MARKERS, MUTED, Figure, RunTree, blank, plot_band, plot_points, series
from compgen.report.view import Table
from compgen.run.context import FinishedJob

SUMMARY = "heads/summary"
SETS = {
    "induction": "top induction heads",
    "previous": "top previous-token heads",
    "function_vector": "top function-vector heads",
    "matched": "random, same layers, no top head",
    "random": "random (the authors' way)",
}
TASKS = {
    "exact-copying": "exact copying, random tokens",
    "fuzzy-lower": "fuzzy copying, lower case (ID)",
    "fuzzy-upper": "fuzzy copying, upper case (OOD)",
    "ioi-names": "indirect objects, names (ID)",
    "ioi-symbols": "indirect objects, symbols (OOD)",
    "labels-original": "label mapping, true labels (ID)",
    "labels-permuted": "label mapping, permuted (OOD)",
    "labels-symbols": "label mapping, symbols (OOD)",
    "chain-of-thought": "GSM8K, chain of thought (ID)",
    "symbolized-names": "sums with names (ID)",
    "symbolized-symbols": "sums with symbols (OOD)",
}
CHANCE = {"ioi-names": 1 / 2, "ioi-symbols": 1 / 2}
CHANCE |= dict.fromkeys(("labels-original", "labels-permuted", "labels-symbols"), 1 / 3)
LOG = "log_probability"
SHOWN_HEADS = 8


def introduction() -> str:
    """What was done, in plain words."""
    return (
        "Paper 2's experiments on language models, on unmodified models from transformers. Every head is scored on "
        "random tokens repeated twice: induction heads attend to the token after the earlier occurrence, "
        "previous-token heads to the token before. Then heads are removed, their output set to zero at every "
        "position, and the model answers the same prompts again: copying random tokens, copying words with a change, "
        "naming the indirect object, and labelling items as in the examples before; the last two with ordinary words "
        "and with symbols that no text has in that place.\n\n"
        "Beside the top induction heads stand two controls of equal number: random heads of the same layers, none of "
        "them a top head, and random heads of the whole model as the authors draw them, five draws each. A model "
        "answers right here when greedy decoding would write the answer, or, where there are choices, when the answer "
        "is the likeliest by the sum of its tokens' log-probabilities. The laptop's model is SmolLM2-135M-Instruct, "
        "much smaller than the paper's; their published curves are drawn beside ours for reference."
    )


def figures(run: RunTree) -> list[Figure]:
    """The figures that the finished jobs allow."""
    job = run.job(SUMMARY)
    if job is None:
        return []
    models = list(dict.fromkeys(curve["model"] for curve in job.metrics["curves"]))
    drawn = [figure for model in models for figure in (_accuracy(job, model), _log_probability(job, model))]
    drawn += [_beside_theirs(job, model) for model in models]
    bridges: dict[str, Any] = job.metrics["bridges"]
    return drawn + [draw(model, bridge) for model, bridge in bridges.items() for draw in (_fits, _crossing)]


def tables(run: RunTree) -> list[Table]:
    """The top heads of every model."""
    job = run.job(SUMMARY)
    return [] if job is None else [_top_heads(job)]


def _chosen(job: FinishedJob, model: str, log: bool) -> dict[str, list[dict[str, Any]]]:
    """A model's curves by task."""
    found: dict[str, list[dict[str, Any]]] = {task: [] for task in TASKS}
    for curve in job.metrics["curves"]:
        if curve["model"] == model and (curve["metric"] == LOG) == log:
            found[curve["task"]].append(curve)
    return {task: curves for task, curves in found.items() if curves}


def _panels(job: FinishedJob, model: str, log: bool, label: str) -> Canvas:
    chosen = _chosen(job, model, log)
    canvas, axes = blank((len(chosen) + 3) // 4, 4, 11, 2.7 * ((len(chosen) + 3) // 4) + 0.6)
    for place, (task, curves) in zip(axes, chosen.items(), strict=False):
        for curve in sorted(curves, key=lambda one: list(SETS).index(one["set"])):
            _line(place, curve["set"], curve["points"])
        if not log and task in CHANCE:
            place.axhline(CHANCE[task], color=MUTED, linestyle=":", linewidth=1)
        place.set_title(TASKS[task], fontsize=8.5)
        if not log:
            place.set_ylim(-0.05, 1.05)
    for place in axes[len(chosen) :]:
        place.set_visible(False)
    for place in axes[max(0, len(chosen) - 4) : len(chosen)]:
        place.set_xlabel("heads removed")
    for row in range(0, len(chosen), 4):
        axes[row].set_ylabel(label)
    handles, labels = axes[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8.5)
    return canvas


def _line(axes: Axes, name: str, points: Sequence[dict[str, Any]]) -> None:
    index = list(SETS).index(name)
    low, high = ([point["interval"][side] for point in points] for side in ("low", "high"))
    values, color = series(points, "value"), COLORS[index]
    plot_band(axes, series(points, "count"), values, low, high, SETS[name], color, marker=MARKERS[index], markersize=4)


def _accuracy(job: FinishedJob, model: str) -> Figure:
    return Figure(
        f"heads-{model}-removal",
        f"Removal curves, {model}",
        "Share of right answers against the number of heads removed; bands are 95 % bootstrap intervals over prompts, "
        "over draws first for random sets. Dotted: guessing.",
        lambda: _panels(job, model, False, "accuracy"),
        (f"{SUMMARY}/metrics.json",),
    )


def _log_probability(job: FinishedJob, model: str) -> Figure:
    return Figure(
        f"heads-{model}-log-probability",
        f"The same in log-probability of the answer, {model}",
        "Mean log-probability of the right answer, summed over its tokens (exact copying: mean over tokens). It has no "
        "floor, so that it also shows what removal does where accuracy is at chance or zero from the start.",
        lambda: _panels(job, model, True, "log-probability"),
        (f"{SUMMARY}/metrics.json",),
    )


def _beside_theirs(job: FinishedJob, model: str) -> Figure:
    theirs: list[dict[str, Any]] = job.metrics["published"]
    tasks = [task for task in TASKS if any(curve["task"] == task for curve in theirs)]
    ours = _chosen(job, model, False)

    def draw() -> Canvas:
        canvas, axes = blank(2, 3, 10.5, 5.4, sharey=True)
        for place, task in zip(axes, tasks, strict=True):
            for curve in (curve for curve in theirs if curve["task"] == task):
                place.plot([100 * x for x in curve["share"]], curve["accuracy"], color=MUTED, linewidth=0.9, alpha=0.6)
            place.plot([], [], color=MUTED, linewidth=0.9, label="theirs, nine models of 7 to 11 billion")
            for curve in ours.get(task, []):
                if curve["set"] == "induction":
                    share = [100 * point["count"] / curve["heads"] for point in curve["points"]]
                    values = series(curve["points"], "value")
                    place.plot(share, values, color=COLORS[0], marker="o", label=f"ours, {model}")
            place.set_title(TASKS[task], fontsize=9)
            place.set_ylim(-0.05, 1.05)
        for place in axes[3:]:
            place.set_xlabel("% of heads removed")
        axes[0].legend(fontsize=7.5)
        return canvas

    return Figure(
        f"heads-{model}-published",
        f"Beside the authors' published curves, {model}",
        "Accuracy without the top induction heads against the share of all heads. Grey: the authors' result files "
        "(their protocol: beams, answers found anywhere, 100 prompts drawn with replacement); not comparable in level, "
        "shown for the shape.",
        draw,
        (f"{SUMMARY}/metrics.json",),
    )


PAIRS = {"top": "top induction × previous-token", "random": "random, same layers", "initial": "before training"}
FITS = {
    "diagonal": "diagonal score z",
    "match": "subspace match σmax, rank 10",
    "composition": "K-composition score",
}
PROJECTIONS = {
    "remove-bridge": "bridge removed",
    "remove-random": "random subspace removed",
    "keep-bridge": "bridge kept alone",
    "keep-random": "random subspace kept alone",
}
EXCHANGES = {
    "none": "unchanged",
    "within-query_key": "QK within",
    "outside-query_key": "QK from outside",
    "within-output_value": "OV within",
    "outside-output_value": "OV from outside",
}


def _fits(model: str, bridge: dict[str, Any]) -> Figure:
    def draw() -> Canvas:
        canvas, axes = blank(1, len(FITS), 10.5, 3.2)
        for place, (score, label) in zip(axes, FITS.items(), strict=True):
            values = {name: [row[score] for row in bridge["pairs"][name]] for name in PAIRS}
            low, high = min(map(min, values.values())), max(map(max, values.values()))
            for index, (name, numbers) in enumerate(values.items()):
                place.hist(
                    numbers,
                    bins=25,
                    range=(low, high),
                    density=True,
                    histtype="step",
                    linewidth=1.6,
                    color=COLORS[index],
                    linestyle=("-", "--", ":")[index],
                    label=PAIRS[name],
                )
            place.set_xlabel(label)
        axes[0].set_ylabel("density")
        axes[1].legend(fontsize=7.5)
        return canvas

    return Figure(
        f"heads-{model}-fits",
        f"How pairs of heads fit, {model}",
        "Top ten induction heads with the top ten previous-token heads of lower layers; random pairs of these layers "
        "that hold none of these; and the same places of the architecture before training. Norm gains are folded in.",
        draw,
        (f"{SUMMARY}/metrics.json",),
    )


def _crossing(model: str, bridge: dict[str, Any]) -> Figure:
    def draw() -> Canvas:
        canvas, axes = blank(1, 2, 10, 3.6, sharey=True)
        for index, (edit, label) in enumerate(PROJECTIONS.items()):
            points = bridge["projections"][edit]
            low, high = ([point["interval"][side] for point in points] for side in ("low", "high"))
            values, style = series(points, "value"), ("-" if "bridge" in edit else "--")
            plot_band(axes[0], series(points, "rank"), values, low, high, label, COLORS[index], linestyle=style)
        axes[0].set_xlabel("rank of the subspace")
        axes[0].set_ylabel("accuracy of exact copying")
        axes[0].legend(fontsize=7.5)
        rows = [bridge["exchanges"][name] for name in EXCHANGES]
        low, high = ([row["interval"][side] for row in rows] for side in ("low", "high"))
        plot_points(axes[1], range(len(rows)), [row["value"] for row in rows], low, high, color=COLORS[0])
        axes[1].set_xticks(range(len(rows)), list(EXCHANGES.values()), rotation=30, ha="right")
        axes[0].set_ylim(-0.05, 1.05)
        return canvas

    reached = bridge["reached"]
    return Figure(
        f"heads-{model}-bridge",
        f"What the bridge carries, {model}",
        "Left: the keys of the top quarter of heads by induction score are kept out of the common subspace of the top "
        f"ten, or confined to it, beside random subspaces of equal rank ({reached['chosen']} heads asked for; their "
        f"{reached['keys']} shared keys serve {reached['reached']} of {reached['heads']} heads). Right: the weights of "
        f"the top {reached['exchanged']} heads exchanged among themselves or replaced by those of random other heads; "
        f"{reached['exchanged_sharing_keys']} of the induction heads share keys with another one, so that an exchange "
        "is not wholly theirs.",
        draw,
        (f"{SUMMARY}/metrics.json",),
    )


def _top_heads(job: FinishedJob) -> Table:
    rows = []
    for model, definitions in job.metrics["lists"].items():
        for definition, entry in definitions.items():
            for kind, listed in entry["lists"].items():
                heads = ", ".join(f"{row['layer']}.{row['head']} {row['score']:.2f}" for row in listed[:SHOWN_HEADS])
                rows.append((model, definition, kind.replace("_", " "), heads))
    return Table(
        "Top heads",
        "Layer and query head with the score; authors: first column dropped and renormalized, controlled: neither.",
        ("model", "definition", "score", f"first {SHOWN_HEADS}"),
        tuple(rows),
    )
