"""Merges against closed forms and brute force, on tiny Gemma 2 models."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, Gemma2Config, Gemma2ForCausalLM, PreTrainedTokenizerFast

from compgen.composition.merging import measure_task_vectors, merge_models, weights_digest
from compgen.composition.merging_config import CompositionMergeConfig, MergeMethod, MergingConfig, WeightMerge
from compgen.errors import ConfigError, UserError
from compgen.jobs import composition_merge
from compgen.run.context import FinishedJob
from compgen.weights.config import ModelConfig

Weights = dict[str, Tensor]
VOCABULARY = 64
NAMES = ("math", "code")


def tiny_model(seed: int) -> Gemma2ForCausalLM:
    torch.manual_seed(seed)
    shape = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "head_dim": 16,
        "vocab_size": VOCABULARY,
    }
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "query_pre_attn_scalar": 16, "sliding_window": 8}
    return Gemma2ForCausalLM(Gemma2Config(**shape, **heads, pad_token_id=0, eos_token_id=1, bos_token_id=2))


def save_tiny(model: Gemma2ForCausalLM, folder: Path) -> None:
    model.save_pretrained(folder)
    vocabulary = {"<pad>": 0, "<eos>": 1, "<bos>": 2, **{f"t{i}": i for i in range(3, VOCABULARY)}}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<pad>"))
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "bos_token": "<bos>"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A base and two experts near it, as finished jobs have them; the second expert moved only half of its entries."""
    root = tmp_path_factory.mktemp("jobs")
    places = {"base": root / "base-seed0/model", **{n: root / f"expert-{n}-seed0/model" for n in NAMES}}
    for index, folder in enumerate(places.values()):
        model = tiny_model(0)
        generator = torch.Generator().manual_seed(index)
        with torch.no_grad():
            for parameter in model.parameters() if index else ():
                move = 0.02 * torch.randn(parameter.shape, generator=generator)
                parameter += move * (torch.rand(parameter.shape, generator=generator) < 1 / index)
        save_tiny(model, folder)
    for name, folder in places.items():
        kind = "composition_pretrain" if name == "base" else "composition_finetune"
        (folder.parent / "manifest.json").write_text(json.dumps({"kind": kind, "config": {"skill": name}}))
    return places


@pytest.fixture
def merged(folders: dict[str, Path], tmp_path: Path) -> Callable[..., Weights]:
    def merge(
        method: str, scaling: float = 1.0, density: float = 1.0, seed: int = 0, experts: tuple[str, ...] = NAMES
    ) -> Weights:
        wanted = WeightMerge("m", MergeMethod(method), scaling, density)
        target = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        merge_models(wanted, folders["base"], [folders[name] for name in experts], target, seed)
        return weights(target)

    return merge


def weights(folder: Path) -> Weights:
    return load_file(folder / "model.safetensors")


def task_vectors(folders: dict[str, Path]) -> tuple[Weights, list[Weights]]:
    base = weights(folders["base"])
    return base, [{n: w.double() - base[n].double() for n, w in weights(folders[e]).items()} for e in NAMES]


def assert_close(actual: Weights, expected: Weights) -> None:
    assert actual.keys() == expected.keys()
    for name, value in actual.items():
        assert value.dtype == torch.float32
        torch.testing.assert_close(value.double(), expected[name].double(), rtol=0, atol=3e-7)


def elect(rows: list[float], average: bool) -> float:
    """TIES for one entry, in plain Python: the sign of the sum wins, what agrees is averaged or summed."""
    sign = 1 if sum(rows) >= 0 else -1
    agreeing = [value for value in rows if value * sign > 0]
    return sum(agreeing) / (max(len(agreeing), 1) if average else 1)


@pytest.mark.parametrize("scaling", [0.0, 0.3, 1.0])
def test_task_arithmetic_is_the_base_plus_the_scaled_sum(scaling: float, merged, folders) -> None:
    base, vectors = task_vectors(folders)
    expected = {n: base[n].double() + scaling * sum(v[n] for v in vectors) for n in base}
    assert_close(merged("task_arithmetic", scaling), expected)


def test_linear_is_the_mean_of_the_experts(merged, folders) -> None:
    experts = [weights(folders[name]) for name in NAMES]
    assert_close(merged("linear"), {n: sum(e[n].double() for e in experts) / 2 for n in experts[0]})


def test_task_arithmetic_with_one_expert_and_full_strength_is_that_expert(merged, folders) -> None:
    assert_close(merged("task_arithmetic", experts=("code",)), weights(folders["code"]))


def test_ties_of_whole_vectors_is_the_mean_of_the_entries_that_agree_with_the_elected_sign(merged, folders) -> None:
    base, vectors = task_vectors(folders)
    actual = merged("ties", 0.7)
    for name, start in base.items():
        rows = zip(*(v[name].reshape(-1).tolist() for v in vectors), strict=True)
        expected = start.reshape(-1).double() + 0.7 * torch.tensor([elect(list(row), True) for row in rows]).double()
        torch.testing.assert_close(actual[name].reshape(-1).double(), expected, rtol=0, atol=3e-7)


