"""How one benchmark is posed, decoded and scored, as a value with a digest.

Covers the protocol of one task and the refusal to compare across protocols. The two protocols that ship stand in
conf/protocol/. Free of torch.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from compgen.errors import ConfigError, require


class Extraction(StrEnum):
    """Which reading of a completion gives the headline score."""

    numeric = "numeric"
    """The number after the last `####` of the cut completion, else its last number; compared as numbers."""
    harness_strict = "harness_strict"
    """lm-eval's strict-match filter."""
    harness_flexible = "harness_flexible"
    """lm-eval's flexible-extract filter."""
    harness = "harness"
    """The task's own scorer in lm-eval."""
    authors = "authors"
    """What the notebooks of Kumar, Bucarelli and Natale do."""
    boxed = "boxed"
    r"""The last balanced `\boxed{}`, compared symbolically."""
    code_cut = "code_cut"
    """evalplus on the completion cut at the end of the function."""
    code_raw = "code_raw"
    """evalplus on the whole completion."""
    exact = "exact"
    """The stripped completion equals the answer."""


@dataclass(frozen=True)
class TaskProtocol:
    """Everything that two arms must share for their scores on one benchmark to be comparable."""

    benchmark: str
    prompt: str
    """The name of the prompt format."""
    shots: int
    stop: tuple[str, ...]
    max_new_tokens: int
    extraction: Extraction
    dtype: str = "float32"
    """Of the weights; logits are combined in float32."""
    attention: str = "eager"
    batch_size: int = 16
    scorer: int = 2
    """The version of our scoring code: raised whenever a score could change."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: naming the field, its value and the remedy.
        """
        where = f"protocol.{self.benchmark}"
        require(self.shots >= 0, f"{where}.shots", self.shots, "must not be negative")
        require(self.max_new_tokens >= 1, f"{where}.max_new_tokens", self.max_new_tokens, "must be at least 1")
        require(self.batch_size >= 1, f"{where}.batch_size", self.batch_size, "must be at least 1")
        known = ("float32", "bfloat16", "float16")
        require(self.dtype in known, f"{where}.dtype", self.dtype, f"must be one of {', '.join(known)}")
        require(all(self.stop), f"{where}.stop", self.stop, "a stop string must not be empty")

    def as_dict(self) -> dict[str, Any]:
        """The protocol as plain values."""
        return {**asdict(self), "stop": list(self.stop), "extraction": self.extraction.value}

    @property
    def digest(self) -> str:
        """The first 12 hexadecimal digits of the SHA-256 of all fields."""
        text = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]

    def differences(self, other: "TaskProtocol") -> list[str]:
        """The fields in which two protocols differ, each as `shots 8 / 0`."""
        ours, theirs = self.as_dict(), other.as_dict()
        return [f"{name} {ours[name]!r} / {theirs[name]!r}" for name in ours if ours[name] != theirs[name]]


def require_comparable(first: str, ours: TaskProtocol, second: str, theirs: TaskProtocol) -> None:
    """Refuse a comparison of two arms that were measured under different protocols.

    Raises:
        ConfigError: naming the arms and the fields that differ.
    """
    differing = ours.differences(theirs)
    if differing:
        raise ConfigError(
            f"{first} and {second} on {ours.benchmark} were measured under different protocols and cannot be compared: "
            f"{'; '.join(differing)}"
        )
