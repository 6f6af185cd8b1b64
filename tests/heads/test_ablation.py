"""Removing heads by hooks against removing them by zeroed weights, in single passes and in generation with a cache."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache

from compgen.errors import ConfigError
from compgen.heads.ablation import Mean, Replacement, Resample, Zero, ablated, mean_outputs, record_outputs
from compgen.heads.families import matrix
from compgen.heads.views import Head, HeadView

ModelOf = Callable[..., Any]
REMOVED = [Head(0, 1), Head(1, 0), Head(1, 3)]
GENERATED = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


@torch.no_grad()
def logits(model: Any, tokens: Tensor) -> Tensor:
    found: Tensor = model(tokens, use_cache=False).logits
    return found


@torch.no_grad()
def decoded_logits(model: Any, tokens: Tensor) -> Tensor:
    """The same, one token after another through the cache."""
    cache = DynamicCache(config=model.config)
    columns = tokens.split(1, dim=1)
    return torch.cat([model(column, cache=cache, use_cache=True).logits for column in columns], dim=1)


def zero_columns(view: HeadView, heads: list[Head]) -> None:
    """Zero what the output projection reads of these heads."""
    with torch.no_grad():
        for head in heads:
            start = head.index * view.head_width
            matrix(view.mixer(head.layer))[:, start : start + view.head_width] = 0


def mixed(view: HeadView, layer: int, tokens: Tensor) -> Tensor:
    """The head outputs that reach the output projection: (sequence, position, head, head width)."""
    seen: list[Tensor] = []
    handle = view.mixer(layer).register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    logits(view.model, tokens)
    handle.remove()
    by_head: Tensor = seen[0].unflatten(-1, (view.query_heads, -1))
    return by_head


def replacements(view: HeadView) -> list[Replacement]:
    reference = torch.randint(3, 48, (6, 12), generator=torch.Generator().manual_seed(8))
    layers = range(view.layers)
    return [Zero(), mean_outputs(view, layers, reference), record_outputs(view, layers, reference)]


def test_no_head_removed_is_bit_identical_also_with_a_cache(model_of: ModelOf, tokens: Tensor, name: str) -> None:
    model = model_of(name, torch.float32)
    plain, decoded = logits(model, tokens), decoded_logits(model, tokens)
    with ablated(HeadView(model), []):
        assert torch.equal(logits(model, tokens), plain)
        assert torch.equal(decoded_logits(model, tokens), decoded)


def test_removing_by_hook_equals_zeroing_the_weights(fresh: ModelOf, tokens: Tensor, name: str) -> None:
    model = fresh(name)
    view = HeadView(model)
    plain = logits(model, tokens)
    with ablated(view, REMOVED):
        removed = logits(model, tokens)
        generated = model.generate(tokens, **GENERATED)
    assert (removed - plain).abs().max() > 1e-3
    assert torch.equal(logits(model, tokens), plain)
    zero_columns(view, REMOVED)
    torch.testing.assert_close(removed, logits(model, tokens))
    assert torch.equal(generated, model.generate(tokens, **GENERATED))


def test_the_other_heads_of_the_group_are_untouched(model_of: ModelOf, tokens: Tensor, name: str) -> None:
    view = HeadView(model_of(name))
    plain = mixed(view, 1, tokens)
    with ablated(view, [Head(1, 2)]):
        removed = mixed(view, 1, tokens)
    assert not removed[:, :, 2].any()
    others = [0, 1, 3]
    assert torch.equal(removed[:, :, others], plain[:, :, others])


@pytest.mark.parametrize("kind", [Zero, Mean, Resample])
@pytest.mark.parametrize("checkpoint", ["gpt2", "mistral", "falcon-grouped", "gemma2"])
def test_decoding_with_a_cache_sees_the_same_model_as_one_pass(
    model_of: ModelOf, tokens: Tensor, checkpoint: str, kind: type
) -> None:
    model = model_of(checkpoint)
    view = HeadView(model)
    replacement = next(found for found in replacements(view) if isinstance(found, kind))
    with ablated(view, REMOVED, replacement):
        torch.testing.assert_close(decoded_logits(model, tokens), logits(model, tokens), rtol=1e-6, atol=1e-6)
        with_cache = model.generate(tokens, **GENERATED)
        assert torch.equal(with_cache, model.generate(tokens, **GENERATED, use_cache=False))


def test_faster_attention_gives_the_same(model_of: ModelOf, tokens: Tensor) -> None:
    eager, fast = model_of("llama"), model_of("llama", attention="sdpa")
    results = []
    for model in (eager, fast):
        with ablated(HeadView(model), REMOVED):
            results.append(logits(model, tokens))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)  # eager attention takes its softmax in single precision


class TestWhatStandsIn:
    def test_the_mean_is_over_all_positions_that_count(self, model_of: ModelOf, tokens: Tensor) -> None:
        view = HeadView(model_of("llama"))
        mask = torch.ones_like(tokens)
        mask[1, 7:] = 0  # at the end, so that the tokens that count do not see the others
        mean = mean_outputs(view, [1], tokens, mask, batch_size=1)
        outputs = mixed(view, 1, tokens)
        kept = [outputs[b, p] for b in range(2) for p in range(12) if mask[b, p]]
        torch.testing.assert_close(mean.outputs[1], torch.stack(kept).mean(0))
        with ablated(view, [Head(1, 2)], mean):
            replaced = mixed(view, 1, tokens)[:, :, 2]
        torch.testing.assert_close(replaced, mean.outputs[1][2].expand(2, 12, -1))

    def test_resampled_heads_give_what_they_gave_at_that_place_of_one_other_sequence(
        self, model_of: ModelOf, tokens: Tensor
    ) -> None:
        view = HeadView(model_of("llama"))
        reference = torch.randint(3, 48, (5, 8), generator=torch.Generator().manual_seed(1))
        resample = record_outputs(view, [1], reference, batch_size=2, seed=3)
        given = mixed(view, 1, reference)
        with ablated(view, [Head(1, 0), Head(1, 3)], resample):
            replaced = mixed(view, 1, tokens)
        for row in range(2):
            donor = int(resample.donors[row])
            expected = given[donor][torch.arange(12) % 8]
            torch.testing.assert_close(replaced[row][:, [0, 3]], expected[:, [0, 3]])
        assert not torch.equal(resample.donors, record_outputs(view, [1], reference, seed=4).donors)

    def test_resampling_needs_a_reference(self, model_of: ModelOf) -> None:
        with pytest.raises(ConfigError, match="at least one reference"):
            record_outputs(HeadView(model_of("llama")), [0], torch.zeros(0, 4).long())


class TestHooks:
    def hooks(self, model: Any) -> int:
        return sum(len(module._forward_pre_hooks) + len(module._forward_hooks) for module in model.modules())

    def test_are_gone_after_the_block_also_after_an_error(self, model_of: ModelOf, tokens: Tensor) -> None:
        model = model_of("gpt2")
        before, plain = self.hooks(model), logits(model, tokens)

        def fail_inside() -> None:
            with ablated(HeadView(model), REMOVED):
                assert self.hooks(model) > before
                raise RuntimeError("inside")

        with pytest.raises(RuntimeError, match="inside"):
            fail_inside()
        assert self.hooks(model) == before
        assert torch.equal(logits(model, tokens), plain)
        mean_outputs(HeadView(model), [0], tokens)
        record_outputs(HeadView(model), [0], tokens)
        assert self.hooks(model) == before

    def test_a_head_that_does_not_exist_leaves_no_hook(self, model_of: ModelOf) -> None:
        model = model_of("gpt2")
        before = self.hooks(model)
        with pytest.raises(ConfigError, match="2.0"), ablated(HeadView(model), [Head(0, 0), Head(2, 0)]):
            pass
        assert self.hooks(model) == before

    def test_blocks_may_be_nested(self, model_of: ModelOf, tokens: Tensor) -> None:
        model = model_of("llama")
        view = HeadView(model)
        with ablated(view, REMOVED):
            at_once = logits(model, tokens)
        with ablated(view, REMOVED[:1]), ablated(view, REMOVED[1:]):
            assert torch.equal(logits(model, tokens), at_once)
