"""The stacked model against transformers' GPT-2, and the independence of the stacked models."""

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from compgen.charsub.model import (
    BLOCK,
    Cache,
    Dropout,
    ModelShape,
    Parameters,
    concatenate,
    forward,
    initialize,
    load,
    repeat,
    save,
    select,
)

SHAPE = ModelShape(dropout=0.0)
HF_NAMES = {
    "norm1": "ln_1",
    "attention": "attn.c_attn",
    "mixed": "attn.c_proj",
    "norm2": "ln_2",
    "hidden": "mlp.c_fc",
    "output": "mlp.c_proj",
}


def hf_name(name: str) -> str:
    fixed = {"token": "wte.weight", "position": "wpe.weight", "norm.weight": "ln_f.weight", "norm.bias": "ln_f.bias"}
    if name in fixed:
        return f"transformer.{fixed[name]}"
    layer, part, kind = name.split(".")
    return f"transformer.h.{layer}.{HF_NAMES[part]}.{kind}"


def reference(parameters: Parameters, model: int, shape: ModelShape = SHAPE) -> GPT2LMHeadModel:
    config = GPT2Config(
        vocab_size=shape.vocabulary,
        n_positions=shape.positions,
        n_embd=shape.width,
        n_layer=shape.layers,
        n_head=shape.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=None,
    )
    network = GPT2LMHeadModel(config)
    state = {hf_name(name): value[model].detach().clone() for name, value in parameters.items()}
    network.load_state_dict(state, strict=False)
    network.tie_weights()
    return network


def perturbed(shape: ModelShape, models: int) -> Parameters:
    """Parameters in which no bias is zero and no two models are alike."""
    generator = torch.Generator().manual_seed(5)
    started = initialize(shape, range(models))
    return {name: value + 0.1 * torch.randn(value.shape, generator=generator) for name, value in started.items()}


def strings(models: int, batch: int, length: int, seed: int = 0) -> Tensor:
    return torch.randint(27, (models, batch, length), generator=torch.Generator().manual_seed(seed))


def test_a_model_has_the_papers_number_of_parameters() -> None:
    assert sum(value[0].numel() for value in initialize(ModelShape(), [0]).values()) == 103_872


@pytest.mark.parametrize("shape", [SHAPE, ModelShape(11, 9, 12, layers=3, heads=3, dropout=0.0)])
def test_every_stacked_model_equals_gpt2_alone(shape: ModelShape) -> None:
    parameters = perturbed(shape, 3)
    tokens = strings(3, 4, min(16, shape.positions)) % shape.vocabulary
    logits = forward(parameters, shape, tokens)
    for model in range(3):
        expected = reference(parameters, model, shape).eval()(tokens[model]).logits
        torch.testing.assert_close(logits[model], expected, atol=2e-5, rtol=1e-4)


def test_gradients_equal_those_of_gpt2_alone() -> None:
    parameters = {name: value.requires_grad_() for name, value in perturbed(SHAPE, 2).items()}
    tokens, targets = strings(2, 3, 16), strings(2, 3, 16, seed=1)
    logits = forward(parameters, SHAPE, tokens)
    cross_entropy(logits.flatten(0, 2), targets.flatten(), reduction="sum").backward()
    for model in range(2):
        network = reference(parameters, model)
        found = network(tokens[model]).logits
        cross_entropy(found.flatten(0, 1), targets[model].flatten(), reduction="sum").backward()
        gradients = {name: value.grad for name, value in network.named_parameters()}
        for name, value in parameters.items():
            assert value.grad is not None
            torch.testing.assert_close(value.grad[model], gradients[hf_name(name)], atol=2e-4, rtol=2e-4, msg=name)


def test_training_mode_without_dropped_values_equals_evaluation() -> None:
    parameters, tokens = perturbed(SHAPE, 2), strings(2, 3, 16)
    trained = forward(parameters, SHAPE, tokens, Dropout(0.0, [0, 1]))
    torch.testing.assert_close(trained, forward(parameters, SHAPE, tokens), atol=2e-5, rtol=1e-4)


