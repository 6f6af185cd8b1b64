"""The program inside the sandbox: reads problems and programs on standard input, writes verdicts on standard output.

Covers the order of work: each problem in a process of its own, which computes the reference outputs, tests the solution
known to be good and then the programs, one at a time; programs that ran out of time once more, when nothing else runs.
One test of one program is in `trial.py`.

evalplus's evaluate() is not used: it wants all problems, trusts result files and pickled reference times of earlier
runs, leaves a thread that sleeps for 20 s, calls slow programs failed, and reads a number from the environment as text.
"""

import gc
import json
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, TextIO

from compgen.evaluation.code.trial import TIMEOUT, Problem, judge, problem_from

Json = dict[str, Any]
FORK = multiprocessing.get_context("fork")


def main() -> None:
    """Work through what stands on standard input."""
    request = json.load(sys.stdin)
    results = os.fdopen(os.dup(1), "w", encoding="utf-8")
    _close_standard_streams()
    gc.collect()
    gc.freeze()  # pages that are never collected are never copied after a fork
    late: list[tuple[Json, Json]] = []
    for task, answer in _at_once(request["tasks"], request["limits"], request["workers"]):
        if _late(answer):
            late.append((task, answer))
        else:
            _write(results, answer)
    for task, answer in late:
        _write(results, _again(task, answer, request["limits"]))


def _close_standard_streams() -> None:
    """What a program or a library prints must not stand between the answers."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    os.close(nothing)


def _write(results: TextIO, answer: Json) -> None:
    results.write(json.dumps(answer) + "\n")
    results.flush()


def _at_once(tasks: Sequence[Json], limits: Json, workers: int) -> Iterator[tuple[Json, Json]]:
    """The answers as they come, up to `workers` tasks at a time; a task whose process dies has none."""
    waiting = list(reversed(tasks))
    running: dict[Connection, tuple[Json, Any]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            task = waiting.pop()
            receiver, sender = FORK.Pipe(duplex=False)
            process = FORK.Process(target=_answer, args=(task, limits, sender))
            process.start()
            sender.close()
            running[receiver] = (task, process)
        for ready in wait(list(running)):
            assert isinstance(ready, Connection)
            task, process = running.pop(ready)
            try:
                yield task, ready.recv()
            except EOFError:
                continue
            finally:
                ready.close()
                process.join()


def _answer(task: Json, limits: Json, sender: Connection) -> None:
    """The process of a task."""
    try:
        problem = problem_from(task["dataset"], task["row"], limits)
    except Exception as error:  # noqa: BLE001, a row's own solution may raise anything
        sender.send({"task_id": task["row"]["task_id"], "broken": f"{type(error).__name__}: {error}"[:300]})
        return
    gc.freeze()
    verdicts = {name: [_verdict(problem, source) for source in task[name]] for name in ("good", "programs")}
    sender.send({"task_id": task["row"]["task_id"], "broken": None, **verdicts})


def _verdict(problem: Problem, source: str) -> Json:
    base, plus = judge(problem, source)
    return {"base": base, "plus": plus, "repeated": False}


def _late(answer: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Which programs ran out of time."""
    return [
        (name, index)
        for name in ("good", "programs")
        for index, verdict in enumerate(answer.get(name, []))
        if TIMEOUT in (verdict["base"], verdict["plus"])
    ]


def _again(task: Json, answer: Json, limits: Json) -> Json:
    """The answer to a task with those programs tested once more that ran out of time."""
    late = _late(answer)
    chosen = {"good": [], "programs": [task[name][index] for name, index in late]}
    for _, repeated in _at_once([{**task, **chosen}], limits, 1):
        for (name, index), verdict in zip(late, repeated.get("programs", []), strict=False):
            answer[name][index] = {**verdict, "repeated": True}
    return answer


if __name__ == "__main__":
    main()
