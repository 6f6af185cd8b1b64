"""Models of the hub with a fake hub: sizes, what is missing and its remedy, local folders."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

from compgen.errors import UserError
from compgen.weights import hub
from compgen.weights.config import ModelConfig

COMMIT = "0123456789" * 4


class FakeHub:
    """Answers with files, or raises."""

    def __init__(self, files: dict[str, int], error: Exception | None = None) -> None:
        self.files, self.error, self.asked = files, error, []

    def model_info(self, repo_id: str, *, revision: str | None, files_metadata: bool) -> Any:
        self.asked.append((repo_id, revision, files_metadata))
        if self.error is not None:
            raise self.error
        return SimpleNamespace(
            siblings=[SimpleNamespace(rfilename=name, size=size) for name, size in self.files.items()]
        )


def test_a_models_size_is_that_of_its_safetensors() -> None:
    fake = FakeHub({"a-1.safetensors": 70, "a-2.safetensors": 30, "pytorch_model.bin": 100, "config.json": 5})
    found, problems = hub.survey({"base": ModelConfig("some/model", COMMIT)}, fake)
    assert problems == []
    assert found == {"base": hub.Published(100, False)}
    assert fake.asked == [("some/model", COMMIT, True)]


def test_a_local_model_is_measured_and_the_hub_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"1234")
    fake = FakeHub({}, RuntimeError("asked"))
    assert hub.survey({"base": ModelConfig(str(tmp_path))}, fake) == ({"base": hub.Published(4, True)}, [])


def test_models_without_a_commit_are_named_together_and_nobody_is_asked() -> None:
    fake = FakeHub({}, RuntimeError("asked"))
    found, problems = hub.survey({"base": ModelConfig("a/b"), "math": ModelConfig("a/c")}, fake)
    assert found == {}
    assert len(problems) == 1
    assert "base, math" in problems[0]


def response(status: int) -> Any:
    return httpx2.Response(status, request=httpx2.Request("GET", "https://token@host/x"))


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: GatedRepoError("secret-token", response=response(403)), "accept its licence"),
        (lambda: RepositoryNotFoundError("secret-token", response=response(404)), "check the name"),
        (lambda: RevisionNotFoundError("secret-token", response=response(404)), "no such revision"),
        (lambda: httpx2.ConnectError("secret-token"), "go online"),
        (lambda: ValueError("secret-token"), "go online"),
    ],
)
def test_every_failure_of_the_hub_has_a_remedy_and_tells_no_address(make: Callable[[], Exception], remedy: str) -> None:
    found, problems = hub.survey({"base": ModelConfig("some/model", COMMIT)}, FakeHub({}, make()))
    assert found == {}
    assert len(problems) == 1
    assert remedy in problems[0]
    assert "secret-token" not in problems[0]
    assert "host" not in problems[0]


def test_a_model_without_safetensors_is_refused() -> None:
    found, problems = hub.survey({"base": ModelConfig("some/model", COMMIT)}, FakeHub({"pytorch_model.bin": 9}))
    assert found == {}
    assert "no safetensors" in problems[0]


def test_a_snapshot_is_pinned_and_never_holds_a_pickle(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: dict[str, Any] = {}

    def snapshot(source: str, revision: str, allow_patterns: list[str]) -> str:
        asked.update(source=source, revision=revision, patterns=allow_patterns)
        return str(tmp_path)

    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    assert hub.local_folder(ModelConfig("some/model", COMMIT)) == tmp_path
    assert asked["revision"] == COMMIT
    assert not any(Path("pytorch_model.bin").match(pattern) for pattern in asked["patterns"])
    assert Path("model-00001-of-00002.safetensors").match(asked["patterns"][0])


def test_a_failed_snapshot_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> str:
        raise httpx2.ConnectError("no")

    monkeypatch.setattr(hub, "snapshot_download", fails)
    with pytest.raises(UserError, match="model some/model: the hub does not answer"):
        hub.local_folder(ModelConfig("some/model", COMMIT))
