"""What can be set in the authors' protocol of character substitution, checked before torch is imported.

The defaults are the authors' own values (dossier 2.1) where they have one; sizes by profile: conf/charsub/authors/.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from compgen.charsub.rules import SYMBOLS, Rule, parse_rule
from compgen.errors import require

NODE = "charsub.authors"
TRAINED_PAIR = 2
"""The first so many experts are the paper's own: A→K and M→B."""


class Start(StrEnum):
    """Where the training of a stack starts."""

    scratch = "scratch"
    """Every model from its own random initialization: the authors' way."""
    finetuned = "finetuned"
    """Every expert from the base of its seed."""


@dataclass
class AuthorsModelConfig:
    """GPT-2 of the authors' size; the vocabulary is the 27 symbols."""

    layers: int = 2
    width: int = 64
    heads: int = 2
    positions: int = 32
    dropout: float = 0.1
    """GPT2Config's default, for embeddings, attention and residual."""

    def __post_init__(self) -> None:
        """Check ranges, and that the heads divide the width."""
        for name in ("layers", "heads", "positions"):
            require(getattr(self, name) >= 1, f"{NODE}.model.{name}", getattr(self, name), "must be at least 1")
        divides = self.width >= 1 and self.width % self.heads == 0
        require(divides, f"{NODE}.model.width", self.width, f"must be a positive multiple of heads={self.heads}")
        require(0 <= self.dropout < 1, f"{NODE}.model.dropout", self.dropout, "must lie in [0, 1)")


@dataclass
class AuthorsDataConfig:
    """Training strings of independent uniform symbols; every model has its own."""

    strings: int = 2000
    length: int = 16

    def __post_init__(self) -> None:
        """Check ranges."""
        for name in ("strings", "length"):
            require(getattr(self, name) >= 1, f"{NODE}.data.{name}", getattr(self, name), "must be at least 1")


@dataclass
class AuthorsOptimizerConfig:
    """AdamW with PyTorch's other defaults, one string a step, no schedule."""

    learning_rate: float = 3e-4
    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        """Check ranges."""
        name = f"{NODE}.optimizer"
        require(self.learning_rate > 0, f"{name}.learning_rate", self.learning_rate, "must be positive")
        require(self.weight_decay >= 0, f"{name}.weight_decay", self.weight_decay, "must not be negative")


@dataclass
class StackConfig:
    """Models that are trained together: one per rule and seed. How rules are written: charsub/rules.py."""

    rules: list[str] = field(default_factory=list)
    epochs: int = 5

    def __post_init__(self) -> None:
        """Check the rules."""
        for rule in self.rules:
            parse_rule(rule, f"{NODE}.stacks.*.rules")
        distinct = len(set(self.rules)) == len(self.rules)
        require(distinct, f"{NODE}.stacks.*.rules", self.rules, "must name every rule once")
        require(self.epochs >= 1, f"{NODE}.stacks.*.epochs", self.epochs, "must be at least 1")


def _finetuned() -> StackConfig:
    return StackConfig(epochs=1)


@dataclass
class StacksConfig:
    """The two stacks of a seed."""

    scratch: StackConfig = field(default_factory=StackConfig)
    finetuned: StackConfig = field(default_factory=_finetuned)


@dataclass
class AuthorsEvaluationConfig:
    """What is evaluated. Strings have the longest length; those of every shorter length are their beginnings."""

    strings: int = 1000
    sweep_strings: int = 400
    """How many of them serve the sweep over k with all ways of combining."""
    length: int = 32
    experts: list[str] = field(default_factory=list)
    """In the order in which they are added for k = 1, 2, …; disjoint sources."""
    orders: int = 1
    """Cyclic orders of the experts in which the k of the break is predicted and measured."""
    rival: str = ""
    """A rule for the first expert's source with another target."""
    chained: str = ""
    """A rule that substitutes the first expert's target."""
    overlap_first: str = ""
    overlap_second: list[str] = field(default_factory=list)
    """Rules that share 0…all sources with the first, with other targets (fine-tuned only)."""

    def __post_init__(self) -> None:
        """Check the rules against each other."""
        name = f"{NODE}.evaluation"
        require(self.strings >= 2, f"{name}.strings", self.strings, "must be at least 2")
        within = 2 <= self.sweep_strings <= self.strings
        require(within, f"{name}.sweep_strings", self.sweep_strings, f"must lie in 2…strings={self.strings}")
        require(self.length >= 1, f"{name}.length", self.length, "must be at least 1")
        experts = [parse_rule(rule, f"{name}.experts") for rule in self.experts]
        sources = [source for rule in experts for source, _ in rule.pairs]
        require(len(set(sources)) == len(sources), f"{name}.experts", self.experts, "must have disjoint sources")
        require(1 <= self.orders <= max(len(experts), 1), f"{name}.orders", self.orders, "must be 1…number of experts")
        for field_name in ("rival", "chained", "overlap_first"):
            parse_rule(getattr(self, field_name), f"{name}.{field_name}")
        for rule in self.overlap_second:
            parse_rule(rule, f"{name}.overlap_second")


