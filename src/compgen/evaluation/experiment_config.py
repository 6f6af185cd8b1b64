"""Configuration of the composition of language models (paper 1): the node `composition`. Free of torch."""

from dataclasses import dataclass, field

from compgen.composition.merging_config import JOBS as MERGE_JOBS
from compgen.composition.merging_config import MergingConfig
from compgen.evaluation.config import JOBS as EVALUATION_JOBS
from compgen.evaluation.config import ArmConfig, EvaluationConfig
from compgen.evaluation.diagnosing_config import JOBS as DIAGNOSE_JOBS
from compgen.evaluation.preflight_config import JOBS as PREFLIGHT_JOBS
from compgen.finetuning.config import JOBS as TRAINING_JOBS
from compgen.finetuning.config import TrainingConfig
from compgen.weights.config import JOBS as FETCH_JOBS
from compgen.weights.config import ModelConfig


@dataclass
class CompositionConfig:
    """The node `composition`."""

    chosen: list[str] = field(default_factory=lambda: ["base"])
    """The arms of one generation job."""
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    models: dict[str, ModelConfig] = field(default_factory=dict)
    gemma: dict[str, ModelConfig] = field(default_factory=dict)
    """The paper's own models, by the names that arms use."""
    arms: dict[str, ArmConfig] = field(default_factory=dict)
    merge: MergingConfig = field(default_factory=MergingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


JOBS: dict[str, type] = {
    **TRAINING_JOBS,
    **MERGE_JOBS,
    **EVALUATION_JOBS,
    **DIAGNOSE_JOBS,
    **PREFLIGHT_JOBS,
    **FETCH_JOBS,
}
"""The kinds of job of the experiment and their schemas."""
