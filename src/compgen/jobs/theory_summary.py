"""Job `theory_summary`: the measurements that the claims about the theory refer to."""

from typing import Any

from compgen.composition.theory import exact_measurements, task_arithmetic_measurements
from compgen.composition.theory_config import TheorySummaryConfig
from compgen.run.context import JobContext

MEASURE = {"theory_exact": exact_measurements, "theory_task_arithmetic": task_arithmetic_measurements}


def run(config: TheorySummaryConfig, context: JobContext) -> dict[str, Any]:
    """Gather the measurements of both jobs."""
    del config  # it has no settings
    measurements: dict[str, Any] = {}
    for job in context.inputs.values():
        found = MEASURE[job.kind](job.metrics)
        files = [f"theory/{job.name}/metrics.json"]
        measurements.update({name: {**value, "files": files} for name, value in found.items()})
    return {"measurements": measurements}
