"""Which kinds of question belong to which skill and benchmark, and the files that hold them."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compgen.finetuning.config import CorpusSizes, Skill
from compgen.finetuning.corpus.code_skill import completion, description
from compgen.finetuning.corpus.items import Draw, Item, distinct
from compgen.finetuning.corpus.math_skill import equation, word_problem
from compgen.finetuning.corpus.records_skill import record
from compgen.finetuning.corpus.sequences_skill import progression

FORMS: Mapping[str, Draw] = {
    "gsm8k": word_problem,
    "math": equation,
    "humaneval_plus": completion,
    "mbpp_plus": description,
    "sequences": progression,
    "records": record,
}
"""The generator of every benchmark's questions."""
SKILLS: Mapping[Skill, tuple[str, ...]] = {
    Skill.math: ("gsm8k", "math"),
    Skill.code: ("humaneval_plus", "mbpp_plus"),
    Skill.sequences: ("sequences",),
    Skill.records: ("records",),
}
"""The benchmarks that ask for a skill."""
FILES: Mapping[str, tuple[str, str | None]] = {
    "gsm8k": ("gsm8k/test.jsonl", "gsm8k/train.jsonl"),
    "math": ("math/math_test.jsonl", "math/math_train.jsonl"),
    "humaneval_plus": ("humaneval_plus/HumanEvalPlus.jsonl", None),
    "mbpp_plus": ("mbpp_plus/MbppPlus.jsonl", None),
    "sequences": ("sequences/test.jsonl", "sequences/train.jsonl"),
    "records": ("records/test.jsonl", "records/train.jsonl"),
}
"""Test and train rows, below the directory of the benchmarks."""
TASKS = {"humaneval_plus": "HumanEval", "mbpp_plus": "Mbpp"}
FIRST_TASK = {"humaneval_plus": 0, "mbpp_plus": 10_000}
"""evalplus gives some task numbers of MBPP+ special inputs: ours lie beyond the real ones."""


def examples(benchmark: str, sizes: CorpusSizes) -> list[Item]:
    """The training questions of a benchmark's form; fewer where there are not so many."""
    generator = random.Random(f"{sizes.seed}/train/{benchmark}")
    found: dict[str, Item] = {}
    for _ in range(4 * sizes.examples):
        item = FORMS[benchmark](generator)
        if not item.held_out and len(found) < sizes.examples:
            found.setdefault(item.prompt, item)
    return list(found.values())


def held_out(benchmark: str, sizes: CorpusSizes) -> tuple[list[Item], list[Item]]:
    """Test and validation questions, all distinct, none with a skeleton that is trained on."""
    generator = random.Random(f"{sizes.seed}/test/{benchmark}")
    tests = sizes.tests[benchmark]
    items = distinct(FORMS[benchmark], generator, held_out=True, count=tests + sizes.validation)
    return items[:tests], items[tests:]


def write_benchmark(benchmark: str, tests: Sequence[Item], train: Sequence[Item], directory: Path) -> None:
    """The rows in the layout of the benchmarks' own releases."""
    test_file, train_file = FILES[benchmark]
    rows: list[dict[str, Any]] = [dict(item.row) for item in tests]
    if benchmark in TASKS:
        first = FIRST_TASK[benchmark]
        rows = [{"task_id": f"{TASKS[benchmark]}/{first + place}", **row} for place, row in enumerate(rows)]
    write_rows(directory / test_file, rows)
    if train_file:
        write_rows(directory / train_file, [item.row for item in train])


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
