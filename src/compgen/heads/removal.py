"""Asking a model the same questions while heads are removed: every condition of a removal curve.

Covers what is asked and what is kept of each answer, sample by sample. Which heads are removed is in `selection.py`,
what the curves say in `curves.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

from compgen.heads.ablation import Replacement as Values
from compgen.heads.ablation import ablated, mean_outputs, record_outputs
from compgen.heads.asking import Asked, Row, as_asked, read_answers, read_copies, write_answers
from compgen.heads.config import RemovalConfig, Replacement, TaskConfig
from compgen.heads.loading import Subject
from compgen.heads.prompts.exact_copying import TokenPrompt, token_prompts
from compgen.heads.prompts.prompt import Mode, Prompt, Rows
from compgen.heads.prompts.registry import prompt_set, prompts
from compgen.heads.repeated import beginning_token, controlled_sequences
from compgen.heads.selection import Condition

REFERENCES, REFERENCE_SEGMENT = 16, 25


@dataclass(frozen=True)
class Question:
    """A task's prompts, as text or as random tokens, made ready once for all conditions."""

    config: TaskConfig
    texts: tuple[Prompt, ...] = ()
    asked: tuple[Asked, ...] = ()
    tokens: tuple[TokenPrompt, ...] = ()

    @property
    def identifiers(self) -> list[str]:
        """One a prompt, the same in every condition."""
        return [prompt.identifier for prompt in (self.tokens or self.texts)]

    def answers(self, subject: Subject, batch_size: int) -> list[Row]:
        """What the model says to each prompt, as it is now."""
        if self.tokens:
            return read_copies(subject, self.tokens, batch_size)
        written = list(write_answers(subject, self.texts, batch_size)) if self.config.generates else []
        if Mode.probability not in self.texts[0].modes:
            return written
        rows = read_answers(subject, self.asked, batch_size)
        return [{**row, **judged} for row, judged in zip(rows, written or [{}] * len(rows), strict=True)]


def questions(config: RemovalConfig, tokenizer: Any, seed: int, rows: Rows | None) -> dict[str, Question]:
    """The prompts of every task by the task's name.

    Raises:
        UserError: a task needs rows that are not given, or has fewer distinct prompts than asked for.
    """
    return {name: _question(task, config, tokenizer, seed, rows) for name, task in config.asked.items()}


def _question(task: TaskConfig, config: RemovalConfig, tokenizer: Any, seed: int, rows: Rows | None) -> Question:
    if task.is_random_tokens:
        return Question(task, tokens=tuple(token_prompts(task.prompts, seed, protocol=config.protocol)))
    texts = prompts(task.task, task.variant, task.prompts, seed, protocol=config.protocol, rows=rows)
    return Question(task, tuple(texts), tuple(as_asked(tokenizer, prompt) for prompt in texts))


def needs_rows(config: RemovalConfig) -> bool:
    """Whether some task asks questions of GSM8K."""
    return any(not task.is_random_tokens and prompt_set(task.task).needs_rows for task in config.asked.values())


def replacement(subject: Subject, kind: Replacement, heads: Sequence[Condition], seed: int) -> Values | None:
    """What stands in for removed heads, measured on random tokens repeated twice; None is zero."""
    if kind is Replacement.zero:
        return None
    layers = sorted({head.layer for condition in heads for head in condition.heads})
    vocabulary, begin = subject.model.config.vocab_size, beginning_token(subject.view)
    sequences = controlled_sequences(vocabulary, begin, subject.special_tokens, REFERENCES, REFERENCE_SEGMENT, seed)
    if kind is Replacement.mean:
        return mean_outputs(subject.view, layers, sequences.tokens)
    return record_outputs(subject.view, layers, sequences.tokens, seed=seed)


def answers_without(
    subject: Subject,
    condition: Condition,
    asked: Mapping[str, Question],
    values: Values | None,
    batch_size: int,
) -> Iterator[dict[str, Any]]:
    """One record for each task and prompt of a condition."""
    removed: AbstractContextManager[None] = ablated(subject.view, condition.heads, values)
    with torch.no_grad(), removed:
        for task, question in asked.items():
            rows = question.answers(subject, batch_size)
            for identifier, row in zip(question.identifiers, rows, strict=True):
                yield {
                    "task": task,
                    "set": condition.set,
                    "count": condition.count,
                    "draw": condition.draw,
                    "id": identifier,
                    **row,
                }
