"""Function-vector scores against patching whole prompts by hand and against finite differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compgen.errors import ConfigError, UserError
from compgen.heads.function_vectors import PromptPair, exact_scores, first_order_scores, mean_last_outputs
from compgen.heads.ranking import ranked
from compgen.heads.views import Head, HeadView

ModelOf = Callable[..., Any]


def sequence(length: int, seed: int) -> Tensor:
    return torch.randint(3, 48, (length,), generator=torch.Generator().manual_seed(seed))


PAIRS = [PromptPair(sequence(9, 1), sequence(11, 2), 7), PromptPair(sequence(12, 3), sequence(8, 4), 30)]


@torch.no_grad()
def outputs_by_hand(view: HeadView, tokens: Tensor) -> Tensor:
    """Every head's output at the last position, in one pass without a cache: (layer, head, head width)."""
    seen: list[Tensor] = []
    hooks = [
        view.mixer(layer).register_forward_hook(lambda module, inputs, output: seen.append(inputs[0][0, -1]))
        for layer in range(view.layers)
    ]
    view.model(tokens[None], use_cache=False)
    for hook in hooks:
        hook.remove()
    by_head: Tensor = torch.stack(seen).unflatten(-1, (view.query_heads, -1))
    return by_head


@torch.no_grad()
def patched_by_hand(view: HeadView, pair: PromptPair, head: Head | None, mean: Tensor) -> float:
    """Log probability of the answer in one pass over the whole prompt without a cache."""

    def patch(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        assert head is not None
        mixed = inputs[0].clone()
        start = head.index * view.head_width
        mixed[0, -1, start : start + view.head_width] = mean[head.layer, head.index]
        return (mixed,)

    hooks = [] if head is None else [view.mixer(head.layer).register_forward_pre_hook(patch)]
    logits = view.model(pair.uninformative[None], use_cache=False).logits[0, -1]
    for hook in hooks:
        hook.remove()
    return float(logits.log_softmax(-1)[pair.answer])


def test_the_mean_is_over_the_last_positions(model_of: ModelOf, name: str) -> None:
    view = HeadView(model_of(name))
    expected = torch.stack([outputs_by_hand(view, pair.informative) for pair in PAIRS]).mean(0)
    found = mean_last_outputs(view, [pair.informative for pair in PAIRS])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_exact_scores_equal_patching_each_head_by_hand(model_of: ModelOf, name: str) -> None:
    view = HeadView(model_of(name))
    mean = mean_last_outputs(view, [pair.informative for pair in PAIRS])
    expected = torch.tensor(
        [
            [patched_by_hand(view, p, h, mean) - patched_by_hand(view, p, None, mean) for h in view.heads()]
            for p in PAIRS
        ]
    )
    found = exact_scores(view, PAIRS, batch_size=3)  # does not divide the number of heads
    assert found.shape == (2, view.layers, view.query_heads)
    assert found.abs().max() > 1e-3
    torch.testing.assert_close(found.flatten(1), expected.double(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("checkpoint", ["gpt2", "gpt_neox", "llama", "falcon-grouped", "gemma2"])
def test_first_order_is_the_limit_of_small_patches(model_of: ModelOf, checkpoint: str) -> None:
    view, small = HeadView(model_of(checkpoint)), 1e-3
    first = first_order_scores(view, PAIRS)
    ahead, behind = (exact_scores(view, PAIRS, fraction=sign * small) for sign in (1, -1))
    difference = (ahead - behind) / (2 * small)
    torch.testing.assert_close(first, difference, rtol=1e-2, atol=1e-3)
    partial = exact_scores(view, PAIRS, fraction=0.05)
    assert np.corrcoef(first.flatten(), partial.flatten())[0, 1] > 0.9
    clear = first.abs() > 0.1 * first.abs().max()
    assert torch.equal(first[clear].sign(), difference[clear].sign())


def test_frozen_parameters_get_no_gradient_and_change_nothing(fresh: ModelOf) -> None:
    model = fresh("llama")
    free = first_order_scores(HeadView(model), PAIRS)
    assert all(parameter.grad is None for parameter in model.parameters())
    model.requires_grad_(False)
    with torch.no_grad():
        assert torch.equal(first_order_scores(HeadView(model), PAIRS), free)


def test_no_move_is_no_gain_and_the_batch_does_not_matter(model_of: ModelOf) -> None:
    view = HeadView(model_of("llama"))
    assert exact_scores(view, PAIRS, fraction=0.0).abs().max() < 1e-6
    alone, together = exact_scores(view, PAIRS, batch_size=1), exact_scores(view, PAIRS, batch_size=64)
    torch.testing.assert_close(alone, together, rtol=1e-5, atol=1e-6)


def test_a_given_mean_is_used_and_a_prompt_of_one_token_works(model_of: ModelOf) -> None:
    view = HeadView(model_of("llama"))
    single = PromptPair(sequence(1, 5), sequence(1, 6), 9)
    mean = mean_last_outputs(view, [sequence(10, 8)])
    found = exact_scores(view, [single], mean)
    expected = patched_by_hand(view, single, Head(1, 2), mean) - patched_by_hand(view, single, None, mean)
    assert float(found[0, 1, 2]) == pytest.approx(expected, abs=1e-5)


def test_scores_are_ranked_with_intervals_and_progress_is_told(model_of: ModelOf) -> None:
    told: list[tuple[int, int]] = []
    scores = first_order_scores(HeadView(model_of("gpt2")), PAIRS, progress=lambda *step: told.append(step))
    assert told == [(1, 2), (2, 2)]
    best = ranked(scores, resamples=50)[0]
    assert best["score"] == pytest.approx(float(scores.mean(0).max()))
    assert best["interval"] is not None


def test_hooks_are_gone_also_after_an_error(model_of: ModelOf) -> None:
    model = model_of("llama")
    with pytest.raises(IndexError):
        exact_scores(HeadView(model), [PromptPair(sequence(4, 1), torch.tensor([999, 999]), 3)])
    with pytest.raises(IndexError):
        first_order_scores(HeadView(model), [PromptPair(sequence(4, 1), torch.tensor([3, 999]), 3)], mean_of(model))
    assert not any(module._forward_pre_hooks for module in model.modules())


def mean_of(model: Any) -> Tensor:
    return mean_last_outputs(HeadView(model), [sequence(5, 1)])


def test_what_cannot_be_scored_is_refused(fresh: ModelOf) -> None:
    model = fresh("llama")
    view = HeadView(model)
    with pytest.raises(ConfigError, match="one sequence"):
        PromptPair(torch.zeros(2, 3).long(), sequence(3, 1), 4)
    with pytest.raises(ConfigError, match="at least one pair"):
        exact_scores(view, [])
    with pytest.raises(ConfigError, match="at least one informative"):
        mean_last_outputs(view, [])
    with pytest.raises(ConfigError, match="head width"):
        first_order_scores(view, PAIRS, torch.zeros(1, 2, 3))
    model.train()
    with pytest.raises(UserError, match="training mode"):
        exact_scores(view, PAIRS)
