"""What can be set in the autoregressive protocol of character substitution, checked before torch is imported.

Covers the model, the data, the two training schedules and the sizes of the evaluation. The rules that experts
learn are constants of the study (autoregressive/tasks.py), not settings.
"""

from dataclasses import dataclass, field
from enum import Enum

from compgen.errors import require

NODE = "charsub.autoregressive"
MAXIMUM_LENGTH = 512


class PositionScheme(Enum):
    """Which position indices the tokens of `x SEP y EOS` get."""

    COUPLED = "coupled"
    """x_i and the token that predicts y_i share one index, so copying is a lookup at the same index."""
    CONTIGUOUS = "contiguous"
    """0, 1, 2, ... over the whole sequence, as in the plain GPT-2."""


@dataclass
class AutoregressiveModelConfig:
    """A GPT-2 of the paper's size (section 2.1 of the dossier), with positions for `x SEP y EOS`."""

    layers: int = 2
    width: int = 64
    heads: int = 2
    positions: PositionScheme = PositionScheme.COUPLED

    def __post_init__(self) -> None:
        name = f"{NODE}.model"
        require(1 <= self.layers <= 48, f"{name}.layers", self.layers, "must be between 1 and 48")
        require(1 <= self.heads <= 64, f"{name}.heads", self.heads, "must be between 1 and 64")
        divides = self.width >= 1 and self.width % max(self.heads, 1) == 0
        require(divides, f"{name}.width", self.width, f"must be a positive multiple of heads={self.heads}")


@dataclass
class AutoregressiveDataConfig:
    """Strings uniform over 27 symbols, their length uniform over a range; the longest string ever evaluated."""

    shortest: int = 1
    longest: int = 16
    longest_evaluated: int = 32

    def __post_init__(self) -> None:
        name = f"{NODE}.data"
        require(self.shortest >= 1, f"{name}.shortest", self.shortest, "must be at least 1")
        require(
            self.longest >= self.shortest,
            f"{name}.longest",
            self.longest,
            f"must be at least shortest={self.shortest}",
        )
        require(
            self.longest <= self.longest_evaluated <= MAXIMUM_LENGTH,
            f"{name}.longest_evaluated",
            self.longest_evaluated,
            f"must be between longest={self.longest} and {MAXIMUM_LENGTH}",
        )


@dataclass
class ScheduleConfig:
    """AdamW with a linear warm-up and a linear decay to zero, fresh strings at every step."""

    steps: int = 800
    batch_size: int = 32
    learning_rate: float = 3e-3
    warmup: int = 50
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        name = f"{NODE}.train"
        require(self.steps >= 1, f"{name}.steps", self.steps, "must be at least 1")
        require(self.batch_size >= 1, f"{name}.batch_size", self.batch_size, "must be at least 1")
        rate = self.learning_rate
        require(0 < rate <= 1, f"{name}.learning_rate", rate, "must be above 0 and at most 1")
        require(
            0 <= self.warmup <= self.steps,
            f"{name}.warmup",
            self.warmup,
            f"must be between 0 and steps={self.steps}",
        )
        require(self.weight_decay >= 0, f"{name}.weight_decay", self.weight_decay, "must not be negative")


@dataclass
class AutoregressiveTrainingConfig:
    """One schedule for models from a random start (base, scratch experts), one for experts fine-tuned from the base."""

    scratch: ScheduleConfig = field(default_factory=ScheduleConfig)
    finetuned: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(steps=150, warmup=15))


@dataclass
class AutoregressiveEvaluationConfig:
    """Sizes of the sweeps. Every arm of a cell sees the same strings."""

    strings: int = 300
    length: int = 16
    baseline_experts: list[int] = field(default_factory=lambda: [1, 2, 3, 4, 5, 6, 7, 8])
    lengths: list[int] = field(default_factory=lambda: [1, 2, 4, 8, 12, 16, 20, 24, 28, 32])
    samples: int = 3

    def __post_init__(self) -> None:
        name = f"{NODE}.evaluate"
        require(self.strings >= 1, f"{name}.strings", self.strings, "must be at least 1")
        require(self.length >= 1, f"{name}.length", self.length, "must be at least 1")
        require(self.samples >= 0, f"{name}.samples", self.samples, "must not be negative")
        counts = self.baseline_experts
        valid_counts = bool(counts) and all(1 <= count <= 8 for count in counts)
        require(valid_counts, f"{name}.baseline_experts", counts, "must name counts between 1 and 8")
        valid_lengths = bool(self.lengths) and min(self.lengths) >= 1
        require(valid_lengths, f"{name}.lengths", self.lengths, "must name lengths of at least 1")


@dataclass
class AutoregressiveConfig:
    """The node charsub.autoregressive."""

    model: AutoregressiveModelConfig = field(default_factory=AutoregressiveModelConfig)
    data: AutoregressiveDataConfig = field(default_factory=AutoregressiveDataConfig)
    train: AutoregressiveTrainingConfig = field(default_factory=AutoregressiveTrainingConfig)
    evaluate: AutoregressiveEvaluationConfig = field(default_factory=AutoregressiveEvaluationConfig)


@dataclass
class AutoregressiveTrainConfig:
    """Job charsub_autoregressive_train: every model of one seed."""

    seed: int = 0
    model: AutoregressiveModelConfig = field(default_factory=AutoregressiveModelConfig)
    data: AutoregressiveDataConfig = field(default_factory=AutoregressiveDataConfig)
    train: AutoregressiveTrainingConfig = field(default_factory=AutoregressiveTrainingConfig)

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "must not be negative")


@dataclass
class AutoregressiveEvaluateConfig:
    """Job charsub_autoregressive_evaluate: every sweep on the models of one seed."""

    seed: int = 0
    model: AutoregressiveModelConfig = field(default_factory=AutoregressiveModelConfig)
    data: AutoregressiveDataConfig = field(default_factory=AutoregressiveDataConfig)
    evaluate: AutoregressiveEvaluationConfig = field(default_factory=AutoregressiveEvaluationConfig)

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "must not be negative")
        reach = self.data.longest_evaluated
        asked = max([*self.evaluate.lengths, self.evaluate.length])
        require(
            asked <= reach,
            f"{NODE}.evaluate.lengths",
            asked,
            f"must not exceed {NODE}.data.longest_evaluated={reach}, the models have no positions beyond it",
        )


@dataclass
class AutoregressiveSummaryConfig:
    """Job charsub_autoregressive_summary: all seeds together."""

    bootstrap_seed: int = 0
    resamples: int = 2000

    def __post_init__(self) -> None:
        require(self.bootstrap_seed >= 0, "bootstrap_seed", self.bootstrap_seed, "must not be negative")
        require(self.resamples >= 100, "resamples", self.resamples, "must be at least 100")


JOBS: dict[str, type] = {
    "charsub_autoregressive_train": AutoregressiveTrainConfig,
    "charsub_autoregressive_evaluate": AutoregressiveEvaluateConfig,
    "charsub_autoregressive_summary": AutoregressiveSummaryConfig,
}
