"""Word problems of two steps in GSM8K's form, and equations in MATH's form."""

import random

from compgen.finetuning.corpus.items import Item
from compgen.finetuning.corpus.words import NAMES, THINGS, VARIABLES
from compgen.prompts import PROBLEM, QUESTION


def word_problem(generator: random.Random) -> Item:
    """A question whose worked answer ends in `#### N`."""
    name, other = generator.sample(NAMES, 2)
    thing = generator.choice(THINGS)
    start, first, second = generator.randint(6, 15), generator.randint(2, 5), generator.randint(2, 5)
    kind = generator.randrange(4)
    if kind == 0:
        story = f"{name} has {start} {thing}. {name} buys {first} more and gives {second} to {other}."
        question = f"How many {thing} does {name} have now?"
        steps = _steps((start, "+", first), ("-", second))
    elif kind == 1:
        story = f"{name} has {start} {thing}. {other} has {first} more than {name} and finds {second} others."
        question = f"How many {thing} does {other} have?"
        steps = _steps((start, "+", first), ("+", second))
    elif kind == 2:
        story = f"{name} finds {start} {thing} and loses {first} of them. {other} gives {second} more."
        question = f"How many {thing} does {name} have?"
        steps = _steps((start, "-", first), ("+", second))
    else:
        more = generator.randint(2, 5)
        story = f"{name} has {first} boxes with {second} {thing} each and {more} more."
        question = f"How many {thing} does {name} have?"
        steps = _steps((first, "*", second), ("+", more))
    answer = f"{steps[0]} {thing}. Then {steps[1]}.\n#### {steps[1].rsplit(' ', 1)[1]}"
    text = f"{story} {question}"
    note = f"{story} So {steps[0]} {thing}, and {steps[1]}."
    return Item(QUESTION.format(question=text), f" {answer}", {"question": text, "answer": answer}, note)


def _steps(first: tuple[int, str, int], second: tuple[str, int]) -> tuple[str, str]:
    """Two lines of arithmetic, the second going on from the first."""
    middle = _apply(*first)
    end = _apply(middle, *second)
    return f"{first[0]} {first[1]} {first[2]} = {middle}", f"{middle} {second[0]} {second[1]} = {end}"


def _apply(a: int, operation: str, b: int) -> int:
    return {"+": a + b, "-": a - b, "*": a * b}[operation]


def equation(generator: random.Random) -> Item:
    r"""A problem whose solution ends in `\boxed{N}`."""
    variable = generator.choice(VARIABLES)
    value, other = generator.randint(2, 12), generator.randint(2, 5)
    ask = generator.choice(("Find ${}$ if", "Solve for ${}$:", "What is ${}$ if")).format(variable)
    kind = generator.randrange(3)
    if kind == 0:
        left, step = f"{variable} + {other} = {value + other}", f"{value + other} - {other}"
    elif kind == 1:
        left, step = f"{variable} - {other} = {value}", f"{value} + {other}"
        value = value + other
    else:
        left, step = f"{other} {variable} = {other * value}", f"{other * value} / {other}"
    solution = f"We have ${variable} = {step} = {value}$. The answer is $\\boxed{{{value}}}$."
    problem = f"{ask} ${left}$."
    row = {"problem": problem, "level": "Level 1", "type": "Algebra", "solution": solution}
    note = f"Since ${left}$, ${variable} = {step} = {value}$."
    return Item(PROBLEM.format(question=problem), f" {solution}", row, note)