def test_initialization_follows_gpt2_and_each_models_own_seed() -> None:
    together = initialize(ModelShape(), [7, 3, 9])
    alone = initialize(ModelShape(), [3])
    for name, value in together.items():
        assert torch.equal(value[1], alone[name][0]), name
    assert not torch.equal(together["token"][0], together["token"][1])
    wide = initialize(ModelShape(width=256), range(4))
    for name, expected in (("0.attention", 0.02), ("1.hidden", 0.02), ("0.mixed", 0.01), ("1.output", 0.01)):
        assert float(wide[f"{name}.weight"].std()) == pytest.approx(expected, rel=0.02)  # .02 / √(2 · 2 layers)
    assert float(wide["position"].std()) == pytest.approx(0.02, rel=0.03)


@pytest.mark.parametrize("steps", [[1] * 10, [4, 1, 3, 2]])
def test_decoding_with_a_cache_equals_the_full_pass(steps: list[int]) -> None:
    parameters, tokens = perturbed(SHAPE, 2), strings(2, 3, 10)
    cache: Cache = []
    parts = [forward(parameters, SHAPE, part, cache=cache) for part in tokens.split(steps, dim=2)]
    torch.testing.assert_close(torch.cat(parts, 2), forward(parameters, SHAPE, tokens), atol=2e-5, rtol=1e-4)


def test_a_string_longer_than_the_positions_is_refused() -> None:
    parameters = initialize(SHAPE, [0])
    with pytest.raises(ValueError, match="33 positions, but the model has 32"):
        forward(parameters, SHAPE, strings(1, 1, 33))
    cache: Cache = []
    forward(parameters, SHAPE, strings(1, 1, 30), cache=cache)
    with pytest.raises(ValueError, match="33 positions"):
        forward(parameters, SHAPE, strings(1, 1, 3), cache=cache)


def test_stacks_can_be_taken_apart_joined_and_kept(tmp_path: Path) -> None:
    stack = perturbed(SHAPE, 3)
    swapped = select(stack, [2, 0])
    assert torch.equal(swapped["token"][0], stack["token"][2])
    joined = concatenate([select(stack, [0]), select(stack, [1, 2])])
    assert all(torch.equal(joined[name], value) for name, value in stack.items())
    assert torch.equal(repeat(stack, 2)["token"][3], stack["token"][1])
    save(swapped, tmp_path / "stack.safetensors")
    read = load(tmp_path / "stack.safetensors")
    assert all(torch.equal(read[name], value) for name, value in swapped.items())


def test_dropout_drops_the_share_asked_for_and_keeps_the_mean() -> None:
    mask = Dropout(0.1, [0, 1]).mask(torch.Size([2, 60_000]))
    assert mask.unique().tolist() == pytest.approx([0.0, 1 / 0.9])
    deviation = math.sqrt(0.1 * 0.9 / mask.numel())
    assert abs(float((mask == 0).double().mean()) - 0.1) < 5 * deviation


def test_a_models_masks_depend_on_its_own_seed_only() -> None:
    size = torch.Size([3, 100, 77])
    stacked, alone = Dropout(0.1, [5, 6, 7], "x"), Dropout(0.1, [6], "x")
    for _ in range(3 * BLOCK // 7700):
        assert torch.equal(stacked.mask(size)[1], alone.mask(torch.Size([1, 100, 77]))[0])
    first = Dropout(0.1, [5, 6]).mask(torch.Size([2, 1000]))
    assert not torch.equal(first[0], first[1])


def test_masks_continue_from_their_place() -> None:
    size = torch.Size([2, 20_000])
    whole = Dropout(0.1, [0, 1])
    expected = [whole.mask(size).clone() for _ in range(9)]
    begun = Dropout(0.1, [0, 1])
    for _ in range(4):
        begun.mask(size)
    continued = Dropout(0.1, [0, 1], place=begun.place)
    assert all(torch.equal(continued.mask(size), mask) for mask in expected[4:])


def test_more_values_than_a_block_are_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        Dropout(0.1, [0]).mask(torch.Size([1, BLOCK + 1]))
