r"""How the notebooks of Kumar, Bucarelli and Natale read answers, defects included (dossier 3.3 and 3.4).

The first `\boxed{…}` up to the first closing brace, so that \boxed{\frac{1}{2}} and \boxed{\frac{1}{3}} are the same;
the number behind the last `####`, so that text behind the answer can replace it. Never used for a headline of ours.
"""

import re

BOXED = re.compile(r"\\boxed\{([^}]*)\}")
NUMBER = r"-?\$?\d[\d,]*(?:\.\d+)?"
PHRASE = re.compile(rf"(?:the answer is|final answer is|answer:)\s*\$?\s*({NUMBER})", re.IGNORECASE)


def authors_boxed(text: str) -> str | None:
    """The first box, cut at its first closing brace."""
    found = BOXED.search(text)
    return found.group(1) if found else None


def authors_same_expression(answer: str | None, gold: str | None) -> bool:
    """Equal after removing white space and case, or as floats."""
    if answer is None or gold is None:
        return False
    a, b = (re.sub(r"\s+", "", text).lower() for text in (answer, gold))
    return a == b or (_float(a) is not None and _float(a) == _float(b))


def authors_number(text: str) -> str | None:
    """Behind the last `####`, else behind a phrase, else at the end, else the first number."""
    if "####" in text:
        found = re.search(NUMBER, text.rsplit("####", 1)[1])
        if found:
            return found.group()
    phrase = PHRASE.search(text)
    if phrase:
        return phrase.group(1)
    trailing = re.search(rf"({NUMBER})\s*$", text)
    first = re.search(NUMBER, text)
    chosen = trailing or first
    return chosen.group() if chosen else None


def authors_same_number(answer: str | None, gold: str | None) -> bool:
    """Equal as floats, dollars and commas removed."""
    if answer is None or gold is None:
        return False
    a, b = (_float(re.sub(r"[$,\s]", "", text)) for text in (answer, gold))
    return a is not None and a == b


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
