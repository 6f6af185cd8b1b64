"""Job `heads_summary`: removal curves, bridges and measurements of every model."""

from typing import Any

from compgen.heads.config import HeadsSummaryConfig
from compgen.heads.curves import Curves
from compgen.run.context import JobContext


def run(config: HeadsSummaryConfig, context: JobContext) -> dict[str, Any]:
    """Gather the models' jobs; show the curves as a table."""
    summary = Curves(list(context.inputs.values()), config).summary()
    columns = ["model", "task", "metric", "set", "removed", "value", "low", "high", "n"]
    rows = [
        [
            *(curve[name] for name in columns[:4]),
            point["count"],
            point["value"],
            point["interval"]["low"],
            point["interval"]["high"],
            point["n"],
        ]
        for curve in summary["curves"]
        for point in curve["points"]
    ]
    context.table("curves", columns, rows)
    return summary
