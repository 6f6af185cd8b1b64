"""The authors' readings of answers, with their defects."""

from compgen.evaluation.answers import boxed_in, same_expression
from compgen.evaluation.authors_answers import (
    authors_boxed,
    authors_number,
    authors_same_expression,
    authors_same_number,
)


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


def test_the_authors_first_box_wins_and_case_and_white_space_do_not_count() -> None:
    assert authors_boxed(r"\boxed{1}, no, \boxed{2}") == "1"
    assert authors_boxed("none") is None
    assert authors_same_expression("X + 1", "x+1")
    assert authors_same_expression("0.50", ".5")
    assert not authors_same_expression("2+x", "x+2")
    assert not authors_same_expression(None, "1")
