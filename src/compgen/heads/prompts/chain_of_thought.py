"""Chain of thought: questions of GSM8K behind worked examples (dossier 2.4 d); the rows are given by the caller.

One variant, inside the distribution; its twin with symbols for words is in symbolized.py.

Mended: the authors draw questions with replacement, show ten fresh training examples before each and leave the literal
`<|endoftext|>` behind every example. Here the questions are distinct, all stand behind the same eight examples (of the
training rows, our own where there are none), and the end of an example is a blank line.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from compgen.errors import UserError
from compgen.heads.prompts.prompt import (
    AnswerForm,
    Draft,
    Drafts,
    Mode,
    PromptSet,
    Protocol,
    Rows,
    Shift,
    Variant,
    pick,
)
from compgen.heads.prompts.shots import SHOTS
from compgen.prompts import QUESTION, SEPARATOR

MARK = "####"
AUTHORS_SHOTS = 10
CONTROLLED_SHOTS = len(SHOTS)
AUTHORS_END = "<|endoftext|>"
Shot = tuple[str, str]
"""A question and its worked answer."""


def drafts(random: np.random.Generator, protocol: Protocol, rows: Rows | None) -> Iterator[Drafts]:
    """Questions with their examples: without end under the authors' protocol, each once under the controlled one.

    Raises:
        UserError: a row has no question or no answer after `####`, or there are too few examples.
    """
    test, train = _shots(rows.test if rows else ()), _shots(rows.train if rows else ())
    train = [shot for shot in train if shot[0] not in {question for question, _ in test}]
    if protocol is Protocol.authors:
        yield from _authors(random, test, train)
        return
    shots = pick(random, _enough(train, CONTROLLED_SHOTS), CONTROLLED_SHOTS) if train else list(SHOTS)
    examples = SEPARATOR.join(f"{QUESTION.format(question=question)} {answer}" for question, answer in shots)
    for question, answer in pick(random, test, len(test)):
        yield {"plain": _draft(examples, question, answer)}


def _authors(random: np.random.Generator, test: Sequence[Shot], train: Sequence[Shot]) -> Iterator[Drafts]:
    _enough(train, AUTHORS_SHOTS)
    if not test:
        raise UserError("chain_of_thought: no questions are given")
    while True:
        [(question, answer)] = pick(random, test, 1)
        shots = pick(random, train, AUTHORS_SHOTS)
        examples = SEPARATOR.join(f"{QUESTION.format(question=q)} {a}{AUTHORS_END}" for q, a in shots)
        yield {"plain": _draft(examples, question, answer)}


def _draft(examples: str, question: str, answer: str) -> Draft:
    asked = QUESTION.format(question=question)
    gold = answer.rsplit(MARK, 1)[1].strip().replace(",", "")
    return Draft(text=f"{examples}{SEPARATOR}{asked}", answer=gold, question=question)


def _enough(train: Sequence[Shot], needed: int) -> Sequence[Shot]:
    if len(train) < needed:
        raise UserError(f"chain_of_thought: {needed} training examples are shown and only {len(train)} are given")
    return train


def _shots(rows: Sequence[Mapping[str, str]]) -> list[Shot]:
    """The rows as pairs, each question once."""
    found: dict[str, str] = {}
    for place, row in enumerate(rows):
        if not row.get("question") or MARK not in row.get("answer", ""):
            raise UserError(f"chain_of_thought: row {place} has no question, or no answer with {MARK}")
        found.setdefault(row["question"].strip(), row["answer"].strip())
    return list(found.items())


SET = PromptSet(
    task="chain_of_thought",
    version=1,
    variants={"plain": Variant(Shift.inside, (Mode.generation,))},
    new_tokens=256,
    drafts=drafts,
    size=lambda rows: len(_shots(rows.test)) if rows else 0,
    form=AnswerForm.number,
    needs_rows=True,
)
