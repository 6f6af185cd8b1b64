"""Records: a sentence, and one JSON object that must be written letter for letter. Generated data only."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from compgen.evaluation.benchmarks import posed
from compgen.evaluation.benchmarks.posed import Form, judged
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Sample, Score
from compgen.prompts import QUESTION

Row = dict[str, Any]


FORM = Form("question", "answer", QUESTION)
samples = partial(posed.samples, FORM)
"""The sentences under a protocol; see there."""


def score(asked: Sequence[Sample], generations: Sequence[Generation], protocol: TaskProtocol) -> list[Score]:
    """Right is what equals the record, white space around it aside."""
    found = []
    for sample, generation in zip(asked, generations, strict=True):
        gold, written = str(sample.document["answer"]), generation.text.strip()
        found.append(judged(generation, {"exact": float(written == gold)}, {"exact": written}, gold, protocol))
    return found
