"""Models on the hub: whether they can be had, how large they are, and their files on this machine.

Revisions are commits, pinned in the configuration; only safetensors are ever fetched. Nothing here loads weights.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from httpx2 import HTTPError
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

from compgen.errors import UserError

PATTERNS = ("*.safetensors", "*.json", "tokenizer.model", "*.jinja")
"""What a model needs: never a pickle."""
HUB_FAILURES = (OSError, ValueError, HTTPError)
"""What huggingface_hub raises: files that are not there, names that it refuses, and its HTTP library's errors."""


class ModelSource(Protocol):
    """A model as a configuration names it."""

    source: str
    revision: str | None


@dataclass(frozen=True)
class Published:
    """A model as it can be had: how much has to be fetched and held."""

    bytes: int
    """Of its safetensors."""
    is_local: bool


class Hub(Protocol):
    """What is asked of huggingface_hub.HfApi."""

    def model_info(self, repo_id: str, *, revision: str | None, files_metadata: bool) -> Any:
        """The model's record, with the size of every file."""


def local_folder(model: ModelSource) -> Path:
    """The folder of a model: its own directory, or a snapshot from the hub, fetched when it is not there.

    Raises:
        UserError: the hub does not give it.
    """
    if Path(model.source).is_dir():
        return Path(model.source)
    try:
        return Path(snapshot_download(model.source, revision=model.revision, allow_patterns=list(PATTERNS)))
    except HUB_FAILURES as error:
        raise UserError(f"model {model.source}: {remedy(error)}") from error


def survey(models: Mapping[str, ModelSource], hub: Hub) -> tuple[dict[str, Published], list[str]]:
    """What can be had of some models, and one sentence for each that cannot.

    Args:
        models: by the names that arms use.
        hub: asked about those that are no directories.
    """
    found: dict[str, Published] = {}
    loose = [name for name, model in models.items() if model.revision is None and not Path(model.source).is_dir()]
    problems = [f"models {', '.join(loose)}: pin each revision to a commit of 40 hexadecimal digits"] if loose else []
    for name, model in models.items():
        if name in loose:
            continue
        try:
            found[name] = _published(model, hub)
        except HUB_FAILURES as error:
            problems.append(f"model {name} ({model.source}): {remedy(error)}")
        except UserError as error:
            problems.append(f"model {name} ({model.source}): {error}")
    return found, problems


def _published(model: ModelSource, hub: Hub) -> Published:
    folder = Path(model.source)
    if folder.is_dir():
        sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    else:
        info = hub.model_info(model.source, revision=model.revision, files_metadata=True)
        sizes = [file.size or 0 for file in info.siblings if file.rfilename.endswith(".safetensors")]
    if not sizes:
        raise UserError("has no safetensors, and nothing else is loaded")
    return Published(sum(sizes), folder.is_dir())


def remedy(error: Exception) -> str:
    """What a user does about a failure of the hub, without addresses: they may hold a token."""
    if isinstance(error, GatedRepoError):
        return "access is gated: accept its licence on its page, then run `hf auth login`"
    if isinstance(error, RevisionNotFoundError):
        return "the hub has no such revision: check the commit"
    if isinstance(error, RepositoryNotFoundError):
        return "the hub has no such model, or it is private: check the name, or run `hf auth login`"
    offline = " (HF_HUB_OFFLINE is set)" if os.environ.get("HF_HUB_OFFLINE") else ""
    return f"the hub does not answer{offline} ({type(error).__name__}): go online, or name a local directory"
