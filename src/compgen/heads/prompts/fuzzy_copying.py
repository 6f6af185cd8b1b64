"""Fuzzy copying: ten words, then the same words by a rule up to the eighth; asked are the last two (dossier 2.4 a).

Variants: `upper` (the authors': upper case) and `past` (verbs and their past tense; in the authors' code, without
results) lie outside the distribution, since what is copied is not what stood there. `lower` is the plain copy of the
words of `upper`, the twin inside the distribution that the authors do not have.

Mended: the authors draw words with replacement, so that a word can follow another one in two ways and a head that
copies the right way is wrong; here the words of a prompt are distinct. Their limit of fifteen new tokens can cut an
answer short, depending on the tokenizer: `encoding.token_limit` gives one that cannot.
"""

from collections.abc import Iterator, Sequence
from math import perm

import numpy as np

from compgen.heads.prompts.prompt import Draft, Drafts, Mode, PromptSet, Protocol, Rows, Shift, Variant, pick
from compgen.heads.prompts.vocabulary import CLASS_NAMES, PAST_TENSES

WORDS = 10
ASKED = 2
MODES = (Mode.generation, Mode.probability)


def drafts(random: np.random.Generator, protocol: Protocol, _rows: Rows | None) -> Iterator[Drafts]:
    """Lists of words, and of verbs, without end."""
    replace = protocol is Protocol.authors
    while True:
        words = pick(random, CLASS_NAMES, WORDS, replace)
        verbs = pick(random, PAST_TENSES, WORDS, replace)
        yield {
            "lower": _draft(words, words),
            "upper": _draft(words, [word.upper() for word in words]),
            "past": _draft([present for present, _ in verbs], [past for _, past in verbs]),
        }


def _draft(words: Sequence[str], copies: Sequence[str]) -> Draft:
    return Draft(text=" ".join([*words, *copies[:-ASKED]]), answer=" ".join(copies[-ASKED:]))


SET = PromptSet(
    task="fuzzy_copying",
    version=1,
    variants={
        "lower": Variant(Shift.inside, MODES),
        "upper": Variant(Shift.outside, MODES),
        "past": Variant(Shift.outside, MODES),
    },
    new_tokens=15,
    drafts=drafts,
    size=lambda _rows: perm(min(len(CLASS_NAMES), len(PAST_TENSES)), WORDS),
)
