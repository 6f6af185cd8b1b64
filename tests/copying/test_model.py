import pytest
import torch
import torch.nn.functional as F

from compgen.copying.config import ModelConfig
from compgen.copying.model import AttentionTransformer, Hooks
from compgen.randomness import torch_stream

VARIANTS = [
    ModelConfig(),
    ModelConfig(layers=1),
    ModelConfig(layers=3, heads=4, width=32, rotary_base=100.0),
    ModelConfig(feedforward=128),
]


def plain(model: AttentionTransformer, tokens: torch.Tensor) -> torch.Tensor:
    """The same model written for reading: explicit scores, complex rotary positions, no reordering."""
    config = model.config
    width = config.width // config.heads
    residual = model.embedding(tokens)
    frequency = config.rotary_base ** (-torch.arange(0, width, 2) / width)
    turn = torch.polar(torch.ones(tokens.shape[1], width // 2), torch.arange(tokens.shape[1])[:, None] * frequency)
    for number, block in enumerate(model.layers):
        x = block.norm(residual)
        heads = []
        for head in range(config.heads):
            rows = slice(head * width, (head + 1) * width)
            q, k, v = (F.linear(x, p.weight[rows], p.bias[rows]) for p in (block.query, block.key, block.value))
            q, k = (
                torch.view_as_real(torch.view_as_complex(z.reshape(*z.shape[:-1], -1, 2)) * turn).flatten(-2)
                for z in (q, k)
            )
            scores = torch.einsum("sqc,skc->sqk", q, k) / width**0.5
            future = torch.arange(tokens.shape[1])[None] > torch.arange(tokens.shape[1])[:, None]
            heads.append(torch.einsum("sqk,skc->sqc", scores.masked_fill(future, -1e30).softmax(-1), v))
        residual = residual + block.output(torch.cat(heads, -1))
        if config.feedforward:
            residual = residual + model.feedforward[number](residual)
    return model.unembedding(residual)


@pytest.mark.parametrize("config", VARIANTS)
def test_the_fast_path_the_hooked_path_and_a_plain_implementation_agree(config: ModelConfig) -> None:
    model = AttentionTransformer(config, 40, seed=1)
    tokens = torch.randint(40, (3, 20), generator=torch_stream(0, "tokens"))
    expected = plain(model, tokens)
    torch.testing.assert_close(model(tokens), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model(tokens, hooks=Hooks()), expected, rtol=1e-4, atol=1e-5)


def test_gradients_of_the_fast_path_are_those_of_the_plain_implementation() -> None:
    model = AttentionTransformer(ModelConfig(layers=2, heads=2), 30, seed=2)
    tokens = torch.randint(30, (4, 16), generator=torch_stream(1, "tokens"))
    gradients = []
    for forward in (lambda: model(tokens), lambda: plain(model, tokens)):
        model.zero_grad()
        F.cross_entropy(forward()[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for fast, slow in zip(*gradients, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-3, atol=1e-6)


def test_the_paper_model_has_the_parameters_that_its_description_implies() -> None:
    model = AttentionTransformer(ModelConfig(), 64, seed=0)
    attention = 4 * (64 * 64 + 64) + 2 * 64
    assert sum(p.numel() for p in model.parameters()) == 64 * 64 + 2 * attention + 64 * 64 + 64


def test_equal_seeds_give_equal_models_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second, other = (AttentionTransformer(ModelConfig(), 64, seed) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.embedding.weight, second.embedding.weight)
    assert not torch.equal(first.embedding.weight, other.embedding.weight)


def test_dropout_keeps_the_stated_share_scales_the_rest_and_is_absent_in_evaluation() -> None:
    model = AttentionTransformer(ModelConfig(dropout=0.1), 64, seed=0)
    residual, addition = torch.full((1_000_003,), 2.0), torch.ones(1_000_003)
    dropped = model._add(residual, addition, torch_stream(0, "dropout")) - 2
    assert float((dropped == 0).double().mean()) == pytest.approx(0.1, abs=1e-3)
    assert float(dropped.max()) == pytest.approx(1 / 0.9)
    assert torch.equal(model._add(residual, addition, None), residual + 1)


def test_gradients_pass_dropout_only_where_it_kept_values() -> None:
    model = AttentionTransformer(ModelConfig(dropout=0.5), 64, seed=0)
    addition = torch.ones(1000, requires_grad=True)
    total = model._add(torch.zeros(1000), addition, torch_stream(0, "dropout"))
    total.sum().backward()
    assert torch.equal(addition.grad, total.detach())


def test_weight_products_have_the_stated_conventions() -> None:
    model = AttentionTransformer(ModelConfig(heads=2), 64, seed=3)
    for parameter in ("query", "key", "value"):
        torch.nn.init.zeros_(getattr(model.layers[0], parameter).bias)
    x = torch.randn(64)
    block, rows = model.layers[0], slice(32, 64)
    query, key = block.query.weight[rows] @ x, block.key.weight[rows] @ x
    torch.testing.assert_close(x @ model.query_key(0, 1) @ x, query @ key / 32**0.5)
    torch.testing.assert_close(
        model.output_value(0, 1) @ x, block.output.weight[:, rows] @ (block.value.weight[rows] @ x)
    )


def test_hooks_can_replace_an_attention_pattern() -> None:
    class Previous(Hooks):
        def pattern(self, layer: int, pattern: torch.Tensor) -> torch.Tensor:
            if layer != 0:
                return pattern
            shifted = torch.diag(torch.ones(pattern.shape[-1] - 1), -1)
            shifted[0, 0] = 1
            return shifted.expand_as(pattern)

    model = AttentionTransformer(ModelConfig(layers=1), 64, seed=4)
    tokens = torch.randint(64, (2, 9))
    block = model.layers[0]
    value = block.value(block.norm(model.embedding(tokens)))
    expected = model.embedding(tokens) + block.output(torch.cat([value[:, :1], value[:, :-1]], 1))
    torch.testing.assert_close(model(tokens, hooks=Previous()), model.unembedding(expected))
