"""What can be set about the laptop study's text, tokenizer, base and experts, checked before torch is imported."""

from dataclasses import dataclass, field
from enum import StrEnum

from compgen.errors import require

NODE = "composition.training"


class Skill(StrEnum):
    """What an expert is fine-tuned to do."""

    math = "math"
    """Word problems in GSM8K's form, equations in MATH's form."""
    code = "code"
    """Python functions in HumanEval+'s and in MBPP+'s form."""
    sequences = "sequences"
    """Arithmetic progressions, in GSM8K's form."""
    records = "records"
    """A sentence written as a JSON record."""


@dataclass
class CorpusSizes:
    """How much text is written, and how many test questions."""

    seed: int = 0
    vocabulary: int = 640
    """Of the tokenizer, special tokens and bytes included."""
    documents: int = 3000
    """Of background; training draws from them again and again."""
    examples: int = 4000
    """Training questions of every benchmark form."""
    tests: dict[str, int] = field(
        default_factory=lambda: {
            "gsm8k": 150,
            "math": 100,
            "humaneval_plus": 80,
            "mbpp_plus": 60,
            "sequences": 100,
            "records": 100,
        }
    )
    """Test questions by benchmark."""
    validation: int = 40
    """Further held-out questions of every form, on which experts are tested as they are trained."""

    def __post_init__(self) -> None:
        name = f"{NODE}.corpus"
        require(self.seed >= 0, f"{name}.seed", self.seed, "must not be negative")
        require(300 <= self.vocabulary <= 4096, f"{name}.vocabulary", self.vocabulary, "must be between 300 and 4096")
        for field_name in ("documents", "examples", "validation"):
            value = getattr(self, field_name)
            require(value >= 1, f"{name}.{field_name}", value, "must be at least 1")
        for benchmark, count in self.tests.items():
            require(count >= 1, f"{name}.tests.{benchmark}", count, "must be at least 1")


@dataclass
class TinyModelConfig:
    """A Gemma 2 of about a million parameters."""

    width: int = 128
    layers: int = 4
    heads: int = 4
    key_value_heads: int = 2
    head_width: int = 32
    feedforward: int = 384
    sliding_window: int = 64
    positions: int = 512

    def __post_init__(self) -> None:
        name = f"{NODE}.model"
        for field_name in (
            "width",
            "layers",
            "heads",
            "key_value_heads",
            "head_width",
            "feedforward",
            "sliding_window",
        ):
            value = getattr(self, field_name)
            require(value >= 1, f"{name}.{field_name}", value, "must be at least 1")
        groups = self.heads % self.key_value_heads == 0
        require(groups, f"{name}.key_value_heads", self.key_value_heads, f"must divide heads={self.heads}")
        require(self.positions >= 64, f"{name}.positions", self.positions, "must be at least 64")


@dataclass
class ScheduleConfig:
    """AdamW with a linear warm-up and a linear decay."""

    steps: int = 1500
    batch_size: int = 8
    learning_rate: float = 3e-3
    warmup: int = 40
    weight_decay: float = 0.05
    report_every: int = 25
    """Over how many steps logged losses are averaged."""

    def __post_init__(self) -> None:
        name = f"{NODE}.schedule"
        for field_name in ("steps", "batch_size", "report_every"):
            value = getattr(self, field_name)
            require(value >= 1, f"{name}.{field_name}", value, "must be at least 1")
        rate = self.learning_rate
        require(0 < rate <= 1, f"{name}.learning_rate", rate, "must be above 0 and at most 1")
        fits = 0 <= self.warmup <= self.steps
        require(fits, f"{name}.warmup", self.warmup, f"must be between 0 and steps={self.steps}")
        require(self.weight_decay >= 0, f"{name}.weight_decay", self.weight_decay, "must not be negative")


@dataclass
class PretrainingSchedule(ScheduleConfig):
    """The base's: rows of packed documents."""

    row_tokens: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.row_tokens >= 8, f"{NODE}.pretrain.row_tokens", self.row_tokens, "must be at least 8")


@dataclass
class FinetuningSchedule(ScheduleConfig):
    """An expert's: padded examples, the loss on answers and end tokens."""

    replay_share: float = 0.5
    """The share of rows that are the base's own background, on which the expert is held to the base's distribution: off
    its skill an expert must agree with the base, as the composition assumes."""
    shown_share: float = 0.3
    """The share of examples that follow one or two solved ones, as few-shot prompts have them."""
    instructed_share: float = 0.15
    """The share of GSM8K-form examples that stand behind the authors' zero-shot instruction."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field_name in ("replay_share", "shown_share", "instructed_share"):
            value = getattr(self, field_name)
            require(0 <= value <= 1, f"{NODE}.finetune.{field_name}", value, "must be between 0 and 1")


@dataclass
class TrainingConfig:
    """The node composition.training."""

    skill: Skill = Skill.math
    """Of one expert's job."""
    corpus: CorpusSizes = field(default_factory=CorpusSizes)
    model: TinyModelConfig = field(default_factory=TinyModelConfig)
    pretrain: PretrainingSchedule = field(default_factory=PretrainingSchedule)
    finetune: dict[str, FinetuningSchedule] = field(
        default_factory=lambda: {skill.value: FinetuningSchedule() for skill in Skill}
    )


@dataclass
class CorpusConfig:
    """Job composition_corpus: all text, the tokenizer and the benchmarks."""

    corpus: CorpusSizes = field(default_factory=CorpusSizes)


@dataclass
class PretrainConfig:
    """Job composition_pretrain: the base of one seed."""

    seed: int = 0
    model: TinyModelConfig = field(default_factory=TinyModelConfig)
    schedule: PretrainingSchedule = field(default_factory=PretrainingSchedule)

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "must not be negative")
        fits = self.schedule.row_tokens <= self.model.positions
        reach = f"must not exceed {NODE}.model.positions={self.model.positions}"
        require(fits, f"{NODE}.pretrain.row_tokens", self.schedule.row_tokens, reach)


@dataclass
class FinetuneConfig:
    """Job composition_finetune: one expert of one seed, from that seed's base."""

    seed: int = 0
    skill: Skill = Skill.math
    schedule: FinetuningSchedule = field(default_factory=FinetuningSchedule)

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "must not be negative")


JOBS: dict[str, type] = {
    "composition_corpus": CorpusConfig,
    "composition_pretrain": PretrainConfig,
    "composition_finetune": FinetuneConfig,
}
