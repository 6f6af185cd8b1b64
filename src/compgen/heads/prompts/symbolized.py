"""Symbolized word problems: ten worked examples of other forms, then a question (GSM-rand; dossier 2.4 e).

Variants: `names` (inside the distribution: first names and things) and `symbols` (outside it: two characters in the
place of each), in the same problems with the same numbers.

Mended: the authors' lists of symbols repeat some, so that two persons of a problem can be one; some words stay literal
in the worked solutions of the symbol variant, and one annotation is wrong; the question does not end in `Answer:`. Here
the words of a problem are distinct, every one is replaced, the steps are calculated, and questions are distinct. The
authors' protocol keeps the repetition and the missing `Answer:`; the literal words and the wrong sum are not kept.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from math import perm, prod

import numpy as np

from compgen.heads.prompts.problems import FORMS, ROLES, Form, Problem, problem
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
from compgen.heads.prompts.vocabulary import FIRST_NAMES, THINGS
from compgen.prompts import QUESTION, SEPARATOR

SHOWN = 10
WORDS = 40
PAIRS = tuple("".join(pair) for pair in permutations("!@^&~|{}[]", 2))
"""No digits, letters or signs of arithmetic: `$`, `%`, `/` and `#` have a meaning in a solution."""
PLACE = re.compile(r"\{([PQIJ])\}")
MODES = (Mode.generation,)


@dataclass(frozen=True)
class Words:
    """What persons and things are called in a variant."""

    persons: tuple[str, ...]
    things: tuple[str, ...]


VARIANTS: Mapping[str, Words] = {
    "names": Words(FIRST_NAMES[:WORDS], THINGS[:WORDS]),
    "symbols": Words(PAIRS[:WORDS], PAIRS[WORDS : 2 * WORDS]),
}


def drafts(random: np.random.Generator, protocol: Protocol, _rows: Rows | None) -> Iterator[Drafts]:
    """Problems behind worked examples, in the words of every variant, without end."""
    authors = protocol is Protocol.authors
    while True:
        forms = pick(random, FORMS, SHOWN + 1)
        problems = [problem(form, random) for form in forms]
        places = [_places(random, repeated=authors) for _ in problems]
        yield {
            name: _draft(problems, [_called(words, at) for at in places], authors) for name, words in VARIANTS.items()
        }


def _places(random: np.random.Generator, repeated: bool) -> list[int]:
    """Which of the forty words stand for the roles: two persons, two things."""
    persons, things = (pick(random, range(WORDS), 2, replace=repeated) for _ in range(2))
    return [*persons, *things]


def _called(words: Words, places: Sequence[int]) -> dict[str, str]:
    lists = (words.persons, words.persons, words.things, words.things)
    return {role: chosen[place] for role, chosen, place in zip(ROLES, lists, places, strict=True)}


def _draft(problems: Sequence[Problem], called: Sequence[Mapping[str, str]], authors: bool) -> Draft:
    asked = [_named(found.question, roles) for found, roles in zip(problems, called, strict=True)]
    solved = [_named(found.solution, roles) for found, roles in zip(problems, called, strict=True)]
    posed = [QUESTION.format(question=question) for question in asked]
    shown = [f"{question} {solution}" for question, solution in zip(posed[:-1], solved[:-1], strict=True)]
    last = posed[-1].rsplit("\n", 1)[0] if authors else posed[-1]
    return Draft(text=SEPARATOR.join([*shown, last]), answer=str(problems[-1].answer), question=asked[-1])


def _named(text: str, called: Mapping[str, str]) -> str:
    """The words in their places, in one pass: a symbol may itself look like a place."""
    return PLACE.sub(lambda found: called[found.group(1)], text)


def _questions(form: Form) -> int:
    """How many distinct questions a form has."""
    persons, things = (sum(f"{{{role}}}" in form.question for role in roles) for roles in ("PQ", "IJ"))
    shown = prod(high - low + 1 for low, high in form.ranges.values())
    return shown * perm(WORDS, persons) * perm(WORDS, things)


SET = PromptSet(
    task="symbolized",
    version=1,
    variants={"names": Variant(Shift.inside, MODES), "symbols": Variant(Shift.outside, MODES)},
    new_tokens=256,
    drafts=drafts,
    size=lambda _rows: sum(map(_questions, FORMS)),
    form=AnswerForm.number,
)
