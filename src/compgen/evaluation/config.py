"""What can be set about arms, protocols, generation, scoring and their summary, checked before torch is imported."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from omegaconf import OmegaConf

from compgen.composition.options import Combination, CompositionRule, EndOfSequence, Remedy, Weighting
from compgen.errors import require
from compgen.evaluation.protocol import Extraction, TaskProtocol
from compgen.questions.config import BenchmarkConfig, DataConfig
from compgen.weights.config import ModelConfig

NODE = "composition"
BENCHMARKS = ("gsm8k", "math", "humaneval_plus", "mbpp_plus", "sequences", "records")


class SandboxKind(StrEnum):
    """What holds model-written code while it runs."""

    auto = "auto"
    bubblewrap = "bubblewrap"
    unshare = "unshare"
    unsafe = "unsafe"


@dataclass
class TaskConfig:
    """How one benchmark is posed and scored; the fields of TaskProtocol that differ between benchmarks."""

    prompt: str = "harness"
    shots: int = 0
    stop: list[str] = field(default_factory=list)
    max_new_tokens: int = 512
    extraction: Extraction = Extraction.harness


@dataclass
class ProtocolConfig:
    """A protocol: how every benchmark is posed to single models and to composed ones."""

    name: str = "controlled"
    dtype: str = "float32"
    composed_dtype: str | None = None
    """Of composed models, where the protocol gives them another one."""
    attention: str = "eager"
    batch_size: int = 16
    single: dict[str, TaskConfig] = field(default_factory=dict)
    composed: dict[str, TaskConfig] | None = None
    """None is the same as for single models, which every fair protocol has."""

    def task(self, benchmark: str, composed: bool) -> TaskProtocol:
        """The protocol of one benchmark.

        Raises:
            ConfigError: it has none for this benchmark.
        """
        tasks = self.composed if composed and self.composed is not None else self.single
        known = ", ".join(tasks) or "none"
        require(benchmark in tasks, f"protocol.{self.name}", benchmark, f"has no such benchmark, only {known}")
        task = tasks[benchmark]
        dtype = self.composed_dtype if composed and self.composed_dtype else self.dtype
        return TaskProtocol(
            benchmark=benchmark,
            prompt=task.prompt,
            shots=task.shots,
            stop=tuple(task.stop),
            max_new_tokens=task.max_new_tokens,
            extraction=task.extraction,
            dtype=dtype,
            attention=self.attention,
            batch_size=self.batch_size,
        )


@dataclass
class ArmConfig:
    """One way of answering: a model and its experts, how they are combined, and who stops."""

    base: str = "base"
    """base, a skill, or merge/<name>."""
    experts: list[str] = field(default_factory=list)
    combination: Combination = Combination.product
    remedy: Remedy = Remedy.none
    end_of_sequence: EndOfSequence = EndOfSequence.sum
    weighting: Weighting = Weighting.fixed
    coefficients: list[float] | None = None
    oracle_stop: bool = False
    """End tokens are forbidden and the row ends where the reference answer would: isolates content from stopping."""

    def __post_init__(self) -> None:
        require(bool(self.base), f"{NODE}.arms.base", self.base, "must name a model")
        distinct = len(set(self.experts)) == len(self.experts)
        require(distinct, f"{NODE}.arms.experts", self.experts, "must name every expert once")
        self.rule  # noqa: B018, checks the values

    @property
    def rule(self) -> CompositionRule:
        """The rule that combines them."""
        return CompositionRule(
            combination=self.combination,
            remedy=self.remedy,
            end_of_sequence=self.end_of_sequence,
            weighting=self.weighting,
            coefficients=tuple(self.coefficients) if self.coefficients is not None else None,
        )


@dataclass
class EvaluationConfig:
    """The node composition.evaluation."""

    benchmarks: list[str] = field(default_factory=lambda: list(BENCHMARKS))
    limit: int | None = None
    """Only the first so many samples of every benchmark; scores then say n of N."""
    runs_on: bool = True
    sandbox: SandboxKind = SandboxKind.auto
    resamples: int = 2000
    data: DataConfig = field(default_factory=DataConfig)

    def __post_init__(self) -> None:
        name = f"{NODE}.evaluation"
        check_benchmarks(f"{name}.benchmarks", self.benchmarks)
        require(
            self.limit is None or self.limit >= 1, f"{name}.limit", self.limit, "must be at least 1, or null for all"
        )
        require(self.resamples >= 100, f"{name}.resamples", self.resamples, "must be at least 100")


def check_benchmarks(name: str, benchmarks: list[str]) -> None:
    """Refuse unknown benchmarks and an empty list.

    Raises:
        ConfigError: naming the list.
    """
    unknown = [benchmark for benchmark in benchmarks if benchmark not in BENCHMARKS]
    require(bool(benchmarks) and not unknown, name, benchmarks, f"must name benchmarks out of {', '.join(BENCHMARKS)}")


@dataclass
class GenerateConfig:
    """Job composition_generate: some arms on some benchmarks under one protocol."""

    seed: int = 0
    chosen: list[str] = field(default_factory=lambda: ["base"])
    """Names of the arms."""
    arms: dict[str, ArmConfig] = field(default_factory=lambda: {"base": ArmConfig()})
    """All arms; only the chosen ones are kept."""
    protocol: ProtocolConfig = field(default_factory=ProtocolConfig)
    benchmarks: list[str] = field(default_factory=lambda: list(BENCHMARKS))
    limit: int | None = None
    runs_on: bool = True
    models: dict[str, ModelConfig] = field(default_factory=dict)
    data: DataConfig = field(default_factory=DataConfig)
    sources: dict[str, BenchmarkConfig] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "must not be negative")
        known = ", ".join(sorted(self.arms))
        for name in self.chosen:
            require(name in self.arms, f"{NODE}.arms", name, f"is no arm, choose out of {known}")
        require(bool(self.chosen), f"{NODE}.arms", self.chosen, "must name at least one arm")
        self.arms = {name: self.arms[name] for name in self.chosen}
        check_benchmarks(f"{NODE}.benchmarks", self.benchmarks)
        for benchmark in self.benchmarks:
            for arm in self.arms.values():
                self.protocol.task(benchmark, bool(arm.experts))


def generate_config(values: Mapping[str, Any]) -> GenerateConfig:
    """The configuration of a finished generation job, from the plain values in its manifest."""
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(GenerateConfig), dict(values)))
    assert isinstance(config, GenerateConfig)
    return config


@dataclass
class ScoreConfig:
    """Job composition_score: the generations of one or more jobs judged."""

    sandbox: SandboxKind = SandboxKind.auto


@dataclass
class SummaryConfig:
    """Job composition_summary: all seeds and arms together."""

    resamples: int = 2000


JOBS: dict[str, type] = {
    "composition_generate": GenerateConfig,
    "composition_score": ScoreConfig,
    "composition_summary": SummaryConfig,
}
