"""From claims and a run tree to verdicts, each with its reason in words and numbers.

Covers reading measurements, the rule, and why something has not been run. A verdict needs the whole interval: inside
the stated range it is `reproduced`, outside `not reproduced`, across a bound `inconclusive`.
"""

import difflib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compgen.report.claims import Claim, Condition, number
from compgen.report.figure import RunTree
from compgen.run.context import MANIFEST, METRICS, read_json

REPRODUCED = "reproduced"
NOT_REPRODUCED = "not reproduced"
INCONCLUSIVE = "inconclusive"
NOT_RUN = "not run"
VERDICTS = (REPRODUCED, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN)
WEIGHT = (NOT_REPRODUCED, NOT_RUN, INCONCLUSIVE, REPRODUCED)
"""Of several conditions the verdict that comes first here is the claim's."""
EXACT = "exact"
"""The protocol of enumerations, whose values have no spread; every other value needs an interval for a verdict."""
SMOKE = "smoke run, not evidence: "
DEFAULT_PROFILE = "laptop"
DAG_FILE = Path(".make") / "dag.txt"
"""What make has written of the run's jobs, one a line, below the run tree."""


@dataclass(frozen=True)
class Measurement:
    """A measured value; without an interval the bounds are the value itself and `method` is empty."""

    value: float
    low: float
    high: float
    method: str
    n: int
    seeds: tuple[int, ...]
    note: str = ""
    files: tuple[str, ...] = ()

    @property
    def interval(self) -> dict[str, Any] | None:
        """Bounds and method as plain values; None for a value without interval."""
        return {"low": self.low, "high": self.high, "method": self.method} if self.method else None


@dataclass(frozen=True)
class Judgement:
    """How one condition stands."""

    condition: Condition
    verdict: str
    reason: str
    measurement: Measurement | None


@dataclass(frozen=True)
class Verdict:
    """How a claim stands, with everything that is needed to check it."""

    claim: Claim
    verdict: str
    reason: str
    judgements: tuple[Judgement, ...]
    files: tuple[str, ...]
    """The evidence, relative to the run tree."""
    command: str
    """What repeats it."""

    @property
    def headline(self) -> Measurement | None:
        """The measurement of the first condition."""
        return self.judgements[0].measurement

    def as_dict(self) -> dict[str, Any]:
        """The claim's entry in results.json."""
        shown = self.headline
        return {
            "id": self.claim.id,
            "paper": self.claim.paper,
            "location": self.claim.location,
            "statement": self.claim.statement,
            "protocol": self.claim.protocol,
            "paper_value": self.claim.paper_value,
            "prediction": self.claim.prediction,
            "value": shown.value if shown else None,
            "interval": shown.interval if shown else None,
            "n": shown.n if shown else None,
            "seeds": list(shown.seeds) if shown else [],
            "verdict": self.verdict,
            "rule": self.claim.rule,
            "reason": self.reason,
            "files": list(self.files),
            "command": self.command,
        }


def judge(claims: Sequence[Claim], run: RunTree) -> list[Verdict]:
    """The verdict of every claim on a run.

    Raises:
        ValueError: a finished job holds a measurement that is malformed, which is a defect of that job.
    """
    return [_judge(claim, run) for claim in claims]


