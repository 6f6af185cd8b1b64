"""Questions of GSM8K behind examples."""

import re

import pytest

from compgen.errors import UserError
from compgen.heads.prompts.prompt import Prompt, Protocol, Rows
from compgen.heads.prompts.registry import prompts
from compgen.heads.prompts.shots import SHOTS
from compgen.heads.prompts.symbolized import SET as SYMBOLIZED

AUTHORS = Protocol.authors


def posed(rows: Rows, n: int = 15, protocol: Protocol = Protocol.controlled) -> list[Prompt]:
    return prompts("chain_of_thought", "plain", n, 0, protocol=protocol, rows=rows)


def test_every_question_is_asked_once_with_its_answer(rows: Rows) -> None:
    asked = [prompt.text.rsplit("Question: ", 1)[1] for prompt in posed(rows)]
    assert sorted(asked) == sorted(f"{row['question']}\nAnswer:" for row in rows.test)
    for prompt, question in zip(posed(rows), asked, strict=True):
        first, second = map(int, re.findall(r"\d+", question))
        assert prompt.answer == str(first + second)


def test_all_questions_stand_behind_the_same_eight_training_examples(rows: Rows) -> None:
    shown = {prompt.text.rsplit("\n\nQuestion: ", 1)[0] for prompt in posed(rows)}
    assert len(shown) == 1
    examples = shown.pop().split("\n\n")
    known = {f"Question: {row['question']}\nAnswer: {row['answer']}" for row in rows.train}
    assert len(set(examples)) == 8
    assert set(examples) <= known


def test_without_training_rows_our_own_examples_are_shown(rows: Rows) -> None:
    [prompt] = posed(Rows(rows.test), 1)
    assert all(question in prompt.text and answer in prompt.text for question, answer in SHOTS)


@pytest.mark.parametrize("answer", [answer for _, answer in SHOTS])
def test_our_own_examples_calculate_right(answer: str) -> None:
    sums = re.findall(r"(\d+)([-+*/])(\d+)=<<(\d+[-+*/]\d+)=(\d+)>>(\d+)", answer)
    assert sums
    for left, operator, right, repeated, result, shown in sums:
        assert repeated == left + operator + right
        a, b = int(left), int(right)
        assert int(result) == int(shown) == {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator]
    assert answer.endswith(f"\n#### {sums[-1][-1]}")


def test_the_authors_show_ten_fresh_examples_with_a_literal_end_and_repeat_questions(rows: Rows) -> None:
    found = posed(rows, 40, AUTHORS)
    assert {prompt.text.count("<|endoftext|>") for prompt in found} == {10}
    assert len({prompt.text.rsplit("\n\nQuestion: ", 1)[0] for prompt in found}) == 40
    assert len({prompt.text.rsplit("\n\nQuestion: ", 1)[1] for prompt in found}) < 40
    assert "<|endoftext|>" not in posed(rows)[0].text


def test_a_training_question_that_is_asked_is_not_shown(rows: Rows) -> None:
    leaky = Rows(test=rows.test, train=[*rows.test, *rows.train[:8]])
    shown = posed(leaky)[0].text.rsplit("\n\nQuestion: ", 1)[0]
    assert not [row for row in rows.test if row["question"] in shown]


def test_repeated_rows_count_once_and_commas_are_no_part_of_a_number() -> None:
    row = {"question": "How many?", "answer": "Many.\n#### 1,250"}
    [prompt] = posed(Rows([row]), 1)
    assert prompt.answer == "1250"
    with pytest.raises(UserError, match="2 distinct prompts are asked for and there are only 1"):
        posed(Rows([row, row]), 2)


@pytest.mark.parametrize(
    ("given", "protocol", "message"),
    [
        (Rows([{"question": "Q"}]), Protocol.controlled, "row 0 has no question, or no answer with ####"),
        (Rows([{"question": "", "answer": "#### 1"}]), Protocol.controlled, "row 0"),
        (Rows([{"question": "Q", "answer": "#### 1"}] * 2), AUTHORS, "10 training examples are shown and only 0"),
        (
            Rows([{"question": "Q", "answer": "#### 1"}], [{"question": "R", "answer": "#### 1"}]),
            Protocol.controlled,
            "8 training examples are shown and only 1",
        ),
    ],
)
def test_rows_that_cannot_be_used_are_refused(given: Rows, protocol: Protocol, message: str) -> None:
    with pytest.raises(UserError, match=message):
        posed(given, 1, protocol)


def test_no_questions_at_all_are_refused(rows: Rows) -> None:
    with pytest.raises(UserError, match="no questions are given"):
        posed(Rows((), rows.train), 1, AUTHORS)


def test_chains_of_thought_have_a_twin_with_symbols() -> None:
    assert set(SYMBOLIZED.variants) == {"names", "symbols"}
