"""Explicit autoregressive distributions over all sequences of a few symbols, in float64.

Covers their representation, both ways of composing them (step by step as the paper decodes, and globally normalized as
in its predecessor), marginals and changes of variables. The theorems that are checked on them: `theorems.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Symbols = NDArray[np.integer]


@dataclass(frozen=True)
class ExactModel:
    """A distribution over sequences of T symbols by its conditionals."""

    conditionals: tuple[Array, ...]
    """For t = 0…T−1 an array of shape (vocabulary,)·(t+1): the last axis is the next symbol, the others its prefix."""

    @property
    def length(self) -> int:
        """T, the number of symbols."""
        return len(self.conditionals)

    def joint(self) -> Array:
        """The probability of every sequence, shape (vocabulary,)·T."""
        return reduce(lambda prefix, step: prefix[..., None] * step, self.conditionals, np.ones(()))

    @classmethod
    def of_joint(cls, joint: Array) -> "ExactModel":
        """The model with a given joint distribution, all of whose prefixes have positive probability."""
        prefixes = [joint.sum(axis=tuple(range(t, joint.ndim))) for t in range(joint.ndim + 1)]
        return cls(tuple(after / before[..., None] for before, after in pairwise(prefixes)))


def compose_stepwise(base: ExactModel, experts: Sequence[ExactModel]) -> tuple[ExactModel, list[Array]]:
    """The paper's rule, normalized at every step, and its normalizers Z_t of shape (vocabulary,)·t."""
    steps, normalizers = [], []
    for t, step in enumerate(base.conditionals):
        product = step * np.prod([expert.conditionals[t] / step for expert in experts], axis=0)
        normalizer = product.sum(-1)
        steps.append(product / normalizer[..., None])
        normalizers.append(normalizer)
    return ExactModel(tuple(steps)), normalizers


def compose_globally(base: ExactModel, experts: Sequence[ExactModel]) -> Array:
    """The product of whole-sequence distributions, p_b Π_i p_i/p_b, normalized once."""
    whole = base.joint()
    product = whole * np.prod([expert.joint() / whole for expert in experts], axis=0)
    normalized: Array = product / product.sum()
    return normalized


def marginal(joint: Array, positions: Sequence[int]) -> Array:
    """The distribution of the symbols at some positions."""
    others = tuple(axis for axis in range(joint.ndim) if axis not in positions)
    found: Array = joint.sum(axis=others)
    return found


def total_variation(first: Array, second: Array) -> float:
    """Half the L1 distance of two distributions."""
    return float(np.abs(first - second).sum() / 2)


def largest_log(normalizers: Sequence[Array], counted: Sequence[NDArray[np.bool_]] | None = None) -> float:
    """max |log Z_t| over all steps and prefixes, or over those that are counted; 0 where there is none."""
    masks = counted or [np.ones(normalizer.shape, dtype=bool) for normalizer in normalizers]
    logs = [np.abs(np.log(normalizer[mask])) for normalizer, mask in zip(normalizers, masks, strict=True)]
    return max(float(values.max(initial=0.0)) for values in logs)


def reachable_prefixes(model: ExactModel) -> list[NDArray[np.bool_]]:
    """For t = 0…T−1, shape (vocabulary,)·t: whether the model produces the prefix at all."""
    joint = model.joint()
    return [joint.sum(axis=tuple(range(t, model.length))) > 0 for t in range(model.length)]


def path_normalizer(normalizers: Sequence[Array], vocabulary: int) -> Array:
    """Π_t Z_t(y_<t) of every sequence, shape (vocabulary,)·T."""
    length = len(normalizers)
    product = np.ones((vocabulary,) * length)
    for t, normalizer in enumerate(normalizers):
        product = product * normalizer.reshape(normalizer.shape + (1,) * (length - t))
    return product


def change_variables(joint: Array, forward: Callable[[Symbols], Symbols]) -> Array:
    """The distribution of z = D(y), for a bijection D of sequences.

    Args:
        joint: of y, shape (vocabulary,)·T.
        forward: D, from (sequence, T) symbols to (sequence, T) symbols.
    """
    sequences = np.stack(np.unravel_index(np.arange(joint.size), joint.shape), axis=-1)
    images = forward(sequences)
    found = np.zeros_like(joint)
    found[tuple(images.T)] = joint.ravel()
    return found


