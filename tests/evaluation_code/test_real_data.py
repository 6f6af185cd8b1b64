"""The real HumanEval+ and MBPP+: their own solutions pass, each other's and hard-coded answers do not."""

import gzip
import json
import re
from typing import Any

import pytest

from compgen.evaluation.code.completion import cut_completion
from compgen.evaluation.code.scoring import CodeScoring, evaluate
from compgen.evaluation.config import SandboxKind
from compgen.run.paths import project_root

Row = dict[str, Any]

DATA = project_root().parent / "shared" / "data"
FILES = {
    "humaneval_plus": (DATA / "humaneval_plus" / "HumanEvalPlus.jsonl.gz", 164),
    "mbpp_plus": (DATA / "mbpp_plus" / "MbppPlus.jsonl.gz", 378),
}
SLOW = {"Mbpp/255", "Mbpp/271", "Mbpp/392", "Mbpp/599", "HumanEval/15", "HumanEval/130", "HumanEval/139"}
"""Their own solutions take seconds; the slow test has them."""
pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not DATA.is_dir(), reason="../shared/data is absent"),
]


def real_rows(benchmark: str) -> list[Row]:
    path, count = FILES[benchmark]
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    assert len(rows) == count
    return rows


def passing(benchmark: str, rows: list[Row], programs: dict[str, str], kind: SandboxKind) -> float:
    """The share of rows whose program passes; rows' own solutions must all pass in the same run."""
    options = CodeScoring(sandbox=kind)
    by_id = {row["task_id"]: row for row in rows}
    verdicts = evaluate(benchmark, by_id, {task: [source] for task, source in programs.items()}, options)
    assert len(verdicts) == len(programs)
    return sum(verdict.passes for verdict in verdicts.values()) / len(programs)


@pytest.mark.parametrize("benchmark", FILES)
def test_own_solutions_pass_and_those_of_the_next_row_do_not(benchmark, containment):
    """A third of the rows."""
    rows = [row for row in real_rows(benchmark)[::3] if row["task_id"] not in SLOW]
    following = rows[1:] + rows[:1]
    swapped = {row["task_id"]: row["prompt"] + _renamed(other, row) for row, other in zip(rows, following, strict=True)}
    assert passing(benchmark, rows, swapped, containment) <= 0.02


def _renamed(other: Row, row: Row) -> str:
    """Another row's solution under the name that this row asks for."""
    return re.sub(rf"\b{re.escape(other['entry_point'])}\b", row["entry_point"], other["canonical_solution"])


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", FILES)
def test_all_own_solutions_pass(benchmark, containment):
    """A minute and two on one core."""
    rows = real_rows(benchmark)
    own = {row["task_id"]: row["prompt"] + row["canonical_solution"] for row in rows}
    assert passing(benchmark, rows, own, containment) == 1.0


def test_a_cheat_that_returns_what_the_shown_assertion_wants_fails(containment):
    """lm-eval's mbpp_plus grades by that assertion alone and gives such a program full marks."""
    rows = [row for row in real_rows("mbpp_plus")[:48] if row["task_id"] not in SLOW]
    cheats = {}
    for row in rows:
        shown = re.search(r"^assert .*==\s*(.+)$", row["prompt"], re.MULTILINE)
        if shown is not None:
            cheats[row["task_id"]] = f"def {row['entry_point']}(*_):\n    return {shown[1]}\n"
    assert len(cheats) > 30
    chosen = [row for row in rows if row["task_id"] in cheats]
    assert passing("mbpp_plus", chosen, cheats, containment) == 0.0


@pytest.mark.parametrize("benchmark", FILES)
def test_cutting_takes_the_tail_and_nothing_of_the_solution(benchmark):
    tail = "\n\n# Example\nprint(1)\n\ndef half(side"
    for row in real_rows(benchmark):
        for completion in (row["canonical_solution"], row["canonical_solution"] + tail):
            found = cut_completion(row["prompt"], completion, row["entry_point"])
            assert found.strip() == row["canonical_solution"].strip(), row["task_id"]
