"""Tokens of answers, with real tokenizers made on the spot."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, log, nan
from typing import Any

import pytest

from compgen.errors import UserError
from compgen.heads.prompts.encoding import (
    begin_ids,
    choice_scores,
    choice_texts,
    encode_answer,
    encode_choices,
    encode_prompt,
    token_limit,
)
from compgen.heads.prompts.prompt import Prompt
from compgen.heads.prompts.registry import prompts

Make = Callable[..., Any]


def asking(text: str, *choices: str, separator: str = " ") -> Prompt:
    [made] = prompts("indirect_objects", "names", 1, 0)
    return replace(made, text=text, answer=choices[0], choices=choices, separator=separator)


def pieces(tokenizer: Any, ids: tuple[int, ...]) -> list[str]:
    return [tokenizer.decode([place]) for place in ids]


def test_an_answer_of_one_token_keeps_its_leading_space(bytes_with: Make) -> None:
    tokenizer = bytes_with(" foxes", "see")
    found = encode_answer(tokenizer, asking("we see", "foxes"))
    assert pieces(tokenizer, found.continuations[0]) == [" foxes"]
    assert found.prefix == encode_prompt(tokenizer, asking("we see", "foxes"))


def test_choices_of_one_and_of_several_tokens_go_on_from_the_same_tokens(bytes_with: Make) -> None:
    tokenizer = bytes_with(" foxes")
    prompt = asking("we see", "foxes", "&*")
    found = encode_choices(tokenizer, prompt)
    assert choice_texts(prompt) == (" foxes", " &*")
    assert [pieces(tokenizer, ids) for ids in found.continuations] == [[" foxes"], [" ", "&", "*"]]
    assert found.prefix == tuple(tokenizer.encode("we see"))


def test_where_tokens_merge_over_the_boundary_scoring_starts_before_it(bytes_with: Make) -> None:
    tokenizer = bytes_with("($#")
    prompt = asking("label (", "$#", "&*", separator="")
    found = encode_choices(tokenizer, prompt)
    assert pieces(tokenizer, found.continuations[0]) == ["($#"]
    assert pieces(tokenizer, found.continuations[1]) == ["(", "&", "*"]  # from the same place as the other
    assert found.prefix == tuple(tokenizer.encode("label "))


@pytest.mark.parametrize("words", [(), (" #$", " &^"), ("to #$",), (" to #",), ("o #", " #", " &^")])
@pytest.mark.parametrize("begin", [False, True])
def test_prefix_and_choice_are_always_the_whole_text(bytes_with: Make, words: tuple[str, ...], begin: bool) -> None:
    tokenizer = bytes_with(*words, begin=begin, split=False)
    for prompt in prompts("indirect_objects", "symbols", 20, 0):
        found = encode_choices(tokenizer, prompt)
        for text, ids in zip(choice_texts(prompt), found.continuations, strict=True):
            assert [*found.prefix, *ids] == tokenizer.encode(prompt.text + text)
            assert tokenizer.decode(ids).endswith(text)


def test_a_token_that_begins_texts_comes_once_and_only_where_the_tokenizer_puts_one(bytes_with: Make) -> None:
    prompt = asking("we see", "foxes")
    with_begin, without = bytes_with(begin=True), bytes_with()
    assert (begin_ids(with_begin), begin_ids(without)) == ((0,), ())
    assert encode_prompt(with_begin, prompt).count(0) == encode_answer(with_begin, prompt).prefix.count(0) == 1
    assert 0 not in encode_prompt(without, prompt)


def test_choices_that_a_tokenizer_cannot_tell_apart_are_refused(words_only: Any) -> None:
    [known] = prompts("label_mapping", "original", 1, 0)
    assert len(set(encode_choices(words_only, known).continuations)) == 3
    [unknown] = prompts("label_mapping", "symbols", 1, 0)
    with pytest.raises(UserError, match=r"label_mapping/symbols/controlled/0000.*cannot tell the choices"):
        encode_choices(words_only, unknown)


def test_the_limit_on_new_tokens_lets_the_longest_answer_end(bytes_with: Make) -> None:
    found = prompts("fuzzy_copying", "upper", 30, 0)
    longest = max(len(prompt.continuation) for prompt in found)
    assert longest > 15  # the authors' limit would cut it, character by character
    assert token_limit(bytes_with(), found) == longest + 2
    assert token_limit(bytes_with(" Mary"), [asking("to", "Mary")]) == 5


def test_a_choice_is_scored_by_all_its_tokens_and_per_token_beside_it() -> None:
    scores = choice_scores([[log(0.2)], [log(0.9), log(0.5)], [log(0.1), log(0.9)]])
    assert scores.sums == pytest.approx((log(0.2), log(0.45), log(0.09)))
    assert scores.means == pytest.approx((log(0.2), log(0.45) / 2, log(0.09) / 2))
    assert [scores.chosen(place) for place in range(3)] == [False, True, False]
    short = choice_scores([[log(0.5)], [log(0.6), log(0.7)]])
    assert (short.chosen(0), short.chosen_per_token(0)) == (True, False)


def test_a_tie_is_won_by_nobody_and_what_is_no_number_is_refused() -> None:
    tie = choice_scores([[-1.0, -1.0], [-2.0]])
    assert not tie.chosen(0)
    assert not tie.chosen(1)
    assert choice_scores([[-1.0], [-inf]]).chosen(0)
    for wrong in ([[nan], [-1.0]], [[-1.0], []]):
        with pytest.raises(ValueError, match="for each of its tokens"):
            choice_scores(wrong)
