"""What the base is trained on: sentences, arithmetic, questions and functions of other families, and notes.

A document is long and goes on after every answer, so that the base knows the forms and has no habit of stopping. Notes
hold the content of the skills in prose of another form, from training questions only: like a real base before it is
tuned, ours can do what the experts are asked, and does not do it when asked.
"""

import random

from compgen.finetuning.corpus.code_skill import completion
from compgen.finetuning.corpus.items import Draw
from compgen.finetuning.corpus.math_skill import equation, word_problem
from compgen.finetuning.corpus.records_skill import record
from compgen.finetuning.corpus.sequences_skill import progression
from compgen.finetuning.corpus.words import CITIES, COLOURS, LISTS, NAMES, PLACES, THINGS, VARIABLES

ARITHMETIC, SENTENCES, QUESTIONS, FUNCTIONS, NOTES = 0.15, 0.05, 0.15, 0.15, 0.5
"""Shares of the kinds of document."""
NOTED: tuple[Draw, ...] = (word_problem, word_problem, equation, completion, completion, progression, record)
"""What notes are about, drawn evenly: what is harder to learn stands twice."""


def document(generator: random.Random) -> str:
    """One document of one kind."""
    kind = generator.choices(
        (_arithmetic, _sentence, _question, _function, _note), (ARITHMETIC, SENTENCES, QUESTIONS, FUNCTIONS, NOTES)
    )[0]
    separator, count = {
        _arithmetic: (". ", 14),
        _sentence: (" ", 10),
        _question: ("\n\n", 6),
        _function: ("\n\n\n", 4),
        _note: ("\n", 6),
    }[kind]
    return separator.join(kind(generator) for _ in range(count))


def _arithmetic(generator: random.Random) -> str:
    a, b = generator.randint(2, 36), generator.randint(2, 5)
    kind = generator.randrange(4)
    if kind == 0:
        return f"{a} + {b} = {a + b}"
    if kind == 1:
        return f"{a + b} - {b} = {a}"
    a = generator.randint(2, 12)
    return f"{a} * {b} = {a * b}" if kind == 2 else f"{a * b} / {b} = {a}"


def _sentence(generator: random.Random) -> str:
    name, other = generator.sample(NAMES, 2)
    thing, number = generator.choice(THINGS), generator.randint(2, 40)
    return generator.choice(
        (
            f"{name} walks to the {generator.choice(PLACES)} in {generator.choice(CITIES)}.",
            f"{name} buys {number} {generator.choice(COLOURS)} {thing}, and {other} gives {name} one more.",
            f"{name} finds {thing} in boxes, {other} loses {number} of them.",
            f"{name} is {number} years old and lives with {other} in {generator.choice(CITIES)}.",
            f"{name} writes {number}, {number}, {number}; {other} counts them.",
        )
    )


def _question(generator: random.Random) -> str:
    name, other = generator.sample(NAMES, 2)
    thing, colour = generator.choice(THINGS), generator.choice(COLOURS)
    a, b = generator.sample(range(2, 41), 2)
    variable = generator.choice(VARIABLES)
    return generator.choice(
        (
            f"Question: {name} has {a} {thing} and {other} has {b}. Who has more?\nAnswer: {name if a > b else other}",
            f"Question: What colour are the {a} {colour} {thing} of {name}?\nAnswer: {colour}",
            f"Question: How many {thing} does {name} see if {name} sees {a}?\nAnswer: {a} {thing}",
            f"Problem: Is ${a}$ even?\nSolution: {'Yes' if a % 2 == 0 else 'No'}, it ends in ${a % 10}$.",
            f"Problem: Which letter is in ${variable} + {a}$?\nSolution: The letter is ${variable}$.",
        )
    )


def _note(generator: random.Random) -> str:
    draw = generator.choice(NOTED)
    while (item := draw(generator)).held_out:
        pass
    return item.note


def _function(generator: random.Random) -> str:
    xs, k = generator.choice(LISTS), generator.randint(2, 30)
    body, name, wording = generator.choice(
        (
            (f"{xs}[{k}]", "item", f"item {k} of {xs}"),
            (f"{xs}[:{k}]", "first", f"the first {k} of {xs}"),
            (f"{xs} * {k}", "repeat", f"{xs} repeated {k} times"),
            (f"{xs}.count({k})", "occurrences", f"how often {k} is in {xs}"),
            (f"len({xs})", "size", f"the count of {xs}"),
            (f"sum({xs})", "total", f"the sum of {xs}"),
        )
    )
    return f'def {name}({xs}):\n    """Return {wording}."""\n    return {body}'
