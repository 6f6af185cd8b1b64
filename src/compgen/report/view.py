"""What the page shows of verdicts: every value as the text a reader sees, every file as a link.

Covers formatting only. Layout is in the templates, judging in `verdicts.py`.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from compgen.report.claims import Claim, Condition, number
from compgen.report.figure import Figure, RunTree
from compgen.report.verdicts import (
    INCONCLUSIVE,
    NOT_REPRODUCED,
    NOT_RUN,
    REPRODUCED,
    VERDICTS,
    Judgement,
    Measurement,
    Verdict,
    count,
)

SIGNS = {REPRODUCED: "✓", NOT_REPRODUCED: "✗", INCONCLUSIVE: "≈", NOT_RUN: "○"}
MEANINGS = {
    REPRODUCED: "The whole interval of every condition lies within the claim's rule.",
    NOT_REPRODUCED: "The whole interval of at least one condition lies outside the rule. "
    "That is a finding; rules are never moved to fit a result.",
    INCONCLUSIVE: "An interval reaches across a bound of the rule: more seeds or samples would be needed to decide.",
    NOT_RUN: "There is no result that stands, for the reason given: no value is shown or assumed.",
}
NOTHING = "–"
STRIP_WIDTH, STRIP_HEIGHT = 240, 24


@dataclass(frozen=True)
class Table:
    """Rows of texts that the page shows in full."""

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def no_tables(_run: RunTree) -> list[Table]:
    """Of a section that has none."""
    return []


@dataclass(frozen=True)
class Section:
    """One experiment's part of the report."""

    name: str
    """The claims of data/reference/<name>.yaml belong to it."""
    title: str
    short: str
    """The title in the navigation."""
    introduction: Callable[[], str]
    """Paragraphs separated by blank lines."""
    figures: Callable[[RunTree], list[Figure]]
    tables: Callable[[RunTree], list[Table]] = no_tables


@dataclass(frozen=True)
class FileLink:
    """A file of the run tree, seen from the report's directory."""

    label: str
    href: str
    exists: bool


@dataclass(frozen=True)
class VerdictView:
    """One kind of verdict in the overview."""

    name: str
    slug: str
    sign: str
    count: int
    meaning: str


@dataclass(frozen=True)
class ConditionView:
    """One condition of a claim."""

    measurement: str
    rule: str
    value: str
    bounds: str
    n: str
    verdict: str
    slug: str
    sign: str
    strip: Markup


@dataclass(frozen=True)
class ClaimView:
    """One claim with its verdict."""

    id: str
    anchor: str
    statement: str
    paper: str
    location: str
    protocol: str
    paper_value: str
    theirs: bool
    """Whether the paper's value is a number."""
    prediction: str
    value: str
    bounds: str
    method: str
    n: str
    seeds: str
    seed_count: str
    verdict: str
    slug: str
    sign: str
    rule: str
    reason: str
    conditions: list[ConditionView]
    files: list[FileLink]
    command: str


