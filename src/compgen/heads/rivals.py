"""Prompts on which function-vector heads are found: label mapping with its labels in order, and in disorder."""

import torch

from compgen.heads.function_vectors import PromptPair
from compgen.heads.loading import Subject
from compgen.heads.prompts.encoding import begin_ids, encode_answer
from compgen.heads.prompts.prompt import Prompt
from compgen.heads.prompts.registry import prompts
from compgen.randomness import numpy_stream

TASK, VARIANT = "label_mapping", "original"
BETWEEN, IS = ", ", " is "


def label_pairs(subject: Subject, count: int, seed: int) -> list[PromptPair]:
    """Pairs of prompts with true labels, and with the same labels in another order, so that they tell nothing.

    The prompts are drawn with another seed than those of removal, so that heads are not chosen on what they are
    judged by.
    """
    made = prompts(TASK, VARIANT, count, seed + 1)
    return [_pair(subject, prompt, seed, place) for place, prompt in enumerate(made)]


def _pair(subject: Subject, prompt: Prompt, seed: int, place: int) -> PromptPair:
    encoded = encode_answer(subject.tokenizer, prompt)
    begin = begin_ids(subject.tokenizer)
    other = subject.tokenizer.encode(in_disorder(prompt.text, seed, place), add_special_tokens=False)
    informative, uninformative = torch.tensor(encoded.prefix), torch.tensor([*begin, *other])
    return PromptPair(informative, uninformative, encoded.continuations[0][0])


def in_disorder(text: str, seed: int, place: int) -> str:
    """The same items with their labels in random order; the query stays."""
    *shown, query = text.split(BETWEEN)
    items, labels = zip(*(line.split(IS) for line in shown), strict=True)
    order = numpy_stream(seed, "disorder", place).permutation(len(labels))
    lines = [f"{item}{IS}{labels[index]}" for item, index in zip(items, order, strict=True)]
    return BETWEEN.join([*lines, query])
