"""Tiny random checkpoints of every family: every parameter random, so that nothing agrees because it is zero or one."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from compgen.heads.loading import Subject
from compgen.heads.views import HeadView

VOCABULARY = 48
WINDOW = 5
LLAMA = {
    "vocab_size": VOCABULARY,
    "hidden_size": 24,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
GPT = {"vocab_size": VOCABULARY, "n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1}
NEOX = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
FALCON = {**{key: value for key, value in NEOX.items() if key != "intermediate_size"}, "alibi": False, "bias": True}
ROTATION = {"rope_type": "default", "rope_theta": 50.0}
PARTIAL = {"rope_parameters": {**ROTATION, "partial_rotary_factor": 0.34}, "attention_bias": True}
STRETCHED = {"rope_type": "yarn", "rope_theta": 50.0, "factor": 4.0, "original_max_position_embeddings": 16}
CAPPED = {"attn_logit_softcapping": 0.7, "query_pre_attn_scalar": 11}
CONFIGURATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("GPT2Config", GPT | {"scale_attn_by_inverse_layer_idx": True}),
    "gpt_neox": ("GPTNeoXConfig", NEOX | PARTIAL | {"use_parallel_residual": True}),
    "gpt_neox-serial": ("GPTNeoXConfig", NEOX | {"use_parallel_residual": False, "attention_bias": False}),
    "llama": ("LlamaConfig", LLAMA | {"rope_parameters": ROTATION}),
    "llama-biases": ("LlamaConfig", LLAMA | {"head_dim": 10, "attention_bias": True, "rope_parameters": STRETCHED}),
    "mistral": ("MistralConfig", LLAMA | {"sliding_window": WINDOW}),
    "olmo": ("OlmoConfig", LLAMA | {"num_key_value_heads": 4}),
    "olmo-clipped": ("OlmoConfig", LLAMA | {"clip_qkv": 0.5}),
    "qwen2": ("Qwen2Config", LLAMA | {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
    "falcon-multiquery": ("FalconConfig", FALCON | {"multi_query": True, "new_decoder_architecture": False}),
    "falcon-grouped": ("FalconConfig", FALCON | {"new_decoder_architecture": True, "num_kv_heads": 2}),
    "falcon-serial": ("FalconConfig", FALCON | {"multi_query": False, "parallel_attn": False}),
    "gemma": ("GemmaConfig", LLAMA | {"head_dim": 10, "num_key_value_heads": 1}),
    "gemma2": ("Gemma2Config", LLAMA | CAPPED | {"head_dim": 8, "sliding_window": WINDOW}),
}
FAMILIES = tuple(CONFIGURATIONS)
ModelOf = Callable[..., Any]


def build(name: str, dtype: torch.dtype = torch.float64, attention: str = "eager") -> Any:
    """One checkpoint with sharp attention patterns."""
    kind, values = CONFIGURATIONS[name]
    config = getattr(transformers, kind)(**values)
    torch.manual_seed(len(name))
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.4)
    return model.to(dtype).eval()


@pytest.fixture(params=FAMILIES)
def name(request: pytest.FixtureRequest) -> str:
    """The name of every checkpoint in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def model_of() -> ModelOf:
    """A checkpoint by name, made once for each session: tests that change one ask for `build` themselves."""
    made: dict[tuple[Any, ...], Any] = {}

    def get(name: str, dtype: torch.dtype = torch.float64, attention: str = "eager") -> Any:
        key = (name, dtype, attention)
        if key not in made:
            made[key] = build(*key)
        return made[key]

    return get


@pytest.fixture
def fresh() -> ModelOf:
    """A checkpoint of its own for a test that changes it."""
    return build


@pytest.fixture
def tokens() -> torch.Tensor:
    """Two sequences of twelve tokens: (sequence, position)."""
    return torch.randint(3, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(5))


@pytest.fixture(scope="session")
def subject() -> Subject:
    """A tiny random Llama that reads bytes, some pairs of them merged, behind a begin token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = {piece: place for place, piece in enumerate(["<s>", "</s>", *alphabet, "Ġ#", "Ġ#$"])}
    raw = Tokenizer(models.BPE(vocab=words, merges=[("Ġ", "#"), ("Ġ#", "$")]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    raw.decoder = decoders.ByteLevel()
    raw.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="</s>")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(words) + 3,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
    )
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return Subject(model, tokenizer, HeadView(model))
