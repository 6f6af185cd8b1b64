"""What a generated question is, and how test questions are kept out of training text.

An item's skeleton is its question with every number masked. A fixed fifth of all skeletons belongs to the test sets, so
that neither a test question nor its wording with other numbers is ever trained on.
"""

import hashlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

HELD_OUT_OF = 5
Draw = Callable[[random.Random], "Item"]


@dataclass(frozen=True)
class Item:
    """One question in the exact form in which it is posed, with its worked answer."""

    prompt: str
    answer: str
    """What stands behind the prompt, the end token left out."""
    row: dict[str, Any] = field(hash=False)
    """The benchmark's row."""
    note: str = ""
    """The same content in prose of another form, without question: what the base may read."""

    @property
    def skeleton(self) -> str:
        """The prompt with every number masked."""
        return re.sub(r"\d+", "#", self.prompt)

    @property
    def held_out(self) -> bool:
        """Whether the skeleton belongs to the test sets."""
        digest = hashlib.sha256(self.skeleton.encode("utf-8")).digest()
        return digest[0] % HELD_OUT_OF == 0


def distinct(draw: Draw, generator: random.Random, held_out: bool, count: int) -> list[Item]:
    """So many items of one side, every prompt once.

    Raises:
        ValueError: the generator has too few of them.
    """
    found: dict[str, Item] = {}
    for _ in range(1000 * count):
        item = draw(generator)
        if item.held_out == held_out:
            found.setdefault(item.prompt, item)
        if len(found) == count:
            return list(found.values())
    raise ValueError(f"only {len(found)} distinct items of {count}")
