"""The stack that answers at the last positions only, against transformers' GPT-2 with the same weights."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from compgen.charsub.autoregressive.model import forward, initialize
from compgen.charsub.autoregressive.sequences import VOCABULARY
from compgen.charsub.autoregressive_config import AutoregressiveModelConfig
from compgen.charsub.model import Parameters
from compgen.randomness import torch_stream

CONFIG = AutoregressiveModelConfig(layers=2, width=16, heads=2)
INDICES = 20


@pytest.fixture
def stack() -> Parameters:
    made = initialize(CONFIG, VOCABULARY, INDICES, [torch_stream(seed, "m") for seed in range(2)])
    return {name: value + 0.1 * torch.randn_like(value) for name, value in made.items()}


def as_transformers(stack: Parameters, model: int) -> GPT2LMHeadModel:
    one = {name: value[model].squeeze(0) if value.shape[1] == 1 else value[model] for name, value in stack.items()}
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=INDICES, n_embd=16, n_layer=2, n_head=2, bos_token_id=None, eos_token_id=None
    )
    weights = {
        "wte.weight": one["token_embedding"],
        "wpe.weight": one["position_embedding"],
        "ln_f.weight": one["final_norm.weight"],
        "ln_f.bias": one["final_norm.bias"],
    }
    for layer in range(2):
        parts = {"ln_1": "attention_norm", "ln_2": "feedforward_norm", "attn.c_proj": "attention_output"}
        parts |= {"mlp.c_fc": "feedforward_input", "mlp.c_proj": "feedforward_output"}
        for kind in ("weight", "bias"):
            for theirs, ours in parts.items():
                weights[f"h.{layer}.{theirs}.{kind}"] = one[f"layer{layer}.{ours}.{kind}"]
            joined = [one[f"layer{layer}.{name}.{kind}"] for name in ("query", "key_value")]
            weights[f"h.{layer}.attn.c_attn.{kind}"] = torch.cat(joined, -1)
    built = GPT2LMHeadModel(config).eval()
    missing = built.transformer.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys
    return built


@pytest.mark.parametrize("last", [1, 4, 9])
def test_logits_at_the_last_positions_are_those_of_gpt2(stack: Parameters, last: int) -> None:
    tokens = torch.randint(VOCABULARY, (2, 3, 9))
    positions = torch.randint(INDICES, (2, 3, 9))
    found = forward(stack, CONFIG.heads, tokens, positions, last)
    for model in range(2):
        expected = as_transformers(stack, model)(tokens[model], position_ids=positions[model]).logits[:, -last:]
        torch.testing.assert_close(found[model], expected, rtol=1e-4, atol=1e-5)


def test_a_model_does_not_depend_on_its_stack() -> None:
    alone = initialize(CONFIG, VOCABULARY, INDICES, [torch_stream(1, "m")])
    both = initialize(CONFIG, VOCABULARY, INDICES, [torch_stream(0, "m"), torch_stream(1, "m")])
    assert all(torch.equal(alone[name][0], both[name][1]) for name in alone)
