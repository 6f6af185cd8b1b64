"""Job `copying_causal`: heads removed, paths cut, keys projected, in all trained two-layer models."""

from typing import Any

from compgen.copying.causal_config import CopyingCausalConfig
from compgen.copying.causality import check_runs
from compgen.run.context import JobContext


def run(config: CopyingCausalConfig, context: JobContext) -> dict[str, Any]:
    """Run every intervention on every model."""
    return check_runs(list(context.inputs.values()), config.intervention, context.progress)
