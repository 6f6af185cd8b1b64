r"""Reading the final answer out of a completion, and comparing it with the gold answer.

Covers numbers (GSM8K) and mathematical expressions (MATH). The harness's and the authors' own readings are elsewhere
and are shown beside these. A public report of each fault that a simpler reading has is named in the tests.
"""

import re
from decimal import Decimal, InvalidOperation

MARK = "####"
NUMBER = re.compile(r"-?\$?\s?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:/\d+)?|(?<!\.)-?\$?\.\d+")
BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
DOLLARS = re.compile(r"(?<!\\)\$((?:[^$\\]|\\.)+)\$")


def number_in(text: str) -> str | None:
    """The number behind the last `####`, else the last number; None where there is none."""
    marked = text.rsplit(MARK, 1)[1] if MARK in text else None
    if marked is not None:
        found = NUMBER.search(marked)
        if found:
            return found.group()
    numbers = NUMBER.findall(text)
    return numbers[-1] if numbers else None


def same_number(first: str | None, second: str | None) -> bool:
    """Whether two texts are the same number: `$1,000.00` is `1000`."""
    a, b = (None if text is None else _value(text) for text in (first, second))
    return a is not None and a == b


def _value(text: str) -> Decimal | None:
    """The number as a decimal; None where it is none, or a division by zero."""
    plain = re.sub(r"[$,\s]", "", text)
    above, _, below = plain.partition("/")
    try:
        return Decimal(above) / Decimal(below) if below else Decimal(above)
    except (InvalidOperation, ZeroDivisionError):
        return None


def boxed_in(text: str) -> str | None:
    r"""The content of the last `\boxed{}` whose braces balance; None where there is none."""
    for start in reversed([found.end() for found in BOXED.finditer(text)]):
        content = _balanced(text, start)
        if content is not None:
            return content
    return None


def _balanced(text: str, start: int) -> str | None:
    """From behind an opening brace to before the one that closes it."""
    depth = 1
    for place in range(start, len(text)):
        escaped = place > 0 and text[place - 1] == "\\"
        if text[place] == "{" and not escaped:
            depth += 1
        elif text[place] == "}" and not escaped:
            depth -= 1
            if depth == 0:
                return text[start:place]
    return None


def expression_in(text: str) -> str | None:
    r"""The last balanced `\boxed{}`, else what stands in the last `$…$`, else the last number."""
    boxed = boxed_in(text)
    if boxed is not None:
        return boxed
    spans = DOLLARS.findall(text)
    return str(spans[-1]) if spans else number_in(text)


def same_expression(answer: str | None, gold: str) -> bool:
    """Whether an expression equals the gold one: as normalized text (lm-eval's), else symbolically (math-verify).

    math-verify's own time limits need the main thread's alarm and are left out; it is asked for short expressions only.
    """
    if answer is None or not answer.strip():
        return False
    from lm_eval.tasks.hendrycks_math.utils import is_equiv

    if is_equiv(answer, gold):
        return True
    if max(len(answer), len(gold)) > LONGEST_SYMBOLIC:
        return False
    return _symbolically_equal(answer, gold)


LONGEST_SYMBOLIC = 300
"""Characters; longer texts are runaway output, on which a computer algebra system can hang."""


def _symbolically_equal(answer: str, gold: str) -> bool:
    from math_verify import parse, verify

    parsed = [parse(f"${text}$", parsing_timeout=None) for text in (gold, answer)]
    return bool(parsed[0] and parsed[1] and verify(parsed[0], parsed[1], timeout_seconds=None))
