"""Readings of answers: the faults of public reports (D1, D2 and D22 of the list of cases) with their right values."""

import signal
from typing import Any

import pytest

from compgen.evaluation import answers
from compgen.evaluation.answers import EXPLOSIVE, boxed_in, expression_in, number_in, same_expression, same_number
from compgen.evaluation.benchmarks.gsm8k import gold_of
from compgen.questions.rows import read_lines
from compgen.run.paths import project_root

SHARED = project_root().parent / "shared" / "data"


@pytest.mark.parametrize(
    ("text", "gold"),
    [
        ("The total is $29.00.", "29"),  # D1, as are the next four
        ("so she has 18...", "18"),
        ("That makes ...18. Hope that helps...", "18"),
        ("The answer is 18 (100% sure).", "18"),
        ("The answer is 18 (I am sure)", "18"),
        ("#### 18 (100% sure)", "18"),
        ("work 3 + 4\n#### 1,000", "1000"),
        ("#### $1,234.50", "1234.5"),
        ("it falls by -7.", "-7"),
        ("#### -7", "-7"),
        ("half of it, 1/2", "0.5"),
        ("first 5, then 12, so 17", "17"),
        ("#### 5\n\nagain #### 6", "6"),  # D22: an example that is recited first does not win
        ("no mark but 3,4", "4"),
        ("the answers:\n- 18", "18"),
        ("what is left of 20-2", "2"),
        ("it falls by −7", "-7"),
        (r"#### \$18", "18"),
        ("#### -$5", "-5"),
        ("(only this: 4 apples)", "4"),
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
        (r"Thus the answer is \[ \boxed{42} \]", "42"),  # D2, as are the next two
        (r"The answer is $\boxed{42}$.", "42"),
        (r"With $x = 3$ we get $y = 42$.", "y = 42"),
        (r"so \boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"so \boxed{0.5}", r"\frac{1}{2}"),
        (r"first \boxed{1}, then \boxed{\sqrt{2}}", r"\sqrt{2}"),
        (r"\boxed{2+x}", "x+2"),
        (r"\boxed{[2,5)}", "[2,5)"),
        (r"an unfinished \boxed{7} and \boxed{\frac{1}{", "7"),
        (r"so it is \(x+1\).", "x+1"),
        (r"so \[ \frac{1}{2} \]", r"\frac{1}{2}"),
        ("x+1", "x+1"),
        (r"\text{Evelyn}", r"\text{Evelyn}"),
        ("So the answer is 42.", "42"),
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
    assert boxed_in(r"\boxed{1 \\} and more}") == r"1 \\"


@pytest.mark.parametrize(
    "answer",
    [
        "9^{9^{9}}",
        "9^9^9^9",
        r"\sin(10^{10^{10}})",
        r"\binom{1000000}{500000}",
        "(9999^{9999})^{9999}",
        "2^{1000000000}",
    ],
)
def test_an_expression_that_explodes_is_not_tried(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_symbolically_equal", lambda *_: pytest.fail("it was tried"))
    assert same_expression(answer, "42") is None
    assert same_expression(answer, answer) is True


def test_an_endless_comparison_ends_undecided_and_leaves_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SECONDS", 0.3)
    before = signal.getsignal(signal.SIGVTALRM)
    assert same_expression("(x+y+z+w)^{60}", "42") is None
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGVTALRM) is before
    monkeypatch.undo()
    assert same_expression("2+x", "x+2") is True


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
    assert not [gold for gold in golds if EXPLOSIVE.search(gold)]
    sampled = list(zip(found, golds[1:], strict=False))[::25]
    shifted = [same_expression(expression_in(row["solution"]), gold) for row, gold in sampled]
    assert sum(shifted) / len(shifted) < 0.05
