"""Records: a sentence, and one JSON object that must be written letter for letter. Generated data only."""

from collections.abc import Sequence
from typing import Any

from compgen.evaluation.benchmarks.gsm8k import FORM
from compgen.evaluation.benchmarks.posed import as_samples, judged, shown, unknown_prompt
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Sample, Score

Row = dict[str, Any]


def samples(test: Sequence[Row], train: Sequence[Row], protocol: TaskProtocol, limit: int | None) -> list[Sample]:
    """The sentences under a protocol.

    Raises:
        ConfigError: it has no such prompt format, or shows more shots than there are.
    """
    if protocol.prompt != "controlled":
        raise unknown_prompt(protocol, ("controlled",))
    head = shown(train, "question", "answer", protocol.shots, FORM)
    prompts = [head + FORM.format(question=row["question"]) for row in test]
    return as_samples(test, prompts, "answer", protocol, limit)


def score(asked: Sequence[Sample], generations: Sequence[Generation], protocol: TaskProtocol) -> list[Score]:
    """Right is what equals the record, white space around it aside."""
    found = []
    for sample, generation in zip(asked, generations, strict=True):
        gold, written = str(sample.document["answer"]), generation.text.strip()
        found.append(judged(generation, {"exact": float(written == gold)}, {"exact": written}, gold, protocol))
    return found
