"""Job `charsub_evaluate`: what the models of some seeds do alone and combined, in the authors' protocol."""

from typing import Any

import numpy as np

from compgen.charsub.authors.evaluation import evaluate_seed
from compgen.charsub.authors_config import CharsubEvaluateConfig
from compgen.run.context import JobContext


def run(config: CharsubEvaluateConfig, context: JobContext) -> dict[str, Any]:
    """Evaluate seed by seed; the outcome of every string goes to a file of its own, for intervals over strings."""
    found: dict[str, Any] = {}
    rows: list[tuple[object, ...]] = []
    for done, seed in enumerate(config.seeds):
        context.progress(done, len(config.seeds), f"seed {seed}")
        evaluated = evaluate_seed(config, seed, context)
        found[str(seed)] = evaluated.metrics
        rows += [(seed, *row.values()) for row in evaluated.metrics["notebook"]]
        np.savez_compressed(context.directory / f"outcomes-seed{seed}.npz", **evaluated.outcomes)  # type: ignore[arg-type]
    context.table("notebook-strings", ["seed", "model", "string", "expected", "answer"], rows)
    return {"seeds": found}