def pull_back(joint: Array, forward: Callable[[Symbols], Symbols]) -> Array:
    """The distribution of y when z = D(y) has the given one."""
    sequences = np.stack(np.unravel_index(np.arange(joint.size), joint.shape), axis=-1)
    found: Array = joint[tuple(forward(sequences).T)].reshape(joint.shape)
    return found


def random_conditional(generator: np.random.Generator, shape: Sequence[int], concentration: float = 1.0) -> Array:
    """Independent Dirichlet rows over the last axis, kept away from zero."""
    rows = generator.gamma(concentration, size=tuple(shape)) + 1e-3
    normalized: Array = rows / rows.sum(-1, keepdims=True)
    return normalized


def random_model(generator: np.random.Generator, vocabulary: int, length: int) -> ExactModel:
    """A model with independent random conditionals for every prefix."""
    return ExactModel(tuple(random_conditional(generator, (vocabulary,) * (t + 1)) for t in range(length)))


def block_model(generator: np.random.Generator, vocabulary: int, blocks: Sequence[Sequence[int]]) -> ExactModel:
    """A model whose blocks of positions are independent: each symbol depends on earlier ones of its own block only."""
    steps = []
    for t in range(sum(map(len, blocks))):
        own = next(block for block in blocks if t in block)
        seen = [vocabulary if position in own else 1 for position in range(t)]
        steps.append(np.broadcast_to(random_conditional(generator, (*seen, vocabulary)), (vocabulary,) * (t + 1)))
    return ExactModel(tuple(steps))


def replace_steps(base: ExactModel, other: ExactModel, positions: Sequence[int]) -> ExactModel:
    """`base` with the conditionals of `other` at some positions."""
    pairs = zip(base.conditionals, other.conditionals, strict=True)
    return ExactModel(tuple(theirs if t in positions else own for t, (own, theirs) in enumerate(pairs)))


def mix(base: ExactModel, other: ExactModel, share: float) -> ExactModel:
    """A model that at every step follows `other` with probability `share` and `base` otherwise."""
    pairs = zip(base.conditionals, other.conditionals, strict=True)
    return ExactModel(tuple((1 - share) * own + share * theirs for own, theirs in pairs))


def without_symbols(model: ExactModel, symbols: Sequence[int]) -> ExactModel:
    """The model with some symbols excluded at every step."""
    steps = []
    for step in model.conditionals:
        kept = step.copy()
        kept[..., list(symbols)] = 0
        steps.append(kept / kept.sum(-1, keepdims=True))
    return ExactModel(tuple(steps))


def act_between(base: ExactModel, skill: ExactModel, start: int, stop: int) -> ExactModel:
    """`base`, but from the step after the symbol `start` until `stop` has come the conditionals of `skill`."""
    active = np.zeros((), dtype=bool)  # (vocabulary,)·t: whether the skill acts after that prefix
    steps = []
    for own, theirs in zip(base.conditionals, skill.conditionals, strict=True):
        steps.append(np.where(active[..., None], theirs, own))
        active = np.repeat(active[..., None], own.shape[-1], axis=-1)
        active[..., start], active[..., stop] = True, False
    return ExactModel(tuple(steps))


def switch_between(base: ExactModel, skills: dict[int, ExactModel], stop: int) -> ExactModel:
    """One machine that follows `base` until a symbol s of `skills` comes, then skills[s] until `stop`, and so on."""
    state = np.full((), -1)  # (vocabulary,)·t: the symbol that started the running skill, or −1
    steps = []
    for t, own in enumerate(base.conditionals):
        step = own.copy()
        for symbol, skill in skills.items():
            step[state == symbol] = skill.conditionals[t][state == symbol]
        steps.append(step)
        state = np.repeat(state[..., None], own.shape[-1], axis=-1)
        for symbol in skills:
            state[..., symbol][state[..., symbol] == -1] = symbol
        state[..., stop] = -1
    return ExactModel(tuple(steps))


def switch_after(base: ExactModel, skills: dict[int, ExactModel]) -> ExactModel:
    """`base`, but directly after the symbol s the conditionals of skills[s]."""
    steps = [base.conditionals[0]]
    for t in range(1, base.length):
        step = base.conditionals[t].copy()
        for symbol, skill in skills.items():
            step[..., symbol, :] = skill.conditionals[t][..., symbol, :]
        steps.append(step)
    return ExactModel(tuple(steps))
