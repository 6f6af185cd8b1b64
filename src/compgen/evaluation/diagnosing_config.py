"""What can be set about diagnosing stored answers, checked before torch is imported.

Covers which arms' answers are traced again. How an arm is composed and posed stands in its generation job.
"""

from dataclasses import dataclass, field

from compgen.errors import require
from compgen.evaluation.config import NODE, check_benchmarks
from compgen.questions.config import BenchmarkConfig, DataConfig
from compgen.weights.config import ModelConfig


@dataclass
class DiagnoseConfig:
    """Job composition_diagnose: what the components said along some arms' own answers, of one seed."""

    seed: int = 0
    arms: list[str] = field(default_factory=lambda: ["composed", "k4"])
    """Names of arms with experts, each answered by one of the generation jobs among the inputs."""
    benchmarks: list[str] = field(default_factory=lambda: ["gsm8k", "math", "humaneval_plus", "mbpp_plus"])
    limit: int | None = None
    """At most the limit of the generation jobs, null where they had none."""
    models: dict[str, ModelConfig] = field(default_factory=dict)
    data: DataConfig = field(default_factory=DataConfig)
    sources: dict[str, BenchmarkConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "must not be negative")
        distinct = bool(self.arms) and len(set(self.arms)) == len(self.arms)
        require(distinct, f"{NODE}.arms", self.arms, "must name at least one arm, and each once")
        check_benchmarks(f"{NODE}.benchmarks", self.benchmarks)
        require(self.limit is None or self.limit >= 1, "limit", self.limit, "must be at least 1, or null for all")


JOBS: dict[str, type] = {"composition_diagnose": DiagnoseConfig}
