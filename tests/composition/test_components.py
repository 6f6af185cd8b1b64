"""What a component may be, which of them share weights, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from compgen.composition.components import ComponentSpec, Loading, load, resolve, save
from compgen.errors import ConfigError, UserError

COMMIT = "c" * 40


def test_a_hub_id_needs_a_commit() -> None:
    with pytest.raises(ConfigError, match="40 hexadecimal digits"):
        ComponentSpec(source="google/gemma-2-2b")
    with pytest.raises(ConfigError, match="component.revision='main'"):
        ComponentSpec(source="google/gemma-2-2b", revision="main")
    assert not ComponentSpec(source="google/gemma-2-2b", revision=COMMIT).is_local


def test_a_component_is_something(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs a source"):
        ComponentSpec(name="nothing")
    with pytest.raises(ConfigError, match="adapter_model.safetensors"):
        ComponentSpec(adapter=str(tmp_path))
    with pytest.raises(ConfigError, match="component.name"):
        ComponentSpec(prompt="x", name="../x")


def test_experts_without_a_source_get_the_bases_and_all_get_names(saved: list[Path]) -> None:
    found = resolve(str(saved[0]), [ComponentSpec(prompt="Solve: "), ComponentSpec(source=str(saved[1]), name="math")])
    assert [spec.name for spec in found] == ["base", "expert-1", "math"]
    assert found[1].weights == found[0].weights != found[2].weights
    with pytest.raises(ConfigError, match="name of its own"):
        resolve(str(saved[0]), [ComponentSpec(prompt="x", name="base")])
    with pytest.raises(ConfigError, match="checkpoint of its own"):
        resolve(ComponentSpec(prompt="x"), [])


def test_a_hub_base_lends_its_commit(saved: list[Path]) -> None:
    base = ComponentSpec(source="google/gemma-2-2b", revision=COMMIT)
    found = resolve(base, [ComponentSpec(prompt="x"), str(saved[1])])
    assert (found[1].revision, found[2].revision) == (COMMIT, None)


def test_the_same_weights_are_held_once(saved: list[Path], adapters: list[Path]) -> None:
    experts = [
        ComponentSpec(source=str(saved[1])),
        ComponentSpec(source=str(saved[1]), prompt="x"),
        ComponentSpec(prompt="y"),
        ComponentSpec(adapter=str(adapters[0])),
        ComponentSpec(adapter=str(adapters[0]), prompt="z"),
        ComponentSpec(source=str(saved[0].parent / "math" / ".." / "base"), adapter=str(adapters[1])),
    ]
    parts = load(resolve(str(saved[0]), experts), [()] * 7, Loading(torch.float32))
    modules = [id(part.module) for part in parts]
    assert modules[1] == modules[2] != modules[0]
    assert {modules[place] for place in (0, 3, 4, 5, 6)} == {modules[0]}
    assert [part.adapter for part in parts] == [None, None, None, None, "adapter0", "adapter0", "adapter1"]


def test_only_safetensors_are_loaded(saved: list[Path], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text((saved[0] / "config.json").read_text())
    torch.save({}, tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match="component base: .* cannot be loaded from safetensors"):
        load(resolve(str(tmp_path), []), [()], Loading(torch.float32))


def test_hub_components_stay_references(saved: list[Path], tokenizer: Any, tmp_path: Path) -> None:
    parts = load(resolve(str(saved[0]), [str(saved[1])]), [(), ()], Loading(torch.float32))
    parts[1].spec = ComponentSpec(source="somebody/math", revision=COMMIT, name="expert-1")
    entries = save(parts, tokenizer, tmp_path)
    assert entries[1]["source"] == "somebody/math"
    assert entries[1]["revision"] == COMMIT
    assert [path.name for path in (tmp_path / "components").iterdir()] == ["base"]


def test_an_adapter_that_replaces_whole_modules_is_refused(saved: list[Path], tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    config = LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["norm"])
    get_peft_model(AutoModelForCausalLM.from_pretrained(saved[0]), config).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="more than weight deltas"):
        load(resolve(str(saved[0]), [ComponentSpec(adapter=str(tmp_path))]), [(), ()], Loading(torch.float32))
