"""One program against the tests of one problem, in a process of its own, judged by evalplus's own check.

Covers the reference outputs and times of a problem, the process and its end. Runs inside the sandbox only. The check is
`evalplus.eval.unsafe_execute` of evalplus 0.3.1, called directly, so that its comparisons and special cases hold. Three
things are added around it: whether a test ran out of time is noted, a process that ends early has failed, and values
that say themselves what they equal do not pass. evalplus's count of details is left out, for it would fail every
solution of HumanEval/32, whose special case adds none.
"""

import contextlib
import mmap
import os
import shutil
import signal
import sys
import tempfile
import time
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import evalplus.eval
from evalplus.eval import _SUCCESS, _UNKNOWN, unsafe_execute
from evalplus.eval._special_oracle import MBPP_OUTPUT_NOT_NONE_TASKS
from evalplus.gen.util import trusted_exec

STAND_IN = types.ModuleType("datasets")
STAND_IN.__dict__["load_dataset"] = None
# evalplus.data imports datasets, and with it pandas, for a function that nobody calls here: a second and 100 MB
with patch.dict(sys.modules, {} if "datasets" in sys.modules else {"datasets": STAND_IN}):
    from evalplus.data.mbpp import mbpp_deserialize_inputs

PASS, FAIL, TIMEOUT = "pass", "fail", "timeout"
MOST_SECONDS = 60.0
"""Of one suite, as in evalplus."""
START_SECONDS = 2.0
POLL_SECONDS = 0.001
LATE, VERDICTS = 0, 1
"""Places in the memory that a trial shares with us."""
PLAIN = {int, float, str, bool, bytes, complex, type(None)}
DEEPEST = 32
HEAP_TYPE = 1 << 9
"""Py_TPFLAGS_HEAPTYPE: the type was made by a class statement or at run time."""
evalplus_time_limit = evalplus.eval.time_limit


@dataclass(frozen=True)
class Suite:
    """Tests, what they must give, and how long each may take."""

    inputs: list[Any]
    expected: list[Any]
    seconds: list[float]


@dataclass(frozen=True)
class Problem:
    """A row of evalplus with its reference outputs."""

    dataset: str
    entry_point: str
    tolerance: float
    base: Suite
    plus: Suite


def problem_from(dataset: str, row: Mapping[str, Any], limits: Mapping[str, float]) -> Problem:
    """Run a row's own solution to get outputs and times; a test may take `reference_factor` times as long.

    Raises:
        Exception: whatever the solution raises.
    """
    source = row["prompt"] + row["canonical_solution"]
    not_none = dataset == "mbpp" and row["entry_point"] in MBPP_OUTPUT_NOT_NONE_TASKS
    suites = []
    for inputs in (row["base_input"], row["plus_input"]):
        if dataset == "mbpp":  # JSON has no tuples, sets and complex numbers
            inputs = mbpp_deserialize_inputs(row["task_id"], inputs)
        expected, times = trusted_exec(source, inputs, row["entry_point"], record_time=True, output_not_none=not_none)
        seconds = [max(limits["minimum_seconds"], limits["reference_factor"] * spent) for spent in times]
        suites.append(Suite(inputs, expected, seconds))
    return Problem(dataset, row["entry_point"], row["atol"], *suites)


def judge(problem: Problem, source: str) -> tuple[str, str | None]:
    """The status of a program on the base tests, and on the further tests if it passes those.

    Both suites run in one process, for its start is most of the cost. Who passes the first and not the second gets a
    second process for the latter, because evalplus gives every suite one of its own.
    """
    base, plus = _try(problem, [problem.base, problem.plus], source)
    if base != PASS or plus == PASS:
        return base, plus
    return PASS, _try(problem, [problem.plus], source)[0]


