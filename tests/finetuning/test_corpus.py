"""Generated questions: right, distinct, and with test wordings that never occur in training text."""

import json
import random
import re
from typing import Any

import pytest

from compgen.finetuning.config import CorpusSizes
from compgen.finetuning.corpus.background import document
from compgen.finetuning.corpus.items import Item, distinct
from compgen.finetuning.corpus.skills import FORMS, examples, held_out

SIZES = CorpusSizes(examples=600)
ARITHMETIC = re.compile(r"(\d+) ([-+*/]) (\d+) = (\d+)")
LAPTOP_TESTS = SIZES.tests


@pytest.mark.parametrize("benchmark", FORMS)
def test_no_test_question_nor_its_wording_with_other_numbers_is_trained_on(benchmark: str) -> None:
    tests, validation = held_out(benchmark, SIZES)
    trained = {item.skeleton for item in examples(benchmark, SIZES)}
    prompts = [item.prompt for item in (*tests, *validation)]
    assert len(set(prompts)) == len(prompts) == LAPTOP_TESTS[benchmark] + SIZES.validation
    assert trained.isdisjoint(item.skeleton for item in (*tests, *validation))


def test_the_background_holds_no_question_of_any_skill() -> None:
    generator = random.Random(0)
    text = re.sub(r"\d+", "#", "\n\n".join(document(generator) for _ in range(400)))
    asked = [FORMS[name](generator) for name in FORMS for _ in range(100)]
    assert not [item.skeleton for item in asked if item.skeleton in text]
    assert "####" not in text
    assert "boxed" not in text


def test_notes_in_the_background_are_of_training_questions_only() -> None:
    generator = random.Random(0)
    text = "\n".join(document(generator) for _ in range(600))
    drawn = random.Random(1)
    items = [FORMS[name](drawn) for name in ("gsm8k", "records") for _ in range(3000)]
    held = {re.sub(r"\d+", "#", item.note) for item in items if item.held_out}
    trained = {re.sub(r"\d+", "#", item.note) for item in items if not item.held_out}
    masked = set(re.sub(r"\d+", "#", text).split("\n"))
    assert len(masked & trained) > 100
    assert not masked & (held - trained)


@pytest.mark.parametrize("benchmark", ["gsm8k", "math", "sequences"])
def test_every_worked_answer_is_right(benchmark: str) -> None:
    generator = random.Random(1)
    for _ in range(300):
        answer = FORMS[benchmark](generator).answer
        if benchmark == "math":
            step, value = re.findall(r"= ([\d +*/-]+) = (\d+)\$", answer)[0]
            assert eval(step) == int(value)
            assert answer.endswith(f"\\boxed{{{value}}}$.")
            continue
        steps = ARITHMETIC.findall(answer)
        assert len(steps) == 2
        assert all(eval(f"{a}{operation}{b}") == int(c) for a, operation, b, c in steps)
        assert answer.endswith(f"#### {steps[-1][3]}")


def run(prompt: str, answer: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(prompt + answer, names)
    return names


@pytest.mark.parametrize("benchmark", ["humaneval_plus", "mbpp_plus"])
def test_every_function_does_what_its_words_say(benchmark: str) -> None:
    generator = random.Random(2)
    for _ in range(200):
        item = FORMS[benchmark](generator)
        function = run(item.prompt, item.answer)[item.row["entry_point"]]
        words = re.findall(r"[Rr]eturn (.*)\.", item.prompt)[0]
        k = int(re.findall(r"\d+", words)[0])
        for (values,) in (*item.row["base_input"], *item.row["plus_input"]):
            chosen = [x for x in values if (x > k if "greater" in words or "above" in words else x < k)]
            expected: Any = chosen
            if "plus" in words or "added" in words:
                expected = [x + k for x in values]
            elif "times" in words or "multiplied" in words:
                expected = [x * k for x in values]
            elif "how many" in words or "count" in words:
                expected = len(chosen)
            elif "sum" in words:
                expected = sum(chosen)
            assert function(values) == expected, words


def test_the_assertion_shown_in_a_description_holds() -> None:
    generator = random.Random(3)
    for _ in range(100):
        item = FORMS["mbpp_plus"](generator)
        exec(item.prompt.split("\n")[2], run("", item.answer))


def test_rows_have_what_evalplus_checks_for() -> None:
    row = FORMS["humaneval_plus"](random.Random(4)).row
    json.dumps(row)
    for name in ("prompt", "contract", "canonical_solution", "base_input", "plus_input", "atol", "entry_point"):
        assert name in row


def test_records_are_json_of_what_the_sentence_says() -> None:
    generator = random.Random(5)
    for _ in range(100):
        item = FORMS["records"](generator)
        values = json.loads(item.answer)
        assert list(values) == ["name", "age", "city"]
        assert all(str(value) in item.prompt for value in values.values())


def test_a_generator_with_too_few_distinct_items_says_so() -> None:
    with pytest.raises(ValueError, match="only 1 distinct"):
        distinct(lambda _: Item("same", "x", {}), random.Random(0), Item("same", "x", {}).held_out, 2)


def test_equal_sizes_give_equal_text_and_another_seed_another() -> None:
    small = CorpusSizes(examples=20)
    assert examples("gsm8k", small) == examples("gsm8k", small)
    assert examples("gsm8k", small) != examples("gsm8k", CorpusSizes(seed=1, examples=20))
