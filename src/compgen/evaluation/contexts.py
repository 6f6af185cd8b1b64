"""Contexts that make experts by context out of one instruction-tuned model."""

from collections.abc import Mapping

MATH_CONTEXT = """\
Question: Nora buys 4 notebooks for 3 dollars each and pays with a 20 dollar bill. How many dollars does she get back?
Answer: The notebooks cost 4 * 3 = 12 dollars. She gets back 20 - 12 = 8 dollars.
#### 8

Question: A train has 6 cars with 45 seats each. On Monday 190 passengers sit in it. How many seats are free?
Answer: The train has 6 * 45 = 270 seats. On Monday 270 - 190 = 80 seats are free.
#### 80

"""
CODE_CONTEXT = '''\
def shorter_words(text: str, limit: int) -> list[str]:
    """Return the words of text that have fewer than limit letters, in order.
    >>> shorter_words("the quick brown fox", 5)
    ['the', 'fox']
    """
    return [word for word in text.split() if len(word) < limit]


def running_total(values: list[int]) -> list[int]:
    """Return at each place the sum of the values up to there.
    >>> running_total([2, 5, 1])
    [2, 7, 8]
    """
    totals = []
    total = 0
    for value in values:
        total += value
        totals.append(total)
    return totals


'''
CONTEXTS: Mapping[str, str] = {"math": MATH_CONTEXT, "code": CODE_CONTEXT}
"""Text to put before a prompt, by the expert that it makes. Two worked examples each, in the form of GSM8K and of
HumanEval, written for this project."""
