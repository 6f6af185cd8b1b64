"""Job `charsub_train`: a stack of small models learns letter substitutions, as in the authors' notebook."""

from typing import Any

from compgen.charsub.authors.stacks import train, training_metrics
from compgen.charsub.authors_config import CharsubTrainConfig
from compgen.run.context import JobContext


def run(config: CharsubTrainConfig, context: JobContext) -> dict[str, Any]:
    """Train all models of the stack and keep them in one file."""
    return training_metrics(config, train(config, context))
