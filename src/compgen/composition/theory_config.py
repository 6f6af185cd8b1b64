"""Configuration of the exact theory. Free of torch; sizes by profile stand in conf/theory/."""

from dataclasses import dataclass, field
from itertools import pairwise

from compgen.errors import require

LARGEST_SPACE = 100_000
"""Sequences that are enumerated at most."""


@dataclass
class ExactConfig:
    """Small explicit distributions, all sequences enumerated in float64."""

    instances: int = 200
    """Random instances of every construction; the worst is reported."""
    vocabulary: int = 3
    length: int = 4
    identity_experts: int = 4
    """The identities of the normalizer are checked for 2, 3, … up to this many experts in turn."""
    interference_points: int = 400
    """Pairs of random experts whose covariance of density ratios is compared with Z − 1, one step each."""
    shares: list[float] = field(default_factory=lambda: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
    """How often a bystander follows its own skill where another must act."""
    bound_lengths: list[int] = field(default_factory=lambda: [1, 2, 4, 8, 16, 32, 64])
    """Sequence lengths of the length-generalization bound."""
    bound_experts: int = 3
    bound_trusted: int = 16
    """Steps after which the lapsing guarantee lapses: the paper's toy trains at length 16."""
    tail_probabilities: list[float] = field(default_factory=lambda: [1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12])
    """Base probabilities of the tail token, from which the divergence that it costs follows."""
    tail_experts: int = 4

    def __post_init__(self) -> None:
        """Check ranges, and that everything can be enumerated."""
        node = "theory.exact"
        require(self.instances >= 1, f"{node}.instances", self.instances, "must be at least 1")
        require(self.vocabulary >= 3, f"{node}.vocabulary", self.vocabulary, "must be at least 3")
        require(self.length >= 4 and self.length % 2 == 0, f"{node}.length", self.length, "must be even and at least 4")
        size = (self.vocabulary + 2) ** self.length  # the largest construction has two symbols more
        require(size <= LARGEST_SPACE, f"{node}.length", self.length, f"{size} sequences exceed {LARGEST_SPACE}")
        fine = len(self.bound_lengths) > 0 and min(self.bound_lengths) >= 1
        require(fine, f"{node}.bound_lengths", self.bound_lengths, "give lengths of at least 1")
        for name, least in (
            ("identity_experts", 2),
            ("interference_points", 1),
            ("bound_experts", 2),
            ("bound_trusted", 1),
            ("tail_experts", 2),
        ):
            require(getattr(self, name) >= least, f"{node}.{name}", getattr(self, name), f"must be at least {least}")
        fine = max(self.bound_lengths) > self.bound_trusted
        require(fine, f"{node}.bound_trusted", self.bound_trusted, "must be below the largest of bound_lengths")
        fine = len(self.shares) >= 2 and all(0 < a < b <= 1 for a, b in pairwise(self.shares))
        require(fine, f"{node}.shares", self.shares, "give at least two, increasing, above 0 and at most 1")
        fine = len(self.tail_probabilities) > 1 and all(0 < p < 0.1 for p in self.tail_probabilities)
        require(fine, f"{node}.tail_probabilities", self.tail_probabilities, "give at least two below 0.1")


@dataclass
class TaskArithmeticConfig:
    """Adding weights against multiplying distributions, for a log-linear model and a small transformer in float64."""

    models: int = 5
    """Independently trained bases, each with two experts."""
    vocabulary: int = 8
    length: int = 8
    width: int = 32
    batch: int = 32
    base_steps: int = 300
    expert_steps: int = 100
    learning_rate: float = 0.003
    strengths: list[float] = field(default_factory=lambda: [0.003, 0.01, 0.03, 0.1, 0.3, 1.0])
    """λ: the share of each task vector that is added."""

    def __post_init__(self) -> None:
        """Check ranges."""
        node = "theory.task_arithmetic"
        for name, least in (
            ("models", 1),
            ("vocabulary", 6),
            ("length", 2),
            ("batch", 1),
            ("base_steps", 1),
            ("expert_steps", 1),
        ):
            require(getattr(self, name) >= least, f"{node}.{name}", getattr(self, name), f"must be at least {least}")
        require(self.width % 4 == 0 and self.width > 0, f"{node}.width", self.width, "must be a positive multiple of 4")
        require(self.learning_rate > 0, f"{node}.learning_rate", self.learning_rate, "must be positive")
        fine = len(self.strengths) >= 2 and min(self.strengths) > 0 and self.strengths == sorted(self.strengths)
        require(fine, f"{node}.strengths", self.strengths, "give at least two positive values, increasing")


@dataclass
class TheoryConfig:
    """The node `theory`."""

    exact: ExactConfig = field(default_factory=ExactConfig)
    task_arithmetic: TaskArithmeticConfig = field(default_factory=TaskArithmeticConfig)


@dataclass
class TheoryExactConfig:
    """Job `theory_exact`."""

    seed: int = 0
    exact: ExactConfig = field(default_factory=ExactConfig)


@dataclass
class TheoryTaskArithmeticConfig:
    """Job `theory_task_arithmetic`."""

    seed: int = 0
    task_arithmetic: TaskArithmeticConfig = field(default_factory=TaskArithmeticConfig)


@dataclass
class TheorySummaryConfig:
    """Job `theory_summary`: no settings; its inputs are the other jobs of the experiment."""


JOBS: dict[str, type] = {
    "theory_exact": TheoryExactConfig,
    "theory_task_arithmetic": TheoryTaskArithmeticConfig,
    "theory_summary": TheorySummaryConfig,
}
"""The kinds of job and their schemas."""
