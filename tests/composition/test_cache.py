"""The composite cache against recomputation, on Gemma-2-shaped models past their sliding window."""

from typing import Any

import pytest
import torch
from transformers import DynamicCache

from compgen.composition.cache import ComposedCache, Inputs, behind_prefix, own_positions
from compgen.composition.causal_lm import ComposedForCausalLM

from .conftest import BEGIN, WINDOW, gemma, left_padded, rows


@pytest.fixture(scope="module")
def model(trio: list[Any]) -> ComposedForCausalLM:
    return ComposedForCausalLM.from_modules(trio[0], trio[1:])


@torch.no_grad()
@pytest.mark.parametrize("keep_all", [False, True])
def test_single_steps_equal_the_full_forward_at_every_step_and_past_the_window(
    model: ComposedForCausalLM, keep_all: bool
) -> None:
    ids, mask = left_padded(rows([3 * WINDOW, 2 * WINDOW + 3]))
    full = model(ids, attention_mask=mask).logits
    cache = model.new_cache(keep_all)
    for column in range(ids.shape[1]):
        step = model(ids[:, column : column + 1], attention_mask=mask[:, : column + 1], cache=cache, use_cache=True)
        standing = mask[:, column].bool()
        assert torch.allclose(step.logits[standing, 0], full[standing, column], atol=1e-4)
        assert cache.get_seq_length() == column + 1


@torch.no_grad()
def test_a_chunk_behind_cached_columns_equals_the_full_forward(model: ComposedForCausalLM) -> None:
    ids, mask = left_padded(rows([40, 31]))
    full = model(ids, attention_mask=mask).logits
    cache = model.new_cache()
    model(ids[:, :22], attention_mask=mask[:, :22], cache=cache)
    rest = model(ids[:, 22:], attention_mask=mask, cache=cache).logits
    assert torch.allclose(rest, full[:, 22:], atol=1e-4)


@torch.no_grad()
def test_the_window_matters_in_these_models() -> None:
    """Else the tests above would say nothing about it."""
    narrow, wide = gemma(0), gemma(0, window=128)
    ids = torch.tensor(rows([40]))
    difference = (narrow(ids).logits - wide(ids).logits).abs().amax(-1)[0]
    assert difference[: WINDOW - 1].max() < 1e-5 < 0.1 < difference[WINDOW + 4 :].min()


@torch.no_grad()
def test_rows_can_leave_be_repeated_and_be_reordered(model: ComposedForCausalLM) -> None:
    items = rows([30, 30, 30])
    ids = torch.tensor(items)
    full = model(ids).logits[:, -1]
    for change, expected in (
        (lambda cache: cache.batch_select_indices(torch.tensor([2, 0])), [2, 0]),
        (lambda cache: cache.reorder_cache(torch.tensor([1, 1, 0])), [1, 1, 0]),
        (lambda cache: cache.batch_repeat_interleave(2), [0, 0, 1, 1, 2, 2]),
    ):
        cache = model.new_cache()
        model(ids[:, :-1], cache=cache)
        change(cache)
        found = model(ids[expected, -1:], cache=cache).logits[:, 0]
        assert torch.allclose(found, full[expected], atol=1e-4)


@torch.no_grad()
def test_columns_can_be_taken_off_when_all_are_kept(model: ComposedForCausalLM) -> None:
    ids = torch.tensor(rows([40]))
    cache = model.new_cache(keep_all=True)
    model(ids, cache=cache)
    cache.crop(-25)
    assert cache.get_seq_length() == 15
    assert torch.allclose(model(ids[:, 15:], cache=cache).logits, model(ids).logits[:, 15:], atol=1e-4)
    cache.reset()
    assert cache.get_seq_length() == 0


def test_length_counts_the_rows_own_tokens() -> None:
    config = gemma(0).config
    cache = ComposedCache([config, config], [5, 0])
    for part, columns in zip(cache.parts, (12, 7), strict=True):
        for layer in range(4):
            part.update(torch.zeros(1, 2, columns, 16), torch.zeros(1, 2, columns, 16), layer)
    assert cache.get_seq_length() == 7
    assert cache.get_mask_sizes(3) == (10, 0)
    assert len(cache.layers) == 8
    assert all(isinstance(part, DynamicCache) for part in cache.parts)
    with pytest.raises(TypeError, match="parts"):
        cache.update(torch.zeros(1), torch.zeros(1), 0)


def test_a_prompt_stands_behind_the_begin_token_of_every_row() -> None:
    ids, mask = left_padded([[BEGIN, 10, 11, 12], [BEGIN, 20]])
    fed = behind_prefix(Inputs(ids, mask, own_positions(mask, 0, 4, ids.device)), (90, 91), 0, BEGIN)
    assert fed.ids.tolist() == [[BEGIN, 90, 91, 10, 11, 12], [0, 0, BEGIN, 90, 91, 20]]
    assert fed.mask is not None
    assert fed.mask.tolist() == [[1] * 6, [0, 0, 1, 1, 1, 1]]
    assert fed.positions.tolist() == [[0, 1, 2, 3, 4, 5], [0, 0, 0, 1, 2, 3]]


def test_a_prompt_stands_first_where_rows_have_no_begin_token_and_right_padding_stays_right() -> None:
    ids = torch.tensor([[10, 11, 0], [20, 0, 0]])
    fed = behind_prefix(Inputs(ids, None, own_positions(None, 0, 3, ids.device)), (90,), 0, BEGIN)
    assert fed.ids.tolist() == [[90, 10, 11, 0], [90, 20, 0, 0]]
    assert fed.mask is None
    assert fed.positions.tolist() == [[0, 1, 2, 3]] * 2
    mask = torch.tensor([[1, 1, 0], [1, 0, 0]])
    padded = behind_prefix(Inputs(ids, mask, own_positions(mask, 0, 3, ids.device)), (90,), 0, None).mask
    assert padded is not None
    assert padded.tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]


def test_behind_cached_columns_only_mask_and_positions_change() -> None:
    ids, mask = torch.tensor([[5], [6]]), torch.tensor([[0, 1, 1], [1, 1, 1]])
    fed = behind_prefix(Inputs(ids, mask, own_positions(mask, 2, 1, ids.device)), (90, 91), 2, BEGIN)
    assert fed.ids.tolist() == [[5], [6]]
    assert fed.mask is not None
    assert fed.mask.tolist() == [[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]
    assert fed.positions.tolist() == [[3], [4]]


def test_a_row_without_tokens_in_the_first_chunk_is_refused_behind_a_prompt() -> None:
    ids, mask = torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2, dtype=torch.long)
    with pytest.raises(ValueError, match="no token in the first chunk"):
        behind_prefix(Inputs(ids, mask, own_positions(mask, 0, 2, ids.device)), (90,), 0, BEGIN)
