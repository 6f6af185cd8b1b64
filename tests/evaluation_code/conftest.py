"""Problems in evalplus's format that belong to nobody, and the strongest containment of this machine."""

from typing import Any

import pytest

from compgen.errors import UserError
from compgen.evaluation.code.sandbox import choose
from compgen.evaluation.config import SandboxKind

Row = dict[str, Any]

ADD = {
    "task_id": "HumanEval/900",
    "prompt": 'def add(first, second):\n    """The sum of two numbers.\n    >>> add(2, 3)\n    5\n    """\n',
    "contract": "",
    "canonical_solution": "    return first + second\n",
    "base_input": [[2, 3], [0, 0], [-1, 5]],
    "plus_input": [[10**12, 1], [-4, -4], [7, -7]],
    "atol": 0,
    "entry_point": "add",
}
ROOTS = {
    "task_id": "HumanEval/901",
    "prompt": "import math\n\n\ndef roots(values):\n"
    '    """The square roots of some numbers.\n    >>> roots([4.0, 9.0])\n    [2.0, 3.0]\n    """\n',
    "contract": "",
    "canonical_solution": "    return [math.sqrt(value) for value in values]\n",
    "base_input": [[[4.0, 9.0]], [[2.0]]],
    "plus_input": [[[]], [[1e6, 0.25]]],
    "atol": 1e-6,
    "entry_point": "roots",
}
EVEN = {
    "task_id": "Mbpp/9001",
    "prompt": '"""\nWrite a function to pick the even numbers.\nassert evens([1, 2, 3, 4]) == [2, 4]\n"""\n',
    "contract": "",
    "canonical_solution": "\ndef evens(values):\n    return [value for value in values if value % 2 == 0]\n",
    "base_input": [[[1, 2, 3, 4]], [[7]], [[0, 2]]],
    "plus_input": [[[]], [[-2, -3]]],
    "atol": 0,
    "entry_point": "evens",
}


@pytest.fixture
def humaneval_rows() -> list[Row]:
    return [dict(ADD), dict(ROOTS)]


@pytest.fixture
def mbpp_rows() -> list[Row]:
    return [dict(EVEN)]


@pytest.fixture(scope="session")
def containment() -> SandboxKind:
    """What holds programs here; where nothing does, these tests' own programs run without."""
    try:
        return choose(SandboxKind.auto)
    except UserError:
        return SandboxKind.unsafe
