"""Job `copying_clamp_train`: one two-layer model trained while the first layer's attention is held."""

from dataclasses import replace
from typing import Any

from compgen.copying.experiment_config import CopyingClampTrainConfig
from compgen.copying.interventions import HoldFirstLayer
from compgen.copying.results import final_metrics, save_counts
from compgen.copying.training import Trainer
from compgen.run.context import JobContext


def run(config: CopyingClampTrainConfig, context: JobContext) -> dict[str, Any]:
    """Train with the same loop, data and seed as the free run."""
    clamp = config.clamp
    steps = clamp.previous_steps if clamp.mode == "previous" else clamp.steps
    held = replace(config, train=replace(config.train, steps=steps))
    evaluations = Trainer(held, context, HoldFirstLayer(clamp.mode)).run()
    save_counts(evaluations, context.directory)
    return final_metrics(evaluations, steps)