def count(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """How many claims have each verdict, zeros included."""
    counted = Counter(verdict.verdict for verdict in verdicts)
    return {verdict: counted[verdict] for verdict in VERDICTS}


def results(verdicts: Sequence[Verdict], run: RunTree) -> dict[str, Any]:
    """The content of results.json."""
    return {"run": run.name, "profile": run.profile, "claims": [verdict.as_dict() for verdict in verdicts]}


def repeat_command(run: RunTree, source: str) -> str:
    """What to type to make a job's result again: its experiment's target, or the job itself in a run of one's own."""
    experiment = source.partition("/")[0]
    job = run.job(source)
    if run.name == run.profile:
        return f"make {experiment}" + ("" if run.profile == DEFAULT_PROFILE else f" PROFILE={run.profile}")
    return str(job.manifest["command"]) if job else f"make {experiment} PROFILE={run.profile} RUN={run.name}"


def _judge(claim: Claim, run: RunTree) -> Verdict:
    job = run.job(claim.source)
    if job is None:
        judgements = tuple(Judgement(c, NOT_RUN, why_not_run(run, claim.source), None) for c in claim.conditions)
        reason = judgements[0].reason
    else:
        judgements = tuple(_judge_condition(claim, c, job.metrics) for c in claim.conditions)
        reason = _join(judgements)
    verdict = min((judgement.verdict for judgement in judgements), key=WEIGHT.index)
    smoke = SMOKE if run.profile == "smoke" else ""
    return Verdict(
        claim, verdict, smoke + reason, judgements, _files(claim, run, judgements), repeat_command(run, claim.source)
    )


def _join(judgements: Sequence[Judgement]) -> str:
    """The conditions' reasons, the decisive ones first."""
    ordered = sorted(judgements, key=lambda judgement: WEIGHT.index(judgement.verdict))
    return " ".join(judgement.reason for judgement in ordered)


def _files(claim: Claim, run: RunTree, judgements: Sequence[Judgement]) -> tuple[str, ...]:
    if run.job(claim.source) is None:
        return ()
    named = [file for judgement in judgements if judgement.measurement for file in judgement.measurement.files]
    return tuple(dict.fromkeys([f"{claim.source}/{METRICS}", *named]))


def _judge_condition(claim: Claim, condition: Condition, metrics: Mapping[str, Any]) -> Judgement:
    measurements = metrics.get("measurements", {})
    name = condition.measurement
    if name not in measurements:
        close = difflib.get_close_matches(name, list(measurements), n=1)
        hint = f" (the nearest is {close[0]})" if close else ""
        return Judgement(condition, NOT_RUN, f"{claim.source} reports no measurement {name}{hint}.", None)
    entry = measurements[name]
    if entry.get("value") is None:
        note = entry.get("note") or "it gives no reason"
        return Judgement(condition, NOT_RUN, f"{claim.source} did not measure {name}: {note.rstrip('.')}.", None)
    measured = read_measurement(f"{claim.source}: {name}", entry)
    if not measured.method and claim.protocol != EXACT:
        shown = f"{name} is {number(measured.value)} in one run: its spread is unknown, so it decides nothing alone"
        return Judgement(condition, INCONCLUSIVE, f"{shown} (rule {condition.in_words}).", measured)
    verdict = compare(condition, measured)
    return Judgement(condition, verdict, _reason(condition, measured, verdict), measured)


def compare(condition: Condition, measured: Measurement) -> str:
    """The rule itself: where the whole interval lies, seen from the condition's range."""
    if condition.low <= measured.low and measured.high <= condition.high:
        return REPRODUCED
    if measured.high < condition.low or condition.high < measured.low:
        return NOT_REPRODUCED
    return INCONCLUSIVE


def _reason(condition: Condition, measured: Measurement, verdict: str) -> str:
    wanted = condition.in_words
    value = f"{condition.measurement} is {number(measured.value)}"
    if measured.method and measured.low < measured.high:
        spread = f"its interval {number(measured.low)} … {number(measured.high)}"
        relation = {
            REPRODUCED: f"lies wholly within the rule {wanted}",
            NOT_REPRODUCED: f"lies wholly outside the rule {wanted}",
            INCONCLUSIVE: f"is partly outside the rule {wanted}",
        }[verdict]
        sentence = f"{value}, {spread} {relation}"
    else:
        holds = "which meets the rule" if verdict == REPRODUCED else "which violates the rule"
        sentence = f"{value} ({measured.method or 'no interval'}), {holds} {wanted}"
    note = f" ({measured.note.rstrip('.')})" if measured.note else ""
    return f"{sentence}{note}."


def read_measurement(where: str, entry: Mapping[str, Any]) -> Measurement:
    """One entry of a summary's measurements.

    Raises:
        ValueError: naming the field that is missing or of the wrong type.
    """
    try:
        value = float(entry["value"])
        interval = entry["interval"]
        low, high = (float(interval["low"]), float(interval["high"])) if interval else (value, value)
        method = str(interval["method"]) if interval else ""
        measured = Measurement(
            value,
            low,
            high,
            method,
            int(entry["n"]),
            tuple(int(seed) for seed in entry["seeds"]),
            str(entry.get("note") or ""),
            tuple(entry.get("files") or ()),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: malformed measurement ({type(error).__name__}: {error})") from error
    if not (math.isfinite(value) and low <= high and measured.n >= 1):
        raise ValueError(f"{where}: malformed measurement (value {value}, interval {low} … {high}, n {measured.n})")
    return measured


ELSEWHERE = {"composition/real-summary": "name the benchmarks' files with REAL_DATA=<directory or hub>"}
"""How to have a job that the DAG lacks, where another profile does not bring it."""


def why_not_run(run: RunTree, name: str) -> str:
    """Why a job has no result that stands, from what lies in the run tree."""
    final = run.directory / name
    if (final / MANIFEST).is_file():
        return f"The result of {name} is stale: its configuration, code or inputs have changed since."
    own = _unfinished(final.with_name(final.name + ".partial"), name)
    if own:
        return own
    if _is_elsewhere(run, name):
        return f"{name} is not part of profile {run.profile}: {ELSEWHERE.get(name, 'use PROFILE=paper')}."
    experiment = name.partition("/")[0]
    for partial in sorted((run.directory / experiment).glob("*.partial")):
        other = f"{experiment}/{partial.name.removesuffix('.partial')}"
        if (partial / "failure.json").is_file():
            return f"{name} has not been run. {_unfinished(partial, other)}"
    return f"{name} has not been run."


def _is_elsewhere(run: RunTree, name: str) -> bool:
    """Whether the DAG of the run is known and has no such job."""
    dag = run.directory / DAG_FILE
    if not dag.is_file():
        return False
    return not any(line.strip().startswith(f"{name}|") for line in dag.read_text(encoding="utf-8").splitlines())


def _unfinished(partial: Path, name: str) -> str | None:
    failure = partial / "failure.json"
    if failure.is_file():
        return f"{name} failed: {str(read_json(failure)['error']).rstrip('.')}."
    return f"{name} was begun but has not finished." if partial.is_dir() else None
