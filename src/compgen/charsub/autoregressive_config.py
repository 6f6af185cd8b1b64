"""What can be set in the autoregressive protocol of character substitution, checked before torch is imported.

Covers the model, the data, the two training schedules and the sizes of the evaluation. The rules that experts
learn are constants of the study (autoregressive/tasks.py), not settings.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from compgen.errors import require

NODE = "charsub.autoregressive"
MAXIMUM_LENGTH = 512
MOST_EXPERTS = 8


class PositionScheme(StrEnum):
    """Which position indices the tokens of `x SEP y EOS` get."""

    coupled = "coupled"
    """y counts again from x's first index, so that y_i has x_i's index and EOS that of SEP."""
    contiguous = "contiguous"
    """0, 1, 2, ... over the whole sequence, as in the plain GPT-2."""


@dataclass
class AutoregressiveModelConfig:
    """A GPT-2 of the paper's size (section 2.1 of the dossier), with positions for `x SEP y EOS`."""

    layers: int = 2
    width: int = 64
    heads: int = 2
    positions: PositionScheme = PositionScheme.coupled

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
    overrun: int = 4
    """How many symbols too many a model may write before it counts as never stopping."""
    offset_share: float = 0.75
    """The share of training strings whose indices do not start at 0, so that every index is trained."""

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
        require(1 <= self.overrun <= 64, f"{name}.overrun", self.overrun, "must be between 1 and 64")
        share = self.offset_share
        require(0 <= share <= 1, f"{name}.offset_share", share, "must be between 0 and 1")


@dataclass
class ScheduleConfig:
    """AdamW with a linear warm-up and a linear decay to zero, fresh strings at every step."""

    steps: int = 900
    batch_size: int = 16
    learning_rate: float = 3e-3
    warmup: int = 50
    weight_decay: float = 0.1
    second_moment: float = 0.95
    """AdamW's β₂."""

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
        second = self.second_moment
        require(0 < second < 1, f"{name}.second_moment", second, "must lie between 0 and 1")


@dataclass
class AutoregressiveTrainingConfig:
    """One schedule for models from a random start (base, scratch experts), one for experts fine-tuned from the base."""

    scratch: ScheduleConfig = field(default_factory=ScheduleConfig)
    finetuned: ScheduleConfig = field(default_factory=lambda: ScheduleConfig(steps=200, warmup=20, learning_rate=1e-3))
    hasty_base_hazard: float = 0.005
    """Probability per symbol that the answers of the hasty base's training data stop early."""
    hasty_expert_hazard: float = 0.03
    """The same for the hasty experts: below 1/2, so that greedily no expert alone ever stops early."""
    report_every: int = 25
    """Over how many steps logged losses are averaged."""
    tested_strings: int = 25
    """Strings of every training length on which each trained model is tested."""

    def __post_init__(self) -> None:
        name = f"{NODE}.train"
        for field_name in ("hasty_base_hazard", "hasty_expert_hazard"):
            value = getattr(self, field_name)
            require(0 < value < 0.5, f"{name}.{field_name}", value, "must lie between 0 and 0.5")
        require(self.report_every >= 1, f"{name}.report_every", self.report_every, "must be at least 1")
        require(self.tested_strings >= 1, f"{name}.tested_strings", self.tested_strings, "must be at least 1")


@dataclass
class AutoregressiveEvaluationConfig:
    """Sizes of the sweeps. All arms of a cell see the same strings."""

    strings: int = 300
    length: int = 16
    """The length at which everything but the sweep over lengths is measured: the longest that was trained."""
    most_experts: int = 8
    lengths: list[int] = field(default_factory=lambda: [1, 2, 4, 8, 12, 16, 18, 20, 22, 24, 28, 32])
    length_strings: int = 300
    length_experts: list[int] = field(default_factory=lambda: [2, 4])
    """How many experts are composed in the sweep over lengths."""
    samples: int = 2
    """Strings per cell whose outputs are kept in full."""

    def __post_init__(self) -> None:
        name = f"{NODE}.evaluate"
        for field_name in ("strings", "length", "length_strings"):
            require(
                getattr(self, field_name) >= 1, f"{name}.{field_name}", getattr(self, field_name), "must be positive"
            )
        require(self.samples >= 0, f"{name}.samples", self.samples, "must not be negative")
        most = self.most_experts
        require(2 <= most <= MOST_EXPERTS, f"{name}.most_experts", most, f"must be between 2 and {MOST_EXPERTS}")
        valid = bool(self.lengths) and min(self.lengths) >= 1
        require(valid, f"{name}.lengths", self.lengths, "must name lengths of at least 1")
        counts = self.length_experts
        fine = bool(counts) and all(2 <= count <= MOST_EXPERTS for count in counts)
        require(fine, f"{name}.length_experts", counts, f"must name counts between 2 and {MOST_EXPERTS}")


@dataclass
class AutoregressiveSummaryConfig:
    """Job charsub_autoregressive_summary: all seeds together."""

    bootstrap_seed: int = 0
    resamples: int = 2000

    def __post_init__(self) -> None:
        require(self.bootstrap_seed >= 0, f"{NODE}.summary.bootstrap_seed", self.bootstrap_seed, "must not be negative")
        require(self.resamples >= 100, f"{NODE}.summary.resamples", self.resamples, "must be at least 100")


@dataclass
class AutoregressiveConfig:
    """The node charsub.autoregressive."""

    model: AutoregressiveModelConfig = field(default_factory=AutoregressiveModelConfig)
    data: AutoregressiveDataConfig = field(default_factory=AutoregressiveDataConfig)
    train: AutoregressiveTrainingConfig = field(default_factory=AutoregressiveTrainingConfig)
    evaluate: AutoregressiveEvaluationConfig = field(default_factory=AutoregressiveEvaluationConfig)
    summary: AutoregressiveSummaryConfig = field(default_factory=AutoregressiveSummaryConfig)


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


JOBS: dict[str, type] = {
    "charsub_autoregressive_train": AutoregressiveTrainConfig,
    "charsub_autoregressive_evaluate": AutoregressiveEvaluateConfig,
    "charsub_autoregressive_summary": AutoregressiveSummaryConfig,
}
