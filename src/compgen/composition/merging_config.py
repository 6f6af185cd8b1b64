"""What can be set when experts are merged in weight space, checked before torch is imported.

Covers the list of merges and the names of the experts. How each method works stands in merging.py.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from compgen.errors import require
from compgen.weights.config import ModelConfig

NODE = "composition.merge"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


class MergeMethod(StrEnum):
    """The weight-space baselines, under mergekit's names. τ_i = expert i - base, all per tensor."""

    linear = "linear"
    """The mean of the experts' weights (Wortsman et al. 2022, uniform soup); takes no scaling."""
    task_arithmetic = "task_arithmetic"
    """base + λ Σ τ_i (Ilharco et al. 2023)."""
    ties = "ties"
    """Trim each τ_i to its `density` largest entries, elect a sign per entry, base + λ times the mean of those that
    agree (Yadav et al. 2023); mergekit trims tensor by tensor, the paper trims the whole vector."""
    dare_linear = "dare_linear"
    """Keep entries of τ_i with probability `density` and divide them by it (Yu et al. 2024), then task arithmetic."""
    dare_ties = "dare_ties"
    """The same, then the sign election of TIES; those that agree are summed, not averaged."""


SPARSE = (MergeMethod.ties, MergeMethod.dare_linear, MergeMethod.dare_ties)


@dataclass
class WeightMerge:
    """One merged model."""

    name: str = ""
    """The folder of the merged model."""
    method: MergeMethod = MergeMethod.task_arithmetic
    scaling: float = 1.0
    """λ, the strength of the merged task vector."""
    density: float = 1.0
    """The share of each task vector that is kept."""
    experts: list[str] = field(default_factory=list)
    """Which experts are merged, by skill; none named means those of the node."""

    def __post_init__(self) -> None:
        fits = NAME.fullmatch(self.name) is not None
        require(fits, f"{NODE}.merges.name", self.name, "use lower-case letters, digits, dots, dashes and underscores")
        where = f"{NODE}.merges.{self.name}"
        require(0 <= self.scaling <= 10, f"{where}.scaling", self.scaling, "must be between 0 and 10")
        require(0 < self.density <= 1, f"{where}.density", self.density, "must be above 0 and at most 1")
        mean = self.method is MergeMethod.linear
        require(not mean or self.scaling == 1, f"{where}.scaling", self.scaling, "linear is a mean: leave it at 1")
        whole = self.method in SPARSE or self.density == 1
        require(whole, f"{where}.density", self.density, f"{self.method.value} keeps everything: leave it at 1")
        require(len(set(self.experts)) == len(self.experts), f"{where}.experts", self.experts, "name each expert once")


@dataclass
class MergingConfig:
    """The node composition.merge."""

    experts: list[str] = field(default_factory=lambda: ["math", "code"])
    """The experts that a merge without a list of its own takes, by skill."""
    merges: list[WeightMerge] = field(default_factory=list)

    def __post_init__(self) -> None:
        distinct = bool(self.experts) and len(set(self.experts)) == len(self.experts)
        require(distinct, f"{NODE}.experts", self.experts, "name at least one expert, each once")
        names = [merge.name for merge in self.merges]
        require(len(set(names)) == len(names), f"{NODE}.merges", names, "two merges have the same name: rename one")

    def experts_of(self, merge: WeightMerge) -> list[str]:
        """The experts that a merge takes, in the order in which they are added."""
        return list(merge.experts or self.experts)


@dataclass
class CompositionMergeConfig:
    """Job composition_merge: every merge of one seed's experts."""

    seed: int = 0
    """Seeds DARE's masks, nothing else."""
    merge: MergingConfig = field(default_factory=MergingConfig)
    models: dict[str, ModelConfig] = field(default_factory=dict)
    """The base and experts that no job trained, by name."""

    def __post_init__(self) -> None:
        require(self.seed >= 0, "seed", self.seed, "must not be negative")
        require(bool(self.merge.merges), f"{NODE}.merges", self.merge.merges, "name at least one merge")


JOBS: dict[str, type] = {"composition_merge": CompositionMergeConfig}
