"""Job `copying_summary`: everything that the copying study measured, in one place for claims and figures."""

from typing import Any

from compgen.copying.experiment_config import CopyingSummaryConfig
from compgen.copying.summary import summarize
from compgen.run.context import JobContext


def run(config: CopyingSummaryConfig, context: JobContext) -> dict[str, Any]:
    """Gather the runs and show their final errors as a table."""
    del config  # it has no settings yet; the inputs decide
    summary = summarize(list(context.inputs.values()))
    rows = [
        (name, ", ".join(map(str, found["seeds"])), found["value"], *_bounds(found), found["n"])
        for name, found in summary["measurements"].items()
    ]
    context.table("measurements", ["measurement", "seeds", "value", "low", "high", "n"], rows)
    return summary


def _bounds(found: dict[str, Any]) -> tuple[float | None, float | None]:
    interval = found["interval"]
    return (interval["low"], interval["high"]) if interval else (None, None)