def _try(problem: Problem, suites: Sequence[Suite], source: str) -> list[Any]:
    """The statuses of a program on some suites, None behind the first that it does not pass."""
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    shared[VERDICTS : VERDICTS + len(suites)] = bytes([_UNKNOWN] * len(suites))
    directory = tempfile.mkdtemp()
    process = os.fork()
    if process == 0:
        _test(problem, suites, source, shared, directory)
    seconds = START_SECONDS + sum(min(MOST_SECONDS, sum(suite.seconds)) for suite in suites)
    late = not _wait(process, seconds) or bool(shared[LATE])
    shutil.rmtree(directory, ignore_errors=True)
    passed = [verdict == _SUCCESS for verdict in shared[VERDICTS : VERDICTS + len(suites)]]
    first = passed.index(False) if False in passed else len(passed)
    return [PASS] * first + [TIMEOUT if late else FAIL, None, None][: len(passed) - first]


def _wait(process: int, seconds: float) -> bool:
    """Wait for a process and end it when it takes too long; whether it came to its end itself."""
    deadline = time.monotonic() + seconds
    ended = False
    while not ended and time.monotonic() < deadline:
        ended = os.waitpid(process, os.WNOHANG)[0] != 0
        if not ended:
            time.sleep(POLL_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)  # whatever it started, too
    if not ended:
        os.waitpid(process, 0)
    return ended


def _test(problem: Problem, suites: Sequence[Suite], source: str, shared: mmap.mmap, directory: str) -> None:
    """The process of a trial, which never returns."""
    try:
        _prepare(shared, directory)
        for place, tests in enumerate(suites):
            verdict = _Verdict(shared, VERDICTS + place)
            unsafe_execute(
                problem.dataset, problem.entry_point, source, tests.inputs, tests.expected, tests.seconds,
                problem.tolerance, True, verdict, [False] * len(tests.inputs), SimpleNamespace(value=0),
            )  # fmt: skip
            if verdict.value != _SUCCESS:
                return
    finally:
        os._exit(0)


def _prepare(shared: mmap.mmap, directory: str) -> None:
    """Cut the process off from ours and put what we add in evalplus's place."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, 4096)  # the answers about other programs
    os.chdir(directory)
    tempfile.tempdir = directory
    evalplus.eval.create_tempdir = contextlib.nullcontext
    # the sandbox limits memory; evalplus would also set the stack, which many machines refuse
    evalplus.eval.query_maximum_memory_bytes = lambda: None
    evalplus.eval.time_limit = lambda seconds: _Watch(seconds, shared)


class _Verdict:
    """What evalplus takes for a multiprocessing.Value."""

    def __init__(self, shared: mmap.mmap, place: int) -> None:
        self._shared, self._place = shared, place

    @property
    def value(self) -> int:
        return self._shared[self._place]

    @value.setter
    def value(self, value: int) -> None:
        self._shared[self._place] = value


class _Watch:
    """evalplus's limit on one test, which also notes that it was reached and looks at what the program returned."""

    def __init__(self, seconds: float, shared: mmap.mmap) -> None:
        self._seconds, self._shared = seconds, shared
        self._limit = evalplus_time_limit(seconds)

    def __enter__(self) -> None:
        self._start = time.monotonic()
        self._limit.__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            self._limit.__exit__(*raised)
        finally:
            self._shared[LATE] = time.monotonic() - self._start >= self._seconds
        # the frame is unsafe_execute's, just before `out == expected`
        if forges_equality(sys._getframe(1).f_locals.get("out")):
            raise TypeError("a value with an == of its own")


def forges_equality(value: Any) -> bool:
    """Whether a value, or one in it, is of a class of the program's own that says itself what it equals.

    Works level by level, for outputs can hold millions of values.
    """
    level = [value]
    for _ in range(DEEPEST):
        kinds = set(map(type, level)) - PLAIN
        if any("__eq__" in vars(base) and _is_foreign(base) for kind in kinds for base in kind.__mro__):
            return True
        if not any(issubclass(kind, (list, tuple, set, frozenset, dict)) for kind in kinds):
            return False
        mappings = [part for part in level if isinstance(part, dict)]
        sequences = [part for part in level if isinstance(part, (list, tuple, set, frozenset))]
        level = list(chain.from_iterable(chain(sequences, mappings, (part.values() for part in mappings))))
    return False


def _is_foreign(kind: type) -> bool:
    """Whether no module has this class under its name."""
    if not kind.__flags__ & HEAP_TYPE:
        return False
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not kind
