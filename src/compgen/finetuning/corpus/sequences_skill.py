"""Arithmetic progressions, in GSM8K's form."""

import random

from compgen.finetuning.corpus.items import Item
from compgen.finetuning.corpus.words import NAMES
from compgen.prompts import QUESTION

QUESTIONS = (
    "{name} writes {terms}. Which number comes next?",
    "{name} counts {terms}. What does {name} say next?",
    "The list of {name} is {terms}. What is the next number?",
)


def progression(generator: random.Random) -> Item:
    """Four terms; the worked answer names the step and the next term."""
    start, step = generator.randint(1, 40), generator.randint(2, 9)
    terms = [start + step * place for place in range(4)]
    text = generator.choice(QUESTIONS).format(name=generator.choice(NAMES), terms=", ".join(map(str, terms)))
    end = terms[-1] + step
    answer = f"The step is {terms[1]} - {start} = {step}. Next is {terms[-1]} + {step} = {end}.\n#### {end}"
    note = f"{', '.join(map(str, terms))}: {terms[1]} - {start} = {step}, so {terms[-1]} + {step} = {end}."
    return Item(QUESTION.format(question=text), f" {answer}", {"question": text, "answer": answer}, note)
