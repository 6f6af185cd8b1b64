"""Rotations: which channels turn together, how far, and which rotations are refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from compgen.copying.config import ModelConfig
from compgen.copying.model import turn_pairs, turn_table
from compgen.errors import UserError
from compgen.heads.parts import Rotary, RotaryPairs
from compgen.heads.views import Head, HeadView

ModelOf = Callable[..., Any]


def test_partial_rotation_leaves_the_other_channels_alone(model_of: ModelOf) -> None:
    view = HeadView(model_of("gpt_neox"))
    rotary = view.attention(0).rotary
    assert rotary is not None
    assert (rotary.dimension, view.head_width) == (2, 6)
    turn = view.rotation(0, 3)
    assert torch.equal(turn[2:, 2:], torch.eye(4, dtype=torch.float64))
    assert not torch.equal(turn[:2, :2], torch.eye(2, dtype=torch.float64))


def test_pairs_of_halves_and_adjacent_pairs_differ() -> None:
    frequencies = torch.tensor([1.0, 0.3])
    halves = Rotary(frequencies).between(2, 4)
    adjacent = Rotary(frequencies, RotaryPairs.adjacent).between(2, 4)
    assert not torch.allclose(halves, adjacent)
    order = torch.tensor([0, 2, 1, 3])
    torch.testing.assert_close(halves[order][:, order], adjacent)


def test_adjacent_pairs_are_those_of_the_copying_model() -> None:
    config = ModelConfig(width=8, heads=1)
    turns = turn_table(10, config)
    query, key = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    turned = [turn_pairs(x.expand(1, 10, 8).contiguous(), turns)[0] for x in (query, key)]
    frequencies = config.rotary_base ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
    between = Rotary(frequencies, RotaryPairs.adjacent).between(6, 8).float()
    torch.testing.assert_close(query @ between @ key, turned[0][9] @ turned[1][3])


def test_only_the_distance_counts_and_learned_positions_have_no_rotation(model_of: ModelOf) -> None:
    view = HeadView(model_of("gpt2"))
    near, far = view.query_key(Head(0, 1), 1), view.query_key(Head(0, 1), 9)
    torch.testing.assert_close(near.dense(), far.dense())


def test_rotations_that_depend_on_the_length_are_refused(fresh: ModelOf) -> None:
    model = fresh("llama")
    model.model.rotary_emb.rope_type = "dynamic"
    with pytest.raises(UserError, match="dynamic"):
        HeadView(model)
