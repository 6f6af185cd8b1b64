"""Where the rows of a benchmark lie and what they must be, checked before torch is imported."""

from dataclasses import dataclass, field


@dataclass
class SplitConfig:
    """Where one split of a benchmark lies, and what it must be."""

    files: list[str] = field(default_factory=list)
    """Relative to a mirror's directory, in order of preference; `.gz` is tried too."""
    hub_split: str | None = None
    rows: int | None = None
    fingerprint: str | None = None
    """Null where the rows are of our own making."""


@dataclass
class BenchmarkConfig:
    """The recorded origin of a benchmark: a file of conf/benchmark/."""

    hub: str | None = None
    configuration: str | None = None
    revision: str | None = None
    """The commit on the hub."""
    licence: str = ""
    fields: list[str] | None = None
    """What the fingerprint covers; null is whole rows."""
    splits: dict[str, SplitConfig] = field(default_factory=dict)


@dataclass
class DataConfig:
    """Where the benchmarks' rows come from when no corpus job is an input."""

    directory: str | None = None
    """A local mirror; null is the hub."""
