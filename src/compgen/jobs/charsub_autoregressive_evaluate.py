"""Job `charsub_autoregressive_evaluate`: every sweep on the models of one seed."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from compgen.charsub.autoregressive.arms import COMPOSED
from compgen.charsub.autoregressive.evaluation import Findings, load_models, units
from compgen.charsub.autoregressive_config import AutoregressiveEvaluateConfig
from compgen.errors import UserError
from compgen.inputs import only
from compgen.run.context import FinishedJob, JobContext

TRAIN = "charsub_autoregressive_train"
SAMPLES_SHOWN = 60


def run(config: AutoregressiveEvaluateConfig, context: JobContext) -> dict[str, Any]:
    """Run every unit, or those that a killed job left; write cells, samples and per-string results."""
    directory = _trained(config, context).directory
    plan = units(config)
    state = context.checkpoint.load()
    done: list[Findings] = [Findings(**saved) for saved in state["done"]] if state else []
    for place in range(len(done), len(plan)):
        regime, name, sweep = plan[place]
        done.append(sweep(load_models(directory, regime, config)))
        _log(done[-1], context)
        context.progress(place + 1, len(plan), f"{regime}: {name}")
        if context.checkpoint.due():
            context.checkpoint.save({"done": [_plain(findings) for findings in done]})
    return _write(_join(done), config, context)


def _trained(config: AutoregressiveEvaluateConfig, context: JobContext) -> FinishedJob:
    job = only(context.inputs.values(), TRAIN)
    for name in ("seed", "model", "data"):
        ours, theirs = _plain_values(config)[name], job.config[name]
        if ours != theirs:
            raise UserError(f"{name}={ours!r}: {job.name} was trained with {theirs!r}: evaluate it with the same")
    return job


def _plain_values(config: AutoregressiveEvaluateConfig) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(asdict(config)))
    return values


def _plain(findings: Findings) -> dict[str, Any]:
    """As a checkpoint can hold it."""
    return {field.name: getattr(findings, field.name) for field in fields(findings)}


def _join(done: list[Findings]) -> Findings:
    whole = Findings()
    for findings in done:
        whole.cells += findings.cells
        whole.items |= findings.items
        whole.samples += findings.samples
        whole.regions += findings.regions
        whole.projections += findings.projections
    return whole


def _log(findings: Findings, context: JobContext) -> None:
    """Curves of the composed model over k and over length."""
    for cell in findings.cells:
        if cell["arm"] == COMPOSED:
            group = f"{cell['regime']}-{cell['sweep']}"
            context.log({f"{group}/step": cell["setting"], f"{group}/exact": cell["exact"]})


def _write(whole: Findings, config: AutoregressiveEvaluateConfig, context: JobContext) -> dict[str, Any]:
    _write_lines(context.directory / "cells.jsonl", whole.cells)
    _write_lines(context.directory / "samples.jsonl", whole.samples)
    arrays = {name: _compact(values.numpy()) for name, values in whole.items.items()}
    np.savez_compressed(context.directory / "items.npz", **arrays)  # type: ignore[arg-type]
    columns = list(whole.samples[0]) if whole.samples else []
    wrong_first = sorted(whole.samples, key=lambda sample: bool(sample["right"]))[:SAMPLES_SHOWN]
    context.table("samples", columns, [[sample[name] for name in columns] for sample in wrong_first])
    return {
        "seed": config.seed,
        "cells": len(whole.cells),
        "composed": {
            f"{cell['regime']}/{cell['sweep']}/{cell['setting']}": cell["exact"]
            for cell in whole.cells
            if cell["arm"] == COMPOSED
        },
        "regions": whole.regions,
        "projections": whole.projections,
    }


def _compact(values: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    return values if values.dtype == np.bool_ else values.astype(np.float32)


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
