"""Edits of heads: what they do to weights and logits, whom shared keys reach, and that nothing stays."""

from typing import Any

import pytest
import torch

from compgen.errors import UserError
from compgen.heads.bridge import random_subspace
from compgen.heads.edits import conflicts, edited, exchanged, outside, place_of, projected_keys, within
from compgen.heads.views import Head, HeadView

from .conftest import build

IDS = torch.tensor([[1, 5, 9, 7, 5, 9, 11, 3]])
HEADS = [Head(1, 0), Head(1, 3), Head(0, 2)]


@pytest.fixture
def model(name: str) -> Any:
    """A checkpoint of its own, since it is changed."""
    return build(name)


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    result: torch.Tensor = model(IDS).logits
    return result


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def unchanged(model: Any, before: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())


def test_keys_confined_to_everything_are_the_same_and_kept_out_of_everything_are_zero(model: Any) -> None:
    view, before, said = HeadView(model), weights(model), logits(model)
    everything = torch.eye(view.width, dtype=torch.float64)
    with torch.no_grad(), edited(view, projected_keys(view, HEADS, everything, keep=True)):
        assert torch.allclose(logits(model), said, atol=1e-9)
    with torch.no_grad(), edited(view, projected_keys(view, HEADS, everything, keep=False)):
        assert all(float(view.weights(head).key.abs().max()) < 1e-9 for head in HEADS)
        assert not torch.allclose(logits(model), said, atol=1e-3)
    assert unchanged(model, before)


def test_what_is_kept_and_what_is_removed_add_up_and_only_the_chosen_keys_change(model: Any) -> None:
    view = HeadView(model)
    basis = random_subspace(view.width, 5, 0, 0)
    kept, removed = (projected_keys(view, HEADS, basis, keep) for keep in (True, False))
    reached = {head for group in view.query_groups(HEADS) for head in group.reached}
    for head in view.heads():
        place = place_of(view, head, "key")
        assert (place in kept) == (head in reached)
        if place in kept:
            own = view.weights(head).key.double()
            assert torch.allclose(kept[place] + removed[place], own, atol=1e-9)


def test_reading_outside_the_subspace_is_what_the_folded_keys_lose(model_of: Any) -> None:
    view = HeadView(build("llama"))
    basis = random_subspace(view.width, 5, 0, 0)
    with torch.no_grad(), edited(view, projected_keys(view, [Head(1, 0)], basis, keep=False)):
        folded = view.weights(Head(1, 0)).key * view.attention(1).norm.gain
        assert float((folded @ basis).abs().max()) < 1e-9


@pytest.mark.parametrize("circuit", ["query_key", "output_value"])
def test_weights_come_back_bit_by_bit_also_after_an_error(circuit: str) -> None:
    model = build("llama")
    view, before = HeadView(model), weights(model)
    changes = exchanged(view, circuit, HEADS, within(HEADS, 0, 0))
    with pytest.raises(RuntimeError), torch.no_grad(), edited(view, changes):  # noqa: PT012
        assert not unchanged(model, before)
        raise RuntimeError
    assert unchanged(model, before)


def test_an_exchange_gives_each_target_its_sources_circuit() -> None:
    view = HeadView(build("olmo"))  # keys of its own for every head
    sources = [Head(0, 1), Head(0, 0), Head(1, 1)]
    before = {head: view.weights(head) for head in view.heads()}
    expected = [(before[source].query.clone(), before[source].key.clone()) for source in sources]
    with torch.no_grad(), edited(view, exchanged(view, "query_key", HEADS, sources)):
        for target, (query, key) in zip(HEADS, expected, strict=True):
            assert torch.equal(view.weights(target).query, query)
            assert torch.equal(view.weights(target).key, key)


def test_biases_go_with_their_circuit_and_shared_keys_are_counted() -> None:
    view = HeadView(build("gpt2"))
    source = view.weights(Head(0, 1))
    assert source.query_bias is not None
    expected = source.query_bias.clone()
    with torch.no_grad(), edited(view, exchanged(view, "query_key", [Head(1, 0)], [Head(0, 1)])):
        bias = view.weights(Head(1, 0)).query_bias
        assert bias is not None
        assert torch.equal(bias, expected)
    assert conflicts(view, HEADS) == 0
    assert conflicts(HeadView(build("llama")), [Head(1, 0), Head(1, 1), Head(0, 3)]) == 2


def test_an_exchange_with_itself_changes_no_bit() -> None:
    model = build("llama")
    view, said = HeadView(model), logits(model)
    with torch.no_grad(), edited(view, exchanged(view, "output_value", HEADS, HEADS)):
        assert torch.equal(logits(model), said)


def test_within_leaves_no_head_in_its_place_and_outside_brings_strangers(model_of: Any) -> None:
    view = HeadView(model_of("llama"))
    for draw in range(10):
        order = within(HEADS, 0, draw)
        assert sorted(order) == sorted(HEADS)
        assert not any(one == two for one, two in zip(order, HEADS, strict=True))
        strangers = outside(view, HEADS, [Head(0, 0)], 0, draw)
        assert not {*strangers} & {*HEADS, Head(0, 0)}
        assert len(set(strangers)) == len(HEADS)
    with pytest.raises(ValueError, match="at least two"):
        within(HEADS[:1], 0, 0)


def test_weights_that_cannot_be_written_one_by_one_are_refused_before_anything_changes() -> None:
    model = build("falcon-grouped")
    view, before = HeadView(model), weights(model)
    with pytest.raises(UserError, match="query weights of single heads"):
        exchanged(view, "query_key", HEADS, within(HEADS, 0, 0))
    assert unchanged(model, before)
