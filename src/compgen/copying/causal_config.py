"""Configuration of the measurements on trained copying models: progress, transition, causal checks, shift.

Torch-free: it is checked before torch is imported. Sizes by profile stand in conf/copying/causal/.
"""

from dataclasses import dataclass, field

from compgen.errors import require

CLAMPS = ("free", "previous", "forbid")
OOD_LENGTH = 25
"""Segment length of the paper's out-of-distribution test (dossier 1.1)."""


@dataclass
class MeasureConfig:
    """Progress measures at every checkpoint (dossier 1.5), each with its null."""

    sequences: int = 200
    """Test sequences per law at every checkpoint."""
    rank: int = 10
    """Rank at which the subspace match is followed through training."""
    ranks: int = 32
    """The match is taken at ranks 1…this at the checkpoints of `full_steps`."""
    full_steps: list[int] = field(default_factory=lambda: [0, 1000, 2000, 3000, 4000, 20000])
    """Steps at which the whole match curve and the singular values are kept (the nearest checkpoint is taken)."""
    null_draws: int = 2000
    """Random subspaces or Gaussian matrices per null distribution."""
    null_models: int = 50
    """Freshly initialized models per null distribution."""
    map_sequences: int = 4
    """Sequences whose attention maps are kept, first and last checkpoint only."""
    seed: int = 7000

    def __post_init__(self) -> None:
        _at_least_one("copying.causal.measure", self, "sequences", "rank", "ranks", "null_draws", "null_models")
        _at_least_one("copying.causal.measure", self, "map_sequences")
        require(
            self.rank <= self.ranks,
            "copying.causal.measure.rank",
            self.rank,
            f"must not exceed copying.causal.measure.ranks={self.ranks}",
        )


@dataclass
class TransitionConfig:
    """Where a run's transition lies, and in which order things happen."""

    threshold: float = 0.5
    """The transition is where the OOD aligned error first falls below this, interpolated."""
    upper: float = 0.9
    lower: float = 0.1
    """The width is the number of steps between these fractions of the whole drop."""
    change_grid: int = 400
    """Points of the uniform log-step grid of the change-point fit."""
    resamples: int = 10000

    def __post_init__(self) -> None:
        require(0 < self.threshold < 1, "copying.causal.transition.threshold", self.threshold, "must lie in (0, 1)")
        require(
            0 < self.lower < self.upper < 1,
            "copying.causal.transition.lower",
            self.lower,
            f"must lie between 0 and copying.causal.transition.upper={self.upper}, which must be below 1",
        )
        require(
            self.change_grid >= 10, "copying.causal.transition.change_grid", self.change_grid, "must be at least 10"
        )
        _at_least_one("copying.causal.transition", self, "resamples")


@dataclass
class InterventionConfig:
    """Causal checks on trained two-layer models."""

    sequences: int = 200
    """OOD and ID test sequences per intervention."""
    projection_ranks: list[int] = field(default_factory=lambda: [1, 2, 4, 8, 10, 16, 24, 32, 48])
    random_subspaces: int = 10
    """Random subspaces of equal rank per projection."""
    seed: int = 7100

    def __post_init__(self) -> None:
        _at_least_one("copying.causal.intervention", self, "sequences", "random_subspaces")
        require(
            len(self.projection_ranks) > 0 and min(self.projection_ranks) >= 1,
            "copying.causal.intervention.projection_ranks",
            self.projection_ranks,
            "must be a list of ranks of at least 1",
        )


@dataclass
class ClampConfig:
    """Training with the first layer's attention held."""

    mode: str = "previous"
    """previous: attention of layer 1 is fixed to t−1. forbid: it cannot attend t−1. free: nothing is changed."""
    steps: int = 6000
    previous_steps: int = 6000
    """Steps of the runs of mode previous, which are expected to learn early."""

    def __post_init__(self) -> None:
        require(self.mode in CLAMPS, "copying.causal.clamp.mode", self.mode, f"choose one of {', '.join(CLAMPS)}")
        _at_least_one("copying.causal.clamp", self, "steps", "previous_steps")


@dataclass
class ShiftConfig:
    """The paper's OOD shift taken apart, and shifts beyond it."""

    sequences: int = 500
    """Sequences per condition and model."""
    lengths: list[int] = field(default_factory=lambda: [5, 8, 10, 13, 16, 19, 22, 25, 28, 30])
    """Segment lengths of the length sweep, under the training token law."""
    gaps: list[int] = field(default_factory=lambda: [1, 4, 8, 16, 24, 32])
    """Background tokens between the two copies."""
    contexts: list[int] = field(default_factory=lambda: [64, 96, 128, 192, 256])
    """Sequence lengths T; the model was trained at 64."""
    rare_tokens: int = 8
    """How many of the least frequent (and, apart, of the most frequent) tokens make up a segment."""
    seed: int = 7200

    def __post_init__(self) -> None:
        _at_least_one("copying.causal.shift", self, "sequences", "rare_tokens")
        for name, minimum in (("lengths", 5), ("gaps", 1), ("contexts", 8)):
            values = getattr(self, name)
            field_name = f"copying.causal.shift.{name}"
            remedy = f"must be a list of whole numbers of at least {minimum}"
            require(len(values) > 0 and min(values) >= minimum, field_name, values, remedy)


@dataclass
class CausalConfig:
    """The node `copying.causal`."""

    measure: MeasureConfig = field(default_factory=MeasureConfig)
    transition: TransitionConfig = field(default_factory=TransitionConfig)
    intervention: InterventionConfig = field(default_factory=InterventionConfig)
    clamp: ClampConfig = field(default_factory=ClampConfig)
    shift: ShiftConfig = field(default_factory=ShiftConfig)


@dataclass
class CopyingMeasureConfig:
    """Job `copying_measure`: the models are its inputs, finished `copying_train` jobs."""

    measure: MeasureConfig = field(default_factory=MeasureConfig)


@dataclass
class CopyingTransitionConfig:
    """Job `copying_transition`: its inputs are finished `copying_measure` and `copying_clamp_train` jobs."""

    transition: TransitionConfig = field(default_factory=TransitionConfig)
    rank: int = 10


@dataclass
class CopyingCausalConfig:
    """Job `copying_causal`: the models are its inputs, finished two-layer `copying_train` jobs."""

    intervention: InterventionConfig = field(default_factory=InterventionConfig)


@dataclass
class CopyingShiftConfig:
    """Job `copying_shift`: the models are its inputs, finished `copying_train` jobs."""

    shift: ShiftConfig = field(default_factory=ShiftConfig)


JOBS: dict[str, type] = {
    "copying_measure": CopyingMeasureConfig,
    "copying_transition": CopyingTransitionConfig,
    "copying_causal": CopyingCausalConfig,
    "copying_shift": CopyingShiftConfig,
}
"""The kinds of job and their schemas. `copying_clamp_train` is registered by compgen.copying.config, whose
model, data and training nodes it needs."""


def _at_least_one(node: str, config: object, *names: str) -> None:
    for name in names:
        value = getattr(config, name)
        require(value >= 1, f"{node}.{name}", value, "must be at least 1")
