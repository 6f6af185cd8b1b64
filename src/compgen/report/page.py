"""The report itself: index.html, report.md, results.json and figures/, written into one directory.

Equal finished jobs and equal claims give equal bytes. The page is one file that needs no network: styles and figures
are inside it. Covers putting together; the parts are in `verdicts`, `view`, `provenance`, `figure` and the templates.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from compgen.errors import ConfigError
from compgen.report.claims import Claim
from compgen.report.figure import Figure, RunTree, draw_svg, inline_svg, svg_width
from compgen.report.provenance import provenance
from compgen.report.verdicts import Verdict, count, judge, results
from compgen.report.view import (
    ClaimView,
    FileLink,
    Section,
    Table,
    VerdictView,
    claim_view,
    files_of,
    verdict_views,
)

FIGURES = "figures"
LARGEST_INLINE_SVG = 400_000
"""Characters; a larger drawing stands in the page as PNG, so that the page stays below a few megabytes."""
BROAD_POINTS = 600.0
"""Figures broader than this, in points, take the whole width of the page."""
SMOKE_NOTICE = (
    "Smoke run: sizes that only prove that the pipeline works. "
    "No value and no verdict on this page is evidence for or against anything."
)
PROTOCOLS = {
    "authors": "As the authors' own code does it, with its defects, so that their numbers can be met on their terms.",
    "controlled": "One protocol for every arm: same prompts, shots, stops, limits, precision and scorer, printed in "
    "the section of the experiment.",
    "autoregressive": "The task as a sequence model has to solve it: the model writes its own output token by token "
    "and decides when to stop.",
    "aligned": "The error definition that gives a perfect copier zero, where the authors' definition has a floor.",
    "exact": "Enumerated in double precision; there is no sampling, and the tolerance covers rounding only.",
    "beyond": "A question that the paper does not ask; the prediction was written down before the run.",
}
NOTES = (
    "Every number carries its n, its seeds and the method of its interval. n counts what the value is averaged over; "
    "seeds are independent trainings. Where several seeds share test items, the interval resamples seeds first and "
    "items within them, since items of one training are not independent.",
    "The strip beside each condition shows the allowed range as a green area, our value as a point, its interval as "
    "a bar, and the paper's value, where there is one, as a dashed line.",
    "A rule with several conditions is met only if all of them hold. The command given as “again” repeats the "
    "evidence; the one in the table of jobs repeats a single job.",
)


@dataclass(frozen=True)
class FigureView:
    """One figure as the page shows it."""

    name: str
    title: str
    caption: str
    markup: Markup
    svg: str
    png: str
    sources: list[FileLink]
    broad: bool
    """Whether it takes the whole width of the page, with the caption below."""


@dataclass(frozen=True)
class SectionView:
    """One experiment as the page shows it."""

    name: str
    title: str
    short: str
    introduction: list[str]
    figures: list[FigureView]
    tables: list[Table]
    claims: list[ClaimView]
    tally: list[VerdictView]
    """The verdicts that occur."""


def write_report(run: RunTree, claims: Sequence[Claim], contents: Sequence[Section], directory: Path) -> dict[str, int]:
    """Judge all claims and write the report into a directory.

    Returns:
        How many claims have each verdict.

    Raises:
        ConfigError: a claims file belongs to no section.
        Exception: whatever a section's figure raises; a report with a silent gap would mislead.
    """
    verdicts = judge(claims, run)
    (directory / FIGURES).mkdir()
    sections = _section_views(run, verdicts, contents, directory / FIGURES)
    values = _page_values(run, verdicts, sections)
    _write(directory / "index.html", _template("page.html.j2", escape=True).render(values, link=_html_link))
    _write(directory / "report.md", _template("report.md.j2", escape=False).render(values, link=_markdown_link))
    _write(directory / "results.json", json.dumps(results(verdicts, run), indent=1, ensure_ascii=False) + "\n")
    return count(verdicts)


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _template(name: str, escape: bool) -> Any:
    environment = Environment(
        loader=PackageLoader("compgen.report"),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|").replace("\n", " ")
    return environment.get_template(name)


def _html_link(file: FileLink) -> Markup:
    if not file.exists:
        return Markup("<code>{}</code> (missing)").format(file.label)
    return Markup('<a href="{}">{}</a>').format(file.href, file.label)


def _markdown_link(file: FileLink) -> str:
    return f"[{file.label}]({file.href})" if file.exists else f"`{file.label}` (missing)"


def _page_values(run: RunTree, verdicts: Sequence[Verdict], sections: Sequence[SectionView]) -> dict[str, Any]:
    return {
        "title": f"compgen report: {run.name}",
        "run": run.name,
        "summary": _summary(run, verdicts),
        "smoke": SMOKE_NOTICE if run.profile == "smoke" else "",
        "verdicts": verdict_views(verdicts),
        "sections": sections,
        "protocols": _protocols(verdicts),
        "notes": NOTES,
        "provenance": provenance(run),
    }


def _summary(run: RunTree, verdicts: Sequence[Verdict]) -> str:
    papers = sorted({verdict.claim.paper for verdict in verdicts})
    counts = ", ".join(f"{number} {name}" for name, number in count(verdicts).items())
    return (
        f"A replication of two papers on compositional generalization ({'; '.join(papers)}). "
        f"Of {len(verdicts)} claims, each with its rule: {counts}. Profile {run.profile}."
    )


def _protocols(verdicts: Sequence[Verdict]) -> list[dict[str, str]]:
    """The protocols that occur, the known ones first with their meaning."""
    used = {verdict.claim.protocol for verdict in verdicts}
    known = [{"name": name, "meaning": meaning} for name, meaning in PROTOCOLS.items() if name in used]
    others = [{"name": name, "meaning": "See the claims that use it."} for name in sorted(used - set(PROTOCOLS))]
    return known + others


def _section_views(
    run: RunTree, verdicts: Sequence[Verdict], contents: Sequence[Section], directory: Path
) -> list[SectionView]:
    owners = {verdict.claim.id: section_of(verdict.claim, contents).name for verdict in verdicts}
    drawn: set[str] = set()
    views = []
    for section in contents:
        own = [verdict for verdict in verdicts if owners[verdict.claim.id] == section.name]
        figures = [_figure_view(run, figure, directory, drawn) for figure in section.figures(run)]
        paragraphs = [" ".join(part.split()) for part in section.introduction().split("\n\n") if part.strip()]
        views.append(
            SectionView(
                section.name,
                section.title,
                section.short,
                paragraphs,
                figures,
                section.tables(run),
                [claim_view(verdict, run) for verdict in own],
                [view for view in verdict_views(own) if view.count],
            )
        )
    return views


def section_of(claim: Claim, contents: Sequence[Section]) -> Section:
    """The section of a claim: the one named as its file, else the first whose name begins with it.

    Raises:
        ConfigError: there is none.
    """
    matches: list[Callable[[Section], bool]] = [
        lambda section: section.name == claim.group,
        lambda section: section.name.startswith(claim.group),
    ]
    for fits in matches:
        for section in contents:
            if fits(section):
                return section
    names = ", ".join(section.name for section in contents)
    raise ConfigError(f"{claim.group}.yaml: belongs to no section of the report: name it as one of {names}")


def _figure_view(run: RunTree, figure: Figure, directory: Path, drawn: set[str]) -> FigureView:
    if figure.name in drawn:
        raise ValueError(f"two figures of the report are named {figure.name}")
    drawn.add(figure.name)
    svg = draw_svg(figure, directory)
    alt = figure.alt or f"{figure.title}. {figure.caption}"
    if len(svg) <= LARGEST_INLINE_SVG:
        markup = Markup(inline_svg(svg, figure.name, str(Markup.escape(alt))))
    else:
        pixels = base64.b64encode((directory / f"{figure.name}.png").read_bytes()).decode("ascii")
        markup = Markup('<img src="data:image/png;base64,{}" alt="{}">').format(pixels, alt)
    place = f"{FIGURES}/{figure.name}"
    return FigureView(
        figure.name,
        figure.title,
        figure.caption,
        markup,
        f"{place}.svg",
        f"{place}.png",
        files_of(run, figure.sources),
        svg_width(svg) > BROAD_POINTS,
    )
