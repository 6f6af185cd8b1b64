"""Exact copying: a segment of twenty-five, three times; scored is the third copy behind its first four (dossier 2.4 f).

Variants: `words` (inside the distribution; our own, as text: two copies and the first four words of the third, asked
is the rest) and the authors' token ids, which follow no distribution of text. Token ids depend on the vocabulary, so
these are drawn as fractions of it: the same prompts for every tokenizer, and ids once its vocabulary is known.

Mended: the authors draw from the whole vocabulary, tokens that begin, end or pad sequences included, and with
replacement, so that a token can have two successors; here the caller names the ordinary tokens, and those of a segment
are distinct.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import floor, perm

import numpy as np

from compgen.errors import UserError, require
from compgen.heads.prompts.prompt import Draft, Drafts, Mode, PromptSet, Protocol, Rows, Shift, Variant, pick
from compgen.heads.prompts.vocabulary import CLASS_NAMES

LENGTH = 25
COPIES = 3
GIVEN = 4
"""How much of the scored copy is read before the first scored position."""


@dataclass(frozen=True)
class TokenPrompt:
    """A segment of random tokens that is repeated, for any vocabulary."""

    identifier: str
    protocol: Protocol
    fractions: tuple[float, ...]
    """One for each token of the segment, at least 0 and below 1."""

    def segment(self, vocabulary: Sequence[int]) -> list[int]:
        """The token ids of one copy, out of the ids that may be drawn.

        Raises:
            UserError: the vocabulary is smaller than a segment of distinct tokens.
        """
        if self.protocol is Protocol.authors:
            return [vocabulary[floor(fraction * len(vocabulary))] for fraction in self.fractions]
        if len(vocabulary) < len(self.fractions):
            raise UserError(f"{len(self.fractions)} distinct tokens are asked for and there are only {len(vocabulary)}")
        return _without_replacement(vocabulary, self.fractions)

    def token_ids(self, vocabulary: Sequence[int], begin: Sequence[int] = ()) -> list[int]:
        """The whole sequence: what begins it, then the copies."""
        return [*begin, *self.segment(vocabulary) * COPIES]

    def scored(self, begin: int = 0, ignored_copies: int = COPIES - 1, given: int = GIVEN) -> range:
        """The places of the tokens that are to be predicted, in a sequence that starts with `begin` special tokens."""
        return range(begin + ignored_copies * LENGTH + given, begin + COPIES * LENGTH)


def _without_replacement(vocabulary: Sequence[int], fractions: Sequence[float]) -> list[int]:
    """Fisher and Yates' shuffle, of which only the moved places are kept: vocabularies are large, segments short."""
    moved: dict[int, int] = {}
    chosen = []
    for step, fraction in enumerate(fractions):
        place = step + floor(fraction * (len(vocabulary) - step))
        chosen.append(vocabulary[moved.get(place, place)])
        moved[place] = moved.get(step, step)
    return chosen


def token_prompts(n: int, seed: int, *, protocol: Protocol = Protocol.controlled) -> list[TokenPrompt]:
    """The first n segments of random tokens.

    Raises:
        ConfigError: n is not positive.
    """
    from compgen.randomness import numpy_stream  # it imports torch, which looking up names does not need

    require(n >= 1, "n", n, "must be at least 1")
    random = numpy_stream(seed, "prompts", "exact_copying", "tokens")
    return [
        TokenPrompt(f"exact_copying/tokens/{protocol}/{place:04d}", protocol, tuple(random.random(LENGTH).tolist()))
        for place in range(n)
    ]


def drafts(random: np.random.Generator, protocol: Protocol, _rows: Rows | None) -> Iterator[Drafts]:
    """Segments of words, without end."""
    while True:
        words = pick(random, CLASS_NAMES, LENGTH, replace=protocol is Protocol.authors)
        text = " ".join([*words * (COPIES - 1), *words[:GIVEN]])
        yield {"words": Draft(text=text, answer=" ".join(words[GIVEN:]))}


SET = PromptSet(
    task="exact_copying",
    version=1,
    variants={"words": Variant(Shift.inside, (Mode.probability,))},
    new_tokens=LENGTH,
    drafts=drafts,
    size=lambda _rows: perm(len(CLASS_NAMES), LENGTH),
)
