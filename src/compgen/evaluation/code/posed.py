"""HumanEval+ and MBPP+ as they are posed: a signature with a docstring, or a sentence with one assertion, is continued.

Rows, tests and comparisons are evalplus's (HumanEval+ 0.1.10, 164 rows; MBPP+ 0.2.0, 378 rows). How answers are run and
scored is in `scoring.py` and not imported here: asking does not depend on it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from compgen.errors import UserError, require
from compgen.evaluation.benchmarks.posed import unknown_prompt
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Sample

Row = Mapping[str, Any]
PROMPTS = ("raw",)
FAMILIES = {"humaneval_plus": "HumanEval", "mbpp_plus": "Mbpp"}
"""What evalplus's ids begin with, by benchmark."""
FIELDS = ("task_id", "prompt", "entry_point", "canonical_solution", "base_input", "plus_input", "atol")


def samples(test: Sequence[Row], train: Sequence[Row], protocol: TaskProtocol, limit: int | None) -> list[Sample]:
    """The functions to be written, under a protocol; the prompt `raw` is the row's own.

    Args:
        test: rows of evalplus.
        train: none, there are no shots.
        protocol: names the benchmark and how it is posed.
        limit: only the first so many.

    Raises:
        ConfigError: the protocol has shots, or a prompt format that does not exist.
        UserError: a row is not one of evalplus.
    """
    if protocol.prompt not in PROMPTS:
        raise unknown_prompt(protocol, PROMPTS)
    require(protocol.shots == 0, f"protocol.{protocol.benchmark}.shots", protocol.shots, "code is posed without, set 0")
    assert not train, "code is posed without shots"
    chosen = test[: limit or len(test)]
    for row in chosen:
        _check(row, FAMILIES[protocol.benchmark])
    return [Sample(row["task_id"], row["prompt"], 0, protocol.stop, row, row["canonical_solution"]) for row in chosen]


def _check(row: Row, family: str) -> None:
    missing = [name for name in FIELDS if name not in row]
    name = row.get("task_id", "?")
    if missing:
        raise UserError(f"task_id={name!r}: the row lacks {', '.join(missing)}; give rows in evalplus's format")
    if not re.fullmatch(rf"{family}/\d+", str(name)):
        raise UserError(f"task_id={name!r}: must be {family}/N, for evalplus treats some numbers in their own way")
