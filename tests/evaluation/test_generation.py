"""Answers against one-by-one recomputation without any cache, batch or prefix."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from compgen.composition.causal_lm import ComposedForCausalLM
from compgen.errors import UserError
from compgen.evaluation.decoding import DecodingOptions, cut
from compgen.evaluation.generation import Answerer, in_order, plan
from compgen.evaluation.prefix import SharedPrefix, shared_length
from compgen.evaluation.samples import Generation, Sample, StopReason


def words(*numbers: int) -> str:
    return " ".join(f"w{number}" for number in numbers)


def sample(number: int, prompt: str, stop: Sequence[str] = ()) -> Sample:
    return Sample(f"task/{number}", prompt, 0, tuple(stop), {})


def samples_with_shared_prefix(count: int, stop: Sequence[str] = ()) -> list[Sample]:
    prefix = [(7 * place) % 41 for place in range(24)]
    rest = [[(5 * number + place) % 60 for place in range(1 + (3 * number) % 8)] for number in range(count)]
    return [sample(number, words(*prefix, *own), stop) for number, own in enumerate(rest)]


def slowly(model: ComposedForCausalLM, tokenizer: Any, one: Sample, limit: int) -> list[int]:
    """Greedy decoding of one row, everything recomputed at every token."""
    ids = tokenizer(one.prompt)["input_ids"]
    new: list[int] = []
    while len(new) < limit and not (new and new[-1] in model.end_tokens):
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids + new])).logits[0, -1]
        new.append(int(logits.argmax()))
    return new


def answers(model: Any, tokenizer: Any, samples: list[Sample], batch: int, **options: Any) -> list[Generation]:
    answerer = Answerer(model, tokenizer, batch, DecodingOptions(**{"max_new_tokens": 20, **options}))
    return in_order(samples, [generation for found in answerer.answer(samples) for generation in found])


@pytest.mark.parametrize("batch", [1, 3, 8])
def test_answers_do_not_depend_on_the_batch_nor_on_the_shared_prefix(composed: Any, tokenizer: Any, batch: int) -> None:
    samples = samples_with_shared_prefix(8)  # longer than the sliding window of 12
    found = answers(composed, tokenizer, samples, batch)
    assert [list(one.token_ids) for one in found] == [slowly(composed, tokenizer, one, 20) for one in samples]


def test_prompts_without_a_common_beginning_are_answered_the_same(composed: Any, tokenizer: Any) -> None:
    samples = [sample(number, words(*range(number, 2 * number + 3))) for number in range(7)]
    found = answers(composed, tokenizer, samples, 4)
    assert [list(one.token_ids) for one in found] == [slowly(composed, tokenizer, one, 20) for one in samples]


def test_a_row_whose_rest_is_longer_than_the_prefix_still_stands_whole(composed: Any, tokenizer: Any) -> None:
    prefix = [3] * 17
    samples = [sample(0, words(*prefix, 5)), sample(1, words(*prefix, *range(10, 55)))]
    found = answers(composed, tokenizer, samples, 2)
    assert [list(one.token_ids) for one in found] == [slowly(composed, tokenizer, one, 20) for one in samples]


def test_a_stop_string_cuts_the_text_and_running_on_keeps_the_rest(composed: Any, tokenizer: Any) -> None:
    plain = answers(composed, tokenizer, samples_with_shared_prefix(5), 5)
    stop = plain[0].raw_text.split()[4]
    samples = samples_with_shared_prefix(5, [f" {stop}"])
    stopped = answers(composed, tokenizer, samples, 5)
    ran_on = answers(composed, tokenizer, samples, 5, runs_on=True)
    assert stopped[0].stop_reason is StopReason.stop_string
    assert len(stopped[0].token_ids) < len(plain[0].token_ids)
    for before, short, long in zip(plain, stopped, ran_on, strict=True):
        assert long.raw_text == before.raw_text
        assert short.text == long.text == cut(before.raw_text, samples[0].stop)
        assert long.stop_reason is short.stop_reason


def test_an_oracles_stop_forbids_end_tokens_and_counts_the_references_tokens(composed: Any, tokenizer: Any) -> None:
    samples = samples_with_shared_prefix(6)
    ending = slowly(composed, tokenizer, samples[2], 20)[3]
    tied = ComposedForCausalLM.from_modules(
        composed.parts[0].module, [part.module for part in composed.parts[1:]], end_tokens=[ending]
    )
    free = answers(tied, tokenizer, samples, 3)
    assert free[2].stop_reason is StopReason.end_token
    assert free[2].token_ids[-1] == ending
    references = [replace(one, reference=words(*range(3 + place))) for place, one in enumerate(samples)]
    held = answers(tied, tokenizer, references, 3, oracle_stop=True)
    assert [len(one.token_ids) for one in held] == [3, 4, 5, 6, 7, 8]
    assert all(one.stop_reason is StopReason.length and ending not in one.token_ids for one in held)
    with pytest.raises(UserError, match="needs a reference answer"):
        answers(tied, tokenizer, samples, 3, oracle_stop=True)


def test_a_killed_run_goes_on_with_the_batches_that_are_left(composed: Any, tokenizer: Any) -> None:
    samples = samples_with_shared_prefix(7)
    answerer = Answerer(composed, tokenizer, 2, DecodingOptions(8))
    whole = list(answerer.answer(samples))
    assert [len(batch) for batch in whole] == [2, 2, 2, 1]
    assert list(answerer.answer(samples, finished=2)) == whole[2:]


def test_batches_hold_rows_of_similar_length_the_longest_first() -> None:
    lengths = [3, 9, 4, 8, 1]
    samples = [sample(number, "") for number in range(5)]
    batches = plan(samples, lambda one: lengths[int(one.id.split("/")[1])], 2)
    assert [[one.id for one in batch] for batch in batches] == [["task/1", "task/3"], ["task/2", "task/0"], ["task/4"]]


def test_every_prompt_keeps_a_token_of_its_own_behind_the_prefix() -> None:
    common = list(range(30))
    assert shared_length([common, [*common, 1]]) == 29
    assert shared_length([[*common, 1], [*common, 2]]) == 30
    assert shared_length([[1, 2, 3], [1, 2, 4]]) == 0  # not worth it
    assert shared_length([common]) == 0


def test_the_chunk_and_mask_of_rows_end_in_one_column(composed: Any) -> None:
    prefix = SharedPrefix(composed, list(range(5, 25)))
    prompts = [[*range(5, 25), 7], [*range(5, 25), 8, 9, 10]]
    cache, chunk, mask = prefix.rows(prompts, padding=0)
    assert chunk.tolist() == [[23, 24, 7], [8, 9, 10]]
    assert mask.sum(-1).tolist() == [21, 23]
    assert cache.get_seq_length() == 20


def test_what_does_not_fit_the_model_is_refused_with_the_sample(composed: Any, tokenizer: Any) -> None:
    with pytest.raises(UserError, match=r"sample task/0: .*max_new_tokens=250 exceed the model's 256 positions"):
        answers(composed, tokenizer, [sample(0, words(*range(9)))], 1, max_new_tokens=250)
    with pytest.raises(UserError, match="begin token twice"):
        answers(composed, tokenizer, [sample(0, "<bos> w1")], 1)


def test_a_component_that_is_not_finite_is_named_with_its_sample(composed: Any, tokenizer: Any) -> None:
    broken = copy.deepcopy(composed.parts[0].module)
    with torch.no_grad():
        broken.model.norm.weight[7] = torch.nan
    model = ComposedForCausalLM.from_modules(composed.parts[0].module, [broken], names=["base", "math"])
    with pytest.raises(UserError, match=r"sample task/1: component math has NaN"):
        answers(model, tokenizer, [sample(1, words(4, 5))], 3)
    with pytest.raises(UserError, match=r"every sample.*component math has NaN"):
        answers(model, tokenizer, samples_with_shared_prefix(3), 3)


def test_a_generation_for_another_prompt_is_not_taken() -> None:
    one = sample(0, "w1")
    other = Generation("task/0", "0" * 16, (1,), "", "", StopReason.end_token, 2)
    with pytest.raises(ValueError, match="task/0"):
        in_order([one], [other])