def slug(text: str) -> str:
    """A text as an identifier for HTML: `not run` becomes `not-run`."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def file_link(run: RunTree, file: str) -> FileLink:
    """A link to a file of the run tree, as it will be reachable from outputs/<run>/report."""
    return FileLink(file, f"../{file}", (run.directory / file).is_file())


def verdict_views(verdicts: Sequence[Verdict]) -> list[VerdictView]:
    """The overview of all kinds of verdicts."""
    counts = count(verdicts)
    return [VerdictView(name, slug(name), SIGNS[name], counts[name], MEANINGS[name]) for name in VERDICTS]


def claim_view(verdict: Verdict, run: RunTree) -> ClaimView:
    """Everything that the page says about one claim."""
    claim, shown = verdict.claim, verdict.headline
    theirs = claim.paper_value if isinstance(claim.paper_value, int | float) else None
    conditions = [
        _condition_view(judgement, theirs if place == 0 else None) for place, judgement in enumerate(verdict.judgements)
    ]
    return ClaimView(
        id=claim.id,
        anchor=f"claim-{slug(claim.id)}",
        statement=claim.statement,
        paper=claim.paper,
        location=claim.location,
        protocol=claim.protocol,
        paper_value=_paper_value(claim),
        theirs=theirs is not None,
        prediction=claim.prediction or "",
        value=number(shown.value) if shown else NOT_RUN,
        bounds=_bounds(shown),
        method=_method(shown),
        n=_count(shown),
        seeds=_seeds(shown),
        seed_count=str(len(shown.seeds)) if shown and shown.seeds else NOTHING,
        verdict=verdict.verdict,
        slug=slug(verdict.verdict),
        sign=SIGNS[verdict.verdict],
        rule=claim.rule,
        reason=verdict.reason,
        conditions=conditions,
        files=[file_link(run, file) for file in verdict.files],
        command=verdict.command,
    )


def _condition_view(judgement: Judgement, theirs: float | None) -> ConditionView:
    measured, condition = judgement.measurement, judgement.condition
    return ConditionView(
        measurement=condition.measurement,
        rule=condition.in_words,
        value=number(measured.value) if measured else NOT_RUN,
        bounds=_bounds(measured),
        n=_count(measured),
        verdict=judgement.verdict,
        slug=slug(judgement.verdict),
        sign=SIGNS[judgement.verdict],
        strip=strip(condition, measured, theirs) if measured else Markup(NOTHING),
    )


def _paper_value(claim: Claim) -> str:
    if claim.paper_value is None:
        return "beyond the paper"
    return claim.paper_value if isinstance(claim.paper_value, str) else number(claim.paper_value)


def _bounds(measured: Measurement | None) -> str:
    if measured is None or not measured.method or measured.low == measured.high:
        return ""
    return f"[{number(measured.low)}, {number(measured.high)}]"


def _method(measured: Measurement | None) -> str:
    if measured is None:
        return NOTHING
    return measured.method or "none: a single or exact value"


def _count(measured: Measurement | None) -> str:
    return f"{measured.n:,}" if measured else NOTHING


def _seeds(measured: Measurement | None) -> str:
    """`8 (0–7)` for consecutive seeds, all of them otherwise."""
    if measured is None or not measured.seeds:
        return NOTHING
    seeds = sorted(set(measured.seeds))
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{len(seeds)} ({seeds[0]}–{seeds[-1]})"
    return f"{len(seeds)} ({', '.join(map(str, seeds))})"


def strip(condition: Condition, measured: Measurement, theirs: float | None) -> Markup:
    """A small picture of where value and interval lie, with the allowed range and the paper's value."""
    ends = [condition.low, condition.high, measured.low, measured.high, measured.value, theirs]
    finite = [end for end in ends if end is not None and math.isfinite(end)]
    margin = 0.15 * (max(finite) - min(finite)) or max(abs(finite[0]), 1.0) * 0.5
    start, end = min(finite) - margin, max(finite) + margin

    def place(value: float) -> float:
        return round(STRIP_WIDTH * (min(max(value, start), end) - start) / (end - start), 2)

    left, right = place(condition.low), place(condition.high)
    parts = [
        f'<rect class="allowed" x="{left}" y="0" width="{max(right - left, 1.0):g}" height="{STRIP_HEIGHT}"/>',
        f'<line class="axis" x1="0" x2="{STRIP_WIDTH}" y1="12" y2="12"/>',
        f'<line class="interval" x1="{place(measured.low)}" x2="{place(measured.high)}" y1="12" y2="12"/>',
        f'<circle class="point" cx="{place(measured.value)}" cy="12" r="4.5"/>',
    ]
    if theirs is not None:
        parts.append(f'<line class="theirs" x1="{place(theirs)}" x2="{place(theirs)}" y1="2" y2="22"/>')
    label = f"{number(measured.value)} {_bounds(measured)} against the rule {condition.in_words}"
    label += f"; paper {number(theirs)}" if theirs is not None else ""
    head = f'<svg class="strip" viewBox="0 0 {STRIP_WIDTH} {STRIP_HEIGHT}" preserveAspectRatio="none" role="img"'
    return Markup(f'{head} aria-label="{Markup.escape(label)}">{"".join(parts)}</svg>')


def files_of(run: RunTree, files: Sequence[str]) -> list[FileLink]:
    """Links to some files of the run tree."""
    return [file_link(run, file) for file in files]
