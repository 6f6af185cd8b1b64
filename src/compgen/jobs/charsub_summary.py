"""Job `charsub_summary`: the authors' protocol of character substitution over all seeds."""

from typing import Any

from compgen.charsub.authors.summary import summarize
from compgen.charsub.authors_config import CharsubSummaryConfig
from compgen.run.context import JobContext


def run(config: CharsubSummaryConfig, context: JobContext) -> dict[str, Any]:
    """Gather the seeds and show all measurements as a table."""
    summary = summarize(list(context.inputs.values()), config.resamples)
    rows = [(name, found["value"], *_bounds(found), found["n"]) for name, found in summary["measurements"].items()]
    context.table("measurements", ["measurement", "value", "low", "high", "n"], rows)
    return summary


def _bounds(found: dict[str, Any]) -> tuple[float | None, float | None]:
    interval = found["interval"]
    return (interval["low"], interval["high"]) if interval else (None, None)
