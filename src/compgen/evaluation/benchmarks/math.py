r"""MATH: a problem, and a solution with `\boxed{answer}`.

Prompts: `harness` is lm-eval's task, which asks for a bare answer; `controlled` shows the first training rows with
their solutions; `authors_two_shot` has the two examples of the authors' notebook (dossier 3.3).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from compgen.evaluation.answers import boxed_in, expression_in, same_expression
from compgen.evaluation.authors_answers import authors_boxed, authors_same_expression
from compgen.evaluation.benchmarks import posed
from compgen.evaluation.benchmarks.posed import Form, judged
from compgen.evaluation.harness import HarnessTask
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Sample, Score
from compgen.prompts import PROBLEM

Row = dict[str, Any]
AUTHORS = r"""Solve the following math problem step by step. Put your final answer in \boxed{}.
Problem: What is $2^{10}$?
Solution: $2^{10} = 1024$. The answer is $\boxed{1024}$.
Problem: Simplify $\frac{x^2 - 1}{x - 1}$.
Solution: $\frac{x^2-1}{x-1} = \frac{(x+1)(x-1)}{x-1} = x+1$. The answer is $\boxed{x+1}$.
"""


FORM = Form("problem", "solution", PROBLEM, "math", {"authors_two_shot": AUTHORS})
samples = partial(posed.samples, FORM)
"""The problems under a protocol; see there."""


def score(asked: Sequence[Sample], generations: Sequence[Generation], protocol: TaskProtocol) -> list[Score]:
    """Judge by balanced braces and symbolic equality, by lm-eval's scorer, and as the authors did (on uncut text).

    `last_expression` also reads answers without a box. `undecided` is 1 where symbolic equality could not be decided,
    which counts as not equal.
    """
    harness = HarnessTask("math", [dict(sample.document) for sample in asked])
    found = harness.scores([generation.text for generation in generations])
    return [
        _score(sample, generation, own["none"], protocol)
        for sample, generation, own in zip(asked, generations, found, strict=True)
    ]


def _score(sample: Sample, generation: Generation, harness: float, protocol: TaskProtocol) -> Score:
    solution = str(sample.document["solution"])
    gold = boxed_in(solution)
    assert gold is not None, f"{sample.id}: no boxed answer in its solution"
    ours, theirs = boxed_in(generation.text), authors_boxed(generation.raw_text)
    last = expression_in(generation.text)
    equal = same_expression(ours, gold)
    metrics = {
        "boxed": float(bool(equal)),
        "last_expression": float(bool(equal if last == ours else same_expression(last, gold))),
        "harness": harness,
        "authors": float(authors_same_expression(theirs, authors_boxed(solution))),
        "undecided": float(equal is None),
    }
    return judged(generation, metrics, {"boxed": ours, "authors": theirs}, gold, protocol)
