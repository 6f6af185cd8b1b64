"""What a section of the report draws with: a figure's description, the run tree it reads, colours and axes.

Covers drawing and writing figures as SVG and PNG, equal bytes for equal data. What a figure shows is decided in
`compgen.report.sections`.
"""

import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from numpy.typing import ArrayLike

from compgen.run.context import MANIFEST, FinishedJob

BLUE = "#0072b2"
ORANGE = "#e69f00"
GREEN = "#009e73"
VERMILLION = "#d55e00"
PURPLE = "#cc79a7"
SKY = "#56b4e9"
YELLOW = "#f0e442"
INK = "#1b1f24"
MUTED = "#6e7781"
GRID = "#d8dee4"
PAPER = "#ffffff"

COLORS = (BLUE, VERMILLION, GREEN, ORANGE, PURPLE, SKY, INK, YELLOW)
"""The palette of Okabe and Ito, told apart by the colour-blind, in the order in which lines should take them."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""A second sign beside the colour, in the same order."""

STYLE: dict[str, Any] = {
    "figure.figsize": (7.2, 3.8),
    "figure.dpi": 100,
    "figure.facecolor": PAPER,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 160,
    "savefig.facecolor": PAPER,
    "svg.fonttype": "none",
    "svg.hashsalt": "compgen",
    "svg.id": None,
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.facecolor": PAPER,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "image.cmap": "viridis",
    "image.interpolation": "nearest",
}


@dataclass(frozen=True)
class Figure:
    """One figure of the report, drawn only when it is written."""

    name: str
    """Unique in the report, letters, digits and dashes: the name of its files."""
    title: str
    caption: str
    """What is shown, with n, seeds, the interval's method and the protocol."""
    draw: Callable[[], Canvas]
    sources: tuple[str, ...] = ()
    """Files that hold the numbers, relative to the run tree, for example `copying/summary/metrics.json`."""
    alt: str = ""
    """What a reader who cannot see it should know; the title and caption where empty."""


@dataclass(frozen=True)
class RunTree:
    """The finished jobs of one run, read-only.

    `standing` restricts it to the jobs whose results are up to date; None takes every finished directory.
    """

    directory: Path
    profile: str = "laptop"
    standing: frozenset[str] | None = None
    run_name: str = ""

    @property
    def name(self) -> str:
        """The run's name; its directory's where none was given."""
        return self.run_name or self.directory.name

    @cached_property
    def finished(self) -> dict[str, FinishedJob]:
        """Every finished job by `experiment/job`, in the order of the names."""
        found = {}
        for manifest in sorted(self.directory.glob(f"*/*/{MANIFEST}")):
            name = manifest.parent.relative_to(self.directory).as_posix()
            hidden = any(part.startswith(".") or part.endswith((".partial", ".replaced")) for part in name.split("/"))
            if not hidden and (self.standing is None or name in self.standing):
                found[name] = FinishedJob(manifest.parent)
        return found

    def job(self, name: str) -> FinishedJob | None:
        """A finished job by `experiment/job`, for example `copying/summary`; None where there is none."""
        return self.finished.get(name)

    def jobs(self, experiment: str) -> list[FinishedJob]:
        """The finished jobs of an experiment, in the order of their names."""
        return [job for name, job in self.finished.items() if name.partition("/")[0] == experiment]


@contextmanager
def style() -> Iterator[None]:
    """The report's look for everything drawn inside, whatever a user's own matplotlib settings are."""
    with matplotlib.style.context(STYLE, after_reset=True):
        yield


def blank(
    rows: int = 1, columns: int = 1, width: float = 7.2, height: float = 3.8, **options: Any
) -> tuple[Canvas, list[Axes]]:
    """An empty figure in the report's style, `width` × `height` inches, and its axes row by row.

    Further options go to matplotlib's `Figure.subplots`, for example `sharey=True`.
    """
    canvas = Canvas(figsize=(width, height))
    axes = canvas.subplots(rows, columns, squeeze=False, **options)
    return canvas, list(axes.ravel())


