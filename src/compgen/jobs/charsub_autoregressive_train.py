"""Job `charsub_autoregressive_train`: every model of one seed, tested on its own task."""

from typing import Any

from compgen.charsub.autoregressive.zoo import store, test_all, train_all
from compgen.charsub.autoregressive_config import AutoregressiveTrainConfig
from compgen.run.context import JobContext


def run(config: AutoregressiveTrainConfig, context: JobContext) -> dict[str, Any]:
    """Train four stages of models, write their weights, and report how many strings each gets right."""
    stages = train_all(config, context)
    store(stages, context.directory)
    models = test_all(stages, config)
    columns = ["stage", "task", "n", "right"]
    context.table("models", columns, [[row[column] for column in columns] for row in models])
    return {"seed": config.seed, "models": models}
