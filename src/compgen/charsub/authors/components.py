"""What the models of one seed say on test strings: the raw material of every measurement.

A string is an exact match at length L when its first L symbols are all right. Models are causal and symbols
independent, so the beginnings of long random strings are random strings of every shorter length, and one forward pass
serves all lengths. Nothing is sampled: an answer is the most likely symbol at every position.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from compgen.charsub.model import ModelShape, Parameters, forward
from compgen.charsub.rules import Rule, together

STRINGS_AT_ONCE = 125


@torch.no_grad()
def log_probabilities(parameters: Parameters, shape: ModelShape, strings: Tensor) -> Tensor:
    """Of every model of a stack on the same strings.

    Args:
        parameters: of M models.
        shape: of each.
        strings: (string, position).

    Returns:
        (model, string, position, symbol).
    """
    models = parameters["token"].shape[0]
    found = torch.empty(models, *strings.shape, shape.vocabulary)
    for start in range(0, len(strings), STRINGS_AT_ONCE):
        part = strings[start : start + STRINGS_AT_ONCE].expand(models, -1, -1)
        found[:, start : start + STRINGS_AT_ONCE] = forward(parameters, shape, part).log_softmax(-1)
    return found


@dataclass(frozen=True)
class Components:
    """A base and some experts on some strings, as log-probabilities."""

    strings: Tensor
    """(string, position)."""
    base: Tensor
    """(string, position, symbol)."""
    experts: Tensor
    """(expert, string, position, symbol)."""
    rules: tuple[Rule, ...]
    """One an expert."""

    def choose(self, experts: Sequence[int]) -> "Components":
        """The same with some of the experts, in the order given."""
        return Components(
            self.strings, self.base, self.experts[list(experts)], tuple(self.rules[index] for index in experts)
        )

    def named(self, rules: Sequence[Rule]) -> "Components":
        """The same with the experts of some rules."""
        return self.choose([self.rules.index(rule) for rule in rules])

    def beginnings(self, length: int, strings: int | None = None) -> "Components":
        """The first `length` symbols of the first strings."""
        cut = (slice(strings), slice(length))
        return Components(self.strings[cut], self.base[cut], self.experts[:, *cut], self.rules)

    @property
    def expected(self) -> Tensor:
        """What all rules together ask for, (string, position)."""
        return expected(self.strings, self.rules)

    @property
    def active(self) -> Tensor:
        """Where some rule replaces the symbol, (string, position)."""
        return self.expected != self.strings


def expected(strings: Tensor, rules: Sequence[Rule]) -> Tensor:
    """What strings become under some rules at once, in the strings' own shape."""
    return torch.from_numpy(together(rules).table)[strings]


def right_symbols(answer: Tensor, wanted: Tensor) -> Tensor:
    """How many symbols are right before the first wrong one, (..., string), from answers (..., string, position).

    A string is an exact match at length L when this is at least L.
    """
    return (answer == wanted).to(torch.int8).cumprod(-1).sum(-1)


def mean(values: Tensor) -> float | None:
    """The mean as a number; None of nothing."""
    return float(values.double().mean()) if values.numel() else None


def share(values: Tensor) -> float | None:
    """The share of true values; None of nothing."""
    return mean(values.double())
