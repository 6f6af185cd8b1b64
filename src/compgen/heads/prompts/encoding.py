"""Which tokens stand for an answer, and what the probabilities of these tokens say.

A prompt and its answer are encoded together, as a text that a model would read. Mostly the prompt's own tokens come
first and the rest is the answer: one token with its leading space, or several. Where the tokenizer merges over the
boundary, the tokens differ from the prompt's own before it ends, and scoring starts at the first that does. All choices
of a prompt are scored from the same place, behind the same tokens, so that their probabilities can be compared.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from compgen.errors import UserError
from compgen.heads.prompts.prompt import Prompt


@dataclass(frozen=True)
class Encoded:
    """Several ways to go on from the same tokens."""

    prefix: tuple[int, ...]
    """What is read before the first scored token, with what begins a sequence."""
    continuations: tuple[tuple[int, ...], ...]
    """The scored tokens, in the order of the texts."""


@dataclass(frozen=True)
class ChoiceScores:
    """Log probabilities of a prompt's choices."""

    sums: tuple[float, ...]
    """Of all tokens of a choice."""
    means: tuple[float, ...]
    """The same per token, which does not favour short choices."""

    def chosen(self, answer: int) -> bool:
        """Whether the answer is likelier than every other choice; a tie is not won."""
        return _likeliest(self.sums, answer)

    def chosen_per_token(self, answer: int) -> bool:
        """The same by the log probability per token."""
        return _likeliest(self.means, answer)


def begin_ids(tokenizer: Any) -> tuple[int, ...]:
    """The token that begins a sequence, where the tokenizer itself puts one before texts."""
    first = list(tokenizer.encode("a", add_special_tokens=True))[:1]
    return (first[0],) if first and first[0] == tokenizer.bos_token_id else ()


def encode_prompt(tokenizer: Any, prompt: Prompt) -> tuple[int, ...]:
    """The tokens from which a model writes on."""
    return begin_ids(tokenizer) + _ids(tokenizer, prompt.text)


def choice_texts(prompt: Prompt) -> tuple[str, ...]:
    """The choices as they would stand behind the prompt."""
    return tuple(prompt.separator + choice for choice in prompt.choices)


def encode_choices(tokenizer: Any, prompt: Prompt) -> Encoded:
    """The choices of a prompt as tokens.

    Raises:
        UserError: the tokenizer gives two choices the same tokens.
    """
    found = _continued(tokenizer, prompt.text, choice_texts(prompt))
    if len(set(found.continuations)) < len(found.continuations):
        raise UserError(f"{prompt.identifier}: the tokenizer cannot tell the choices {prompt.choices} apart")
    return found


def encode_answer(tokenizer: Any, prompt: Prompt) -> Encoded:
    """The answer of a prompt as tokens: one continuation."""
    return _continued(tokenizer, prompt.text, (prompt.continuation,))


def _continued(tokenizer: Any, text: str, continuations: Sequence[str]) -> Encoded:
    alone = _ids(tokenizer, text)
    together = [_ids(tokenizer, text + continuation) for continuation in continuations]
    start = min(_shared(alone, ids) for ids in together)
    return Encoded(begin_ids(tokenizer) + alone[:start], tuple(ids[start:] for ids in together))


def _shared(first: Sequence[int], second: Sequence[int]) -> int:
    """How many tokens two sequences begin with in common."""
    differing = (place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b)
    return next(differing, min(len(first), len(second)))


def _ids(tokenizer: Any, text: str) -> tuple[int, ...]:
    return tuple(tokenizer.encode(text, add_special_tokens=False))


def token_limit(tokenizer: Any, prompts: Iterable[Prompt], spare: int = 2) -> int:
    """How many new tokens let every answer be written in full and its end be seen; never fewer than the authors'."""
    return max(
        max(prompt.new_tokens, len(encode_answer(tokenizer, prompt).continuations[0]) + spare) for prompt in prompts
    )


def choice_scores(log_probabilities: Sequence[Sequence[float]]) -> ChoiceScores:
    """Scores of choices from the log probabilities of their tokens.

    Raises:
        ValueError: a choice has no tokens, or a log probability is not a number.
    """
    if not all(log_probabilities) or any(isnan(value) for values in log_probabilities for value in values):
        raise ValueError("every choice needs a log probability, a number, for each of its tokens")
    sums = tuple(sum(values) for values in log_probabilities)
    return ChoiceScores(sums, tuple(total / len(v) for total, v in zip(sums, log_probabilities, strict=True)))


def _likeliest(scores: Sequence[float], answer: int) -> bool:
    return all(scores[answer] > score for place, score in enumerate(scores) if place != answer)
