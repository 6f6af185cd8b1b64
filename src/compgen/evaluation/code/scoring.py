"""From completions of code to scores: many arms in one run of the sandbox, raw and cut side by side.

Covers what is run, the refusal when solutions known to be good do not pass, and how verdicts become outcomes. The
program in the sandbox is `runner.py`; where a completion is cut is in `completion.py`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compgen.errors import ConfigError, UserError, require
from compgen.evaluation.benchmarks.posed import outcome
from compgen.evaluation.code.completion import cut_completion
from compgen.evaluation.code.containment import Limits
from compgen.evaluation.code.sandbox import Finished, choose, run
from compgen.evaluation.config import SandboxKind
from compgen.evaluation.protocol import Extraction, TaskProtocol
from compgen.evaluation.samples import Generation, Outcome, Sample, Score, StopReason

RUNNER = "compgen.evaluation.code.runner"
DATASETS = {"humaneval_plus": "humaneval", "mbpp_plus": "mbpp"}
"""evalplus's names."""
VARIANTS = {Extraction.code_raw: "raw", Extraction.code_cut: "cut"}
PASS, TIMEOUT = "pass", "timeout"
SHOWN = 5
"""How many ids an error names."""
OUTPUT_BYTES = 64 * 2**20
START_SECONDS, PROGRAM_SECONDS = 300.0, 300.0
"""Of the whole run, and for each program: no limit that decides anything, only the end of a run that hangs."""
LAST_TOKEN = 8
"""Characters that the token which completes a stop string may have behind it."""

Asked = tuple[Sequence[Sample], Sequence[Generation], TaskProtocol]
"""What one arm was asked, what it answered, and under which protocol."""


@dataclass(frozen=True)
class CodeScoring:
    """How programs are run. The limits on time are evalplus's."""

    sandbox: SandboxKind = SandboxKind.auto
    workers: int = 1
    """Problems at one time. More than there are free cores make programs run out of time."""
    minimum_seconds: float = 1.0
    """The least that a test may take."""
    reference_factor: float = 4.0
    """How many times as long as the benchmark's own solution a test may take."""
    memory_bytes: int = 4 * 2**30

    def __post_init__(self) -> None:
        require(self.workers >= 1, "workers", self.workers, "must be at least 1")
        require(self.minimum_seconds > 0, "minimum_seconds", self.minimum_seconds, "must be positive")
        require(self.reference_factor >= 1, "reference_factor", self.reference_factor, "must be at least 1")
        require(self.memory_bytes >= 2**29, "memory_bytes", self.memory_bytes, "must be at least half a GiB")


@dataclass(frozen=True)
class Verdict:
    """What the runner says about one program; see there."""

    base: str
    plus: str | None
    repeated: bool

    @property
    def passes(self) -> bool:
        """evalplus's score: base tests and further tests."""
        return self.base == PASS and self.plus == PASS

    @property
    def timed_out(self) -> bool:
        """It ran out of time, also when it was tested again alone."""
        return TIMEOUT in (self.base, self.plus)


@dataclass(frozen=True)
class Programs:
    """What one completion becomes: the whole of it behind the prompt, and cut."""

    raw: str
    cut: str

    def variant(self, name: str) -> str:
        """One of the two by name."""
        return self.raw if name == "raw" else self.cut


def score_code(benchmark: str, asked: Sequence[Asked], options: CodeScoring) -> list[list[Score]]:
    """The scores of many arms on one benchmark, arm by arm; equal programs are tested once.

    An arm may have answered only some of the problems. Raw is the prompt and all that was generated; cut is the prompt
    and the text before the first stop string, cut at the end of the function. `protocol.extraction` says which of them
    gives the outcome. Metrics, each 0 or 1: `raw`, `cut`, `base_tests` (cut, on the base tests only), `disagree` (raw
    and cut), `timeout` (what gives the outcome ran out of time), `repeated` (it was tested twice for that reason).

    Args:
        benchmark: humaneval_plus or mbpp_plus.
        asked: per arm the samples, a generation for each in the same order, and the protocol.
        options: how programs are run.

    Raises:
        ConfigError: a protocol asks for an extraction that code does not have.
        UserError: nothing here can hold the programs; the benchmark's own solutions do not pass in the same run; arms
            were asked different versions of a problem; or the run failed as a whole.
    """
    for _, _, protocol in asked:
        if protocol.extraction not in VARIANTS:
            known = ", ".join(VARIANTS)
            raise ConfigError(f"protocol.{benchmark}.extraction={protocol.extraction.value}: choose one of {known}")
    rows = _rows(asked)
    programs = [
        [_programs(sample, generation) for sample, generation in zip(samples, generations, strict=True)]
        for samples, generations, _ in asked
    ]
    distinct: dict[str, dict[str, None]] = {task: {} for task in rows}
    for (samples, _, _), found in zip(asked, programs, strict=True):
        for sample, pair in zip(samples, found, strict=True):
            distinct[sample.id].update(dict.fromkeys((pair.raw, pair.cut) if pair else ()))
    verdicts = evaluate(benchmark, rows, {task: list(sources) for task, sources in distinct.items()}, options)
    return [
        [_score(*one, protocol, verdicts) for one in zip(samples, generations, found, strict=True)]
        for (samples, generations, protocol), found in zip(asked, programs, strict=True)
    ]


