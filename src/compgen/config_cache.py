"""Resolved configurations of a DAG's jobs, remembered by their overrides.

Composing sixty configurations takes Hydra several seconds; `make plan` has five in all. The memory is worth
nothing as soon as a file of conf/ or a schema changes, and is dropped then.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compgen.run.context import read_json
from compgen.run.fingerprint import canonical_json, file_digest, mapping_digest, source_closure, text_digest
from compgen.run.paths import project_root
from compgen.run.workspace import write_json

if TYPE_CHECKING:
    from compgen.config import Composer


class ConfigCache:
    """Maps overrides to the plain values of the job's configuration."""

    def __init__(self, path: Path) -> None:
        """Read what is remembered in `path` if it is for the present conf/ and schemas."""
        self._path = path
        self._source = _source_digest()
        self._values: dict[str, dict[str, Any]] = {}
        self._changed = False
        self._composer: Composer | None = None
        if path.is_file():
            try:
                stored = read_json(path)
            except ValueError:
                stored = {"source": None}  # damaged: it is only a memory
            if stored["source"] == self._source:
                self._values = stored["values"]

    def values(self, overrides: Sequence[str]) -> Mapping[str, Any]:
        """The resolved configuration for some overrides.

        Raises:
            ConfigError: an override is misspelt or impossible.
        """
        key = text_digest(canonical_json(list(overrides)))
        if key not in self._values:
            from compgen.config import Composer  # only here: importing Hydra costs half a second

            self._composer = self._composer or Composer()
            self._values[key] = self._composer.values(overrides)
            self._changed = True
        return self._values[key]

    def save(self) -> None:
        """Write what was added."""
        if self._changed:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_json(self._path, {"source": self._source, "values": self._values})
            self._changed = False


def _source_digest() -> str:
    root = project_root()
    files = {p.relative_to(root).as_posix(): file_digest(p) for p in sorted((root / "conf").rglob("*.yaml"))}
    return mapping_digest({**files, **source_closure("compgen.config")})
