"""What both benchmarks of code share in posing: rows of evalplus to samples."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from compgen.errors import UserError, require
from compgen.evaluation.benchmarks.posed import unknown_prompt
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Sample

Row = Mapping[str, Any]
PROMPTS = ("raw",)
FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "base_input", "plus_input", "atol")


def as_samples(rows: Sequence[Row], family: str, protocol: TaskProtocol, limit: int | None) -> list[Sample]:
    """The rows as samples; the prompt `raw` is the row's own.

    Args:
        rows: of evalplus.
        family: what their ids begin with, `HumanEval` or `Mbpp`.
        protocol: how they are posed.
        limit: only the first so many.

    Raises:
        ConfigError: the protocol has shots, or a prompt format that does not exist.
        UserError: a row is not one of evalplus.
    """
    if protocol.prompt not in PROMPTS:
        raise unknown_prompt(protocol, PROMPTS)
    require(protocol.shots == 0, f"protocol.{protocol.benchmark}.shots", protocol.shots, "code is posed without, set 0")
    chosen = rows[: limit or len(rows)]
    for row in chosen:
        _check(row, family)
    return [Sample(row["task_id"], row["prompt"], 0, protocol.stop, row, row["canonical_solution"]) for row in chosen]


def _check(row: Row, family: str) -> None:
    missing = [name for name in FIELDS if name not in row]
    name = row.get("task_id", "?")
    if missing:
        raise UserError(f"task_id={name!r}: the row lacks {', '.join(missing)}; give rows in evalplus's format")
    if not re.fullmatch(rf"{family}/\d+", str(name)):
        raise UserError(f"task_id={name!r}: must be {family}/N, for evalplus treats some numbers in their own way")
