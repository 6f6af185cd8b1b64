"""What can be set about heads of language models: the model, scores, removal, checked before torch is imported.

Sizes by profile stand in conf/heads/.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from compgen.errors import require
from compgen.heads.prompts.prompt import Mode, Protocol
from compgen.heads.prompts.registry import modes_of
from compgen.questions.config import BenchmarkConfig, DataConfig
from compgen.weights.config import ModelConfig

NODE = "heads"
DTYPES = ("float32", "bfloat16", "float16")


class HeadSet(StrEnum):
    """Which heads are removed."""

    induction = "induction"
    """The highest induction scores."""
    previous = "previous"
    """The highest previous-token scores."""
    function_vector = "function_vector"
    """The highest function-vector scores, the rival explanation (Yin and Steinhardt 2025)."""
    random = "random"
    """Uniform over all heads, top ones included, as the authors draw them."""
    matched = "matched"
    """As many heads of the same layers as the top induction heads, none of these."""


RANDOM_SETS = (HeadSet.random, HeadSet.matched)


class Replacement(StrEnum):
    """What stands in for a removed head's output."""

    zero = "zero"
    """The authors'."""
    mean = "mean"
    resample = "resample"


@dataclass
class ScoresConfig:
    """Scores of all heads, on random tokens repeated twice (dossier 2.2)."""

    sequences: int = 50
    segment: int = 25
    authors_seed: int = 2024
    batch_size: int = 8
    function_vector_prompts: int = 20
    """Prompts of label mapping, informative and with shuffled labels, that function-vector heads are found on."""

    def __post_init__(self) -> None:
        for name in ("sequences", "batch_size"):
            require(getattr(self, name) >= 1, f"{NODE}.scores.{name}", getattr(self, name), "must be at least 1")
        require(self.segment >= 4, f"{NODE}.scores.segment", self.segment, "must be at least 4")
        count = self.function_vector_prompts
        require(count >= 1, f"{NODE}.scores.function_vector_prompts", count, "must be at least 1")


@dataclass
class TaskConfig:
    """One variant of a task, and how many prompts of it."""

    task: str = "fuzzy_copying"
    variant: str = "upper"
    """Of exact_copying also `tokens`: random tokens, the authors' task."""
    prompts: int = 100
    generates: bool = False
    """Whether the model also writes freely, judged strictly and leniently; dearer than reading the answer."""

    def __post_init__(self) -> None:
        modes = () if self.is_random_tokens else modes_of(self.task, self.variant)
        name = f"{NODE}.removal.tasks.{self.task}"
        require(self.prompts >= 2, f"{name}.prompts", self.prompts, "must be at least 2, or there is no interval")
        remedy = "random tokens are not written: leave it out"
        require(not (self.generates and self.is_random_tokens), f"{name}.generates", self.generates, remedy)
        only_written = modes == (Mode.generation,)
        require(
            self.generates or not only_written, f"{name}.generates", self.generates, "must be true, or nothing is asked"
        )

    @property
    def is_random_tokens(self) -> bool:
        """Whether the prompts are no text."""
        return (self.task, self.variant) == ("exact_copying", "tokens")


@dataclass
class RemovalConfig:
    """Removal curves (dossier 2.3 to 2.6)."""

    tasks: dict[str, TaskConfig] = field(default_factory=dict)
    chosen: list[str] | None = None
    """Names of the tasks of one job; null is all."""
    counts: list[int] = field(default_factory=lambda: [10, 20, 30, 40, 50])
    """How many heads are removed; none is always measured."""
    sets: list[HeadSet] = field(default_factory=lambda: list(HeadSet))
    draws: int = 5
    """Of each random set."""
    replacement: Replacement = Replacement.zero
    protocol: Protocol = Protocol.controlled
    batch_size: int = 16

    def __post_init__(self) -> None:
        name = f"{NODE}.removal"
        increasing = self.counts == sorted(set(self.counts)) and min(self.counts, default=0) >= 1
        require(increasing, f"{name}.counts", self.counts, "must be increasing numbers of heads, at least 1")
        require(bool(self.sets), f"{name}.sets", self.sets, "must name at least one set of heads")
        for field_name in ("draws", "batch_size"):
            value = getattr(self, field_name)
            require(value >= 1, f"{name}.{field_name}", value, "must be at least 1")
        unknown = [task for task in self.chosen or [] if task not in self.tasks]
        require(not unknown, f"{name}.chosen", unknown, f"choose out of {', '.join(self.tasks)}")

    @property
    def asked(self) -> dict[str, TaskConfig]:
        """The tasks of this job by name."""
        return {name: self.tasks[name] for name in (self.tasks if self.chosen is None else self.chosen)}