def test_ties_keeps_the_largest_entries_of_each_tensor(merged, folders) -> None:
    base, vectors = task_vectors(folders)
    actual = merged("ties", density=0.2, experts=("math",))
    for name, start in base.items():
        vector = vectors[0][name].reshape(-1)
        order = vector.abs().argsort(descending=True)[: int(0.2 * len(vector))]
        kept = torch.zeros_like(vector).index_copy(0, order, vector[order])
        torch.testing.assert_close(actual[name].reshape(-1).double(), start.reshape(-1) + kept, rtol=0, atol=3e-7)


def test_dare_that_drops_nothing_is_task_arithmetic_and_the_summing_sign_election(merged, folders) -> None:
    base, vectors = task_vectors(folders)
    assert_close(merged("dare_linear", 0.5), merged("task_arithmetic", 0.5))
    actual = merged("dare_ties")
    for name in ("model.norm.weight", "model.layers.1.self_attn.k_proj.weight"):
        rows = zip(*(v[name].reshape(-1).tolist() for v in vectors), strict=True)
        expected = base[name].reshape(-1).double() + torch.tensor([elect(list(row), False) for row in rows]).double()
        torch.testing.assert_close(actual[name].reshape(-1).double(), expected, rtol=0, atol=3e-7)


def test_dare_divides_what_it_keeps_by_the_density_and_so_keeps_the_expectation(merged, folders) -> None:
    base, vectors = task_vectors(folders)
    actual = merged("dare_linear", density=0.25, experts=("math",))
    moved = torch.cat([(actual[n].double() - base[n].double()).reshape(-1) for n in base])
    vector = torch.cat([vectors[0][n].reshape(-1) for n in base])
    kept = moved != 0
    torch.testing.assert_close(moved[kept], vector[kept] / 0.25, rtol=0, atol=1e-6)
    assert abs(kept.double().mean() - 0.25) < 5 * (0.25 * 0.75 / len(kept)) ** 0.5
    projection = (moved @ vector) / (vector @ vector)  # expectation 1, variance (1/p - 1) Σv⁴ / (Σv²)²
    assert abs(projection - 1) < 5 * (3 * vector.pow(4).sum()).sqrt() / (vector @ vector)


def test_a_rerun_writes_the_same_bytes_and_another_seed_draws_another_mask(folders, tmp_path: Path) -> None:
    wanted = WeightMerge("m", MergeMethod.dare_ties, 1.0, 0.5)
    experts = [folders[name] for name in NAMES]
    before = torch.random.get_rng_state()
    for name, seed in (("first", 0), ("second+@", 0), ("other", 1)):
        merge_models(wanted, folders["base"], experts, tmp_path / name, seed)
    assert torch.equal(torch.random.get_rng_state(), before)
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("first", "second+@"))
    assert first == second
    assert weights_digest(tmp_path / "first") == weights_digest(tmp_path / "second+@")
    assert weights_digest(tmp_path / "first") != weights_digest(tmp_path / "other")


def test_a_merged_folder_loads_as_a_tied_gemma_with_the_bases_tokenizer_and_finite_logits(
    folders, tmp_path: Path
) -> None:
    target = tmp_path / "merged"
    wanted = WeightMerge("m", MergeMethod.ties, 1.0, 0.5)
    merge_models(wanted, folders["base"], [folders[name] for name in NAMES], target, 0)
    assert {path.name for path in target.iterdir()} == {path.name for path in folders["base"].iterdir()}
    assert (target / "config.json").read_bytes() == (folders["base"] / "config.json").read_bytes()
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    assert isinstance(model, Gemma2ForCausalLM)
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert torch.equal(model.lm_head.weight, weights(target)["model.embed_tokens.weight"])
    ids = AutoTokenizer.from_pretrained(target)("<bos> t3 t9", return_tensors="pt").input_ids
    assert torch.isfinite(model(ids).logits).all()


