"""Job `copying_train`: one model from one seed, its error curves, checkpoints and final errors."""

from typing import Any

from compgen.copying.config import CopyingTrainConfig
from compgen.copying.results import final_metrics, save_counts
from compgen.copying.training import Trainer
from compgen.run.context import JobContext


def run(config: CopyingTrainConfig, context: JobContext) -> dict[str, Any]:
    """Train, and keep every test sequence's own counts for later statistics."""
    evaluations = Trainer(config, context).run()
    save_counts(evaluations, context.directory)
    return final_metrics(evaluations, config.train.steps)
