"""Job `copying_measure`: progress measures of all two-layer runs through training, and maps of one of them."""

from typing import Any

from safetensors.torch import save_file

from compgen.copying.causal_config import CopyingMeasureConfig
from compgen.copying.progress import maps, measurable, measure_runs
from compgen.run.context import JobContext


def run(config: CopyingMeasureConfig, context: JobContext) -> dict[str, Any]:
    """Measure every checkpoint of every run; the maps are of the first."""
    jobs = list(context.inputs.values())
    first = next(job for job in jobs if measurable(job))
    save_file(maps(first, config.measure), context.directory / "maps.safetensors")
    return {"maps_of": first.name, **measure_runs(jobs, config.measure, context.progress)}
