"""Greedy free-running generation of compositions, many at a time.

The greedy output is the only fixed point of "replace every token by the most likely one after the tokens before it".
So generation starts from a draft, replaces all tokens at once and repeats until nothing changes: every round settles at
least one more token, and a good draft takes one round. The result is that of decoding token by token, whatever the
draft, and compositions that share components and drafts share their forward passes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from compgen.charsub.autoregressive.model import forward
from compgen.charsub.autoregressive.sequences import END, VOCABULARY, position_indices, prompts
from compgen.charsub.autoregressive_config import AutoregressiveModelConfig
from compgen.charsub.model import Parameters
from compgen.composition.options import CompositionRule
from compgen.composition.rule import compose

ROWS_AT_ONCE = 256


class Component(Protocol):
    """A model of the next token."""

    def __call__(self, strings: Tensor, outputs: Tensor) -> Tensor:
        """Logits (row, step, vocabulary) of each token of y, given strings (row, length) and outputs (row, step)."""


@dataclass(frozen=True)
class Arm:
    """A composition by the names of its parts; without experts it is the base alone."""

    name: str
    base: str
    experts: tuple[str, ...] = ()
    rule: CompositionRule = field(default_factory=CompositionRule)
    told_to_stop: bool = False
    """Whether an oracle sets the end: EOS after exactly as many symbols as x has, and never before."""


def transformer(parameters: Parameters, config: AutoregressiveModelConfig) -> Component:
    """A stack of one as a component."""

    def logits(strings: Tensor, outputs: Tensor) -> Tensor:
        steps = outputs.shape[1]
        tokens = torch.cat((prompts(strings), outputs[:, :-1]), 1)[None]
        indices = position_indices(strings.shape[1], steps - 1, config.positions).expand_as(tokens)
        with torch.no_grad():
            return forward(parameters, config.heads, tokens, indices, steps)[0]

    return logits


class Library:
    """Components by name, with all that they have said about a fixed set of strings."""

    def __init__(self, components: Mapping[str, Component], strings: Tensor, overrun: int) -> None:
        """Strings (string, length); an output has at most `overrun` symbols more, then EOS."""
        self.strings = strings
        self.steps = strings.shape[1] + overrun + 1
        self.computed_rows = 0
        self._components = components
        self._known: dict[str, _Memory] = {name: _Memory(self.steps) for name in components}

    def logits(self, name: str, rows: Tensor, outputs: Tensor) -> Tensor:
        """Logits (row, step, vocabulary) of a component, zero after a row's end.

        Args:
            name: of the component.
            rows: (row,), which strings.
            outputs: (row, step), filled up with EOS after the first.
        """
        memory = self._known[name]
        keys = [key.tobytes() for key in torch.cat((rows[:, None], outputs), 1).numpy()]
        missing = {key: place for place, key in reversed(list(enumerate(keys))) if key not in memory.slots}
        places = torch.tensor(sorted(missing.values()), dtype=torch.long)
        for part in places.split(ROWS_AT_ONCE) if missing else ():
            used = int(content_lengths(outputs[part]).max()) + 1
            used = min(used, self.steps)
            found = self._components[name](self.strings[rows[part]], outputs[part, :used])
            memory.add([keys[place] for place in part.tolist()], found)
            self.computed_rows += len(part)
        return memory.values[torch.tensor([memory.slots[key] for key in keys], dtype=torch.long)]


class _Memory:
    """Logits by string and output, in one growing tensor."""

    def __init__(self, steps: int) -> None:
        self.slots: dict[bytes, int] = {}
        self.values = torch.zeros(0, steps, VOCABULARY)

    def add(self, keys: Sequence[bytes], found: Tensor) -> None:
        start, needed = len(self.slots), len(self.slots) + len(keys)
        if needed > len(self.values):
            larger = torch.zeros(max(needed, 2 * len(self.values)), *self.values.shape[1:])
            larger[:start] = self.values[:start]
            self.values = larger
        self.values[start:needed, : found.shape[1]] = found
        self.slots.update(zip(keys, range(start, needed), strict=True))


def component_logits(library: Library, arm: Arm, rows: Tensor, outputs: Tensor) -> tuple[Tensor, Tensor]:
    """Logits of an arm's base (row, step, vocabulary) and experts (expert, row, step, vocabulary)."""
    base = library.logits(arm.base, rows, outputs)
    experts = [library.logits(name, rows, outputs) for name in arm.experts]
    return base, torch.stack(experts) if experts else base.new_empty(0, *base.shape)


def generate(library: Library, arm: Arm, drafts: Tensor) -> Tensor:
    """Greedy outputs (string, step) for all strings of a library, filled up with EOS after the first.

    Args:
        drafts: (string, step), where to start from: any tokens lead to the same outputs.
    """
    outputs = _fill_after_end(drafts)
    active = torch.arange(len(outputs))
    while len(active):
        base, experts = component_logits(library, arm, active, outputs[active])
        scores = compose(base, experts, arm.rule, (END,))
        if arm.told_to_stop:
            scores = _stop_at(scores, library.strings.shape[1])
        better = _fill_after_end(scores.argmax(-1))
        changed = (better != outputs[active]).any(1)
        outputs[active] = better
        active = active[changed]
    return outputs


def content_lengths(outputs: Tensor) -> Tensor:
    """Symbols before the first EOS, (row,); the number of steps where there is none."""
    return (outputs == END).long().cumsum(1).eq(0).sum(1)


def _fill_after_end(outputs: Tensor) -> Tensor:
    return outputs.masked_fill((outputs == END).long().cumsum(1) > 0, END)


def _stop_at(scores: Tensor, length: int) -> Tensor:
    forced = scores.clone()
    forced[:, :length, END] = -torch.inf
    forced[:, length, END] = torch.inf
    return forced
