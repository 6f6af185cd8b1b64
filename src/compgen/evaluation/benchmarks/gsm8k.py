"""GSM8K, and every other benchmark in its form: a question, worked lines, `#### N`.

Prompts: `harness` is lm-eval's task with its sampled shots; `controlled` shows the first training rows to everyone,
so that all prompts share them; `authors_zero_shot` is the instruction of the authors' notebook (dossier 3.3).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from compgen.evaluation.answers import MARK, number_in, same_number
from compgen.evaluation.authors_answers import authors_number, authors_same_number
from compgen.evaluation.benchmarks import posed
from compgen.evaluation.benchmarks.posed import Form, judged
from compgen.evaluation.harness import HarnessTask
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Sample, Score
from compgen.prompts import QUESTION, ZERO_SHOT

Row = dict[str, Any]
FORM = Form("question", "answer", QUESTION, "gsm8k", {"authors_zero_shot": ZERO_SHOT})
samples = partial(posed.samples, FORM)
"""The questions under a protocol; see there."""


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