def evaluate(
    benchmark: str, rows: Mapping[str, Mapping[str, Any]], programs: Mapping[str, Sequence[str]], options: CodeScoring
) -> dict[tuple[str, str], Verdict]:
    """The verdicts on whole programs, by task id and source; those that the run did not come to are missing.

    Raises:
        UserError: nothing here can hold the programs; a row's own solution does not pass; or the run failed as a whole.
    """
    tasks = [_task(benchmark, row, list(dict.fromkeys(programs.get(task, ())))) for task, row in rows.items()]
    if not tasks:
        return {}
    limits = {"minimum_seconds": options.minimum_seconds, "reference_factor": options.reference_factor}
    request = {"tasks": tasks, "workers": options.workers, "limits": limits}
    count = sum(1 + len(task["programs"]) for task in tasks)
    bounds = Limits(
        seconds=START_SECONDS + PROGRAM_SECONDS * count,
        memory_bytes=options.memory_bytes,
        processes=16 + 8 * options.workers,
        output_bytes=OUTPUT_BYTES,
    )
    finished = run(["-m", RUNNER], choose(options.sandbox), bounds, json.dumps(request))
    answers = _answers(finished)
    _require_good(benchmark, [answers[task] for task in rows if task in answers])
    return {
        (task["row"]["task_id"], source): Verdict(**verdict)
        for task in tasks
        for source, verdict in zip(
            task["programs"], answers.get(task["row"]["task_id"], {}).get("programs", ()), strict=False
        )
    }


def _task(benchmark: str, row: Mapping[str, Any], programs: list[str]) -> dict[str, Any]:
    good = row["prompt"] + row["canonical_solution"]
    return {"dataset": DATASETS[benchmark], "row": dict(row), "good": [good], "programs": programs}


def _answers(finished: Finished) -> dict[str, dict[str, Any]]:
    """The runner's answers by task; one that was being written when the run ended is left out."""
    whole = finished.output.rpartition("\n")[0]
    answers = [json.loads(line) for line in whole.splitlines()]
    if not answers:
        raise UserError(f"scoring code: nothing was scored, {finished.reason}")
    return {answer["task_id"]: answer for answer in answers}


def _require_good(benchmark: str, answers: Sequence[Mapping[str, Any]]) -> None:
    """Refuse to score where the benchmark's own solutions do not all pass: other programs would fail likewise."""
    reasons = [(answer["task_id"], _fault(answer)) for answer in answers]
    bad = [f"{task} ({fault})" for task, fault in reasons if fault]
    if bad:
        more = f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else ""
        raise UserError(
            f"{benchmark}: {len(bad)} of {len(answers)} solutions known to be good do not pass here, so nothing is "
            f"scored: {', '.join(bad[:SHOWN])}{more}; check the rows, and the machine's load and limits"
        )


def _fault(answer: Mapping[str, Any]) -> str | None:
    if answer["broken"] is not None:
        return str(answer["broken"])
    verdict = Verdict(**answer["good"][0])
    return None if verdict.passes else f"base {verdict.base}, plus {verdict.plus}"


def _rows(asked: Sequence[Asked]) -> dict[str, Mapping[str, Any]]:
    """All rows that were asked by any arm."""
    rows: dict[str, Mapping[str, Any]] = {}
    for samples, _, _ in asked:
        for sample in samples:
            if rows.setdefault(sample.id, sample.document) != sample.document:
                raise UserError(f"{sample.id}: arms were asked different versions of this problem, score them apart")
    return rows


def _programs(sample: Sample, generation: Generation) -> Programs | None:
    """None where nothing was generated."""
    assert sample.id == generation.id, "generations come in the order of their samples"
    if _failed(generation):
        return None
    cut = cut_completion(sample.prompt, generation.text, sample.document["entry_point"])
    return Programs(sample.prompt + _whole(sample, generation), sample.prompt + cut)


def _whole(sample: Sample, generation: Generation) -> str:
    """All that was generated; without the stop string where generation ended with it, for no function ends so."""
    behind = generation.raw_text[len(generation.text) :]
    for stop in sample.stop if generation.stop_reason is StopReason.stop_string else ():
        if behind.startswith(stop) and len(behind) <= len(stop) + LAST_TOKEN and "\n" not in behind[len(stop) :]:
            return generation.text
    return generation.raw_text


def _failed(generation: Generation) -> bool:
    return generation.error is not None or generation.stop_reason is StopReason.error


def _score(
    sample: Sample,
    generation: Generation,
    programs: Programs | None,
    protocol: TaskProtocol,
    verdicts: Mapping[tuple[str, str], Verdict],
) -> Score:
    gold = str(sample.document["canonical_solution"])
    chosen = VARIANTS[protocol.extraction]
    found = {name: verdicts.get((sample.id, programs.variant(name))) for name in VARIANTS.values()} if programs else {}
    raw, cut, headline = found.get("raw"), found.get("cut"), found.get(chosen)
    extracted = programs.variant(chosen)[len(sample.prompt) :] if programs else None
    if raw is None or cut is None or headline is None:
        names = ("raw", "cut", "base_tests", "disagree", "timeout", "repeated")
        return Score(sample.id, Outcome.error, extracted, gold, dict.fromkeys(names, 0.0))
    metrics = {
        "raw": raw.passes,
        "cut": cut.passes,
        "base_tests": cut.base == PASS,
        "disagree": raw.passes != cut.passes,
        "timeout": headline.timed_out,
        "repeated": headline.repeated,
    }
    values = {name: float(value) for name, value in metrics.items()}
    return Score(sample.id, outcome(generation, headline.passes), extracted, gold, values)
