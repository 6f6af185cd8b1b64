"""What a prompt is, and what a set of prompts must offer.

Covers the common form only; each set is one file beside this one, the registry finds them by name. Free of torch, so
that configurations can be checked against it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")


class Protocol(StrEnum):
    """Whose construction the prompts follow."""

    authors = "authors"
    """Song, Xu and Zhong's, defects included (dossier 2.4 and 4.3)."""
    controlled = "controlled"
    """The same tasks with the defects mended that each set's file names."""


class Mode(StrEnum):
    """How a prompt is put to a model."""

    generation = "generation"
    """It writes on; the new text is judged."""
    choice = "choice"
    """The likeliest of the given choices is its answer."""
    probability = "probability"
    """The probability it gives to the answer."""


class Shift(StrEnum):
    """Where a variant lies relative to what language models have read."""

    inside = "id"
    outside = "ood"


class AnswerForm(StrEnum):
    """What an answer is compared as."""

    text = "text"
    number = "number"


@dataclass(frozen=True)
class Rows:
    """Questions of GSM8K given by the caller: `question`, and an `answer` that ends in `#### N`."""

    test: Sequence[Mapping[str, str]]
    train: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Draft:
    """The part of a prompt that a set draws."""

    text: str
    answer: str
    choices: tuple[str, ...] = ()
    question: str = ""
    """What makes the prompt a different one from others; empty means the whole text."""

    @property
    def key(self) -> str:
        """Two prompts of one set with the same key are duplicates."""
        return self.question or self.text


Drafts = Mapping[str, Draft]
"""One draw: a draft of every variant by its name, alike in all that the variants do not change."""


@dataclass(frozen=True)
class Variant:
    """One variant of a set."""

    shift: Shift
    modes: tuple[Mode, ...]


@dataclass(frozen=True)
class PromptSet:
    """A task: its variants, and how its prompts are drawn."""

    task: str
    version: int
    """Raised whenever the same seed gives other prompts."""
    variants: Mapping[str, Variant]
    new_tokens: int
    """The authors' limit on what is generated."""
    drafts: Callable[[np.random.Generator, Protocol, Rows | None], Iterator[Drafts]]
    """Draws in order, endless or until there are no more."""
    size: Callable[[Rows | None], int]
    """How many distinct prompts the controlled protocol has at least, in every variant."""
    form: AnswerForm = AnswerForm.text
    needs_rows: bool = False


@dataclass(frozen=True)
class Prompt:
    """One prompt, ready for any tokenizer.

    Raises:
        ValueError: the text ends in white space (which tokenizers would treat differently from a space before the
            answer), the answer is not among the choices, or a choice begins another one (the shorter one could never
            lose by probability).
    """

    identifier: str
    task: str
    variant: str
    protocol: Protocol
    text: str
    """Without the token that begins a sequence, and without white space at the end."""
    answer: str
    """Without the white space that separates it from the text."""
    choices: tuple[str, ...]
    """With the answer among them; empty where the task has none."""
    modes: tuple[Mode, ...]
    form: AnswerForm
    new_tokens: int
    """The authors' limit on what is generated."""
    separator: str = " "
    """What stands between text and answer."""

    def __post_init__(self) -> None:
        """Refuse what tokenization or the order of choices would decide."""
        if self.text != self.text.rstrip() or self.answer != self.answer.strip() or not self.answer:
            raise ValueError(f"{self.identifier}: white space at the end of the text or around the answer")
        if self.choices and self.answer not in self.choices:
            raise ValueError(f"{self.identifier}: the answer {self.answer!r} is not among {self.choices}")
        if any(second.startswith(first) for first, second in permutations(self.choices, 2)):
            raise ValueError(f"{self.identifier}: one of the choices {self.choices} begins another")

    @property
    def continuation(self) -> str:
        """The answer as it would stand behind the text."""
        return self.separator + self.answer


def pick(random: np.random.Generator, items: Sequence[Item], count: int, replace: bool = False) -> list[Item]:
    """Some of the items in random order, drawn with or without replacement."""
    return [items[place] for place in random.choice(len(items), size=count, replace=replace)]
