"""Models that no adapter covers: what the user is told, and how an adapter is added."""

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from compgen.errors import UserError
from compgen.heads import families
from compgen.heads.families import Family, register_family
from compgen.heads.parts import Attention
from compgen.heads.views import HeadView

ModelOf = Callable[..., Any]


def test_an_unknown_family_is_told_what_an_adapter_gives() -> None:
    model = SimpleNamespace(base_model=None, config=SimpleNamespace(model_type="opt"))
    with pytest.raises(UserError, match="'opt'") as caught:
        HeadView(model)
    for field in (*dataclasses.fields(Attention), *dataclasses.fields(Family)):
        assert field.name in str(caught.value)
    assert "register_family" in str(caught.value)


def test_a_registered_family_is_read(model_of: ModelOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_FAMILIES", dict(families._FAMILIES))
    register_family("opt", families.family_of("gpt2"))
    inner = model_of("gpt2")
    config = SimpleNamespace(model_type="opt", num_hidden_layers=2)
    assert HeadView(SimpleNamespace(base_model=inner.base_model, config=config)).head_width == 6


def test_alibi_and_quantized_weights_are_refused(fresh: ModelOf) -> None:
    falcon = fresh("falcon-multiquery")
    falcon.config.alibi = True
    with pytest.raises(UserError, match="alibi"):
        HeadView(falcon)
    llama = fresh("llama")
    llama.model.layers[0].self_attn.q_proj.weight = torch.nn.Parameter(torch.zeros(4, 2).byte(), False)
    with pytest.raises(UserError, match="quantization"):
        HeadView(llama)
    offloaded = fresh("llama")
    offloaded.model.layers[0].self_attn.q_proj.to("meta")
    with pytest.raises(UserError, match="offloaded"):
        HeadView(offloaded)
