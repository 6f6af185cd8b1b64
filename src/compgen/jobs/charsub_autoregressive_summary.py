"""Job `charsub_autoregressive_summary`: the autoregressive protocol of character substitution over all seeds."""

from typing import Any

from compgen.charsub.autoregressive.summary import summarize
from compgen.charsub.autoregressive_config import AutoregressiveSummaryConfig
from compgen.run.context import JobContext


def run(config: AutoregressiveSummaryConfig, context: JobContext) -> dict[str, Any]:
    """Gather the seeds and show all measurements as a table."""
    summary = summarize(list(context.inputs.values()), config.resamples)
    rows = [
        (name, found["value"], *_bounds(found["interval"]), found["n"])
        for name, found in summary["measurements"].items()
    ]
    context.table("measurements", ["measurement", "value", "low", "high", "n"], rows)
    return summary


def _bounds(interval: dict[str, Any] | None) -> tuple[float | None, float | None]:
    return (interval["low"], interval["high"]) if interval else (None, None)
