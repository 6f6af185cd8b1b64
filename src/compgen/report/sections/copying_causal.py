"""What happens inside the copying models: progress with nulls, transitions, causes, and the shift taken apart."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from safetensors.numpy import load_file

from compgen.report.figure import COLORS, INK, MARKERS, MUTED, Figure, RunTree, blank, heat_map, plot_band, plot_points
from compgen.run.context import FinishedJob

PROGRESS, TRANSITION, CAUSAL, SHIFT = (f"copying/{name}" for name in ("progress", "transition", "causal", "shift"))
TWO_LAYER = "two-layer"
MEASURES = {
    "previous": "previous-token attention, layer 1",
    "induction": "induction attention, layer 2",
    "match_largest": "subspace match, σ_max (rank 10)",
    "match_rms": "subspace match, rms (rank 10)",
    "diagonal": "diagonal score, z",
    "composition": "K-composition score",
}
EVENTS = {
    "previous": "previous-token score",
    "match_rms": "match (rms)",
    "match_largest": "match (σ_max)",
    "diagonal": "diagonal score",
    "induction": "induction score",
    "id": "ID error",
    "ood": "OOD error",
}
CAUSES = {
    "intact": "intact",
    "layer1_zero_ablated": "layer 1 head → 0",
    "layer1_mean_ablated": "layer 1 head → mean",
    "layer2_zero_ablated": "layer 2 head → 0",
    "layer2_mean_ablated": "layer 2 head → mean",
    "cut_keys": "path to keys cut",
    "cut_queries": "path to queries cut",
    "cut_values": "path to values cut",
    "cut_direct": "direct path cut",
    "only_keys": "only the path to keys",
}
FACTORS = {
    "none": "training law, 10-19 tokens (ID)",
    "law_only": "uniform tokens",
    "length_only": "segment of 25",
    "both": "both (the paper's OOD)",
    "frequent_tokens": "segments of frequent tokens",
    "rare_tokens": "segments of rare tokens",
    "fresh_tokens": "segments of untrained tokens",
    "second_copy": "three copies: the second",
    "third_copy": "three copies: the third",
}


def introduction() -> str:
    """What was done, in plain words."""
    return (
        "The paper follows progress measures through training and concludes that two layers compose through a common "
        "subspace. Here the same measures are shown with what they are under chance (random subspaces, freshly "
        "initialized models, uniform attention) and over several seeds, and correlation is replaced by intervention: "
        "heads are removed, the paths from layer 1 to the queries, keys and values of layer 2 are cut one by one, the "
        "keys are projected on and off the bridge with random subspaces of equal rank as control, and the first "
        "layer's attention is held during training. Last, the paper's out-of-distribution test, which changes token "
        "law and segment length at once, is taken apart. Everything after the progress measures goes beyond the paper."
    )


def figures(run: RunTree) -> list[Figure]:
    """The figures that the finished jobs allow."""
    progress, transition = run.job(PROGRESS), run.job(TRANSITION)
    causal, shift = run.job(CAUSAL), run.job(SHIFT)
    found: list[Figure] = []
    if progress:
        found += [_progress(progress), _pools(progress), _ranks(progress), _maps(progress)]
    if transition:
        found += [_order(transition), _held(transition)]
    if causal:
        found += [_causes(causal), _projections(causal)]
    if shift:
        found += [_factors(shift), _sweeps(shift)]
    return found


def _runs(job: FinishedJob, arm: str) -> list[dict[str, Any]]:
    return [run for run in job.metrics["runs"].values() if run["arm"] == arm]


def _null_band(axes: Axes, null: dict[str, float], label: str) -> None:
    axes.axhspan(null["low"], null["high"], color=MUTED, alpha=0.25, linewidth=0, label=label)


def _measure_panels(job: FinishedJob, runs: Sequence[tuple[str, dict[str, Any]]]) -> Canvas:
    """One panel a measure, one line a run, with the null of freshly initialized models."""
    canvas, panels = blank(2, 3, width=9.4, height=5.2)
    labels = list(dict.fromkeys(label for label, _ in runs))
    for panel, (name, title) in zip(panels, MEASURES.items(), strict=True):
        _null_band(panel, job.metrics["nulls"]["initialized"][name], "at initialization (95 %)")
        gaussian = job.metrics["nulls"]["gaussian"].get(name, {})
        for bound in gaussian.keys() & {"low", "high"}:
            panel.axhline(gaussian[bound], color=MUTED, linewidth=0.8, linestyle=":")
        for number, (label, run) in enumerate(runs):
            first = label not in [before for before, _ in runs[:number]]
            index = labels.index(label) if len(labels) > 1 else 0
            steps = [max(step, 0.7) for step in run["step"]]
            panel.plot(steps, run[name], color=COLORS[index], linewidth=1, alpha=0.8, label=label if first else None)
        panel.set_xscale("log")
        panel.set_title(title, fontsize=9)
    for panel in panels[3:]:
        panel.set_xlabel("training step")
    panels[0].legend(fontsize=7)
    return canvas


def _progress(job: FinishedJob) -> Figure:
    runs = _runs(job, TWO_LAYER)
    return Figure(
        "copying-progress",
        "Progress measures through training, one line a seed, with their nulls",
        f"Two-layer models, {len(runs)} seeds; attention on out-of-distribution sequences, weights of layer-2 W_QK and "
        "layer-1 W_OV. Grey: 95 % range of freshly initialized models; dotted: that of Gaussian random heads, for the "
        "measures of weights that have one. A measure inside its null says nothing.",
        lambda: _measure_panels(job, [("two layers, one line a seed", run) for run in runs]),
        (f"{PROGRESS}/metrics.json",),
    )


def _pools(job: FinishedJob) -> Figure:
    pools = sorted({run["arm"] for run in job.metrics["runs"].values()} - {TWO_LAYER}, key=lambda arm: int(arm[4:]))
    runs = [(f"pool of {arm[4:]}", run) for arm in pools for run in _runs(job, arm)]
    return Figure(
        "copying-progress-pools",
        "Progress measures by the size of the training pool",
        "One seed a pool. A model that memorizes (100 segments) keeps the measures of its initialization while its "
        "error on the pool falls: the measures follow the rule, not the fit.",
        lambda: _measure_panels(job, runs),
        (f"{PROGRESS}/metrics.json",),
    )


def _ranks(job: FinishedJob) -> Figure:
    run = _runs(job, TWO_LAYER)[0]
    null = job.metrics["nulls"]["subspaces"]

    def draw() -> Canvas:
        canvas, panels = blank(1, 3, width=9.4, height=3.4)
        for panel, kind, title in zip(panels, ("largest", "rms"), ("match, σ_max", "match, rms"), strict=False):
            ranks = range(1, len(null[kind]) + 1)
            low, high = [entry["low"] for entry in null[kind]], [entry["high"] for entry in null[kind]]
            panel.fill_between(ranks, low, high, color=MUTED, alpha=0.25, linewidth=0, label="random subspaces (95 %)")
            for index, (step, found) in enumerate(run["spectra"].items()):
                panel.plot(ranks, found[kind], color=COLORS[index], label=f"step {step}")
            panel.set_title(title)
            panel.set_xlabel("rank r")
        last = list(run["spectra"].values())[-1]
        for index, (name, label) in enumerate((("query_key_values", "W_QK"), ("output_value_values", "W_OV"))):
            values = np.array(last[name])
            panels[2].plot(range(1, len(values) + 1), values / values[0], color=COLORS[index], label=label)
        panels[2].set_title("singular values after training")
        panels[2].set_xlabel("index")
        panels[0].legend(fontsize=7)
        panels[2].legend(fontsize=7)
        return canvas

    return Figure(
        "copying-match-ranks",
        "Subspace match against rank, and the spectra behind it",
        f"Two layers, seed {run['seed']}. At the paper's rank of 10 of 64 dimensions random subspaces already match "
        "with σ_max of about .65: only what lies above the grey band counts.",
        draw,
        (f"{PROGRESS}/metrics.json",),
    )


def _maps(job: FinishedJob) -> Figure:
    def draw() -> Canvas:
        stored = load_file(job.directory / "maps.safetensors")
        canvas, panels = blank(2, 5, width=11, height=4.8)
        for row, when in enumerate(("before", "after")):
            names = ("attention0", "attention1", "query_key", "output_value", "product")
            titles = ("attention, layer 1", "attention, layer 2", "W_QK, layer 2", "W_OV, layer 1", "W_QK · W_OV")
            for panel, name, title in zip(panels[5 * row :], names, titles, strict=False):
                values = stored[f"{when}_{name}"]
                attention = name.startswith("attention")
                shown = values[0] if attention else values
                limit = float(np.abs(shown).max())
                options = {"vmin": 0, "vmax": 1} if attention else {"vmin": -limit, "vmax": limit, "cmap": "RdBu_r"}
                heat_map(panel, shown, "", **options)
                panel.set_title(f"{title}, {when}", fontsize=8)
                panel.set_xticks([])
                panel.set_yticks([])
        return canvas

    return Figure(
        "copying-maps",
        "Attention and weight products before and after training",
        f"{job.metrics['maps_of']}, one out-of-distribution sequence (queries down, keys across). After training layer "
        "1 has a line one below the diagonal, layer 2 one at the distance between the copies, and the product a "
        "diagonal.",
        draw,
        (f"{PROGRESS}/maps.safetensors",),
    )


def _order(job: FinishedJob) -> Figure:
    runs: list[dict[str, Any]] = job.metrics["runs"]
    measured = job.metrics["measurements"]

    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.6)
        for row, name in enumerate(EVENTS):
            steps = [run["events"][name] for run in runs if run["events"][name] is not None]
            axes.plot(steps, [row] * len(steps), marker="o", linestyle="", color=COLORS[0], alpha=0.45)
            if measured[f"event_{name}"]["interval"]:
                found = measured[f"event_{name}"]
                low, high = found["interval"]["low"], found["interval"]["high"]
                axes.plot([low, high], [row, row], color=INK, linewidth=1.4)
                axes.plot([found["value"]], [row], marker="|", markersize=12, color=INK)
        axes.set_yticks(range(len(EVENTS)), list(EVENTS.values()))
        axes.invert_yaxis()
        axes.set_xlabel("step at which half of the way is gone")
        return canvas

    return Figure(
        "copying-order",
        "Which comes first: when each measure passes half of its own way",
        f"One point a seed ({len(runs)} seeds), median with its 95 % bootstrap interval. Errors are measured every 200 "
        "steps, the other measures at checkpoints every 400, with linear interpolation.",
        draw,
        (f"{TRANSITION}/metrics.json",),
    )


def _held(job: FinishedJob) -> Figure:
    held: list[dict[str, Any]] = job.metrics["held"]
    titles = {"previous": "layer 1 held on the previous token", "forbid": "layer 1 kept off the previous token"}

    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.4)
        seen: set[str] = set()
        for run in held:
            index = list(titles).index(run["mode"])
            label = titles[run["mode"]] if run["mode"] not in seen else None
            seen.add(run["mode"])
            axes.plot(run["curve"]["step"], run["curve"]["ood"], color=COLORS[index], alpha=0.8, label=label)
        free = [run["free_step"] for run in held if run["free_step"] is not None]
        for number, step in enumerate(sorted(set(free))):
            text = "transition of the free run, same seeds" if number == 0 else None
            axes.axvline(step, color=MUTED, linestyle=":", linewidth=1, label=text)
        axes.set_xlabel("training step")
        axes.set_ylabel("error out of distribution")
        axes.set_ylim(0, 1.02)
        axes.legend(fontsize=8)
        return canvas

    return Figure(
        "copying-held",
        "Holding the first layer's attention during training moves the transition",
        "One line a seed, aligned error. Same data, seeds and loop as the free runs; only the attention pattern of "
        "layer 1 is held from step 0.",
        draw,
        (f"{TRANSITION}/metrics.json",),
    )


def _points(axes: Axes, rows: Sequence[tuple[str, dict[str, Any]]], index: int) -> None:
    """Horizontal points with intervals, one a row."""
    for row, (_, found) in enumerate(rows):
        low, high = found.get("low", found["value"]), found.get("high", found["value"])
        axes.plot([low, high], [row, row], color=COLORS[index], linewidth=1.6)
        axes.plot([found["value"]], [row], marker=MARKERS[index], color=COLORS[index])
    axes.set_yticks(range(len(rows)), [label for label, _ in rows])
    axes.invert_yaxis()
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("error out of distribution")


def _with_bounds(found: dict[str, Any]) -> dict[str, Any]:
    interval = found["interval"]
    return {"value": found["value"], **({"low": interval["low"], "high": interval["high"]} if interval else {})}


def _causes(job: FinishedJob) -> Figure:
    measured = job.metrics["measurements"]
    rows = [(label, _with_bounds(measured[f"ood_error_{name}"])) for name, label in CAUSES.items()]

    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.8)
        _points(axes, rows, 0)
        return canvas

    return Figure(
        "copying-causes",
        "What copying needs: heads removed and paths cut",
        f"Aligned error of trained two-layer models, mean and 95 % bootstrap over {len(job.metrics['runs'])} seeds. "
        "Where a path is cut, layer 2 sees the mean of layer 1 instead of its output.",
        draw,
        (f"{CAUSAL}/metrics.json",),
    )


def _projections(job: FinishedJob) -> Figure:
    runs = list(job.metrics["runs"].values())

    def draw() -> Canvas:
        canvas, panels = blank(1, 2, width=8.6, height=3.6, sharey=True)
        labels = {
            "bridge": "what keys read (W_QK)",
            "written": "what layer 1 writes (W_OV)",
            "random": "random subspaces",
        }
        for panel, words in zip(panels, ("remove", "keep"), strict=True):
            ranks = [row["rank"] for row in runs[0]["projections"]]
            for index, (name, label) in enumerate(labels.items()):
                values = np.array([[np.mean(row[f"{words}_{name}"]) for row in run["projections"]] for run in runs])
                low, high = np.quantile(values, [0, 1], axis=0)
                plot_band(panel, ranks, values.mean(0), low, high, label, COLORS[index], marker=MARKERS[index])
            panel.set_title(f"layer-2 keys: {words} the subspace")
            panel.set_xlabel("rank of the subspace (of 64)")
        panels[0].set_ylabel("error out of distribution")
        panels[0].set_ylim(0, 1.02)
        panels[1].legend(fontsize=8)
        return canvas

    return Figure(
        "copying-projections",
        "The bridge, taken away or left alone, against random subspaces of equal rank",
        f"Mean over {len(runs)} seeds; bands are the range over seeds. The random control is absent in the paper.",
        draw,
        (f"{CAUSAL}/metrics.json",),
    )


def _factors(job: FinishedJob) -> Figure:
    rows = [(label, job.metrics["conditions"][name]) for name, label in FACTORS.items()]

    def draw() -> Canvas:
        canvas, (axes,) = blank(height=3.6)
        _points(axes, rows, 0)
        axes.set_xlabel("error")
        return canvas

    return Figure(
        "copying-shift-factors",
        "The out-of-distribution test taken apart",
        f"Aligned error, mean and 95 % bootstrap over {rows[0][1]['n']} seeds, the same sequences for every seed.",
        draw,
        (f"{SHIFT}/metrics.json",),
    )


def _sweeps(job: FinishedJob) -> Figure:
    conditions: dict[str, Any] = job.metrics["conditions"]
    sweeps = {
        "length": ("segment length (training: 10-19)", 14.5),
        "gap": ("background tokens between the copies", None),
        "context": ("sequence length (training: 64)", 64),
    }

    def draw() -> Canvas:
        canvas, panels = blank(1, 3, width=9.4, height=3.2, sharey=True)
        for panel, (name, (label, mark)) in zip(panels, sweeps.items(), strict=True):
            found = {int(key.rpartition("_")[2]): entry for key, entry in conditions.items() if _is_sweep(key, name)}
            x = sorted(found)
            points = [found[value] for value in x]
            values, low, high = ([point[key] for point in points] for key in ("value", "low", "high"))
            plot_points(panel, x, values, low, high, color=COLORS[0])
            if mark:
                panel.axvline(mark, color=MUTED, linestyle=":", linewidth=1)
            panel.set_xlabel(label)
        panels[0].set_ylabel("error")
        panels[0].set_ylim(0, 1.02)
        return canvas

    return Figure(
        "copying-shift-sweeps",
        "How far the rule carries: segment length, distance, context",
        "Aligned error, mean and 95 % bootstrap over seeds. Length: training token law. Distance: uniform tokens, "
        "segments of 15. Context: uniform tokens, segments of 25; positions beyond 64 were never trained.",
        draw,
        (f"{SHIFT}/metrics.json",),
    )


def _is_sweep(key: str, name: str) -> bool:
    prefix, _, number = key.rpartition("_")
    return prefix == name and number.isdigit()
