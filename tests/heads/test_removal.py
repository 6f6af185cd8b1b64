"""Asking the same questions under every condition: what is kept of an answer, who is removed, what stands in."""

from typing import Any

import pytest

from compgen.errors import ConfigError, UserError
from compgen.heads.config import RemovalConfig, Replacement, TaskConfig
from compgen.heads.loading import Subject, source_of
from compgen.heads.prompts.prompt import Rows
from compgen.heads.removal import answers_without, needs_rows, questions, replacement
from compgen.heads.selection import NOTHING, Condition
from compgen.heads.views import Head
from compgen.weights.config import ModelConfig

TASKS = {
    "copying": TaskConfig("exact_copying", "tokens", 2),
    "names": TaskConfig("indirect_objects", "names", 2),
    "sums": TaskConfig("symbolized", "names", 2, generates=True),
}
REMOVED = Condition("induction", 2, 0, (Head(0, 0), Head(1, 2)))


def asked(subject: Subject, *names: str, **changes: Any) -> Any:
    config = RemovalConfig(tasks={name: TASKS[name] for name in names}, **changes)
    return questions(config, subject.tokenizer, 0, None)


def test_every_prompt_is_answered_under_every_condition(subject: Subject) -> None:
    made = asked(subject, "copying", "names")
    for condition in (NOTHING, REMOVED):
        rows = list(answers_without(subject, condition, made, None, 4))
        assert [row["task"] for row in rows] == ["copying"] * 2 + ["names"] * 2
        assert {(row["set"], row["count"], row["draw"]) for row in rows} == {(condition.set, condition.count, 0)}
        assert [row["id"] for row in rows] == [*made["copying"].identifiers, *made["names"].identifiers]


def test_removal_changes_answers_and_leaves_the_model_as_it_was(subject: Subject) -> None:
    made = asked(subject, "names")
    before, without, after = (
        [row["log_probability"] for row in answers_without(subject, condition, made, None, 4)]
        for condition in (NOTHING, REMOVED, NOTHING)
    )
    assert before == after
    assert before != without


@pytest.mark.parametrize("kind", [Replacement.mean, Replacement.resample])
def test_other_values_than_zero_can_stand_in(subject: Subject, kind: Replacement) -> None:
    made = asked(subject, "copying")
    values = replacement(subject, kind, [REMOVED], 0)
    given = [row["log_probability"] for row in answers_without(subject, REMOVED, made, values, 4)]
    zero = [row["log_probability"] for row in answers_without(subject, REMOVED, made, None, 4)]
    assert given != zero


def test_a_task_that_is_only_written_is_judged_by_its_text(subject: Subject) -> None:
    [first, _] = answers_without(subject, NOTHING, asked(subject, "sums"), None, 2)
    assert {"strict", "lenient"} <= first.keys()
    assert "log_probability" not in first
    with pytest.raises(ConfigError, match="nothing is asked"):
        TaskConfig("symbolized", "names", 2)


def test_tasks_that_ask_gsm8k_need_its_rows(subject: Subject) -> None:
    tasks = {"thought": TaskConfig("chain_of_thought", "plain", 2, generates=True)}
    config = RemovalConfig(tasks=tasks)
    assert needs_rows(config)
    assert not needs_rows(RemovalConfig(tasks=TASKS))
    with pytest.raises(UserError, match="must be given as rows"):
        questions(config, subject.tokenizer, 0, None)
    rows = [{"question": f"What is {n} plus 1?", "answer": f"{n}+1={n + 1}\n#### {n + 1}"} for n in range(3)]
    assert len(questions(config, subject.tokenizer, 0, Rows(rows))["thought"].texts) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": [5, 5]}, "increasing"),
        ({"counts": []}, "increasing"),
        ({"sets": []}, "at least one set"),
        ({"chosen": ["nmaes"]}, "nmaes"),
        ({"draws": 0}, "draws"),
    ],
)
def test_bad_values_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RemovalConfig(tasks=TASKS, **changes)


def test_a_model_that_is_not_named_must_be_the_one_input() -> None:
    assert source_of(ModelConfig("somewhere"), []) == "somewhere"
    with pytest.raises(UserError, match="name one model"):
        source_of(ModelConfig(), [])
