"""Readings of answers: the faults of public reports with their right values, and the authors' defects."""

from typing import Any

import pytest

from compgen.evaluation.answers import boxed_in, expression_in, number_in, same_expression, same_number
from compgen.evaluation.authors_answers import (
    authors_boxed,
    authors_number,
    authors_same_expression,
    authors_same_number,
)
from compgen.evaluation.benchmarks.gsm8k import gold_of
from compgen.evaluation.data import read_lines
from compgen.run.paths import project_root

SHARED = project_root().parent / "shared" / "data"


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("The total is $29.00.", "29"),
        ("so she has 18...", "18"),
        ("That makes ...18. Hope that helps...", "18"),
        ("The answer is 18 (I am sure)", "18"),
        ("#### 18 (100% sure)", "18"),
        ("work 3 + 4\n#### 1,000", "1000"),
        ("#### $1,234.50", "1234.5"),
        ("it falls by -7.", "-7"),
        ("#### -7", "-7"),
        ("half of it, 1/2", "0.5"),
        ("first 5, then 12, so 17", "17"),
        ("#### 5\n\nagain #### 6", "6"),
        ("no mark but 3,4", "4"),
    ],
)
def test_the_final_number_is_read_and_compared_as_a_number(text: str, gold: str) -> None:
    assert same_number(number_in(text), gold)


@pytest.mark.parametrize("text", ["", "no number at all", "...", "####"])
def test_where_no_number_stands_none_is_read(text: str) -> None:
    assert number_in(text) is None
    assert not same_number(number_in(text), "0")


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        (r"Thus the answer is \[ \boxed{42} \]", "42"),
        (r"The answer is $\boxed{42}$.", "42"),
        (r"With $x = 3$ we get $y = 42$.", "y = 42"),
        (r"so \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"so \boxed{0.5}", r"\frac{1}{2}"),
        (r"first \boxed{1}, then \boxed{\sqrt{2}}", r"\sqrt{2}"),
        (r"\boxed{2+x}", "x+2"),
        (r"\boxed{[2,5)}", "[2,5)"),
        (r"an unfinished \boxed{7} and \boxed{\frac{1}{", "7"),
    ],
)
def test_the_last_balanced_box_is_read_and_compared_symbolically(text: str, gold: str) -> None:
    assert same_expression(expression_in(text), gold)


@pytest.mark.parametrize(
    ("text", "gold"), [(r"\boxed{\frac{1}{3}}", r"\frac{1}{2}"), (r"\boxed{}", "0"), ("", "0"), (r"\boxed{x+1}", "x+2")]
)
def test_a_wrong_expression_is_wrong(text: str, gold: str) -> None:
    assert not same_expression(expression_in(text), gold)


def test_braces_are_balanced_also_where_they_are_escaped() -> None:
    assert boxed_in(r"\boxed{\{1, 2\}}") == r"\{1, 2\}"
    assert boxed_in(r"\boxed {a}") == "a"
    assert boxed_in(r"\boxed{a") is None


def test_the_authors_pattern_takes_two_fractions_for_equal() -> None:
    half, third = (authors_boxed(rf"\boxed{{\frac{{1}}{{{below}}}}}") for below in (2, 3))
    assert half == third == r"\frac{1"
    assert authors_same_expression(half, third)
    assert not same_expression(boxed_in(r"\boxed{\frac{1}{3}}"), r"\frac{1}{2}")


def test_the_authors_number_is_replaced_by_text_that_runs_on() -> None:
    text = "3 + 4 = 7\n#### 7\n\nQuestion: what is 1 + 1?\nAnswer: #### 2"
    assert authors_number(text) == "2"
    assert authors_same_number(authors_number("The answer is $1,000."), "1000")
    assert authors_number("start 5 then nothing more") == "5"
    assert authors_number("it ends in 9") == "9"


def rows(name: str) -> list[dict[str, Any]]:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} of ../shared/data is not on this machine")
    return read_lines(path)


@pytest.mark.shared
def test_every_gold_answer_of_gsm8k_is_right_and_its_neighbours_hardly_ever() -> None:
    found = rows("gsm8k/test.jsonl")
    golds = [gold_of(row) for row in found]
    assert all(same_number(number_in(row["answer"]), gold) for row, gold in zip(found, golds, strict=True))
    shifted = [same_number(number_in(row["answer"]), gold) for row, gold in zip(found, golds[1:], strict=False)]
    assert sum(shifted) / len(shifted) < 0.03


@pytest.mark.shared
def test_every_gold_answer_of_math_is_right_and_its_neighbours_hardly_ever() -> None:
    found = rows("math/math_test.jsonl.gz")
    golds = [boxed_in(row["solution"]) or "" for row in found]
    wrong = [
        row["unique_id"]
        for row, gold in zip(found, golds, strict=True)
        if not same_expression(expression_in(row["solution"]), gold)
    ]
    assert wrong == []
    sampled = list(zip(found, golds[1:], strict=False))[::25]
    shifted = [same_expression(expression_in(row["solution"]), gold) for row, gold in sampled]
    assert sum(shifted) / len(shifted) < 0.05


@pytest.mark.shared
def test_rows_of_the_mirror_have_the_recorded_fingerprints() -> None:
    from compgen.config import compose_root, resolve_job
    from compgen.evaluation.data import load_rows

    sources = resolve_job(compose_root(["job=composition_generate"])).config.sources
    for benchmark in ("gsm8k", "math", "humaneval_plus", "mbpp_plus"):
        rows(f"{'math/math_test' if benchmark == 'math' else 'gsm8k/test'}.jsonl{'.gz' if benchmark == 'math' else ''}")
        for split, record in sources[benchmark].splits.items():
            loaded = load_rows(SHARED, sources[benchmark], benchmark, split)
            assert (len(loaded.rows), loaded.fingerprint) == (record.rows, record.fingerprint)
