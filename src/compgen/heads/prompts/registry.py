"""The sets of prompts by name, and the one way to draw from them.

The prompts of a set depend on the task, the protocol, the seed and the given rows. They are the same for every model
and every condition, and the first ones of a larger sample are the smaller sample. The prompt of one place is the same
in all variants up to what the variant changes, so that variants can be compared in pairs. Exact copying of token ids
is only text once the vocabulary is known, and has its own function in exact_copying.py.
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from compgen.errors import UserError, require
from compgen.heads.prompts import (
    chain_of_thought,
    exact_copying,
    fuzzy_copying,
    indirect_objects,
    label_mapping,
    symbolized,
)
from compgen.heads.prompts.prompt import Drafts, Mode, Prompt, PromptSet, Protocol, Rows

SETS: Mapping[str, PromptSet] = {
    module.SET.task: module.SET
    for module in (fuzzy_copying, indirect_objects, label_mapping, exact_copying, chain_of_thought, symbolized)
}


def prompt_set(task: str) -> PromptSet:
    """The set of a task.

    Raises:
        ConfigError: there is none.
    """
    require(task in SETS, "task", task, f"must be one of {', '.join(SETS)}")
    return SETS[task]


def modes_of(task: str, variant: str) -> tuple[Mode, ...]:
    """The ways in which a variant of a task can be put to a model.

    Raises:
        ConfigError: there is no such task or variant.
    """
    variants = prompt_set(task).variants
    require(variant in variants, "variant", variant, f"{task} has {', '.join(variants)}")
    return variants[variant].modes


def prompts(
    task: str, variant: str, n: int, seed: int, *, protocol: Protocol = Protocol.controlled, rows: Rows | None = None
) -> list[Prompt]:
    """The first n prompts of a task's variant; all distinct under the controlled protocol.

    Raises:
        ConfigError: there is no such task or variant, or n is not positive.
        UserError: the task needs rows that were not given, or has fewer distinct prompts than n.
    """
    modes_of(task, variant)
    require(n >= 1, "n", n, "must be at least 1")
    found = SETS[task]
    if found.needs_rows and rows is None:
        raise UserError(f"{task}: its questions are those of GSM8K, which must be given as rows")
    drawn = _drawn(found, n, seed, protocol, rows)
    return [_prompt(found, variant, protocol, place, drafts) for place, drafts in enumerate(drawn)]


def _drawn(found: PromptSet, n: int, seed: int, protocol: Protocol, rows: Rows | None) -> Iterator[Drafts]:
    from compgen.randomness import numpy_stream  # it imports torch, which looking up names does not need

    drafts = found.drafts(numpy_stream(seed, "prompts", found.task), protocol, rows)
    if protocol is Protocol.authors:
        return islice(drafts, n)
    size = found.size(rows)
    if n > size:
        raise UserError(f"{found.task}: {n} distinct prompts are asked for and there are only {size}; lower n")
    return islice(_distinct(drafts), n)


def _distinct(drafts: Iterator[Drafts]) -> Iterator[Drafts]:
    """The draws that are new in every variant, so that all variants keep the same draws."""
    seen: set[tuple[str, str]] = set()
    for drawn in drafts:
        keys = {(name, draft.key) for name, draft in drawn.items()}
        if seen.isdisjoint(keys):
            seen |= keys
            yield drawn


def _prompt(found: PromptSet, variant: str, protocol: Protocol, place: int, drafts: Drafts) -> Prompt:
    draft = drafts[variant]
    return Prompt(
        identifier=f"{found.task}/{variant}/{protocol}/{place:04d}",
        task=found.task,
        variant=variant,
        protocol=protocol,
        text=draft.text,
        answer=draft.answer,
        choices=draft.choices,
        modes=found.variants[variant].modes,
        form=found.form,
        new_tokens=found.new_tokens,
    )
