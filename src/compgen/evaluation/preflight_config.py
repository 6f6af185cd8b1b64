"""What is asked about before models are fetched and a GPU is used, checked before torch is imported."""

from dataclasses import dataclass, field

from compgen.errors import require
from compgen.evaluation.config import NODE, ArmConfig, ProtocolConfig, check_benchmarks
from compgen.questions.config import BenchmarkConfig
from compgen.weights.config import ModelConfig


@dataclass
class PreflightConfig:
    """Job composition_preflight: what some arms under some protocols will need, and whether it is there."""

    models: dict[str, ModelConfig] = field(default_factory=dict)
    """By the names that arms use; merges are made from them."""
    arms: dict[str, ArmConfig] = field(default_factory=dict)
    runs: dict[str, list[str]] = field(default_factory=dict)
    """The names of the arms by protocol."""
    protocols: dict[str, ProtocolConfig] = field(default_factory=dict)
    benchmarks: list[str] = field(default_factory=list)
    limit: int | None = None
    sources: dict[str, BenchmarkConfig] = field(default_factory=dict)
    bandwidth: float = 2.0e12
    """Bytes a second that the GPU's memory gives; decoding reads all weights once a step."""
    bandwidth_share: float = 0.4
    """How much of it decoding is expected to reach."""

    def __post_init__(self) -> None:
        check_benchmarks(f"{NODE}.benchmarks", self.benchmarks)
        require(bool(self.models), f"{NODE}.models", self.models, "must name at least one model")
        for protocol, names in self.runs.items():
            require(protocol in self.protocols, f"{NODE}.runs", protocol, f"is none of {', '.join(self.protocols)}")
            for name in names:
                require(name in self.arms, f"{NODE}.runs.{protocol}", name, f"is no arm of {', '.join(self.arms)}")
        require(self.bandwidth > 0, "bandwidth", self.bandwidth, "must be positive, in bytes a second")
        require(0 < self.bandwidth_share <= 1, "bandwidth_share", self.bandwidth_share, "must be above 0 and at most 1")


JOBS: dict[str, type] = {"composition_preflight": PreflightConfig}
