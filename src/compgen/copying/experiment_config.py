"""Configuration of the whole copying study: its node in the root config and its kinds of job. Free of torch."""

from dataclasses import dataclass, field

from compgen.copying.causal_config import JOBS as CAUSAL_JOBS
from compgen.copying.causal_config import CausalConfig, ClampConfig
from compgen.copying.config import CopyingTrainConfig, DataConfig, EvaluationConfig, ModelConfig, TrainConfig
from compgen.errors import require


@dataclass
class CopyingConfig:
    """The node `copying`."""

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    causal: CausalConfig = field(default_factory=CausalConfig)
    long_steps: int = 20000
    """Steps of the runs that go to the paper's end; the others take copying.train.steps."""
    variant_steps: int = 20000
    """Steps of the runs on pools of segments and of the shallow variants (S8)."""
    deep_steps: int = 20000
    """Steps of the eight-layer variant, which costs seven times as much a step."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in ("long_steps", "variant_steps", "deep_steps"):
            require(getattr(self, name) >= 1, f"copying.{name}", getattr(self, name), "must be at least 1")


@dataclass
class CopyingClampTrainConfig(CopyingTrainConfig):
    """Job `copying_clamp_train`: the same with the first layer's attention held."""

    clamp: ClampConfig = field(default_factory=ClampConfig)


@dataclass
class CopyingSummaryConfig:
    """Job `copying_summary`: no settings; its inputs are all other jobs of the experiment."""


JOBS: dict[str, type] = {
    "copying_train": CopyingTrainConfig,
    "copying_clamp_train": CopyingClampTrainConfig,
    "copying_summary": CopyingSummaryConfig,
    **CAUSAL_JOBS,
}
"""The kinds of job of the experiment and their schemas."""
