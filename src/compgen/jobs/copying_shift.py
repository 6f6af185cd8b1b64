"""Job `copying_shift`: the out-of-distribution test taken apart, on all trained two-layer models."""

from typing import Any

from compgen.copying.causal_config import CopyingShiftConfig
from compgen.copying.shift import measure_shifts
from compgen.run.context import JobContext


def run(config: CopyingShiftConfig, context: JobContext) -> dict[str, Any]:
    """Measure every condition on every model."""
    return measure_shifts(list(context.inputs.values()), config.shift, context.progress)
