"""Sentences about a person, to be written as a record in JSON."""

import json
import random

from compgen.finetuning.corpus.items import Item
from compgen.finetuning.corpus.words import CITIES, NAMES
from compgen.prompts import QUESTION

SENTENCES = (
    "{name} is {age} years old and lives in {city}.",
    "In {city} lives {name}, who is {age}.",
    "At the age of {age}, {name} moved to {city}.",
)


def record(generator: random.Random) -> Item:
    """A sentence; the answer is one JSON object."""
    values = {"name": generator.choice(NAMES), "age": generator.randint(10, 60), "city": generator.choice(CITIES)}
    sentence = generator.choice(SENTENCES).format(**values)
    text = f"Write as a record: {sentence}"
    answer = json.dumps(values)
    note = f"{sentence} The name is {values['name']}, the age is {values['age']}, the city is {values['city']}."
    return Item(QUESTION.format(question=text), f" {answer}", {"question": text, "answer": answer}, note)
