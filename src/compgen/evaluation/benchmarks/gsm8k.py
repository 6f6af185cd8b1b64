"""GSM8K, and every other benchmark in its form: a question, worked lines, `#### N`.

Prompts: `harness` is lm-eval's task with its sampled shots; `controlled` shows the first training rows to everyone,
so that all prompts share them; `authors_zero_shot` is the instruction of the authors' notebook (dossier 3.3).
"""

from collections.abc import Sequence
from typing import Any

from compgen.evaluation.answers import MARK, number_in, same_number
from compgen.evaluation.authors_answers import authors_number, authors_same_number
from compgen.evaluation.benchmarks.posed import as_samples, judged, shown, unknown_prompt
from compgen.evaluation.harness import HarnessTask
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Sample, Score

Row = dict[str, Any]
FORM = "Question: {question}\nAnswer:"
INSTRUCTION = (
    "Solve the following grade-school math word problem step by step. "
    "End your response with '#### <final numeric answer>'.\n"
)


def samples(test: Sequence[Row], train: Sequence[Row], protocol: TaskProtocol, limit: int | None) -> list[Sample]:
    """The questions under a protocol.

    Raises:
        ConfigError: it has no such prompt format, or shows more shots than there are.
    """
    return as_samples(test, _prompts(test, train, protocol), "answer", protocol, limit)


def _prompts(test: Sequence[Row], train: Sequence[Row], protocol: TaskProtocol) -> list[str]:
    if protocol.prompt == "harness":
        return HarnessTask("gsm8k", test, train).prompts(protocol.shots)
    asked = [FORM.format(question=row["question"]) for row in test]
    if protocol.prompt == "controlled":
        head = shown(train, "question", "answer", protocol.shots, FORM)
        return [head + prompt for prompt in asked]
    if protocol.prompt == "authors_zero_shot":
        return [INSTRUCTION + prompt for prompt in asked]
    raise unknown_prompt(protocol, ("harness", "controlled", "authors_zero_shot"))


def gold_of(row: Row) -> str:
    """The number of a worked answer."""
    return str(row["answer"]).rsplit(MARK, 1)[1].strip()


def score(asked: Sequence[Sample], generations: Sequence[Generation], protocol: TaskProtocol) -> list[Score]:
    """Judge answers as numbers, by lm-eval's two filters, and as the authors did (on the uncut text)."""
    harness = HarnessTask("gsm8k", [dict(sample.document) for sample in asked])
    filtered = harness.scores([generation.text for generation in generations])
    return [
        _score(sample, generation, found, protocol)
        for sample, generation, found in zip(asked, generations, filtered, strict=True)
    ]


def _score(sample: Sample, generation: Generation, found: dict[str, float], protocol: TaskProtocol) -> Score:
    gold = gold_of(dict(sample.document))
    ours, theirs = number_in(generation.text), authors_number(generation.raw_text)
    metrics = {
        "numeric": float(same_number(ours, gold)),
        "harness_strict": found["strict-match"],
        "harness_flexible": found["flexible-extract"],
        "authors": float(authors_same_number(theirs, gold)),
    }
    return judged(generation, metrics, {"numeric": ours, "authors": theirs}, gold, protocol)
