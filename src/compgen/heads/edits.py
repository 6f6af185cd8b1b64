"""Changing heads' weights for a while: keys confined to a subspace or kept out of it, circuits exchanged between heads.

Weights come back bit by bit when the block ends, also after an error. Keys and values that query heads share are
changed for all of them; `HeadView.query_groups` says which these are.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from compgen.errors import UserError
from compgen.heads.views import Head, HeadView
from compgen.randomness import numpy_stream

Place = tuple[int, str, int]
"""Layer, role (query, key, value or output; query_bias and so on), head of that role."""
SHARED = ("key", "value")
CIRCUITS = {"query_key": ("query", "key"), "output_value": ("output", "value")}
BIASED = ("query", "key", "value")
"""Whose biases belong to heads; the output's belongs to the layer."""


@contextmanager
def edited(view: HeadView, changes: Mapping[Place, Tensor]) -> Iterator[None]:
    """Inside the block the model has these weights.

    Args:
        view: of the model.
        changes: by place the new weight, (head, model), or (model, head) of the output.

    Raises:
        UserError: the family keeps a role's weights where they cannot be written one by one.
    """
    kept: list[tuple[Tensor, Tensor]] = []
    try:
        for place, value in changes.items():
            weight = _weight(view, place)
            kept.append((weight, weight.clone()))
            weight.copy_(value)
        yield
    finally:
        for weight, before in reversed(kept):
            weight.copy_(before)


def _weight(view: HeadView, place: Place) -> Tensor:
    """The model's own memory of a head's weight."""
    layer, role, index = place
    parts = view.attention(layer)
    name, _, bias = role.partition("_")
    projection = getattr(parts, name)
    weight: Tensor = (projection.bias if bias else projection.weight)[index]
    modules = (parts.module, parts.mixer)
    own = {parameter.untyped_storage().data_ptr() for module in modules for parameter in module.parameters()}
    if weight.untyped_storage().data_ptr() not in own:
        kind = view.model.config.model_type
        raise UserError(f"model_type={kind!r}: the {role} weights of single heads cannot be changed in place")
    return weight


def place_of(view: HeadView, head: Head, role: str) -> Place:
    """Where a query head's weight of some role is, its group's for keys and values."""
    return head.layer, role, view.key_value_head(head) if role.partition("_")[0] in SHARED else head.index


@torch.no_grad()
def projected_keys(view: HeadView, heads: Sequence[Head], basis: Tensor, keep: bool) -> dict[Place, Tensor]:
    """W_K with its reading confined to a subspace, or kept out of it.

    Args:
        view: the model.
        heads: whose keys are changed; keys that several of them share are changed once.
        basis: (model, rank), orthonormal, in the residual stream divided by its spread (norm gain folded in).
        keep: P = V Vᵀ, otherwise P = I − V Vᵀ.
    """
    changes: dict[Place, Tensor] = {}
    for head in heads:
        place = place_of(view, head, "key")
        if place in changes:
            continue
        gain = view.attention(head.layer).norm.gain.double().cpu()
        if not bool((gain != 0).all()):
            raise UserError(
                f"layer {head.layer}: its norm has a gain of zero, so that keys cannot be projected behind it"
            )
        weight = _weight(view, place).double().cpu() * gain
        inside = (weight @ basis) @ basis.T
        changes[place] = (inside if keep else weight - inside) / gain
    return changes


@torch.no_grad()
def exchanged(view: HeadView, circuit: str, targets: Sequence[Head], sources: Sequence[Head]) -> dict[Place, Tensor]:
    """The weights and biases of a circuit of each target, taken from its source.

    Targets that share keys or values cannot all have their source's: the last one's count, see `conflicts`.

    Args:
        view: the model.
        circuit: `query_key` or `output_value`.
        targets: heads that are changed.
        sources: heads that give, one for each target.
    """
    changes: dict[Place, Tensor] = {}
    for target, source in zip(targets, sources, strict=True):
        for role in _roles(view, circuit):
            changes[place_of(view, target, role)] = _weight(view, place_of(view, source, role)).clone()
    return changes


def _roles(view: HeadView, circuit: str) -> list[str]:
    parts = view.attention(0)
    weights = CIRCUITS[circuit]
    biases = [f"{role}_bias" for role in weights if role in BIASED and getattr(parts, role).bias is not None]
    return [*weights, *biases]


def conflicts(view: HeadView, targets: Sequence[Head]) -> int:
    """How many targets share their keys and values with another one, so that an exchange is not wholly theirs."""
    groups = view.query_groups(targets)
    return sum(len(group.chosen) for group in groups if len(group.chosen) > 1)


def within(heads: Sequence[Head], seed: int, draw: int) -> list[Head]:
    """The heads in an order in which none keeps its place.

    Raises:
        ValueError: there are fewer than two.
    """
    if len(heads) < 2:
        raise ValueError("a head cannot be exchanged with itself: name at least two")
    generator = numpy_stream(seed, "within", draw)
    while True:
        order = generator.permutation(len(heads))
        if not (order == range(len(heads))).any():
            return [heads[place] for place in order]


def outside(view: HeadView, heads: Sequence[Head], excluded: Sequence[Head], seed: int, draw: int) -> list[Head]:
    """As many random heads of the model, each once and none of them excluded, as long as a tiny model has so many."""
    generator = numpy_stream(seed, "outside", draw)
    others = [head for head in view.heads() if head not in {*heads, *excluded}]
    free = others if len(others) >= len(heads) else view.heads()
    return [free[place] for place in generator.permutation(len(free))[: len(heads)]]
