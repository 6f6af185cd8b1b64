"""Where a completion is cut: at the end of the function, keeping what the function needs."""

import time

import pytest

from compgen.evaluation.code.completion import cut_completion

PROMPT = 'def area(side):\n    """The area of a square."""\n'
BODY = "    size = side * side\n    return size\n"
WHOLE = '"""\nWrite a function.\nassert area(2) == 4\n"""\n'


def cut(completion: str, prompt: str = PROMPT) -> str:
    return cut_completion(prompt, completion, "area")


@pytest.mark.parametrize(
    "tail",
    [
        "",
        "\n\nprint(area(2))\n",
        "\nn = 5; print(area(n))",
        '\n\nif __name__ == "__main__":\n    print(area(3))\n',
        "\n\ndef perimeter(side):\n    return 4 * side\n",
        "\n# Example\nassert area(2) == 4\n",
        "\n```\nThis isn't code, it's text (\n",
        '\n"""\nAn open string\n  with lines\n',
        "\ndef half(side",
        "\nx = (1,\n",
        "\n$$$ ? `\n",
        "\n  stray indentation\n",
        "\n\x00\n",
    ],
)
def test_what_follows_the_function_is_cut(tail):
    assert cut(BODY + tail).rstrip() == BODY.rstrip()


@pytest.mark.parametrize(
    "body",
    [
        "    if side:\n\n        return side * side\n\n    return 0\n",
        "    text = '''\nat the margin\n'''\n    return side * side\n",
        "# a comment at the margin\n    return side * side\n",
        "    return (\nside\n* side\n)\n",
        "    return side \\\n* side\n",
        "\treturn side * side\n",
        "    def inner():\n        return side * side\n    return inner()\n",
        "    return side * side",
    ],
)
def test_nothing_is_cut_inside_the_function(body):
    assert cut(body + "\nprint(1)\n").rstrip() == body.rstrip()


def test_the_function_may_be_written_once_more_behind_the_prompt():
    again = f"def area(side):\n{BODY}"
    assert cut(f"{again}\nprint(1)\n") == again
    stub = f"    pass\n\n{again}"
    assert cut(f"{stub}\nprint(1)\n") == stub


def test_of_two_definitions_the_first_counts():
    assert cut(f"{BODY}\ndef area(side):\n    return 0\n") == BODY


def test_imports_helpers_and_decorators_before_the_function_stay():
    completion = (
        f"from functools import cache\n\nA, B = 1, 2\n\n\ndef help():\n    pass\n\n\n@cache\ndef area(side):\n{BODY}"
    )
    assert cut(f"{completion}\nprint(area(2))\n", WHOLE) == completion
    assert cut("async def area(side):\n    return 1\nx = 1\n", WHOLE) == "async def area(side):\n    return 1\n"
    assert cut("def area(side): return side * side\nx = 1\n", WHOLE) == "def area(side): return side * side\n"


def test_later_definitions_that_the_function_needs_stay_and_nothing_else():
    body = "    return square(side)\n"
    helpers = (
        "\ndef square(side):\n    return side ** EXPONENT\n\nprint(area(1))\n\nEXPONENT = 2\n\ndef other():\n    pass\n"
    )
    found = cut(body + helpers + "\ndef broken(")
    namespace: dict = {}
    exec(PROMPT + found, namespace)
    assert namespace["area"](3) == 9
    assert "print" not in found
    assert "other" not in namespace


def test_a_decorated_helper_behind_the_function_keeps_its_decorator():
    found = cut("    return f(side)\n\nimport functools\n\n@functools.cache\ndef f(n):\n    return n * n\n\nprint(1)\n")
    namespace: dict = {}
    exec(PROMPT + found, namespace)
    assert namespace["area"](3) == 9
    assert hasattr(namespace["f"], "cache_info")


def test_a_function_that_was_not_finished_stays_as_it_is():
    for completion in ("    return (side *", "    text = '''\nopen", "    if side:\n        retu"):
        assert cut(completion) == completion


@pytest.mark.parametrize("completion", ["", "\n", "x = 1\nprint(x)\n", "area = lambda side: side\nprint(1)\n", "   "])
def test_without_the_function_nothing_is_cut(completion):
    assert cut(completion, WHOLE) == completion


def test_an_empty_body_before_a_statement_at_the_margin_is_left_to_fail():
    completion = "\nprint(area(2))\n"
    assert cut(completion) == completion


def test_time_grows_with_the_length_and_not_faster():
    """evalplus's sanitize takes minutes for 400 such lines."""
    tail = "".join(f"and so {n} on, isn't it ({n}\n" for n in range(4000))
    start = time.perf_counter()
    assert cut(BODY + tail) == BODY
    assert cut("def area(side):\n" + BODY + "x = 1\n" * 4000, WHOLE).endswith(BODY)
    assert time.perf_counter() - start < 1.0