def test_bfloat16_models_are_added_in_float32_and_stored_in_bfloat16(folders, tmp_path: Path) -> None:
    small = {}
    for name, folder in folders.items():
        small[name] = tmp_path / name
        small[name].mkdir()
        values = {key: value.bfloat16() for key, value in weights(folder).items()}
        save_file(values, small[name] / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((folder / "config.json").read_text())
        (small[name] / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    wanted = WeightMerge("m", MergeMethod.task_arithmetic, 0.5)
    merge_models(wanted, small["base"], [small[name] for name in NAMES], tmp_path / "merged", 0)
    base, math, code = (weights(small[name]) for name in small)
    for name, value in weights(tmp_path / "merged").items():
        exact = base[name].float() + 0.5 * (
            math[name].float() - base[name].float() + code[name].float() - base[name].float()
        )
        assert torch.equal(value, exact.bfloat16())


def test_merging_needs_no_network(merged, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert merged("task_arithmetic", 0.5)


def test_models_of_other_shapes_and_pickled_weights_are_refused(folders, tmp_path: Path) -> None:
    wider, pickled = tmp_path / "wider", tmp_path / "pickled"
    wider.mkdir()
    pickled.mkdir()
    values = weights(folders["math"])
    save_file({**values, "model.norm.weight": torch.ones(65)}, wider / "model.safetensors")
    torch.save(values, pickled / "pytorch_model.bin")
    merge = WeightMerge("m")
    with pytest.raises(UserError, match=r"tensor model.norm.weight has shape \(65,\)"):
        merge_models(merge, folders["base"], [wider], tmp_path / "merged", 0)
    with pytest.raises(UserError, match="safetensors"):
        merge_models(merge, folders["base"], [pickled], tmp_path / "merged", 0)


def test_task_vectors_are_measured_as_by_hand(folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compgen.composition.merging.CHUNK", 1000)
    experts = {name: folders[name] for name in NAMES}
    merge_models(WeightMerge("m", MergeMethod.ties, 1.0, 0.2), folders["base"], [folders["math"]], tmp_path / "m", 0)
    measured = measure_task_vectors(folders["base"], experts, {"m": tmp_path / "m"}, {"m": ["math"]})
    math, code = (torch.cat([v[n].reshape(-1) for n in sorted(v)]) for v in task_vectors(folders)[1])
    assert measured.norm("math") == pytest.approx(float(math.norm()))
    assert measured.cosine("math", "code") == pytest.approx(float(math @ code / math.norm() / code.norm()))
    assert measured.left["m"] == pytest.approx(0.8, abs=0.002)
    alone = measure_task_vectors(folders["base"], {"same": folders["base"]}, {}, {})
    assert alone.cosine("same", "same") is None


class Context:
    """What the job sees of the run layer."""

    def __init__(self, directory: Path, models: dict[str, Path]) -> None:
        self.directory = directory
        self.inputs = {folder.parent.name: FinishedJob(folder.parent) for folder in models.values()}
        self.rows: list[list[object]] = []

    def progress(self, done: int, total: int, note: str = "") -> None:
        assert done < total

    def table(self, name: str, columns: list[str], rows: list[list[object]]) -> None:
        self.rows = rows


def test_the_job_writes_every_merge_and_reports_plain_values(folders, tmp_path: Path) -> None:
    merges = [
        WeightMerge("mean", MergeMethod.linear),
        WeightMerge("sparse", MergeMethod.dare_linear, 1.0, 0.5, ["code"]),
    ]
    config = CompositionMergeConfig(3, MergingConfig(list(NAMES), merges))
    context = Context(tmp_path, folders)
    metrics = composition_merge.run(config, context)
    assert [row["sha256"] for row in metrics["merges"]] == [
        weights_digest(tmp_path / "merges" / m.name) for m in merges
    ]
    assert metrics["merges"][1]["cosines"].keys() == {"code"}
    assert len(context.rows) == 2
    assert str(tmp_path) not in json.dumps(metrics, allow_nan=False)


def test_models_are_found_by_what_their_jobs_trained_and_each_must_be_there_once(folders) -> None:
    jobs = [FinishedJob(folder.parent) for folder in folders.values()]
    base, experts = composition_merge.find_models(["code"], reversed(jobs), {})
    assert (base, experts) == (folders["base"], {"code": folders["code"]})
    with pytest.raises(UserError, match="for sequences, found none"):
        composition_merge.find_models(["sequences"], jobs, {})
    with pytest.raises(UserError, match="for math"):
        composition_merge.find_models(["math"], [*jobs, jobs[1]], {})
    with pytest.raises(UserError, match="for base"):
        composition_merge.find_models(["math"], jobs[1:], {})


def test_models_that_no_job_trained_are_merged_from_their_directories(folders) -> None:
    models = {"base": ModelConfig(str(folders["base"])), "math": ModelConfig(str(folders["math"]))}
    assert composition_merge.find_models(["math"], [], models) == (folders["base"], {"math": folders["math"]})
    with pytest.raises(UserError, match="for math"):
        composition_merge.find_models(["math"], [FinishedJob(folders["math"].parent)], models)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "linear", "scaling": 0.5}, "linear is a mean"),
        ({"method": "task_arithmetic", "density": 0.5}, "keeps everything"),
        ({"method": "ties", "density": 0.0}, "must be above 0"),
        ({"experts": ["math", "math"]}, "each expert once"),
        ({"name": "../up"}, "lower-case"),
    ],
)
def test_impossible_merges_are_refused_before_anything_runs(values: dict[str, object], message: str) -> None:
    node = OmegaConf.merge(OmegaConf.structured(MergingConfig), {"merges": [{"name": "m", **values}]})
    with pytest.raises(ConfigError, match=message):
        OmegaConf.to_object(node)


@pytest.mark.parametrize("profile", ["base", "paper"])
def test_the_merges_that_ship_are_possible(profile: str) -> None:
    path = Path(__file__).parents[2] / "conf" / "composition" / "merge" / f"{profile}.yaml"
    given = OmegaConf.load(path)
    node = OmegaConf.merge(OmegaConf.structured(MergingConfig), {k: v for k, v in given.items() if k != "defaults"})
    assert OmegaConf.to_object(node).merges
