r"""Reading the final answer out of a completion, and comparing it with the gold answer.

Covers numbers (GSM8K) and mathematical expressions (MATH). The harness's and the authors' own readings are elsewhere
and are shown beside these. A public report of each fault that a simpler reading has is named in the tests.

A computer algebra system can work for ever on what a model writes: `9^{9^{9}}` is one C call that no signal ends, a
long sum to a high power is Python that one does. The first kind is recognized by its form and not tried, the second is
given a limit of processor time, which a busy machine does not shorten.
"""

import contextlib
import logging
import re
import signal
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from types import FrameType

MARK = "####"
SIGN = r"(?:(?<![\w.)\]}])[-−])?"
"""Behind a digit, a name or a closing bracket it is a difference: the last number of 20-2 is 2."""
NUMBER = re.compile(SIGN + r"(?:\\?\$\s?)?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:/\d+)?|(?<![.\d])\.\d+)")
REMARK = re.compile(r"\([^()]*[A-Za-z][^()]*\)\W*$")
"""Words in brackets at the very end, as in `18 (100% sure)`."""
BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{")
FORMULA = re.compile(
    r"(?<!\\)\$(?P<dollars>(?:[^$\\]|\\.)+)\$|\\\((?P<inline>.+?)\\\)|\\\[(?P<display>.+?)\\\]", re.DOTALL
)
PROSE = re.compile(r"[A-Za-z]{2,}\s+[A-Za-z]{2,}|\n")
LONGEST = 300
"""Characters; longer expressions are runaway output and not compared symbolically."""
SECONDS = 5.0
"""Processor time for one symbolic comparison."""
POWER = r"(?:\^|\*\*)\s*"
EXPLOSIVE = re.compile(
    rf"{POWER}\{{[^{{}}]*(?:\^|\*\*|!|\d{{6,}})"  # a tower, a factorial or a long number in an exponent
    rf"|{POWER}\(?\d{{6,}}"
    rf"|{POWER}[({{]?\w+[)}}]?\s*{POWER}"  # a^b^c
    rf"|\){POWER}\{{?\d{{4,}}"  # a power of a power
    r"|\d{6,}\s*!|!\s*\)?\s*!"
    r"|\\[dt]?binom\{\d{5,}|\d{5,}\s*\\choose"
)
"""Forms that become integers of millions of digits as soon as they are parsed."""


def number_in(text: str) -> str | None:
    """The number behind the last `####`, else the last one before a closing remark; None where there is none."""
    marked = text.rsplit(MARK, 1)[1] if MARK in text else None
    if marked is not None:
        found = NUMBER.search(marked)
        if found:
            return found.group()
    numbers = NUMBER.findall(REMARK.sub("", text)) or NUMBER.findall(text)
    return numbers[-1] if numbers else None


def same_number(first: str | None, second: str | None) -> bool:
    """Whether two texts are the same number: `$1,000.00` is `1000`."""
    a, b = (None if text is None else _value(text) for text in (first, second))
    return a is not None and a == b


def _value(text: str) -> Decimal | None:
    """The number as a decimal; None where it is none, or a division by zero."""
    plain = re.sub(r"[\\$,\s]", "", text).replace("−", "-")
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
    """From behind an opening brace to before the one that closes it; escaped braces do not count."""
    depth = 1
    for found in re.finditer(r"\\.|[{}]", text[start:], re.DOTALL):
        depth += {"{": 1, "}": -1}.get(found.group(), 0)
        if depth == 0:
            return text[start : start + found.start()]
    return None


def expression_in(text: str) -> str | None:
    r"""The last balanced `\boxed{}`, else the last formula (`$…$`, `\(…\)`, `\[…\]`), else the text.

    Of prose, the last number.
    """
    boxed = boxed_in(text)
    if boxed is not None:
        return boxed
    formulas = [found.group(found.lastgroup or 0) for found in FORMULA.finditer(text)]
    if formulas:
        return formulas[-1].strip()
    bare = text.strip()
    return number_in(text) if PROSE.search(bare) else bare.rstrip(".") or None


class OutOfTimeError(BaseException):
    """Not an Exception, so that handlers inside the computer algebra system do not swallow it."""


def same_expression(answer: str | None, gold: str) -> bool | None:
    """Whether an expression equals the gold one: as normalized text (lm-eval's), else symbolically (math-verify).

    Returns:
        None where that could not be decided: the answer's form explodes, or the limit of processor time was reached.

    Raises:
        ValueError: called outside the main thread, where no limit can be set.
    """
    if answer is None or not answer.strip():
        return False
    from lm_eval.tasks.hendrycks_math.utils import is_equiv

    if is_equiv(answer, gold):
        return True
    if max(len(answer), len(gold)) > LONGEST:
        return False
    if EXPLOSIVE.search(answer):
        return None
    try:
        return _symbolically_equal(answer, gold)
    except OutOfTimeError:
        logging.getLogger(__name__).warning("%r against %r: not decided in %g s", answer, gold, SECONDS)
        return None


def _symbolically_equal(answer: str, gold: str) -> bool:
    from math_verify import parse, verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that its own limits are off
    with _processor_time(SECONDS):
        parsed = [parse(f"${text}$", parsing_timeout=None) for text in (gold, answer)]
        return bool(parsed[0] and parsed[1] and verify(parsed[0], parsed[1], timeout_seconds=None))


@contextlib.contextmanager
def _processor_time(seconds: float) -> Iterator[None]:
    """Raise OutOfTimeError when the block has used so much; again every second, should it have been swallowed."""
    before = signal.signal(signal.SIGVTALRM, _out_of_time)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _out_of_time(_signal: int, _frame: FrameType | None) -> None:
    raise OutOfTimeError
