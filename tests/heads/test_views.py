"""A head's parts against the model they came from: patterns, head outputs and layer outputs are rebuilt from them."""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from compgen.errors import ConfigError
from compgen.heads.parts import Attention, NormGain
from compgen.heads.views import Head, HeadView

ModelOf = Callable[..., Any]


@dataclasses.dataclass
class Seen:
    """What one layer read and gave in a forward pass."""

    residual: Tensor
    """(sequence, position, model), before the norm"""
    normalized: Tensor
    """(sequence, position, model)"""
    pattern: Tensor
    """(sequence, head, query, key)"""
    mixed: Tensor
    """(sequence, position, heads · head width), before the output projection"""
    output: Tensor
    """(sequence, position, model), after it"""


@contextmanager
def recording(parts: Attention) -> Iterator[dict[str, Tensor]]:
    """Notes what passes through the norm and the output projection."""
    notes: dict[str, Tensor] = {}

    def note(*names: str) -> Any:
        return lambda module, inputs, output: notes.update(zip(names, (inputs[0], output), strict=True))

    hooks = [
        parts.norm.module.register_forward_hook(note("residual", "normalized")),
        parts.mixer.register_forward_hook(note("mixed", "output")),
    ]
    yield notes
    for hook in hooks:
        hook.remove()


def observe(view: HeadView, layer: int, tokens: Tensor) -> Seen:
    with recording(view.attention(layer)) as notes, torch.no_grad():
        result = view.model(tokens, output_attentions=True)
    return Seen(pattern=result.attentions[layer], **notes)


def assert_close(found: Tensor, expected: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def zero_if_none(bias: Tensor | None) -> Tensor | float:
    return 0.0 if bias is None else bias


def causal(parts: Attention, length: int) -> Tensor:
    """Which keys a query sees: (query, key)."""
    distance = torch.arange(length)[:, None] - torch.arange(length)
    return (distance >= 0) & (distance < (parts.window or length))


def rebuilt_pattern(view: HeadView, head: Head, normalized: Tensor) -> Tensor:
    """The pattern of one head from its own matrices, one distance at a time: (sequence, query, key)."""
    parts, weights = view.attention(head.layer), view.weights(head)
    query = normalized @ weights.query.T + zero_if_none(weights.query_bias)
    key = normalized @ weights.key.T + zero_if_none(weights.key_bias)
    if parts.clip is not None:
        query, key = query.clamp(-parts.clip, parts.clip), key.clamp(-parts.clip, parts.clip)
    length = normalized.shape[1]
    scores = torch.full((len(normalized), length, length), -torch.inf, dtype=query.dtype)
    for t in range(length):
        for s in range(t + 1):
            turned = key[:, s] @ view.rotation(head.layer, t - s).to(key).T
            scores[:, t, s] = parts.scaling * (query[:, t] * turned).sum(-1)
    if parts.softcap is not None:
        scores = parts.softcap * torch.tanh(scores / parts.softcap)
    return scores.masked_fill(~causal(parts, length), -torch.inf).softmax(-1)


@pytest.mark.parametrize("layer", [0, 1])
def test_the_pattern_of_every_head_is_rebuilt_from_its_parts(
    model_of: ModelOf, tokens: Tensor, name: str, layer: int
) -> None:
    view = HeadView(model_of(name))
    seen = observe(view, layer, tokens)
    assert seen.pattern.std() > 0.05  # far from uniform
    for index in range(view.query_heads):
        assert_close(rebuilt_pattern(view, Head(layer, index), seen.normalized), seen.pattern[:, index])


@pytest.mark.parametrize("layer", [0, 1])
def test_the_output_of_every_head_and_of_the_layer_is_rebuilt(
    model_of: ModelOf, tokens: Tensor, name: str, layer: int
) -> None:
    view = HeadView(model_of(name))
    seen, parts = observe(view, layer, tokens), view.attention(layer)
    total = torch.zeros_like(seen.output) + zero_if_none(parts.output.bias)
    for index in range(view.query_heads):
        weights, pattern = view.weights(Head(layer, index)), seen.pattern[:, index]
        value = seen.normalized @ weights.value.T + zero_if_none(weights.value_bias)
        value = value if parts.clip is None else value.clamp(-parts.clip, parts.clip)
        part = seen.mixed.unflatten(-1, (view.query_heads, view.head_width))[:, :, index]
        assert_close(pattern @ value, part)
        if parts.clip is None:  # the same through W_OV; a pattern's rows sum to one
            through = seen.normalized @ view.output_value(Head(layer, index)).dense().T
            bias = weights.output @ (torch.zeros(view.head_width).to(value) + zero_if_none(weights.value_bias))
            assert_close(pattern @ through + bias, part @ weights.output.T)
        total += part @ weights.output.T
    assert_close(total, seen.output)


def test_scores_at_a_distance_come_from_the_factored_query_key_matrix(
    model_of: ModelOf, tokens: Tensor, name: str
) -> None:
    view, head, t = HeadView(model_of(name)), Head(1, 2), 4
    seen, parts, weights = observe(view, 1, tokens), view.attention(1), view.weights(head)
    if parts.clip is not None:
        return  # clamped scores are not a product with one matrix
    query_bias = torch.zeros(view.head_width).to(seen.mixed) + zero_if_none(weights.query_bias)
    key_bias = torch.zeros(view.head_width).to(seen.mixed) + zero_if_none(weights.key_bias)
    scores = []
    for s in range(t + 1):
        turn = view.rotation(1, t - s).to(seen.mixed)
        x, y = seen.normalized[:, t], seen.normalized[:, s]  # (sequence, model)
        content = (x @ view.query_key(head, distance=t - s).dense() * y).sum(-1)
        of_biases = x @ weights.query.T @ turn @ key_bias + (y @ weights.key.T + key_bias) @ turn.T @ query_bias
        scores.append(parts.scaling * (content + of_biases))
    capped = torch.stack(scores, -1)
    if parts.softcap is not None:
        capped = parts.softcap * torch.tanh(capped / parts.softcap)
    assert_close(capped.softmax(-1), seen.pattern[:, 2, t, : t + 1])


def test_folded_weights_act_on_the_residual_stream_divided_by_its_spread(
    model_of: ModelOf, tokens: Tensor, name: str
) -> None:
    view, head = HeadView(model_of(name)), Head(1, 3)
    seen, norm = observe(view, 1, tokens), view.attention(1).norm
    centered = seen.residual - seen.residual.mean(-1, keepdim=True) if norm.centered else seen.residual
    divided = seen.residual / (centered.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt()
    apart, folded = view.weights(head), view.weights(head, NormGain.folded)
    for role in ("query", "key", "value"):
        expected = seen.normalized @ getattr(apart, role).T + zero_if_none(getattr(apart, f"{role}_bias"))
        found = divided @ getattr(folded, role).T + zero_if_none(getattr(folded, f"{role}_bias"))
        assert_close(found, expected, tolerance=1e-4)  # the norms add their own epsilon
    if not name.startswith("olmo"):  # whose norm has no gain
        assert not torch.allclose(apart.query, folded.query)


def test_the_gain_of_a_norm_after_attention_is_folded_into_the_output(model_of: ModelOf, tokens: Tensor) -> None:
    view = HeadView(model_of("gemma2"))
    seen = observe(view, 0, tokens)
    heads = seen.mixed.unflatten(-1, (view.query_heads, view.head_width))
    written = sum(
        heads[:, :, index] @ view.weights(Head(0, index), NormGain.folded).output.T for index in range(view.query_heads)
    )
    norm = view.decoder.layers[0].post_attention_layernorm
    spread = (seen.output.pow(2).mean(-1, keepdim=True) + norm.eps).sqrt()
    assert_close(written / spread, norm(seen.output))


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "llama", "falcon-grouped", "gemma2"])
def test_single_precision_gives_the_same(model_of: ModelOf, tokens: Tensor, name: str) -> None:
    view = HeadView(model_of(name, torch.float32))
    seen = observe(view, 1, tokens)
    rebuilt = rebuilt_pattern(view, Head(1, 1), seen.normalized)
    assert_close(rebuilt, seen.pattern[:, 1])


