"""Job `theory_task_arithmetic`: adding weights against multiplying distributions."""

from typing import Any

from compgen.composition.theory import measure_task_arithmetic
from compgen.composition.theory_config import TheoryTaskArithmeticConfig
from compgen.run.context import JobContext


def run(config: TheoryTaskArithmeticConfig, context: JobContext) -> dict[str, Any]:
    """Train the small models and compare; seconds, so there is nothing to resume."""
    return measure_task_arithmetic(config.task_arithmetic, config.seed, context.progress)
