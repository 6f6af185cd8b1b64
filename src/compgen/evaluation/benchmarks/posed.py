"""What all question-and-answer benchmarks share: from prompts to samples, from readings to outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compgen.errors import ConfigError
from compgen.evaluation.harness import HarnessTask
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Outcome, Sample, Score, StopReason
from compgen.prompts import SEPARATOR

Row = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """How a benchmark of questions and answers is written down."""

    question: str
    """The row's field that is asked."""
    answer: str
    """The row's field that holds the reference answer, which stands one space behind the prompt."""
    text: str
    """With `{question}`."""
    task: str | None = None
    """lm-eval's task, for the prompt `harness`."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """What stands before every question, by the name of a further prompt format."""

    @property
    def names(self) -> list[str]:
        """The prompt formats that it has."""
        return [*(["harness"] if self.task else []), "controlled", *self.heads]


def samples(
    form: Form, test: Sequence[Row], train: Sequence[Row], protocol: TaskProtocol, limit: int | None
) -> list[Sample]:
    """The questions under a protocol, numbered in order.

    `harness` is lm-eval's task with shots sampled for each question; `controlled` shows the first training rows to
    every question, so that all prompts share them.

    Raises:
        ConfigError: the protocol has no such prompt format, or shows more shots than there are.
    """
    chosen = _prompts(form, test, train, protocol)[: limit or len(test)]
    shared = _common(chosen) if protocol.shots and len(chosen) > 1 else 0
    return [
        Sample(f"{protocol.benchmark}/{place}", prompt, shared, protocol.stop, row, f" {row[form.answer]}")
        for place, (prompt, row) in enumerate(zip(chosen, test, strict=False))
    ]


def _prompts(form: Form, test: Sequence[Row], train: Sequence[Row], protocol: TaskProtocol) -> list[str]:
    if protocol.prompt not in form.names:
        raise unknown_prompt(protocol, form.names)
    if protocol.prompt == "harness":
        assert form.task is not None
        return HarnessTask(form.task, test, train).prompts(protocol.shots)
    head = form.heads.get(protocol.prompt) or _shown(form, train, protocol.shots)
    return [head + form.text.format(question=row[form.question]) for row in test]


def _shown(form: Form, train: Sequence[Row], shots: int) -> str:
    """The first rows as solved examples."""
    if len(train) < shots:
        raise ConfigError(f"protocol.shots={shots}: there are only {len(train)} training rows to show")
    rows = train[:shots]
    return "".join(f"{form.text.format(question=row[form.question])} {row[form.answer]}{SEPARATOR}" for row in rows)


def _common(texts: Sequence[str]) -> int:
    """How many leading characters all texts share: those of the first and the last in order do."""
    first, last = min(texts), max(texts)
    return next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def outcome(generation: Generation, right: bool) -> Outcome:
    """How an answer counts: what could not be generated is an error, never wrong."""
    if generation.error is not None or generation.stop_reason is StopReason.error:
        return Outcome.error
    if right:
        return Outcome.correct
    return Outcome.truncated if generation.stop_reason is StopReason.length else Outcome.wrong


def judged(
    generation: Generation,
    metrics: Mapping[str, float],
    readings: Mapping[str, str | None],
    gold: str,
    protocol: TaskProtocol,
) -> Score:
    """The score by the protocol's extraction, all other readings beside it.

    Raises:
        ConfigError: the benchmark has no such extraction.
    """
    chosen = protocol.extraction
    if chosen.value not in metrics:
        known = ", ".join(metrics)
        raise ConfigError(f"protocol.{protocol.benchmark}.extraction={chosen.value}: choose one of {known}")
    right = metrics[chosen.value] == 1.0
    return Score(generation.id, outcome(generation, right), readings.get(chosen.value), gold, dict(metrics))


def unknown_prompt(protocol: TaskProtocol, known: Sequence[str]) -> ConfigError:
    """The error for a prompt format that a benchmark has not."""
    where = f"protocol.{protocol.benchmark}.prompt={protocol.prompt}"
    return ConfigError(f"{where}: there is no such prompt, choose one of {', '.join(known)}")
