"""The DAG of a run as a picture (SVG) and as Mermaid text.

Jobs that differ only in numbers, such as seeds, are one node with a count. Covers drawing; what a job's state is
comes from `compgen.run.dag`.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from compgen.report.figure import BLUE, GREEN, INK, MUTED, ORANGE, PAPER, VERMILLION, style

STATES = {"failed": VERMILLION, "running": BLUE, "missing": MUTED, "stale": ORANGE, "done": GREEN}
"""The colour of every state; a family of jobs takes the first state in this order that one of them has."""
COLUMN_GAP, ROW_HEIGHT, BOX_HEIGHT, LANE_GAP = 0.8, 0.62, 0.46, 0.55
LETTER = 0.082
"""Inches that a letter of a label takes."""
LONGEST_SERIES = 4
"""How many values of a family are written out when they are not consecutive."""


@dataclass(frozen=True)
class DagNode:
    """One job of the DAG."""

    name: str
    """`experiment/job`."""
    kind: str
    inputs: tuple[str, ...]
    state: str
    """done, stale, failed, running or missing."""


@dataclass(frozen=True)
class Family:
    """Jobs of one kind whose names differ only in numbers."""

    name: str
    """`experiment/job` with the numbers as `{0..7}`."""
    kind: str
    states: tuple[str, ...]

    @property
    def experiment(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def title(self) -> str:
        """The part of the name after the slash."""
        return self.name.partition("/")[2]

    @property
    def state(self) -> str:
        """The state that asks for most attention."""
        return min(self.states, key=list(STATES).index)

    @property
    def note(self) -> str:
        """How many jobs stand how, for example `8 jobs: 6 done, 2 stale`."""
        if len(self.states) == 1:
            return self.states[0]
        counted = Counter(self.states)
        words = ", ".join(f"{counted[state]} {state}" for state in reversed(STATES) if counted[state])
        return f"{len(self.states)} jobs: {words}"

    @property
    def width(self) -> float:
        """Inches of its box."""
        return LETTER * max(len(self.title), 0.85 * len(self.note)) + 0.24


@dataclass(frozen=True)
class Box:
    """Where a family is drawn, in inches: the middle of its left side, and its width."""

    left: float
    middle: float
    width: float

    @property
    def right(self) -> float:
        """The right side."""
        return self.left + self.width


def draw_dag(jobs: Sequence[DagNode], path: Path) -> None:
    """Draw the DAG as SVG: inputs on the left, one lane for each experiment.

    Raises:
        networkx.NetworkXException: the jobs need each other in a circle.
    """
    graph = collapse(jobs)
    boxes = layout(graph)
    width = max([4.0, *(box.right for box in boxes.values())]) + 0.65
    height = -min((box.middle for box in boxes.values()), default=0.0) + 1.5
    with style():
        canvas = Canvas(figsize=(width, height))
        canvas.set_layout_engine("none")
        axes = canvas.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-0.4, width - 0.4), ylim=(0.7 - height, 0.7))
        axes.axis("off")
        for before, after in graph.edges:
            _draw_edge(axes, boxes[before], boxes[after])
        for family, box in boxes.items():
            _draw_box(axes, family, box)
        _draw_lanes(axes, boxes)
        handles = [Patch(facecolor=color, label=state) for state, color in reversed(STATES.items())]
        axes.legend(handles=handles, loc="lower left", ncols=len(STATES), borderaxespad=0.3)
        canvas.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def mermaid(jobs: Sequence[DagNode]) -> str:
    """The DAG as Mermaid text: one subgraph for each experiment, one class for each state."""
    graph = collapse(jobs)
    identity = {family: f"job{place}" for place, family in enumerate(graph.nodes)}
    lines = ["flowchart LR"]
    for experiment in dict.fromkeys(family.experiment for family in graph.nodes):
        lines.append(f'  subgraph {experiment}["{experiment}"]')
        for family in (family for family in graph.nodes if family.experiment == experiment):
            lines.append(f'    {identity[family]}["{family.title}<br/>{family.note}"]:::{family.state}')
        lines.append("  end")
    lines.extend(f"  {identity[before]} --> {identity[after]}" for before, after in graph.edges)
    lines.extend(f"  classDef {state} stroke:{color},stroke-width:2px" for state, color in STATES.items())
    return "\n".join(lines) + "\n"


def collapse(jobs: Sequence[DagNode]) -> "nx.DiGraph[Family]":
    """The graph of families in the order of their first jobs, without the edges that others imply."""
    members: dict[tuple[str, str], list[DagNode]] = {}
    for job in jobs:
        members.setdefault((re.sub(r"\d+", "#", job.name), job.kind), []).append(job)
    family_of: dict[str, Family] = {}
    for (_, kind), group in members.items():
        family = Family(common_name([job.name for job in group]), kind, tuple(job.state for job in group))
        family_of.update({job.name: family for job in group})
    graph: nx.DiGraph[Family] = nx.DiGraph()
    graph.add_nodes_from(dict.fromkeys(family_of.values()))
    for job in jobs:
        before = (family_of[name] for name in job.inputs if name in family_of)
        graph.add_edges_from((family, family_of[job.name]) for family in before)
    reduced: nx.DiGraph[Family] = nx.transitive_reduction(graph)
    shown: nx.DiGraph[Family] = nx.DiGraph()
    shown.add_nodes_from(graph.nodes)
    shown.add_edges_from(edge for edge in graph.edges if reduced.has_edge(*edge))
    return shown


def common_name(names: Sequence[str]) -> str:
    """Names that differ in numbers as one: `train-seed{0..7}`, `pool-{100,750}-seed0`."""
    pieces = [re.split(r"(\d+)", name) for name in names]  # texts at even places, numbers at odd ones
    return "".join(
        pieces[0][place] if place % 2 == 0 else _series([piece[place] for piece in pieces])
        for place in range(len(pieces[0]))
    )


def _series(texts: Sequence[str]) -> str:
    distinct = sorted(set(texts), key=int)
    numbers = [int(text) for text in distinct]
    if len(distinct) == 1:
        return distinct[0]
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{{{numbers[0]}..{numbers[-1]}}}"
    if len(numbers) > LONGEST_SERIES:
        return f"{{{numbers[0]}…{numbers[-1]}}}"
    return f"{{{','.join(distinct)}}}"


def layout(graph: "nx.DiGraph[Family]") -> dict[Family, Box]:
    """Columns by the longest way to a result, all boxes of a column equally wide; one lane an experiment."""
    columns = [list(generation) for generation in nx.topological_generations(graph.reverse())][::-1]
    column_of = {family: place for place, column in enumerate(columns) for family in column}
    widths = [max(family.width for family in column) for column in columns]
    lefts = [sum(widths[:place]) + place * COLUMN_GAP for place in range(len(columns))]
    boxes: dict[Family, Box] = {}
    top = 0.0
    for experiment in dict.fromkeys(family.experiment for family in graph.nodes):
        lane = [family for family in graph.nodes if family.experiment == experiment]
        rows = _rows(graph, lane, column_of)
        for family, row in rows.items():
            column = column_of[family]
            boxes[family] = Box(lefts[column], top - ROW_HEIGHT * row, widths[column])
        top -= ROW_HEIGHT * (max(rows.values()) + 1) + LANE_GAP
    return boxes


def _rows(graph: "nx.DiGraph[Family]", lane: Sequence[Family], column_of: dict[Family, int]) -> dict[Family, float]:
    """The row of every family within its lane: columns are centred, each in the order of its users."""
    columns: dict[int, list[Family]] = {}
    for family in lane:
        columns.setdefault(column_of[family], []).append(family)
    tallest = max(len(column) for column in columns.values())
    rows: dict[Family, float] = {}
    for _, column in sorted(columns.items(), reverse=True):
        middles = {family: _middle(graph, family, rows) for family in column}
        column.sort(key=middles.__getitem__)
        start = (tallest - len(column)) / 2
        rows.update({family: start + place for place, family in enumerate(column)})
    return rows


def _middle(graph: "nx.DiGraph[Family]", family: Family, rows: dict[Family, float]) -> float:
    known = [rows[after] for after in graph.successors(family) if after in rows]
    return sum(known) / len(known) if known else 0.0


def _draw_box(axes: Axes, family: Family, box: Box) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (box.left, box.middle - BOX_HEIGHT / 2),
            box.width,
            BOX_HEIGHT,
            boxstyle="round,pad=0,rounding_size=0.06",
            facecolor=PAPER,
            edgecolor=STATES[family.state],
            linewidth=1.8,
        )
    )
    left = box.left + 0.12
    axes.text(left, box.middle + 0.02, family.title, fontsize=9, va="bottom", color=INK, parse_math=False)
    axes.text(left, box.middle - 0.03, family.note, fontsize=7.5, va="top", color=INK, parse_math=False)


def _draw_edge(axes: Axes, before: Box, after: Box) -> None:
    axes.add_patch(
        FancyArrowPatch(
            (before.right, before.middle),
            (after.left, after.middle),
            connectionstyle=_bend(after.middle - before.middle),
            arrowstyle="-|>",
            mutation_scale=9,
            shrinkA=0,
            shrinkB=1,
            linewidth=0.9,
            color=MUTED,
            zorder=0.5,
        )
    )


def _bend(rise: float) -> str:
    """Curves bend away from the straight line a little, so that lines with the same end can be told apart."""
    return f"arc3,rad={max(-0.12, min(0.12, -0.04 * rise)):.3f}"


def _draw_lanes(axes: Axes, boxes: dict[Family, Box]) -> None:
    tops: dict[str, float] = {}
    for family, box in boxes.items():
        tops[family.experiment] = max(tops.get(family.experiment, box.middle), box.middle)
    for experiment, top in tops.items():
        axes.text(-0.25, top + BOX_HEIGHT / 2 + 0.1, experiment, fontsize=10.5, fontweight="bold", color=INK)
