"""The worked examples of the contexts: right, and ending so that a prompt can follow."""

import doctest
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from compgen.evaluation.arms import available
from compgen.evaluation.contexts import CODE_CONTEXT, CONTEXTS, MATH_CONTEXT


def test_the_worked_examples_of_the_contexts_are_right() -> None:
    functions: dict[str, Any] = {}
    exec(CODE_CONTEXT, functions)
    finder = doctest.DocTestFinder()
    found = [finder.find(functions[name], name, globs=functions) for name in ("shorter_words", "running_total")]
    results = [doctest.DocTestRunner().run(test) for tests in found for test in tests]
    assert [(result.attempted, result.failed) for result in results] == [(1, 0), (1, 0)]
    steps = re.findall(r"(\d+) ([-*]) (\d+) = (\d+)", MATH_CONTEXT)
    assert len(steps) == 4
    for left, sign, right, result in steps:
        assert (int(left) * int(right) if sign == "*" else int(left) - int(right)) == int(result)
    assert re.findall(r"= (\d+)[^=]*\n#### (\d+)\n", MATH_CONTEXT) == [("8", "8"), ("80", "80")]


def test_contexts_end_so_that_a_prompt_can_follow() -> None:
    assert MATH_CONTEXT.endswith("\n\n")
    assert CODE_CONTEXT.endswith("\n\n\n")


def test_a_fetched_model_is_the_base_and_an_expert_under_every_context(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    specs = available([SimpleNamespace(kind="model_fetch", directory=tmp_path)], {})  # type: ignore[list-item]
    assert specs.keys() == {"base", *CONTEXTS}
    assert specs["base"].prompt is None
    assert specs["math"].prompt == MATH_CONTEXT
    assert len({spec.weights for spec in specs.values()}) == 1, "the weights are held once"
