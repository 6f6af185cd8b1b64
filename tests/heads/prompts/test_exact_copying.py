"""Copies of words and of token ids."""

import numpy as np
import pytest

from compgen.errors import ConfigError, UserError
from compgen.heads.prompts.exact_copying import token_prompts
from compgen.heads.prompts.prompt import Protocol
from compgen.heads.prompts.registry import prompts


def test_the_rest_of_the_third_copy_follows_from_the_others() -> None:
    for prompt in prompts("exact_copying", "words", 20, 0):
        words = [*prompt.text.split(" "), *prompt.answer.split(" ")]
        assert words == words[:25] * 3
        assert len(set(words)) == 25
        assert len(prompt.answer.split(" ")) == 21


def test_token_ids_are_three_copies_of_distinct_ordinary_tokens() -> None:
    vocabulary = range(10, 40)
    for prompt in token_prompts(20, 0):
        ids = prompt.token_ids(vocabulary, begin=(1,))
        assert ids == [1, *ids[1:26] * 3]
        assert len(set(ids[1:26])) == 25
        assert set(ids[1:]) <= set(vocabulary)


def test_the_scored_places_are_the_third_copy_behind_four_tokens() -> None:
    [prompt] = token_prompts(1, 0)
    ids = prompt.token_ids(range(1000), begin=(7,))
    assert [ids[place] for place in prompt.scored(begin=1)] == prompt.segment(range(1000))[4:]
    assert len(prompt.scored(ignored_copies=1, given=5)) == 45


def test_the_same_prompts_are_drawn_for_every_vocabulary_and_every_n() -> None:
    assert token_prompts(3, 5) == token_prompts(8, 5)[:3]
    assert token_prompts(3, 5) != token_prompts(3, 6)


@pytest.mark.parametrize("protocol", Protocol)
def test_token_ids_are_uniform(protocol: Protocol) -> None:
    drawn = [prompt.segment(range(50)) for prompt in token_prompts(2000, 0, protocol=protocol)]
    counts = np.bincount(np.ravel(drawn), minlength=50)
    assert abs(counts / 1000 - 1).max() < 0.15
    assert (sum(len(set(ids)) == 25 for ids in drawn) == 2000) == (protocol is Protocol.controlled)


def test_a_vocabulary_too_small_and_no_prompts_at_all_are_refused() -> None:
    [prompt] = token_prompts(1, 0)
    assert sorted(prompt.segment(range(25))) == list(range(25))
    with pytest.raises(UserError, match="25 distinct tokens are asked for and there are only 24"):
        prompt.segment(range(24))
    with pytest.raises(ConfigError, match="n=0"):
        token_prompts(0, 0)
