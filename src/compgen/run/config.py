"""The part of the root configuration that belongs to the run layer: where results go and what happens to old ones."""

import re
from dataclasses import dataclass, field
from typing import Any

from compgen.errors import require

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass
class ProfileConfig:
    """The set of sizes in use: smoke, laptop or paper."""

    name: str = "laptop"


@dataclass
class RunConfig:
    """The run tree that a job belongs to."""

    name: str = "manual"
    directory: str = "outputs/manual"

    def __post_init__(self) -> None:
        require(
            NAME.fullmatch(self.name) is not None,
            "run.name",
            self.name,
            "use at most 100 letters, digits, dots, dashes and underscores, starting with a letter or digit",
        )


@dataclass
class TrackerConfig:
    """Weights & Biases. The mode is WANDB_MODE's; unset means offline."""

    enabled: bool = True
    project: str = "compgen"
    entity: str | None = None


@dataclass
class ReferenceConfig:
    """What the papers claim, as data."""

    directory: str = "data/reference"
    digest: str = ""


@dataclass
class JobSelection:
    """The kind of job and its own configuration, before it is checked against the kind's schema."""

    kind: str = ""
    config: dict[str, Any] = field(default_factory=dict)
