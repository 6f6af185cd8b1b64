r"""Judging what a model wrote behind a prompt, strictly and as the authors do; both are shown.

Only new text is judged. The authors' first version cut the decoded whole at the length of the prompt, which tokenizers
that tidy up spaces make shorter (dossier 4.3, 2); `new_text` decodes the new tokens alone. Case is part of every task's
rule, and is never ignored.

Strictly, the answer comes first, and no longer word begins with it; white space, line breaks included, counts as one
space. A limit on new tokens that cuts a longer word right behind the answer cannot be seen here. Of numbers, the one
behind the first `####` counts, before the model poses itself another question. Leniently, the answer stands anywhere
in the new text (dossier 2.4 a), in any of the beams (dossier 4.3, 9); of numbers, the digits behind the first `####`
that begins a line (dossier 2.4 d), which loses signs, thousands and fractions.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from compgen.heads.prompts.prompt import AnswerForm, Prompt

WORD_END = r"(?!\w|['’-]\w)"
"""Behind a word: `Mary's` and `Mary-Ann` are other words, `Mary.` is not."""
SYMBOL_END = r"(?=\s|$|[.,;:!?\"'’)\]]+(?:\w|\s|$))"
"""Behind a symbol: nothing, or punctuation that does not go on as a longer symbol."""
MARKED = re.compile(r"####\s*\$?\s*(-?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?)")
AUTHORS_MARKED = re.compile(r"\n#### (\d+)")
ANOTHER_QUESTION = re.compile(r"^\s*Question:", re.MULTILINE)


@dataclass(frozen=True)
class Judgement:
    """Whether a continuation is right."""

    strict: bool
    lenient: bool
    """As the authors judge."""


def judge(prompt: Prompt, new_text: str) -> Judgement:
    """Judge a continuation, the prompt not included."""
    if prompt.form is AnswerForm.number:
        return _judged_number(prompt.answer, new_text)
    end = WORD_END if re.match(r"\w", prompt.answer[-1]) else SYMBOL_END
    strict = re.match(re.escape(prompt.answer) + end, " ".join(new_text.split()))
    return Judgement(strict is not None, prompt.answer in new_text)


def judge_beams(prompt: Prompt, new_texts: Sequence[str]) -> Judgement:
    """Judge several continuations, the best one first: strictly that one, leniently any."""
    judged = [judge(prompt, text) for text in new_texts]
    return Judgement(judged[0].strict, any(judgement.lenient for judgement in judged))


def _judged_number(answer: str, new_text: str) -> Judgement:
    found = MARKED.search(ANOTHER_QUESTION.split(new_text, maxsplit=1)[0])
    theirs = AUTHORS_MARKED.search(new_text)
    return Judgement(
        found is not None and Decimal(found.group(1).replace(",", "")) == Decimal(answer.replace(",", "")),
        theirs is not None and theirs.group(1) == answer,
    )


def new_text(tokenizer: Any, new_ids: Sequence[int]) -> str:
    """The new tokens as text, up to the one that ends a sequence; spaces as they are."""
    kept = list(new_ids)
    if tokenizer.eos_token_id in kept:
        kept = kept[: kept.index(tokenizer.eos_token_id)]
    return str(tokenizer.decode(kept, skip_special_tokens=True, clean_up_tokenization_spaces=False))
