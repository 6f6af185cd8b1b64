"""Label mapping in context: twenty items with their labels, then an item that was not shown (dossier 2.4 c).

Forty-five items of three classes; one of each class first, in a fixed order, then seventeen more. Variants: `original`
(inside the distribution: the classes' names), `permuted` (outside: the names rotated, plants are called sport) and
`symbols` (outside: pairs of characters, put in the place of the rotated names). The items are our own.

Mended: the authors draw the seventeen with replacement, so that a prompt shows some items twice and fewer items than it
seems; here all items of a prompt are distinct, and so are the prompts. Their targets end in the comma that follows a
label; here the answer is the label, and what follows it cannot decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import perm, prod

import numpy as np

from compgen.heads.prompts.prompt import Draft, Drafts, Mode, PromptSet, Protocol, Rows, Shift, Variant, pick
from compgen.heads.prompts.vocabulary import listed

SHOWN = 20
MODES = (Mode.generation, Mode.choice, Mode.probability)
CLASSES: Mapping[str, tuple[str, ...]] = {
    "sport": listed(
        """
        baseball tennis hockey soccer rugby cricket golf volleyball badminton handball wrestling fencing archery rowing
        judo
        """
    ),
    "plant": listed(
        "celery lettuce spinach tulip daisy fern oak bamboo cactus ivy clover moss lavender basil wheat",
    ),
    "animal": listed(
        "sheep horse tiger rabbit dolphin eagle frog lizard goat whale camel otter donkey wolf bear",
    ),
}
"""In the order in which a prompt first shows them."""
ROTATED: Mapping[str, str] = {"animal": "plant", "plant": "sport", "sport": "animal"}
SYMBOLS: Mapping[str, str] = {"animal": "$#", "sport": "!%", "plant": "&*"}
LABELS: Mapping[str, Mapping[str, str]] = {
    "original": {name: name for name in CLASSES},
    "permuted": ROTATED,
    "symbols": {name: SYMBOLS[ROTATED[name]] for name in CLASSES},
}
"""What every variant calls the classes."""
CLASS_OF: Mapping[str, str] = {item: name for name, items in CLASSES.items() for item in items}


def drafts(random: np.random.Generator, protocol: Protocol, _rows: Rows | None) -> Iterator[Drafts]:
    """Lists of items, each with the labels of every variant, without end."""
    authors = protocol is Protocol.authors
    while True:
        shown = [pick(random, items, 1)[0] for items in CLASSES.values()]
        rest = [item for item in CLASS_OF if item not in shown]
        shown += pick(random, rest, SHOWN - len(shown), replace=authors)
        [query] = pick(random, [item for item in rest if item not in shown], 1)
        closing = "," if authors else ""
        yield {variant: _draft(shown, query, labels, closing) for variant, labels in LABELS.items()}


def _draft(shown: Sequence[str], query: str, labels: Mapping[str, str], closing: str) -> Draft:
    lines = [f"{item} is {labels[CLASS_OF[item]]}, " for item in shown]
    return Draft(
        text=f"{''.join(lines)}{query} is",
        answer=labels[CLASS_OF[query]] + closing,
        choices=tuple(labels[name] + closing for name in CLASSES),
    )


def _size(_rows: Rows | None) -> int:
    left = len(CLASS_OF) - len(CLASSES)
    return prod(map(len, CLASSES.values())) * perm(left, SHOWN - len(CLASSES) + 1)


SET = PromptSet(
    task="label_mapping",
    version=1,
    variants={
        "original": Variant(Shift.inside, MODES),
        "permuted": Variant(Shift.outside, MODES),
        "symbols": Variant(Shift.outside, MODES),
    },
    new_tokens=5,
    drafts=drafts,
    size=_size,
)
