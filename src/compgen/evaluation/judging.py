"""From stored answers to scores: which answers belong to which arm, who judges them, and what is counted.

Covers units, one an arm and a benchmark. How an answer is read is in benchmarks/ and, for code, in code/.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compgen.evaluation.benchmarks import TEXT
from compgen.evaluation.code.posed import FAMILIES
from compgen.evaluation.code.scoring import CodeScoring, score_code
from compgen.evaluation.config import GenerateConfig, SandboxKind, generate_config
from compgen.evaluation.generation import in_order
from compgen.evaluation.posing import Questions
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Outcome, Sample, Score, read_generations, write_lines
from compgen.evaluation.stopping import stopping
from compgen.run.context import FinishedJob

STOPS = ("premature", "no_stop", "end_token", "run_on")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Unit:
    """The answers of one arm to one benchmark."""

    arm: str
    benchmark: str
    seed: int
    protocol_name: str
    protocol: TaskProtocol
    samples: list[Sample]
    generations: list[Generation]
    of: int
    """Rows of the whole benchmark."""


def units_of(job: FinishedJob, inputs: Sequence[FinishedJob]) -> list[Unit]:
    """The units of a generation job; its questions are posed again and must be the ones that were answered.

    Raises:
        UserError: the rows cannot be had.
        ValueError: an answer is to another question.
    """
    config = generate_config(job.config)
    questions = Questions.of(inputs, config)
    return [_unit(job, config, questions, name) for name in job.metrics["units"]]


def _unit(job: FinishedJob, config: GenerateConfig, questions: Questions, name: str) -> Unit:
    arm, benchmark = name.rsplit("/", 1)
    protocol = config.protocol.task(benchmark, bool(config.arms[arm].experts))
    posed = questions.pose(protocol)
    answers = read_generations(job.directory / "generations" / f"{name}.jsonl")
    return Unit(
        arm=arm,
        benchmark=benchmark,
        seed=config.seed,
        protocol_name=config.protocol.name,
        protocol=protocol,
        samples=posed.samples,
        generations=in_order(posed.samples, answers),
        of=posed.rows,
    )


def judge(units: Sequence[Unit], sandbox: SandboxKind, directory: Path, progress: Progress) -> list[dict[str, Any]]:
    """Write every unit's scores below a directory; all code of a benchmark is run in one go of the sandbox.

    Returns:
        What is counted, unit by unit.
    """
    scores = _code_scores(units, sandbox)
    facts = []
    for place, unit in enumerate(units):
        found = scores.get(place) or TEXT[unit.benchmark].score(unit.samples, unit.generations, unit.protocol)
        whole = [_with_stopping(unit, *pair) for pair in zip(found, unit.generations, strict=True)]
        file = Path("scores") / unit.protocol_name / unit.arm / f"{unit.benchmark}.jsonl"
        (directory / file).parent.mkdir(parents=True, exist_ok=True)
        write_lines(directory / file, whole)
        facts.append(_facts(unit, whole, file.as_posix()))
        progress(place + 1, len(units), f"{unit.arm}/{unit.benchmark}")
    return facts


def _code_scores(units: Sequence[Unit], sandbox: SandboxKind) -> dict[int, list[Score]]:
    found: dict[int, list[Score]] = {}
    for benchmark in FAMILIES:
        places = [place for place, unit in enumerate(units) if unit.benchmark == benchmark]
        if places:
            asked = [(units[n].samples, units[n].generations, units[n].protocol) for n in places]
            found.update(zip(places, score_code(benchmark, asked, CodeScoring(sandbox=sandbox)), strict=True))
    return found


def _with_stopping(unit: Unit, score: Score, generation: Generation) -> Score:
    return replace(score, metrics={**score.metrics, **stopping(unit.benchmark, generation)})


def _facts(unit: Unit, scores: Sequence[Score], file: str) -> dict[str, Any]:
    counted = Counter(score.outcome.value for score in scores)
    judged = [score for score in scores if score.outcome is not Outcome.error]
    return {
        "protocol_name": unit.protocol_name,
        "protocol": unit.protocol.as_dict(),
        "arm": unit.arm,
        "benchmark": unit.benchmark,
        "seed": unit.seed,
        "file": file,
        "n": len(scores),
        "of": unit.of,
        **{outcome.value: counted[outcome.value] for outcome in Outcome},
        "accuracy": counted["correct"] / len(judged) if judged else None,
        **{stop: sum(score.metrics[stop] for score in scores) for stop in STOPS},
    }
