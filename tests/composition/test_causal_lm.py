"""The composed model against brute force, the authors' decoding loop, single models and lm-eval's own model class."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from compgen.composition.causal_lm import ComposedForCausalLM, NonFiniteError
from compgen.composition.components import ComponentSpec
from compgen.composition.options import Combination, CompositionRule, EndOfSequence, Remedy, Weighting
from compgen.composition.registration import register, rule_from
from compgen.composition.rule import compose
from compgen.errors import ConfigError, UserError

from .conftest import BEGIN, END, gemma, left_padded, perturbed, rows

NEW = 24


@pytest.fixture(scope="module")
def model(trio: list[Any], tokenizer: PreTrainedTokenizerFast) -> ComposedForCausalLM:
    return ComposedForCausalLM.from_modules(trio[0], trio[1:], tokenizer=tokenizer)


def greedy(model: Any, items: list[list[int]], new: int = NEW, **options: Any) -> list[list[int]]:
    ids, mask = left_padded(items)
    found = model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=new, do_sample=False, **options)
    return [row[ids.shape[1] :].tolist() for row in found]


@torch.no_grad()
def brute_force(modules: list[Any], item: list[int], rule: CompositionRule, new: int = NEW) -> list[int]:
    """Everything computed anew for every token, one row, no cache, no padding."""
    ids = list(item)
    while len(ids) < len(item) + new and END not in ids[len(item) :]:
        base, *experts = (module(torch.tensor([ids])).logits[:, -1] for module in modules)
        ids.append(int(compose(base, torch.stack(experts), rule, (END,)).argmax()))
    return ids[len(item) :]


@torch.no_grad()
def authors_loop(base: Any, first: Any, second: Any, item: list[int], new: int) -> list[int]:
    """What the notebook of Kumar, Bucarelli and Natale does (cells 9 and 11), written anew."""
    models, caches = (base, first, second), [None, None, None]
    step, found = torch.tensor([item]), []
    for _ in range(new):
        logp = []
        for place, single in enumerate(models):
            out = single(input_ids=step, cache=caches[place], use_cache=True)
            caches[place] = out.cache
            logp.append(out.logits[:, -1].log_softmax(-1))
        logp_base, logp_a, logp_b = logp
        merged = logp_a + logp_b - logp_base
        step = merged.argmax(-1, keepdim=True)
        found.append(int(step))
        if found[-1] == END:
            break
    return found


def test_generation_equals_the_authors_loop_token_by_token(model: ComposedForCausalLM, trio: list[Any]) -> None:
    for item in rows([5, 20, 37]):
        assert greedy(model, [item], 40)[0] == authors_loop(*trio, item, 40)


@pytest.mark.parametrize(
    "rule",
    [
        CompositionRule(),
        CompositionRule(coefficients=(0.5, 1.5), remedy=Remedy.plausibility_mask),
        CompositionRule(end_of_sequence=EndOfSequence.gate, weighting=Weighting.softmax),
        CompositionRule(combination=Combination.mixture),
    ],
)
def test_generation_equals_recomputation_without_a_cache(trio: list[Any], rule: CompositionRule) -> None:
    composed = ComposedForCausalLM.from_modules(trio[0], trio[1:], rule)
    item = rows([21])[0]
    assert greedy(composed, [item])[0] == brute_force(trio, item, rule)


def test_every_row_of_a_padded_batch_equals_itself_alone(model: ComposedForCausalLM) -> None:
    items = rows([3, 11, 34, 20])
    together = greedy(model, items)
    assert together == [greedy(model, [item])[0] for item in items]
    ids, mask = left_padded(items)
    with torch.no_grad():
        padded = model(ids, attention_mask=mask).logits
        for row, item in enumerate(items):
            alone = model(torch.tensor([item])).logits[0]
            assert torch.allclose(padded[row, -len(item) :], alone, atol=1e-4)


def test_one_expert_of_weight_one_is_that_expert_bit_for_bit(trio: list[Any]) -> None:
    composed = ComposedForCausalLM.from_modules(trio[0], trio[1:2])
    ids, mask = left_padded(rows([30, 9]))
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    with torch.no_grad():
        own = trio[1](ids, attention_mask=mask, position_ids=positions).logits.log_softmax(-1)
        assert torch.equal(composed(ids, attention_mask=mask).logits[mask.bool()], own[mask.bool()])
        assert torch.equal(composed(ids[:1]).logits, trio[1](ids[:1]).logits.log_softmax(-1))
    assert greedy(composed, rows([30, 9])) == greedy(trio[1], rows([30, 9]), eos_token_id=END, pad_token_id=0)


def test_without_experts_it_is_the_base(trio: list[Any]) -> None:
    alone = ComposedForCausalLM.from_modules(trio[0])
    ids = torch.tensor(rows([12]))
    with torch.no_grad():
        assert torch.equal(alone(ids).logits, trio[0](ids).logits.log_softmax(-1))
    assert greedy(alone, rows([12])) == greedy(trio[0], rows([12]))


def test_logits_are_normalized_and_components_can_be_seen(model: ComposedForCausalLM, trio: list[Any]) -> None:
    ids, mask = left_padded(rows([8, 13]))
    with torch.no_grad():
        logits = model(ids, attention_mask=mask, logits_to_keep=3).logits
        base, experts = model.component_log_probabilities(ids, mask)
        assert logits.shape == (2, 3, 300)
        assert logits.dtype == torch.float32
        assert torch.allclose(logits.exp().sum(-1), torch.ones(2, 3))
        assert experts.shape == (2, 2, 13, 300)
        assert torch.allclose(compose(base, experts, model.rule)[:, -3:], logits, atol=1e-6)
        assert torch.allclose(base[1], trio[0](ids[1:]).logits.log_softmax(-1)[0], atol=1e-5)
        chosen = model(ids, attention_mask=mask, logits_to_keep=torch.tensor([12, 6])).logits
        assert torch.allclose(chosen, model(ids, attention_mask=mask).logits[:, [12, 6]], atol=1e-5)


def test_bfloat16_components_are_combined_in_float32(trio: list[Any]) -> None:
    narrow = [perturbed(module, 0, size=0.0).to(torch.bfloat16) for module in trio]
    ids = torch.tensor(rows([10]))
    with torch.no_grad():
        found = ComposedForCausalLM.from_modules(narrow[0], narrow[1:])(ids).logits
        base, *experts = (module(ids).logits.float() for module in narrow)
    assert found.dtype == torch.float32
    assert torch.equal(found, compose(base, torch.stack(experts), CompositionRule()))


def test_many_rows_combined_in_pieces_are_the_same(model: ComposedForCausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    ids, mask = left_padded(rows([8, 13]))
    with torch.no_grad():
        whole = model(ids, attention_mask=mask).logits
        monkeypatch.setattr("compgen.composition.causal_lm.CHUNK_VALUES", 5 * 300)
        assert torch.equal(model(ids, attention_mask=mask).logits, whole)
        assert torch.equal(model(ids).logits[1], whole[1])


def test_loss_is_the_cross_entropy_of_the_composition(model: ComposedForCausalLM) -> None:
    ids = torch.tensor(rows([15]))
    with torch.no_grad():
        out = model(ids, labels=ids)
    expected = -out.logits[0, :-1].gather(1, ids[0, 1:, None]).mean()
    assert float(out.loss) == pytest.approx(float(expected), abs=1e-5)


def test_sampling_repeats_with_its_seed_and_scores_are_the_composition(model: ComposedForCausalLM) -> None:
    ids, mask = left_padded(rows([9, 5]))
    options = {"do_sample": True, "max_new_tokens": 6, "return_dict_in_generate": True, "output_scores": True}

    def sample(seed: int) -> Any:
        torch.manual_seed(seed)
        return model.generate(input_ids=ids, attention_mask=mask, top_k=0, **options)

    first, again, other = sample(0), sample(0), sample(1)
    assert torch.equal(first.sequences, again.sequences)
    assert not torch.equal(first.sequences, other.sequences)
    with torch.no_grad():
        grown = torch.cat((mask, torch.ones(2, 6, dtype=torch.long)), 1)
        full = model(first.sequences, attention_mask=grown).logits[:, -7:-1]
    assert torch.allclose(torch.stack(first.scores, 1), full, atol=1e-4)


def test_beam_search_finds_what_beam_search_over_full_recomputation_finds(model: ComposedForCausalLM) -> None:
    items = rows([9, 25])
    assert greedy(model, items, 8, num_beams=3) == greedy(model, items, 8, num_beams=3, use_cache=False)


def test_stop_strings_and_more_than_one_row_a_prompt(
    model: ComposedForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    item = rows([20])[0]
    free = greedy(model, [item])[0]
    text = tokenizer.decode(free[3:4])
    stopped = greedy(model, [item], stop_strings=[text], tokenizer=tokenizer)[0]
    assert text in tokenizer.decode(stopped)
    assert stopped == free[: len(stopped)]
    assert len(stopped) < len(free)
    ids, mask = left_padded([item])
    many = model.generate(input_ids=ids, attention_mask=mask, do_sample=True, num_return_sequences=3, max_new_tokens=2)
    assert many.shape == (3, 22)


def test_end_tokens_are_those_of_all_components(trio: list[Any]) -> None:
    chat = perturbed(trio[1], 0, size=0.0)
    chat.generation_config.eos_token_id = [END, 107]
    composed = ComposedForCausalLM.from_modules(trio[0], [chat, trio[2]])
    assert composed.end_tokens == (END, 107)
    assert composed.generation_config.eos_token_id == [END, 107]
    assert ComposedForCausalLM.from_modules(trio[0], [chat], end_tokens=[END]).end_tokens == (END,)
    with pytest.raises(ConfigError, match="end_tokens"):
        ComposedForCausalLM.from_modules(trio[0], [chat], end_tokens=[300])


class Broken(torch.nn.Module):
    """A model whose logits are NaN where some token is fed."""

    def __init__(self, module: Any, token: int) -> None:
        super().__init__()
        self.module, self.token = module, token
        self.config, self.generation_config = module.config, module.generation_config
        self.device, self.dtype = module.device, module.dtype

    def forward(self, input_ids: Tensor, **named: Any) -> Any:
        out = self.module(input_ids=input_ids, **named)
        out.logits = out.logits.masked_fill((input_ids == self.token)[..., None], torch.nan)
        return out


def test_a_component_that_is_not_finite_is_named_with_its_row_and_padding_never_counts(trio: list[Any]) -> None:
    names = ["base", "math", "code"]
    ids, mask = left_padded([[BEGIN, 10, 11], [BEGIN, 10]])
    padding = ComposedForCausalLM.from_modules(trio[0], [Broken(trio[1], 0), trio[2]], names=names)
    with torch.no_grad():
        assert bool(torch.isfinite(padding(ids, attention_mask=mask).logits).all())
        wrong = ComposedForCausalLM.from_modules(trio[0], [trio[1], Broken(trio[2], 11)], names=names)
        with pytest.raises(NonFiniteError, match="component code .* row 0 .* column 2") as found:
            wrong(ids, attention_mask=mask)
        assert (found.value.component, found.value.row) == ("code", 0)
        assert isinstance(found.value, UserError)


def test_two_begin_tokens_are_refused(model: ComposedForCausalLM) -> None:
    with pytest.raises(ConfigError, match="row 1: begin token 2 stands twice"):
        model(torch.tensor([[BEGIN, 10, 11], [BEGIN, BEGIN, 11]]))
    padded = torch.tensor([[BEGIN, BEGIN, 11]])
    model(padded, attention_mask=torch.tensor([[0, 1, 1]]))  # padding may be anything


def test_rows_longer_than_the_positions_are_refused(model: ComposedForCausalLM) -> None:
    with pytest.raises(ConfigError, match="component base has 1024 positions"):
        model(torch.tensor(rows([1025])))


@pytest.mark.parametrize(("family", "attention"), [("llama", "sdpa"), ("llama", "eager"), ("gpt2", "eager")])
def test_other_architectures_step_and_pad_alike(family: str, attention: str) -> None:
    shape = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 32, "intermediate_size": 48}
    settings = shape | {"vocab_size": 300, "max_position_embeddings": 64, "bos_token_id": BEGIN, "eos_token_id": END}
    modules = []
    for seed in range(3):
        torch.manual_seed(seed)
        config = AutoConfig.for_model(family, **settings, initializer_range=0.3, pad_token_id=0)
        modules.append(AutoModelForCausalLM.from_config(config, attn_implementation=attention).eval())
    composed = ComposedForCausalLM.from_modules(modules[0], modules[1:], CompositionRule(coefficients=(0.5, 0.5)))
    items = rows([4, 19])
    expected = [brute_force(modules, item, composed.rule, 8) for item in items]
    assert greedy(composed, items, 8) == expected


def test_the_rule_can_be_set_and_is_checked(trio: list[Any]) -> None:
    composed = ComposedForCausalLM.from_modules(trio[0], trio[1:])
    ids = torch.tensor(rows([6]))
    with torch.no_grad():
        product = composed(ids).logits
        composed.rule = replace(composed.rule, combination=Combination.mixture)
        assert not torch.allclose(composed(ids).logits, product, atol=1e-3)
    assert composed.config.rule["combination"] == "mixture"
    with pytest.raises(ConfigError, match="coefficients"):
        composed.rule = CompositionRule(coefficients=(1.0,))
    with pytest.raises(ConfigError, match="rule="):
        rule_from({"combination": "sum_of_all"})


def test_vocabularies_of_other_width_need_an_explicit_word(trio: list[Any]) -> None:
    wide = gemma(3, vocabulary=320)
    with pytest.raises(ConfigError, match="base 300, expert-1 320"):
        ComposedForCausalLM.from_modules(trio[0], [wide])
    composed = ComposedForCausalLM.from_modules(trio[0], [wide], truncate_padding=True)
    with torch.no_grad():
        ids = torch.tensor(rows([6]))
        assert torch.equal(composed(ids).logits, wide(ids).logits[..., :300].log_softmax(-1))


def test_a_saved_composition_loads_through_the_auto_classes_with_equal_logits(
    saved: list[Path], trio: list[Any], tmp_path: Path
) -> None:
    register()
    rule = CompositionRule(coefficients=(0.7, 1.0), remedy=Remedy.tail_clip)
    composed = ComposedForCausalLM.compose(str(saved[0]), [str(saved[1]), str(saved[2])], rule)
    composed.save_pretrained(tmp_path / "composed")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "composed")
    assert isinstance(loaded, ComposedForCausalLM)
    assert loaded.rule == rule
    ids = torch.tensor(rows([22]))
    with torch.no_grad():
        assert torch.equal(loaded(ids).logits, composed(ids).logits)
        in_memory = ComposedForCausalLM.from_modules(trio[0], trio[1:], rule)
        assert torch.allclose(in_memory(ids).logits, loaded(ids).logits, atol=1e-6)
    written = json.loads((tmp_path / "composed" / "config.json").read_text())
    assert [entry["source"] for entry in written["components"]] == [
        "components/base",
        "components/expert-1",
        "components/expert-2",
    ]
    assert AutoTokenizer.from_pretrained(tmp_path / "composed")("a")["input_ids"][0] == BEGIN
    narrow = AutoModelForCausalLM.from_pretrained(tmp_path / "composed", dtype=torch.bfloat16)
    assert {part.network.dtype for part in narrow.parts} == {torch.bfloat16}
    with pytest.raises(ConfigError, match="quantization_config"):
        AutoModelForCausalLM.from_pretrained(tmp_path / "composed", quantization_config={"load_in_4bit": True})


def test_models_in_memory_are_saved_with_their_tokenizer_or_not_at_all(
    model: ComposedForCausalLM, trio: list[Any], tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="tokenizer"):
        ComposedForCausalLM.from_modules(trio[0]).save_pretrained(tmp_path)
    model.save_pretrained(tmp_path)
    ids = torch.tensor(rows([12]))
    with torch.no_grad():
        assert torch.equal(ComposedForCausalLM.from_pretrained(tmp_path)(ids).logits, model(ids).logits)


def test_adapters_share_the_base_and_equal_the_merged_models(
    saved: list[Path], adapters: list[Path], tmp_path: Path
) -> None:
    from peft import PeftModel

    experts = [ComponentSpec(adapter=str(path)) for path in adapters]
    composed = ComposedForCausalLM.compose(str(saved[0]), experts)
    assert len(composed.component_modules) == 1
    load = lambda: AutoModelForCausalLM.from_pretrained(saved[0], dtype=torch.float32)  # noqa: E731
    merged = [PeftModel.from_pretrained(load(), path).merge_and_unload() for path in adapters]
    reference = ComposedForCausalLM.from_modules(load(), merged)
    ids, mask = left_padded(rows([25, 12]))
    with torch.no_grad():
        expected = reference(ids, attention_mask=mask).logits
        assert torch.allclose(composed(ids, attention_mask=mask).logits, expected, atol=1e-4)
        base, experts_said = composed.component_log_probabilities(ids, mask)
        assert torch.equal(base, reference.component_log_probabilities(ids, mask)[0])
        assert (experts_said[0] - experts_said[1]).abs().max() > 0.1
        composed.save_pretrained(tmp_path / "saved")
        loaded = ComposedForCausalLM.from_pretrained(tmp_path / "saved")
        assert len(loaded.component_modules) == 1
        assert torch.equal(loaded(ids, attention_mask=mask).logits, composed(ids, attention_mask=mask).logits)
    assert greedy(composed, rows([25, 12])) == greedy(reference, rows([25, 12]))


def test_an_adapter_on_a_source_of_its_own_is_merged(saved: list[Path], adapters: list[Path]) -> None:
    spec = ComponentSpec(source=str(saved[1]), adapter=str(adapters[0]))
    composed = ComposedForCausalLM.compose(str(saved[0]), [spec])
    assert len(composed.component_modules) == 2
    base = ComponentSpec(source=str(saved[0]), adapter=str(adapters[0]))
    with pytest.raises(ConfigError, match="merge it first"):
        ComposedForCausalLM.compose(base, [ComponentSpec(adapter=str(adapters[1]))])


def test_an_expert_by_context_equals_the_base_behind_the_prompt(
    saved: list[Path], trio: list[Any], tokenizer: PreTrainedTokenizerFast, tmp_path: Path
) -> None:
    prompt = "Solve it: "
    own = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    composed = ComposedForCausalLM.compose(str(saved[0]), [ComponentSpec(prompt=prompt, name="math")])
    assert len(composed.component_modules) == 1
    items = rows([4, 26, 15])

    @torch.no_grad()
    def by_hand(item: list[int]) -> Tensor:
        logits: Tensor = trio[0](torch.tensor([[BEGIN, *own, *item[1:]]])).logits[0, len(own) :]
        return logits.log_softmax(-1)

    ids, mask = left_padded(items)
    right = torch.tensor([item + [0] * (26 - len(item)) for item in items])
    with torch.no_grad():
        left_said, right_said = composed(ids, attention_mask=mask).logits, composed(right).logits
    for row, item in enumerate(items):
        assert torch.allclose(left_said[row, -len(item) :], by_hand(item), atol=1e-4)
        assert torch.allclose(right_said[row, : len(item)], by_hand(item), atol=1e-4)
    expected = [greedy(trio[0], [[BEGIN, *own, *item[1:]]])[0] for item in items]
    assert greedy(composed, items) == expected
    assert composed.longest == 1024 - len(own)
    composed.save_pretrained(tmp_path)
    loaded = ComposedForCausalLM.from_pretrained(tmp_path)
    assert len(loaded.component_modules) == 1
    assert greedy(loaded, items) == expected


def test_a_prompt_steps_equal_the_full_forward_past_the_window(trio: list[Any]) -> None:
    composed = ComposedForCausalLM.from_modules(trio[0], [trio[0], trio[1]], prefixes=[(), (40, 41, 42), (43,)])
    ids, mask = left_padded(rows([40, 21]))
    with torch.no_grad():
        full = composed(ids, attention_mask=mask).logits
        cache = composed.new_cache()
        composed(ids[:, :20], attention_mask=mask[:, :20], cache=cache)
        for column in range(20, 40):
            step = composed(ids[:, column : column + 1], attention_mask=mask[:, : column + 1], cache=cache).logits
            assert torch.allclose(step[:, 0], full[:, column], atol=1e-4)


def test_generate_refuses_caches_that_are_not_ours(model: ComposedForCausalLM) -> None:
    ids = torch.tensor(rows([5]))
    with pytest.raises(ConfigError, match="cache_implementation"):
        model.generate(ids, max_new_tokens=2, cache_implementation="static")


def test_a_cache_of_ours_can_be_handed_to_generate(model: ComposedForCausalLM) -> None:
    item = rows([18])[0]
    cache = model.new_cache()
    with torch.no_grad():
        model(torch.tensor([item[:10]]), cache=cache)
    ids = torch.tensor([item])
    found = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, cache=cache, do_sample=False)
    assert found[0, 18:].tolist() == greedy(model, [item])[0]


@pytest.fixture(scope="module")
def harness(model: ComposedForCausalLM, tokenizer: PreTrainedTokenizerFast) -> Any:
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=3, max_length=128)


def request(kind: str, *arguments: Any) -> Any:
    from lm_eval.api.instance import Instance

    return Instance(request_type=kind, doc={}, arguments=arguments, idx=0)


def test_lm_eval_gives_the_log_likelihoods_of_the_composition(
    harness: Any, trio: list[Any], tokenizer: PreTrainedTokenizerFast
) -> None:
    pairs = [("a cat", " sat"), ("two and two make", " four, not five"), ("x", "y")]
    found = harness.loglikelihood([request("loglikelihood", *pair) for pair in pairs])
    for (context, continuation), (value, _) in zip(pairs, found, strict=True):
        start = len(tokenizer(context)["input_ids"])
        ids = torch.tensor(tokenizer(context + continuation)["input_ids"])
        with torch.no_grad():
            base, *experts = (module(ids[None]).logits[0] for module in trio)
        logp = compose(base, torch.stack(experts), CompositionRule())
        expected = logp[start - 1 : -1].gather(1, ids[start:, None]).sum()
        assert value == pytest.approx(float(expected), abs=1e-3)


def test_lm_eval_generates_what_generate_does(
    harness: Any, model: ComposedForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    prompts = ["a cat sat", "two and two make", "x"]
    options = {"until": ["\n\n"], "max_gen_toks": 10, "do_sample": False}
    found = harness.generate_until([request("generate_until", prompt, options) for prompt in prompts])
    for prompt, text in zip(prompts, found, strict=True):
        ids = greedy(model, [tokenizer(prompt)["input_ids"]], 10)[0]
        assert text == tokenizer.decode(ids, skip_special_tokens=True).split("\n\n")[0]
