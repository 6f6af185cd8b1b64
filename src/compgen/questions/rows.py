"""The rows of a benchmark, from a local directory or the hub at a pinned revision, with their fingerprint.

Files are read line by line, never through a cache that is keyed by path and time. A recorded fingerprint that differs
is refused: scores on another version do not compare. Records stand in conf/benchmark/.
"""

import gzip
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compgen.errors import UserError
from compgen.questions.config import BenchmarkConfig, SplitConfig

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """Rows with the digest of their content."""

    rows: list[Row]
    fingerprint: str


def fingerprint(rows: Sequence[Mapping[str, Any]], fields: Sequence[str] | None = None) -> str:
    """SHA-256 over the rows, or some fields of them, as canonical JSON lines."""
    digest = hashlib.sha256()
    for whole in rows:
        row = whole if fields is None else {name: whole[name] for name in fields}
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False).encode("utf-8") + b"\n")
    return digest.hexdigest()


def load_rows(
    directory: Path | None, source: BenchmarkConfig, benchmark: str, split: str, recorded: bool = True
) -> Rows:
    """The rows of one split.

    Args:
        directory: of a mirror; None is the hub.
        source: the benchmark's record.
        benchmark: its name, for messages.
        split: `test` or `train`.
        recorded: whether the rows must be the recorded ones; rows of our own making have no record.

    Raises:
        UserError: the rows cannot be had, or are not the recorded ones.
    """
    if split not in source.splits:
        raise UserError(f"benchmark {benchmark}: it has no split {split}, so that no shots can be shown: use shots=0")
    wanted = source.splits[split]
    rows = _from_hub(source, wanted, benchmark) if directory is None else _from_directory(directory, wanted, benchmark)
    _require_fields(rows, source.fields or (), benchmark)
    found = fingerprint(rows, source.fields)
    if recorded and wanted.fingerprint is not None and found != wanted.fingerprint:
        raise UserError(
            f"benchmark {benchmark}, split {split}: {len(rows)} rows with fingerprint {found[:12]}, but {wanted.rows} "
            f"rows with {wanted.fingerprint[:12]} are recorded: this is another version, and scores would not compare"
        )
    return Rows(rows, found)


def _require_fields(rows: Sequence[Row], fields: Sequence[str], benchmark: str) -> None:
    for place, row in enumerate(rows):
        lacking = [name for name in fields if name not in row]
        if lacking:
            raise UserError(f"benchmark {benchmark}: row {place} has no field {lacking[0]}, only {', '.join(row)}")


def _from_directory(directory: Path, split: SplitConfig, benchmark: str) -> list[Row]:
    candidates = [directory / name for file in split.files for name in (file, f"{file}.gz")]
    for path in candidates:
        if path.is_file():
            return read_lines(path)
    raise UserError(f"benchmark {benchmark}: none of {', '.join(split.files)} (or .gz) is in {directory}")


def read_lines(path: Path) -> list[Row]:
    """The rows of a file of JSON lines, compressed or not.

    Raises:
        UserError: the file is damaged, or a line is no JSON object.
    """
    raw = path.read_bytes()
    try:
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}: not a file of JSON lines: {error}") from error
    if not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{path}: not a file of JSON lines: every line must be an object")
    return rows


def _from_hub(source: BenchmarkConfig, split: SplitConfig, benchmark: str) -> list[Row]:
    if source.hub is None or split.hub_split is None:
        raise UserError(f"benchmark {benchmark}: it is not on the hub: set composition.evaluation.data.directory")
    from datasets import load_dataset
    from datasets.exceptions import DatasetsError

    try:
        loaded = load_dataset(source.hub, source.configuration, split=split.hub_split, revision=source.revision)
    except (OSError, ValueError, DatasetsError) as error:
        raise UserError(
            f"benchmark {benchmark}: {source.hub} cannot be read from the hub ({type(error).__name__}): go online, or "
            "set composition.evaluation.data.directory to a mirror"
        ) from error
    return [dict(row) for row in loaded]