@dataclass
class AuthorsConfig:
    """The node charsub.authors."""

    seeds: list[int] = field(default_factory=lambda: [0])
    """Those of one job; the pipeline sets them."""
    start: Start = Start.scratch
    """Which of the stacks a training job trains."""
    model: AuthorsModelConfig = field(default_factory=AuthorsModelConfig)
    data: AuthorsDataConfig = field(default_factory=AuthorsDataConfig)
    optimizer: AuthorsOptimizerConfig = field(default_factory=AuthorsOptimizerConfig)
    stacks: StacksConfig = field(default_factory=StacksConfig)
    evaluation: AuthorsEvaluationConfig = field(default_factory=AuthorsEvaluationConfig)


@dataclass
class CharsubTrainConfig:
    """Job `charsub_train`: the models of one stack for some seeds, trained together."""

    seeds: list[int] = field(default_factory=lambda: [0])
    start: Start = Start.scratch
    model: AuthorsModelConfig = field(default_factory=AuthorsModelConfig)
    data: AuthorsDataConfig = field(default_factory=AuthorsDataConfig)
    optimizer: AuthorsOptimizerConfig = field(default_factory=AuthorsOptimizerConfig)
    stack: StackConfig = field(default_factory=StackConfig)

    def __post_init__(self) -> None:
        """Check what must fit together."""
        _check_seeds(self.seeds)
        _check_length(self.data.length, "data", self.model)
        rules = f"{NODE}.stacks.{self.start.value}.rules"
        require(len(self.stack.rules) >= 1, rules, self.stack.rules, "must name at least one rule")


@dataclass
class CharsubEvaluateConfig:
    """Job `charsub_evaluate`: every measurement on the models of some seeds, scratch and fine-tuned."""

    seeds: list[int] = field(default_factory=lambda: [0])
    model: AuthorsModelConfig = field(default_factory=AuthorsModelConfig)
    evaluation: AuthorsEvaluationConfig = field(default_factory=AuthorsEvaluationConfig)
    stacks: StacksConfig = field(default_factory=StacksConfig)
    """Which models there are, so that an expert without one is told before work begins."""

    def __post_init__(self) -> None:
        """Check that every rule that is evaluated is trained, and that the strings fit."""
        _check_seeds(self.seeds)
        _check_length(self.evaluation.length, "evaluation", self.model)
        chosen = self.evaluation
        require(len(chosen.experts) >= TRAINED_PAIR, f"{NODE}.evaluation.experts", chosen.experts, "must be at least 2")
        both = [*chosen.experts, chosen.rival, chosen.chained]
        _check_trained(["", *both], self.stacks.scratch, "scratch")
        _check_trained([*both, chosen.overlap_first, *chosen.overlap_second], self.stacks.finetuned, "finetuned")


@dataclass
class CharsubSummaryConfig:
    """Job `charsub_summary`: all seeds together."""

    resamples: int = 2000

    def __post_init__(self) -> None:
        """Check the number of resamples."""
        require(self.resamples >= 100, "resamples", self.resamples, "must be at least 100")


def stack_rules(stack: StackConfig) -> list[Rule]:
    """The rules of a stack, in its order."""
    return [parse_rule(text, NODE) for text in stack.rules]


def _check_seeds(seeds: Sequence[int]) -> None:
    fine = bool(seeds) and min(seeds) >= 0 and len(set(seeds)) == len(seeds)
    require(fine, f"{NODE}.seeds", list(seeds), "must be different numbers, none negative, at least one")


def _check_length(length: int, node: str, model: AuthorsModelConfig) -> None:
    remedy = f"must not exceed {NODE}.model.positions={model.positions}, the models have no positions beyond it"
    require(length <= model.positions, f"{NODE}.{node}.length", length, remedy)


def _check_trained(rules: Sequence[str], stack: StackConfig, name: str) -> None:
    for rule in rules:
        there = rule in stack.rules
        require(there, f"{NODE}.evaluation", rule or "identity", f"must be among {NODE}.stacks.{name}.rules")


assert len(SYMBOLS) == 27, "the authors' alphabet"

JOBS: dict[str, type] = {
    "charsub_train": CharsubTrainConfig,
    "charsub_evaluate": CharsubEvaluateConfig,
    "charsub_summary": CharsubSummaryConfig,
}
