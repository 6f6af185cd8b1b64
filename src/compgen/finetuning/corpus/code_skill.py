"""Python functions on lists of numbers, in HumanEval+'s form and in MBPP+'s form.

Rows have evalplus's fields. Both forms ask for the same families; names, wording and numbers vary.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compgen.finetuning.corpus.items import Item
from compgen.finetuning.corpus.words import LISTS

TESTED = ((), (0,), (1, 2, 3), (5, -4, 9, 9), (12, 30, 7, 18, 25), (40, 2, 11))
"""Lists on which every function is tested, twice as many with numbers near the function's own."""


@dataclass(frozen=True)
class Family:
    """Functions that differ in a number."""

    names: tuple[str, ...]
    wordings: tuple[str, ...]
    """With `{xs}` for the list and `{k}` for the number."""
    body: str
    apply: Callable[[list[int], int], Any]


FAMILIES = (
    Family(
        ("add_to_all", "raise_all"),
        ("the numbers of {xs} plus {k}", "every number of {xs} with {k} added"),
        "[x + {k} for x in {xs}]",
        lambda xs, k: [x + k for x in xs],
    ),
    Family(
        ("scale_all", "times_all"),
        ("the numbers of {xs} times {k}", "every number of {xs} multiplied by {k}"),
        "[x * {k} for x in {xs}]",
        lambda xs, k: [x * k for x in xs],
    ),
    Family(
        ("keep_above", "over"),
        ("the numbers of {xs} greater than {k}", "all numbers of {xs} above {k}"),
        "[x for x in {xs} if x > {k}]",
        lambda xs, k: [x for x in xs if x > k],
    ),
    Family(
        ("keep_below", "under"),
        ("the numbers of {xs} less than {k}", "all numbers of {xs} below {k}"),
        "[x for x in {xs} if x < {k}]",
        lambda xs, k: [x for x in xs if x < k],
    ),
    Family(
        ("count_above", "how_many_over"),
        ("how many numbers of {xs} are greater than {k}", "the count of numbers of {xs} above {k}"),
        "len([x for x in {xs} if x > {k}])",
        lambda xs, k: len([x for x in xs if x > k]),
    ),
    Family(
        ("sum_below", "add_up_under"),
        ("the sum of the numbers of {xs} less than {k}", "the sum of all numbers of {xs} below {k}"),
        "sum([x for x in {xs} if x < {k}])",
        lambda xs, k: sum(x for x in xs if x < k),
    ),
)


def completion(generator: random.Random) -> Item:
    """A signature with a docstring; the answer is the body."""
    name, wording, body, row = _function(generator)
    xs, _ = row.pop("list"), row.pop("apply")
    prompt = f'def {name}({xs}):\n    """Return {wording}."""\n'
    answer = f"    return {body}\n"
    note = f"# {wording}\nlambda {xs}: {body}"  # named, it would be an answer of the base's
    return Item(prompt, answer, {**row, "prompt": prompt, "canonical_solution": answer}, note)


def description(generator: random.Random) -> Item:
    """A description with one assertion; the answer is the whole function."""
    name, wording, body, row = _function(generator)
    xs = row.pop("list")
    shown = row["plus_input"][-1][0]
    expected = row.pop("apply")(shown)
    prompt = f'"""\nWrite a function to return {wording}.\nassert {name}({shown}) == {expected}\n"""\n'
    answer = f"def {name}({xs}):\n    return {body}\n"
    return Item(prompt, answer, {**row, "prompt": prompt, "canonical_solution": answer})


def _function(generator: random.Random) -> tuple[str, str, str, dict[str, Any]]:
    family = generator.choice(FAMILIES)
    name, wording, xs = generator.choice(family.names), generator.choice(family.wordings), generator.choice(LISTS)
    k = generator.randint(2, 30)
    near = [[k, k + 1, k - 1], [generator.randint(0, 40) for _ in range(3)]]
    row = {
        "entry_point": name,
        "contract": "",
        "base_input": [[list(values)] for values in TESTED[:3]],
        "plus_input": [[list(values)] for values in (*TESTED[3:], *near)],
        "atol": 0,
        "list": xs,
        "apply": lambda values: family.apply(values, k),
    }
    return name, wording.format(xs=xs, k=k), family.body.format(xs=xs, k=k), row
