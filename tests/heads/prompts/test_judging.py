"""Judging continuations: what is right strictly, and what the authors let pass."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compgen.heads.prompts.judging import Judgement, judge, judge_beams, new_text
from compgen.heads.prompts.prompt import AnswerForm, Prompt
from compgen.heads.prompts.registry import prompts

YES, NO, ONLY_LENIENT = Judgement(True, True), Judgement(False, False), Judgement(False, True)


def asking(answer: str, form: AnswerForm = AnswerForm.text) -> Prompt:
    [made] = prompts("fuzzy_copying", "upper", 1, 0)
    return replace(made, answer=answer, text=f"Then {answer} and Carl met. Carl gave a ring to", form=form)


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("Mary", " Mary", YES),
        ("Mary", " Mary.", YES),
        ("Mary", " Mary, who", YES),
        ("Mary", "Mary\n\nThen", YES),
        ("Mary", "\n Mary", YES),  # white space is normalized
        ("Mary", " Mary\u2014at last", YES),
        ("Mary", " Maryanne", ONLY_LENIENT),
        ("Mary", " Mary's brother", ONLY_LENIENT),
        ("Mary", " Mary’s brother", ONLY_LENIENT),
        ("Mary", " Mary-Ann", ONLY_LENIENT),
        ("Mary", " Mary_2", ONLY_LENIENT),
        ("Mary", " Carl and Mary", ONLY_LENIENT),
        ("Mary", ' "Mary"', ONLY_LENIENT),
        ("Mary", " mary", NO),
        ("Mary", " MARY", NO),
        ("Mary", " Carl", NO),
        ("Mary", "", NO),
        ("WOLF SNAKE", " WOLF SNAKE", YES),
        ("WOLF SNAKE", " WOLF SNAKES", ONLY_LENIENT),
        ("WOLF SNAKE", " wolf snake", NO),
        ("WOLF SNAKE", " WOLF", NO),
        ("MAPLE_TREE WOLF", " MAPLE_TREE WOLF ", YES),
        ("TREE WOLF", " MAPLE_TREE WOLF", ONLY_LENIENT),
        ("#$", " #$", YES),
        ("#$", " #$.", YES),
        ("#$", " #$, celery is", YES),
        ("#$", " #$,celery is", YES),
        ("#$", ' #$."', YES),
        ("#$", " #$#$", ONLY_LENIENT),
        ("#$", " #$!@", ONLY_LENIENT),
        ("#$", " #$%", ONLY_LENIENT),
        ("#$", " #$200", ONLY_LENIENT),
        ("#$", " &^ #$", ONLY_LENIENT),
        ("#$", " # $", NO),
        (")%", " )%", YES),
        ("!%", "!%", YES),  # a tokenizer that tidies up spaces
        ("$#,", " $#, sheep", YES),
        ("$#,", " $#", NO),
        ("42", " 42", YES),
    ],
)
def test_a_continuation_is_judged_both_ways(answer: str, text: str, expected: Judgement) -> None:
    assert judge(asking(answer), text) == expected


def test_an_answer_that_stands_only_in_the_prompt_is_wrong() -> None:
    prompt = asking("Mary")
    assert "Mary" in prompt.text
    assert judge(prompt, " the station") == NO


def test_words_apart_by_a_line_break_are_right_strictly_but_not_as_the_authors_search() -> None:
    assert judge(asking("WOLF SNAKE"), " WOLF\nSNAKE") == Judgement(True, False)


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ("18", " 9+9=<<9+9=18>>18.\n#### 18", YES),
        ("18", "\n#### 18\n\nQuestion: More?\nAnswer: 1\n#### 1", YES),
        ("18", " so 18", NO),
        ("18", "\n#### 180", NO),
        ("18", "\n#### 8", NO),
        ("18", "\n#### 18.5", ONLY_LENIENT),  # they read the digits before the point
        ("18", "\n#### 18.00", YES),
        ("18", "\n#### 18.", YES),
        ("18", "#### $18", Judgement(True, False)),
        ("1250", "\n#### 1,250", Judgement(True, False)),
        ("-7", "\n#### -7", Judgement(True, False)),
        ("7", "\n#### -7", NO),
        ("18", " nothing.\n\nQuestion: What is 9 plus 9?\nAnswer: 18\n#### 18", ONLY_LENIENT),
        ("18", "Question: again\n#### 18", ONLY_LENIENT),
    ],
)
def test_a_number_is_the_one_behind_the_first_mark(answer: str, text: str, expected: Judgement) -> None:
    assert judge(asking(answer, AnswerForm.number), text) == expected


def test_the_authors_take_any_beam_and_we_the_best() -> None:
    """Defect 9."""
    assert judge_beams(asking("Mary"), [" Carl", " Mary", " him"]) == ONLY_LENIENT
    assert judge_beams(asking("Mary"), [" Mary", " Carl"]) == YES
    assert judge_beams(asking("Mary"), [" Carl", " him"]) == NO


@pytest.mark.parametrize("tidy", [False, True])
def test_new_text_does_not_depend_on_tidied_spaces_nor_on_the_prompt(
    bytes_with: Callable[..., Any], tidy: bool
) -> None:
    """Defect 2: cut at the length of the prompt, what was decoded lost the answer."""
    tokenizer = bytes_with(" !", begin=True)
    tokenizer.clean_up_tokenization_spaces = tidy
    ids = tokenizer.encode(" !% and", add_special_tokens=False)
    assert new_text(tokenizer, ids) == " !% and"
    assert new_text(tokenizer, [*ids, tokenizer.eos_token_id, *ids]) == " !% and"
    assert new_text(tokenizer, [tokenizer.bos_token_id, *ids]) == " !% and"
    assert new_text(tokenizer, []) == ""