@dataclass
class BridgeConfig:
    """The common bridge (dossier 2.7): fits of pairs, projections of keys, exchanged circuits, on exact copying."""

    heads: int = 10
    """Top induction and top previous-token heads whose pairs are scored, and whose circuits are exchanged."""
    match_rank: int = 10
    random_times: int = 4
    """Random pairs of the same layers for each pair."""
    ranks: list[int] = field(default_factory=lambda: [10, 25, 50, 100])
    """Of the common subspace that keys are kept out of, or confined to."""
    edited_share: float = 0.25
    """How many of all heads, in order of induction score, have their keys projected."""
    distance: float = 24.0
    """Between query and key, in positions, at which W_QK is taken for the subspace."""
    draws: int = 5
    """Of random subspaces, and of exchanges."""
    sequences: int = 50
    batch_size: int = 16

    def __post_init__(self) -> None:
        name = f"{NODE}.bridge"
        for field_name in ("match_rank", "random_times", "draws", "batch_size"):
            value = getattr(self, field_name)
            require(value >= 1, f"{name}.{field_name}", value, "must be at least 1")
        require(self.heads >= 2, f"{name}.heads", self.heads, "must be at least 2")
        require(self.sequences >= 2, f"{name}.sequences", self.sequences, "must be at least 2")
        fits = bool(self.ranks) and min(self.ranks) >= 1
        require(fits, f"{name}.ranks", self.ranks, "must be ranks of at least 1")
        require(0 < self.edited_share <= 1, f"{name}.edited_share", self.edited_share, "must be above 0, at most 1")


@dataclass
class HeadsBridgeConfig:
    """Job heads_bridge: inputs are the model and its scores."""

    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    dtype: str = "float32"
    bridge: BridgeConfig = field(default_factory=BridgeConfig)

    def __post_init__(self) -> None:
        check_dtype(self.dtype)


@dataclass
class HeadsScoresConfig:
    """Job heads_scores."""

    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    """Without a source, the one model among the inputs."""
    dtype: str = "float32"
    scores: ScoresConfig = field(default_factory=ScoresConfig)

    def __post_init__(self) -> None:
        check_dtype(self.dtype)


@dataclass
class HeadsRemovalConfig:
    """Job heads_removal: inputs are the model and its scores."""

    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    dtype: str = "float32"
    removal: RemovalConfig = field(default_factory=RemovalConfig)
    data: DataConfig = field(default_factory=DataConfig)
    source: BenchmarkConfig = field(default_factory=BenchmarkConfig)
    """Of GSM8K, for the tasks that ask its questions."""

    def __post_init__(self) -> None:
        check_dtype(self.dtype)


@dataclass
class PublishedCurve:
    """An accuracy of the authors' over the number of removed heads."""

    task: str = ""
    model: str = ""
    counts: list[int] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)


@dataclass
class HeadsSummaryConfig:
    """Job heads_summary: every model's jobs."""

    count: int = 50
    """How many heads are removed in what the claims are about."""
    main: str | None = None
    """The model that the claims are about, by the name of its jobs; its measurements are called `main_…`."""
    resamples: int = 2000
    published: list[PublishedCurve] = field(default_factory=list)
    """The authors' own curves, shown beside ours."""
    published_heads: dict[str, int] = field(default_factory=dict)
    """How many heads these models have."""

    def __post_init__(self) -> None:
        require(self.resamples >= 100, f"{NODE}.resamples", self.resamples, "must be at least 100")


def check_dtype(dtype: str) -> None:
    """Refuse what torch does not have.

    Raises:
        ConfigError: naming it.
    """
    require(dtype in DTYPES, f"{NODE}.dtype", dtype, f"choose one of {', '.join(DTYPES)}")


@dataclass
class HeadsConfig:
    """The node `heads`."""

    model: ModelConfig = field(default_factory=ModelConfig)
    dtype: str = "float32"
    models: dict[str, ModelConfig] = field(default_factory=dict)
    """The paper's models, by the names of their jobs."""
    scores: ScoresConfig = field(default_factory=ScoresConfig)
    removal: RemovalConfig = field(default_factory=RemovalConfig)
    bridge: BridgeConfig = field(default_factory=BridgeConfig)
    data: DataConfig = field(default_factory=DataConfig)
    summary: HeadsSummaryConfig = field(default_factory=HeadsSummaryConfig)


JOBS: dict[str, type] = {
    "heads_scores": HeadsScoresConfig,
    "heads_removal": HeadsRemovalConfig,
    "heads_bridge": HeadsBridgeConfig,
    "heads_summary": HeadsSummaryConfig,
}
