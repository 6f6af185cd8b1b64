"""What passes between posing, decoding and scoring: samples, generations and scores, and their files of JSON lines.

Free of torch.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any


class StopReason(StrEnum):
    """Why a generation ended."""

    end_token = "end_token"
    stop_string = "stop_string"
    length = "length"
    error = "error"


class Outcome(StrEnum):
    """How a generation was judged."""

    correct = "correct"
    wrong = "wrong"
    truncated = "truncated"
    """Wrong, and cut off by the limit on new tokens."""
    error = "error"
    """The infrastructure failed: never counted as a wrong answer."""


@dataclass(frozen=True)
class Sample:
    """One question of a benchmark, ready to be answered."""

    id: str
    prompt: str
    """The whole text, without the token that begins a sequence."""
    shared: int
    """How many leading characters of the prompt all samples of the benchmark share."""
    stop: tuple[str, ...]
    document: Mapping[str, Any]
    """The benchmark's row."""
    reference: str = ""
    """The benchmark's own answer, exactly as it would stand behind the prompt."""

    @property
    def prompt_digest(self) -> str:
        """SHA-256 of the prompt, the first 16 hexadecimal digits."""
        return hashlib.sha256(self.prompt.encode("utf-8")).hexdigest()[:16]


@dataclass(frozen=True)
class Generation:
    """What a model wrote for one sample."""

    id: str
    prompt_digest: str
    token_ids: tuple[int, ...]
    """The new tokens, the end token included."""
    text: str
    """The new tokens as text, cut before the first stop string."""
    raw_text: str
    """The same, not cut."""
    stop_reason: StopReason
    prompt_tokens: int
    error: str | None = None


@dataclass(frozen=True)
class Score:
    """The judgement of one generation."""

    id: str
    outcome: Outcome
    extracted: str | None
    gold: str
    metrics: Mapping[str, float]
    """Every scorer's value, 0 or 1, by name."""


def write_lines(path: Path, records: Iterable[Generation | Score]) -> None:
    """Write records as JSON lines, replacing the file."""
    lines = (json.dumps(asdict(record), ensure_ascii=False) for record in records)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_generations(path: Path) -> list[Generation]:
    """The generations of a file of JSON lines."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [generation_from(row) for row in rows]


def generation_from(row: Mapping[str, Any]) -> Generation:
    """A generation from its plain values."""
    return Generation(**{**row, "token_ids": tuple(row["token_ids"]), "stop_reason": StopReason(row["stop_reason"])})


def read_scores(path: Path) -> list[Score]:
    """The scores of a file of JSON lines."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return [Score(**{**row, "outcome": Outcome(row["outcome"])}) for row in rows]
