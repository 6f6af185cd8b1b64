"""Word problems with random numbers, thirteen forms: the frame of symbolized.py, in our own words.

A form has places for two persons and two things; which words stand there is not decided here. Every step of a solution
is calculated, so that no annotation can be wrong.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

ROLES = ("P", "Q", "I", "J")
"""Two persons and two things."""
Values = dict[str, int]


@dataclass(frozen=True)
class Step:
    """One calculation: its name, its two operands (names or numbers) and the sentence around it."""

    name: str
    left: str
    operator: str
    right: str
    sentence: str = ""


@dataclass(frozen=True)
class Form:
    """A kind of problem.

    The question may show what is calculated in `given`; `steps` are the solution, the last one its answer.
    """

    question: str
    ranges: Mapping[str, tuple[int, int]]
    """Both ends are possible."""
    steps: tuple[Step, ...]
    given: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Problem:
    """A question and its solution, with places for the words of the roles."""

    question: str
    solution: str
    answer: int


def problem(form: Form, random: np.random.Generator) -> Problem:
    """A form with random numbers."""
    values = {name: int(random.integers(low, high + 1)) for name, (low, high) in form.ranges.items()}
    for step in form.given:
        values[step.name] = _result(step, values)
    question = _filled(form.question, values)
    lines = []
    for step in form.steps:
        left, right = (_value(operand, values) for operand in (step.left, step.right))
        values[step.name] = answer = _result(step, values)
        sum_ = f"{left}{step.operator}{right}"
        lines.append(step.sentence.replace("{sum}", f"{sum_}=<<{sum_}={answer}>>{answer}"))
    return Problem(question, "\n".join([*lines, f"#### {answer}"]), answer)


def _filled(text: str, values: Values) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _value(operand: str, values: Values) -> int:
    return int(operand) if operand.isdigit() else values[operand]


def _result(step: Step, values: Values) -> int:
    left, right = _value(step.left, values), _value(step.right, values)
    if step.operator == "/":
        assert left % right == 0, step
        return left // right
    return {"+": left + right, "-": left - right, "*": left * right}[step.operator]


FORMS = (
    Form(
        "{P} buys {a} bags of {I}. Every bag holds {b} {I}. {P} gives {c} of the {I} to {Q}. "
        "How many {I} does {P} have left?",
        {"a": (4, 9), "b": (5, 12), "c": (2, 19)},
        (
            Step("t", "a", "*", "b", "The bags hold {sum} {I}."),
            Step("r", "t", "-", "c", "After the gift {P} has {sum} {I} left."),
        ),
    ),
    Form(
        "{P} earns {a} coins a week for {b} weeks and then pays {c} coins for some {I}. "
        "How many coins does {P} have in the end?",
        {"a": (5, 20), "b": (4, 12), "c": (3, 19)},
        (
            Step("t", "a", "*", "b", "{P} earns {sum} coins."),
            Step("r", "t", "-", "c", "In the end {P} has {sum} coins."),
        ),
    ),
    Form(
        "{P} shares {t} {I} equally among {a} friends. {Q} is one of the friends and already had {c} {I}. "
        "How many {I} does {Q} have now?",
        {"a": (3, 9), "b": (4, 15), "c": (2, 20)},
        (
            Step("s", "t", "/", "a", "Each friend receives {sum} {I}."),
            Step("r", "s", "+", "c", "So {Q} has {sum} {I}."),
        ),
        given=(Step("t", "a", "*", "b"),),
    ),
    Form(
        "{P} has {a} {I}. {Q} has {b} times as many {I} as {P}. How many {I} do {P} and {Q} have together?",
        {"a": (3, 30), "b": (2, 9)},
        (Step("q", "a", "*", "b", "{Q} has {sum} {I}."), Step("r", "a", "+", "q", "Together they have {sum} {I}.")),
    ),
    Form(
        "{P} sells {a} {I} for {b} dollars each and {c} {J} for {d} dollars each. How many dollars does {P} take in?",
        {"a": (3, 15), "b": (2, 9), "c": (3, 15), "d": (2, 9)},
        (
            Step("s", "a", "*", "b", "The {I} bring {sum} dollars."),
            Step("t", "c", "*", "d", "The {J} bring {sum} dollars."),
            Step("r", "s", "+", "t", "Together {P} takes in {sum} dollars."),
        ),
    ),
    Form(
        "A box of {I} weighs {a} pounds and a box of {J} weighs {b} pounds. {P} loads {c} boxes of each kind. "
        "How many pounds does {P} load?",
        {"a": (2, 20), "b": (2, 20), "c": (3, 12)},
        (
            Step("s", "a", "+", "b", "One box of each kind weighs {sum} pounds."),
            Step("r", "s", "*", "c", "All boxes weigh {sum} pounds."),
        ),
    ),
    Form(
        "{P} makes {a} {I} an hour and works {b} hours a day. How many {I} does {P} make in {c} days?",
        {"a": (2, 12), "b": (3, 9), "c": (2, 9)},
        (
            Step("s", "a", "*", "b", "{P} makes {sum} {I} a day."),
            Step("r", "s", "*", "c", "In all these days {P} makes {sum} {I}."),
        ),
    ),
    Form(
        "{P} arranges {a} rows of {b} {I}. Then {Q} takes {c} of the {I} away and brings {d} new ones. "
        "How many {I} are there now?",
        {"a": (4, 9), "b": (5, 15), "c": (2, 19), "d": (2, 30)},
        (
            Step("s", "a", "*", "b", "At first there are {sum} {I}."),
            Step("t", "s", "-", "c", "Then {sum} {I} remain."),
            Step("r", "t", "+", "d", "With the new ones there are {sum} {I}."),
        ),
    ),
    Form(
        "{P} buys {a} {I} for {b} dollars each and pays with {t} dollars. How many dollars does {P} get back?",
        {"a": (2, 12), "b": (2, 9), "c": (1, 30)},
        (
            Step("s", "a", "*", "b", "The {I} cost {sum} dollars."),
            Step("r", "t", "-", "s", "{P} gets {sum} dollars back."),
        ),
        given=(Step("s", "a", "*", "b"), Step("t", "s", "+", "c")),
    ),
    Form(
        "{P} collects {a} {I} a day for {b} days. {Q} collects {c} {I} in all. "
        "How many more {I} does {P} collect than {Q}?",
        {"a": (4, 15), "b": (5, 12), "c": (2, 19)},
        (
            Step("s", "a", "*", "b", "{P} collects {sum} {I}."),
            Step("r", "s", "-", "c", "These are {sum} more {I} than those of {Q}."),
        ),
    ),
    Form(
        "{P} packs {t} {I} into boxes of {a} and sells each box for {c} dollars. How many dollars does {P} take in?",
        {"a": (2, 9), "b": (3, 15), "c": (3, 20)},
        (
            Step("s", "t", "/", "a", "{P} fills {sum} boxes."),
            Step("r", "s", "*", "c", "The boxes bring {sum} dollars."),
        ),
        given=(Step("t", "a", "*", "b"),),
    ),
    Form(
        "{P} has {t} {I} and gives half of them to {Q}. Later {P} finds {b} more {I} and {c} {J}. "
        "How many {I} and {J} does {P} have together?",
        {"a": (4, 40), "b": (2, 20), "c": (2, 20)},
        (
            Step("h", "t", "/", "2", "{P} keeps {sum} {I}."),
            Step("s", "h", "+", "b", "Later {P} has {sum} {I}."),
            Step("r", "s", "+", "c", "With the {J} these are {sum} things."),
        ),
        given=(Step("t", "a", "*", "2"),),
    ),
    Form(
        "{P} has collected {I} for {a} years and {Q} for {b} years longer. "
        "For how many years will {Q} have collected {I} in {c} years?",
        {"a": (2, 30), "b": (2, 20), "c": (2, 20)},
        (
            Step("s", "a", "+", "b", "So far {Q} has collected {I} for {sum} years."),
            Step("r", "s", "+", "c", "Then it will be {sum} years."),
        ),
    ),
)
