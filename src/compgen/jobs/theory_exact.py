"""Job `theory_exact`: the paper's theorems on small explicit distributions."""

from typing import Any

from compgen.composition.theory import measure_exact
from compgen.composition.theory_config import TheoryExactConfig
from compgen.run.context import JobContext


def run(config: TheoryExactConfig, context: JobContext) -> dict[str, Any]:
    """Enumerate everything; seconds, so there is nothing to resume."""
    return measure_exact(config.exact, config.seed, context.progress)
