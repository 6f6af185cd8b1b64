"""What is refused before any weights are loaded, and with which words."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import Gemma2Config, PreTrainedTokenizerFast

from compgen.composition import checks
from compgen.composition.causal_lm import ComposedForCausalLM
from compgen.composition.checks import Description
from compgen.composition.components import ComponentSpec, resolve
from compgen.errors import ConfigError, UserError

from .conftest import byte_tokenizer, gemma


@pytest.fixture
def base() -> Description:
    return Description("base", gemma(0).config, byte_tokenizer())


def with_post_processor(template: str) -> PreTrainedTokenizerFast:
    tokenizer = byte_tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=[("<bos>", 2)])
    return tokenizer


def test_components_that_fit_have_the_bases_width(base: Description) -> None:
    assert checks.check_tokens([base, replace(base, name="math")]) == 300


def test_other_token_ids_are_refused_naming_the_first_tokens(base: Description) -> None:
    other = byte_tokenizer(("<pad>", "<eos>", "<bos>", "<unk>", "<extra>"))
    with pytest.raises(ConfigError, match=r"component math: 257 tokens .* '!' 4/5"):
        checks.check_tokens([base, Description("math", base.config, other)])
    added = byte_tokenizer()
    added.add_tokens(["<|im_start|>"])
    with pytest.raises(ConfigError, match=r"1 tokens .* '<\|im_start\|>' None/260"):
        checks.check_tokens([base, Description("chat", base.config, added)])


def test_other_special_tokens_are_refused(base: Description) -> None:
    other = byte_tokenizer()
    other.unk_token = "!"
    with pytest.raises(ConfigError, match="component math, unk_token='!'"):
        checks.check_tokens([base, Description("math", base.config, other)])
    marked = byte_tokenizer()
    marked.add_special_tokens({"additional_special_tokens": ["!"]})
    with pytest.raises(ConfigError, match="special tokens"):
        checks.check_tokens([base, Description("math", base.config, marked)])


def test_another_end_token_is_said_and_allowed(base: Description, caplog: pytest.LogCaptureFixture) -> None:
    other = byte_tokenizer()
    other.eos_token = "<pad>"
    with caplog.at_level(logging.WARNING):
        checks.check_tokens([base, Description("chat", base.config, other)])
    assert "eos_token is '<eos>' in base and '<pad>' in chat" in caplog.text


def test_wider_vocabularies_are_cut_only_when_asked_and_only_padding(
    base: Description, caplog: pytest.LogCaptureFixture
) -> None:
    wide = Description("math", gemma(0, vocabulary=320).config, base.tokenizer)
    with pytest.raises(ConfigError, match=r"different widths \(base 300, math 320\)"):
        checks.check_tokens([base, wide])
    with caplog.at_level(logging.WARNING):
        assert checks.check_tokens([base, wide], truncate_padding=True) == 300
    assert "cut to 300 rows" in caplog.text
    narrow = Description("math", gemma(0, vocabulary=200).config, base.tokenizer)
    with pytest.raises(ConfigError, match="has token 259"):
        checks.check_tokens([base, narrow], truncate_padding=True)


def test_begin_tokens_that_are_missing_or_doubled_are_refused(base: Description) -> None:
    with pytest.raises(ConfigError, match="begin tokens=0"):
        checks.check_begin(Description("base", base.config, with_post_processor("$A")))
    with pytest.raises(ConfigError, match="begin tokens=2"):
        checks.check_begin(Description("base", base.config, with_post_processor("<bos> <bos> $A")))
    with pytest.raises(ConfigError, match="inside the text"):
        checks.begin_tokens(byte_tokenizer()("hi <bos>")["input_ids"], 2)
    assert checks.begin_tokens(byte_tokenizer()("hi")["input_ids"], 2) == 1


def test_a_family_that_never_had_begin_tokens_may_go_without(base: Description, saved: list[Path]) -> None:
    from transformers import LlamaConfig

    checks.check_begin(Description("base", LlamaConfig(), with_post_processor("$A")))


def test_a_prompt_gives_its_tokens_without_a_begin_token(base: Description) -> None:
    assert checks.prompt_tokens(ComponentSpec(source="."), base.tokenizer) == ()
    assert len(checks.prompt_tokens(ComponentSpec(prompt="Solve: "), base.tokenizer)) == 7
    with pytest.raises(ConfigError, match="leave the begin token out"):
        checks.prompt_tokens(ComponentSpec(prompt="<bos>Solve: "), base.tokenizer)


def test_rows_that_are_too_long_name_the_component() -> None:
    checks.check_positions({"base": 128, "math": None}, 128)
    with pytest.raises(ConfigError, match="component math has 100 positions"):
        checks.check_positions({"base": 128, "math": 100}, 128)


def test_weights_are_counted_without_memory_for_them() -> None:
    model = gemma(0)
    expected = sum(parameter.numel() for parameter in model.parameters())
    assert checks.weight_bytes(model.config, torch.float32) == 4 * expected
    assert checks.weight_bytes(model.config, torch.bfloat16) == 2 * expected


def test_the_real_gemma_2_2b_has_its_published_size() -> None:
    """2,614,341,888 parameters, embeddings once (model card)."""
    assert checks.weight_bytes(Gemma2Config(), torch.bfloat16) == 2 * 2_614_341_888


def test_cache_bytes_equal_those_of_a_full_cache() -> None:
    model = gemma(0)
    cache = ComposedForCausalLM.from_modules(model).new_cache(keep_all=True)
    with torch.no_grad():
        model(torch.ones(3, 20, dtype=torch.long), cache=cache.parts[0])
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    assert checks.cache_bytes(model.config, torch.float32, 3, 20) == held


def test_shared_weights_count_once_and_adapters_a_little(saved: list[Path], adapters: list[Path]) -> None:
    def needed(*experts: Any) -> int:
        specs = resolve(str(saved[0]), experts)
        return checks.needed_memory(specs, checks.describe_all(specs), torch.float32)

    alone = needed()
    assert needed(ComponentSpec(prompt="x")) == alone
    assert needed(str(saved[1])) == 2 * alone
    assert alone < needed(ComponentSpec(adapter=str(adapters[0]))) < 1.2 * alone


def test_what_cannot_fit_is_refused_before_loading(saved: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "free_memory", lambda device_map: 1000)
    monkeypatch.setattr("compgen.composition.components.load", lambda *arguments: pytest.fail("weights were loaded"))
    with pytest.raises(UserError, match="GiB are free: use a narrower dtype"):
        ComposedForCausalLM.compose(str(saved[0]), [str(saved[1])])


def test_free_memory_of_this_machine_is_positive() -> None:
    assert checks.free_memory(None) == pytest.approx(checks.free_memory({"": "cpu"}), rel=0.2)
    assert checks.free_memory("auto") > 0


def test_a_composition_is_no_component(saved: list[Path], tmp_path: Path) -> None:
    ComposedForCausalLM.compose(str(saved[0])).save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match="is a composition itself"):
        ComposedForCausalLM.compose(str(tmp_path))


def test_a_directory_without_a_tokenizer_is_refused(saved: list[Path], tmp_path: Path) -> None:
    """transformers would make one up that knows no tokens."""
    gemma(0).save_pretrained(tmp_path)
    with pytest.raises(UserError, match="component base: .* a tokenizer beside the weights"):
        ComposedForCausalLM.compose(str(tmp_path))
