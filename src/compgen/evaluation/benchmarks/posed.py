"""What all question-and-answer benchmarks share: from prompts to samples, from readings to outcomes."""

from collections.abc import Mapping, Sequence
from typing import Any

from compgen.errors import ConfigError
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Outcome, Sample, Score, StopReason

Row = dict[str, Any]


def as_samples(
    rows: Sequence[Row], prompts: Sequence[str], answer: str, protocol: TaskProtocol, limit: int | None
) -> list[Sample]:
    """One sample a row, numbered in order.

    Args:
        rows: of the benchmark.
        prompts: one for each.
        answer: the field that holds the reference answer.
        protocol: for the stop strings.
        limit: only the first so many.
    """
    chosen = list(prompts)[: limit or len(prompts)]
    shared = _common(chosen) if protocol.shots and len(chosen) > 1 else 0
    return [
        Sample(f"{protocol.benchmark}/{place}", prompt, shared, protocol.stop, row, f" {row[answer]}")
        for place, (prompt, row) in enumerate(zip(chosen, rows, strict=False))
    ]


def _common(texts: Sequence[str]) -> int:
    """How many leading characters all texts share: those of the first and the last in order do."""
    first, last = min(texts), max(texts)
    return next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))


def shown(rows: Sequence[Row], question: str, answer: str, shots: int, form: str) -> str:
    """The first rows as solved examples. `form` has `{question}` and, last, the place of the answer.

    Raises:
        ConfigError: there are not so many.
    """
    if len(rows) < shots:
        raise ConfigError(f"protocol.shots={shots}: there are only {len(rows)} training rows to show")
    return "".join(f"{form.format(question=row[question])} {row[answer]}\n\n" for row in rows[:shots])


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
