"""Job `composition_summary`: all arms, benchmarks, protocols and seeds together."""

from typing import Any

from compgen.evaluation.config import SummaryConfig
from compgen.evaluation.summary import summarize
from compgen.run.context import JobContext


def run(config: SummaryConfig, context: JobContext) -> dict[str, Any]:
    """Gather the scores; show accuracies as a table."""
    summary = summarize(list(context.inputs.values()), config.resamples)
    columns = ["protocol", "arm", "benchmark", "accuracy", "low", "high", "n"]
    rows = []
    for row in summary["table"]:
        interval = row["interval"] or {"low": None, "high": None}
        cell = (row["protocol"], row["arm"], row["benchmark"])
        rows.append([*cell, row["value"], interval["low"], interval["high"], row["n"]])
    context.table("accuracy", columns, rows)
    return summary
