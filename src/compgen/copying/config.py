"""Configuration of one training run of the copying study (paper 2, synthetic). Free of torch.

Defaults are the paper's own values (dossier 1.1-1.3); sizes by profile stand in conf/copying/. Apart from
`experiment_config.py`, so that a change of what is measured later leaves trained models valid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compgen.errors import require

LAWS = ("zipf", "two_level", "uniform")


@dataclass
class DataConfig:
    """What the sequences are drawn from."""

    vocabulary: int = 64
    length: int = 64
    """Tokens in a sequence, T."""
    law: str = "zipf"
    segment_minimum: int = 10
    segment_maximum: int = 19
    repeats: int = 2
    pool_size: int | None = None
    """Number of different segments in training; None draws fresh ones."""
    ood_law: str = "uniform"
    ood_segment: int = 25

    def __post_init__(self) -> None:
        """Check ranges, and that the copies fit."""
        require(self.vocabulary >= 5, "copying.data.vocabulary", self.vocabulary, "must be at least 5")
        for name in ("law", "ood_law"):
            value = getattr(self, name)
            require(value in LAWS, f"copying.data.{name}", value, f"choose one of {', '.join(LAWS)}")
        require(self.segment_minimum >= 5, "copying.data.segment_minimum", self.segment_minimum, "must be at least 5")
        require(
            self.segment_maximum >= self.segment_minimum,
            "copying.data.segment_maximum",
            self.segment_maximum,
            f"must be at least copying.data.segment_minimum={self.segment_minimum}",
        )
        require(self.repeats >= 2, "copying.data.repeats", self.repeats, "must be at least 2")
        needed = self.repeats * max(self.segment_maximum, self.ood_segment) + self.repeats
        require(
            self.length >= needed,
            "copying.data.length",
            self.length,
            f"must be at least {needed}, so that {self.repeats} copies of the longest segment fit",
        )
        require(
            self.pool_size is None or self.pool_size >= 1,
            "copying.data.pool_size",
            self.pool_size,
            "must be at least 1",
        )


@dataclass
class ModelConfig:
    """The transformer (dossier 1.2)."""

    layers: int = 2
    heads: int = 1
    width: int = 64
    feedforward: int = 0
    """Hidden units of the MLP after each attention; 0 is the paper's attention-only model."""
    rotary_base: float = 10000.0
    dropout: float = 0.1

    def __post_init__(self) -> None:
        """Check ranges, and that the heads divide the width."""
        for name in ("layers", "heads", "width"):
            require(getattr(self, name) >= 1, f"copying.model.{name}", getattr(self, name), "must be at least 1")
        require(
            self.width % (2 * self.heads) == 0,
            "copying.model.width",
            self.width,
            f"must be a multiple of 2·heads={2 * self.heads}, since rotary positions turn pairs of channels",
        )
        require(self.feedforward >= 0, "copying.model.feedforward", self.feedforward, "must not be negative")
        require(self.rotary_base > 1, "copying.model.rotary_base", self.rotary_base, "must be larger than 1")
        require(0 <= self.dropout < 1, "copying.model.dropout", self.dropout, "must lie in [0, 1)")


@dataclass
class TrainConfig:
    """Optimizer and schedule (dossier 1.3)."""

    steps: int = 20000
    batch: int = 50
    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 5e-4
    warmup_steps: int = 5
    """Steps at a third of the learning rate: what the authors' ConstantLR does with its defaults."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in ("steps", "batch"):
            require(getattr(self, name) >= 1, f"copying.train.{name}", getattr(self, name), "must be at least 1")
        for name in ("learning_rate", "epsilon"):
            require(getattr(self, name) > 0, f"copying.train.{name}", getattr(self, name), "must be positive")
        for name in ("beta1", "beta2"):
            require(0 <= getattr(self, name) < 1, f"copying.train.{name}", getattr(self, name), "must lie in [0, 1)")
        for name in ("weight_decay", "warmup_steps"):
            require(getattr(self, name) >= 0, f"copying.train.{name}", getattr(self, name), "must not be negative")


@dataclass
class EvaluationConfig:
    """When and on how much the errors are measured, and which checkpoints are kept."""

    every: int = 200
    """Errors are measured at steps 0, 1, 2, 4, … below this, and at its multiples."""
    sequences: int = 500
    """Test sequences per set at those steps."""
    final_sequences: int = 5000
    """Test sequences per set after the last step: the paper's number."""
    checkpoint_every: int = 400
    """Weights are kept at steps 0, 1, 2, 4, … below this, and at its multiples."""

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in ("every", "sequences", "final_sequences", "checkpoint_every"):
            require(getattr(self, name) >= 1, f"copying.evaluation.{name}", getattr(self, name), "must be at least 1")


@dataclass
class CopyingTrainConfig:
    """Job `copying_train`: one model trained from one seed."""

    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    train: TrainConfig = field(default_factory=TrainConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)


def trained_config(values: Mapping[str, Any]) -> CopyingTrainConfig:
    """The configuration of a finished training job from its manifest's plain values."""
    return CopyingTrainConfig(
        seed=values["seed"],
        data=DataConfig(**values["data"]),
        model=ModelConfig(**values["model"]),
        train=TrainConfig(**values["train"]),
        evaluation=EvaluationConfig(**values["evaluation"]),
    )
