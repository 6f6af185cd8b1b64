"""Repeated sequences: the authors' exact tokens, and what controlled ones leave out."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from compgen.errors import ConfigError
from compgen.heads.repeated import authors_sequences, beginning_token, controlled_sequences
from compgen.heads.views import HeadView

ModelOf = Callable[..., Any]


def test_the_authors_tokens_are_those_of_their_seeded_generator() -> None:
    np.random.seed(2024)
    drawn = np.random.randint(low=0, high=50257, size=50 * 25).reshape(50, 25)
    repeated = authors_sequences(50257, None)
    assert np.array_equal(repeated.tokens.numpy(), np.concatenate([drawn, drawn], axis=1))
    begun = authors_sequences(50257, 7)
    assert torch.equal(begun.tokens[:, 1:], repeated.tokens)
    assert set(begun.tokens[:, 0].tolist()) == {7}
    assert (repeated.start, begun.start, begun.segment) == (0, 1, 25)


def test_controlled_sequences_have_no_special_token_and_no_accidental_repeat() -> None:
    repeated = controlled_sequences(30, 1, {0, 2, 29}, sequences=20, segment=10, seed=3)
    for row in repeated.tokens.tolist():
        assert row[0] == 1
        assert row[1:11] == row[11:]
        assert len(set(row[1:11])) == 10
        assert not {0, 1, 2, 29} & set(row[1:])
    assert torch.equal(repeated.tokens, controlled_sequences(30, 1, {0, 2, 29}, 20, 10, 3).tokens)
    assert not torch.equal(repeated.tokens, controlled_sequences(30, 1, {0, 2, 29}, 20, 10, 4).tokens)


def test_too_small_a_vocabulary_is_an_error() -> None:
    with pytest.raises(ConfigError, match="at most the 7 tokens"):
        controlled_sequences(10, 1, {0, 2}, sequences=1, segment=8)


@pytest.mark.parametrize(("checkpoint", "expected"), [("gpt2", None), ("llama", 1), ("gpt_neox", None), ("gemma2", 1)])
def test_only_families_that_begin_with_a_token_get_one(
    model_of: ModelOf, checkpoint: str, expected: int | None
) -> None:
    assert beginning_token(HeadView(model_of(checkpoint))) == expected
