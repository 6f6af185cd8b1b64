"""Job `copying_transition`: when and how the two-layer runs pass their transition, and what moves it."""

from typing import Any

from compgen.copying.causal_config import CopyingTransitionConfig
from compgen.copying.transitions import describe
from compgen.run.context import JobContext


def run(config: CopyingTransitionConfig, context: JobContext) -> dict[str, Any]:
    """Put the curves of all runs together."""
    return describe(list(context.inputs.values()), config.transition)