class TestAddresses:
    @pytest.mark.parametrize(
        ("name", "groups"), [("gpt2", 4), ("llama", 2), ("falcon-multiquery", 1), ("falcon-grouped", 2), ("gemma", 1)]
    )
    def test_query_heads_share_key_and_value_heads_in_consecutive_groups(
        self, model_of: ModelOf, name: str, groups: int
    ) -> None:
        view = HeadView(model_of(name))
        assert (view.query_heads, view.key_value_heads) == (4, groups)
        assert [view.key_value_head(Head(0, i)) for i in range(4)] == [i * groups // 4 for i in range(4)]

    def test_an_edit_of_shared_keys_reaches_the_whole_group(self, model_of: ModelOf) -> None:
        view = HeadView(model_of("llama"))
        first, second = view.query_groups([Head(1, 3), Head(0, 0), Head(1, 2), Head(0, 0)])
        assert (first.layer, first.key_value_head) == (0, 0)
        assert first.chosen == (Head(0, 0),)
        assert first.reached == (Head(0, 0), Head(0, 1))
        assert second.chosen == second.reached == (Head(1, 2), Head(1, 3))

    def test_heads_are_listed_by_layer_and_written_as_in_papers(self, model_of: ModelOf) -> None:
        heads = HeadView(model_of("llama")).heads()
        assert [str(head) for head in heads] == ["0.0", "0.1", "0.2", "0.3", "1.0", "1.1", "1.2", "1.3"]
        assert heads == sorted(heads)

    @pytest.mark.parametrize("head", [Head(2, 0), Head(0, 4), Head(-1, 0)])
    def test_a_head_that_does_not_exist_is_named(self, model_of: ModelOf, head: Head) -> None:
        with pytest.raises(ConfigError, match="layers 0…1 with query heads 0…3"):
            HeadView(model_of("llama")).weights(head)
