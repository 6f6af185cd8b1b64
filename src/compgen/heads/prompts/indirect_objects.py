"""Indirect objects: two persons, one gives the other something; asked is the receiver (dossier 2.4 b).

Fifteen sentences of the form B-A-B-A of Wang et al. (2022), eight places and nine objects; the sentences are our own.
Variants: `names` (inside the distribution, first names) and `symbols` (outside it, the authors' seven pairs of
characters), in the same sentences.

Mended: the authors draw prompts with replacement; here they are distinct. No name begins another one, so that neither
a shorter choice nor the beginning of a longer name can win by its length.
"""

from collections.abc import Iterator, Sequence
from math import perm

import numpy as np

from compgen.heads.prompts.prompt import Draft, Drafts, Mode, PromptSet, Protocol, Rows, Shift, Variant, pick
from compgen.heads.prompts.vocabulary import FIRST_NAMES, OBJECTS, PLACES

SYMBOLS = ("#$", "&^", "!@", ")%", "-+", "=/", "[&")
MODES = (Mode.generation, Mode.choice, Mode.probability)
TEMPLATES = (
    "This morning, {B} and {A} met at the {place}. {B} handed a {thing} to",
    "On Monday, {B} and {A} walked to the {place}. {B} showed a {thing} to",
    "Yesterday, {B} and {A} had lunch near the {place}. {B} passed a {thing} to",
    "At noon, {B} and {A} arrived at the {place}. {B} offered a {thing} to",
    "Last summer, {B} and {A} worked at the {place}. {B} sold a {thing} to",
    "After the rain, {B} and {A} left the {place}. {B} brought a {thing} to",
    "In the evening, {B} and {A} returned to the {place}. {B} threw a {thing} to",
    "When {B} and {A} sat down at the {place}, {B} gave a {thing} to",
    "While {B} and {A} were waiting at the {place}, {B} lent a {thing} to",
    "As {B} and {A} came out of the {place}, {B} returned a {thing} to",
    "Before {B} and {A} went home from the {place}, {B} presented a {thing} to",
    "Since {B} and {A} had found a {thing} at the {place}, {B} wanted to leave it to",
    "Once {B} and {A} had bought a {thing} at the {place}, {B} decided to hand it to",
    "There was a {thing} at the {place} when {B} and {A} looked around, and {B} took it to",
    "The {place} was quiet when {B} and {A} came in, so {B} quietly gave a {thing} to",
)


def drafts(random: np.random.Generator, _protocol: Protocol, _rows: Rows | None) -> Iterator[Drafts]:
    """Sentences, each with two names and with two symbols, without end."""
    while True:
        [template], [place], [thing] = (pick(random, items, 1) for items in (TEMPLATES, PLACES, OBJECTS))
        sentence = template.replace("{place}", place).replace("{thing}", thing)
        yield {
            "names": _draft(sentence, pick(random, FIRST_NAMES, 2)),
            "symbols": _draft(sentence, pick(random, SYMBOLS, 2)),
        }


def _draft(sentence: str, persons: Sequence[str]) -> Draft:
    giver, receiver = persons
    text = sentence.replace("{A}", receiver).replace("{B}", giver)
    return Draft(text=text, answer=receiver, choices=(giver, receiver))


SET = PromptSet(
    task="indirect_objects",
    version=1,
    variants={"names": Variant(Shift.inside, MODES), "symbols": Variant(Shift.outside, MODES)},
    new_tokens=5,
    drafts=drafts,
    size=lambda _rows: len(TEMPLATES) * len(PLACES) * len(OBJECTS) * perm(len(SYMBOLS), 2),
)