def plot_band(
    axes: Axes,
    x: ArrayLike,
    mean: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    label: str = "",
    color: str | None = None,
    **line: Any,
) -> None:
    """A line with its interval as a band of the same colour.

    Args:
        axes: where to draw.
        x, mean, low, high: shape (point,); without `low` and `high` there is no band.
        label: for the legend.
        color: the next one of the palette where None.
        line: further options of matplotlib's `plot`, for example `marker="o"`.
    """
    drawn = axes.plot(np.asarray(x), np.asarray(mean), label=label, color=color, **line)[0]
    if low is not None and high is not None:
        axes.fill_between(
            np.asarray(x), np.asarray(low), np.asarray(high), color=drawn.get_color(), alpha=0.2, linewidth=0
        )


def plot_points(
    axes: Axes,
    x: ArrayLike,
    value: ArrayLike,
    low: ArrayLike,
    high: ArrayLike,
    label: str = "",
    color: str | None = None,
    **options: Any,
) -> None:
    """Points with their intervals as bars. Arguments as for `plot_band`, all of shape (point,)."""
    middle = np.asarray(value, dtype=float)
    below = np.clip(middle - np.asarray(low, dtype=float), 0, None)
    above = np.clip(np.asarray(high, dtype=float) - middle, 0, None)
    chosen = {"marker": "o", "linestyle": "none", "capsize": 2.5, "elinewidth": 1.2, **options}
    axes.errorbar(np.asarray(x), middle, yerr=np.stack([below, above]), label=label, color=color, **chosen)


def paper_line(axes: Axes, value: float, label: str = "paper") -> None:
    """A dashed horizontal line at a value that the paper reports."""
    axes.axhline(value, color=MUTED, linestyle="--", linewidth=1.2, label=label, zorder=1)


def heat_map(axes: Axes, values: ArrayLike, label: str, **options: Any) -> None:
    """A matrix as colours, first row on top, with its colour bar.

    Args:
        axes: where to draw.
        values: shape (row, column).
        label: of the colour bar, with the unit.
        options: of matplotlib's `imshow`, for example `vmin=0, vmax=1`.
    """
    image = axes.imshow(np.asarray(values), aspect=options.pop("aspect", "auto"), **options)
    axes.grid(False)
    canvas = axes.get_figure()
    assert canvas is not None
    canvas.colorbar(image, ax=axes, label=label)


def draw_svg(figure: Figure, directory: Path) -> str:
    """Draw a figure and write it as SVG and PNG into a directory.

    Returns:
        The SVG's text, for `inline_svg`.
    """
    with style():
        canvas = figure.draw()
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        canvas.savefig(directory / f"{figure.name}.png", format="png", metadata={"Software": None})
    svg = text.getvalue()
    (directory / f"{figure.name}.svg").write_text(svg, encoding="utf-8")
    return svg


def inline_svg(svg: str, name: str, alt: str) -> str:
    """An SVG that may stand in a page beside others: own ids, colours that follow the page, a text alternative."""
    body = svg[svg.index("<svg") :]
    body = _own_ids(body, name)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{name}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", body)
    for fixed, variable in ((INK, "--ink"), (MUTED, "--muted"), (GRID, "--grid"), (PAPER, "--paper")):
        body = body.replace(fixed, f"var({variable})")
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", body, count=1)
    return body.replace("<svg", f'<svg role="img" aria-label="{alt}"', 1).strip()


def _own_ids(body: str, name: str) -> str:
    """Prefix all ids; the repeated id of an equal part, such as two colour bars, is kept at the first only."""
    seen: set[str] = set()

    def own(found: re.Match[str]) -> str:
        if found.group(1) in seen:
            return ""
        seen.add(found.group(1))
        return f' id="{name}-{found.group(1)}"'

    return re.sub(r'\s+id="([^"]+)"', own, body)


def svg_width(svg: str) -> float:
    """The width of a drawing in points."""
    found = re.search(r'viewBox="0 0 ([0-9.]+) ', svg)
    assert found, "matplotlib gives every SVG a view box"
    return float(found.group(1))


def series(points: Sequence[dict[str, Any]], key: str) -> list[float]:
    """One field of a list of points, in order: `series(metrics["curve"], "low")`."""
    return [float(point[key]) for point in points]
