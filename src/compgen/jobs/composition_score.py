"""Job `composition_score`: the answers of generation jobs, judged; nothing is generated."""

from typing import Any

from compgen.errors import UserError
from compgen.evaluation.config import ScoreConfig
from compgen.evaluation.judging import Unit, judge, units_of
from compgen.inputs import GENERATE, of_kind
from compgen.run.context import JobContext

SHOWN = 3


def run(config: ScoreConfig, context: JobContext) -> dict[str, Any]:
    """Judge every unit; one file of JSON lines each, its counts among the metrics."""
    inputs = list(context.inputs.values())
    generated = of_kind(inputs, GENERATE)
    if not generated:
        raise UserError(f"inputs={list(context.inputs)}: name at least one finished job of kind {GENERATE}")
    units = [unit for job in generated for unit in units_of(job, inputs)]
    facts = judge(units, config.sandbox, context.directory, context.progress)
    _show(units, facts, context)
    return {"units": facts}


def _show(units: list[Unit], facts: list[dict[str, Any]], context: JobContext) -> None:
    columns = [
        "protocol_name",
        "arm",
        "benchmark",
        "n",
        "correct",
        "wrong",
        "truncated",
        "error",
        "premature",
        "no_stop",
    ]
    context.table("units", columns, [[fact[name] for name in columns] for fact in facts])
    samples = ["arm", "benchmark", "id", "prompt", "answer", "stop"]
    rows = [
        [unit.arm, unit.benchmark, sample.id, sample.prompt[-400:], generation.raw_text[:400], generation.stop_reason]
        for unit in units
        for sample, generation in list(zip(unit.samples, unit.generations, strict=True))[:SHOWN]
    ]
    context.table("samples", samples, rows)
