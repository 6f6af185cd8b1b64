"""What holds of every set of prompts: distinct, the same for every condition, nested, paired across variants."""

import subprocess
import sys
from dataclasses import fields

import pytest

from compgen.errors import ConfigError, UserError
from compgen.heads.prompts.prompt import AnswerForm, Mode, Prompt, Protocol, Rows, Shift
from compgen.heads.prompts.registry import SETS, modes_of, prompts

ALL = [(task, variant) for task, found in SETS.items() for variant in found.variants]
CONTROLLED = Protocol.controlled


@pytest.mark.parametrize(("task", "variant"), ALL)
@pytest.mark.parametrize("protocol", Protocol)
def test_the_first_of_a_larger_sample_are_the_smaller_sample(
    task: str, variant: str, protocol: Protocol, rows: Rows
) -> None:
    larger = prompts(task, variant, 12, 3, protocol=protocol, rows=rows)
    assert prompts(task, variant, 5, 3, protocol=protocol, rows=rows) == larger[:5]
    assert prompts(task, variant, 12, 4, protocol=protocol, rows=rows) != larger
    assert len({prompt.identifier for prompt in larger}) == 12


@pytest.mark.parametrize(("task", "variant"), ALL)
def test_prompts_of_a_set_are_distinct(task: str, variant: str, rows: Rows) -> None:
    n = 15 if SETS[task].needs_rows else 400
    assert len({prompt.text for prompt in prompts(task, variant, n, 0, rows=rows)}) == n


def test_distinct_prompts_are_distinct_where_draws_repeat() -> None:
    """Defect 9: the authors draw prompts with replacement."""
    theirs = prompts("indirect_objects", "symbols", 1500, 0, protocol=Protocol.authors)
    ours = prompts("indirect_objects", "symbols", 1500, 0)
    assert len({prompt.text for prompt in theirs}) < 1500
    assert len({prompt.text for prompt in ours}) == 1500


@pytest.mark.parametrize("task", SETS)
@pytest.mark.parametrize("protocol", Protocol)
def test_answers_can_be_judged_and_scored(task: str, protocol: Protocol, rows: Rows) -> None:
    for variant in SETS[task].variants:
        for prompt in prompts(task, variant, 10, 0, protocol=protocol, rows=rows):
            assert prompt.continuation == " " + prompt.answer
            assert bool(prompt.choices) == (Mode.choice in prompt.modes)
            assert (prompt.form is AnswerForm.number) == prompt.answer.isdigit()


def test_every_task_but_those_of_the_rows_alone_lies_inside_and_outside_the_distribution() -> None:
    both = {task for task, found in SETS.items() if {v.shift for v in found.variants.values()} == set(Shift)}
    assert both == set(SETS) - {"chain_of_thought", "exact_copying"}  # their twins: symbolized, and token ids


def test_a_set_too_small_says_how_small(rows: Rows) -> None:
    with pytest.raises(UserError, match="16 distinct prompts are asked for and there are only 15"):
        prompts("chain_of_thought", "plain", 16, 0, rows=rows)
    with pytest.raises(UserError, match="45361 distinct prompts are asked for and there are only 45360"):
        prompts("indirect_objects", "names", 45361, 0)


def test_names_that_do_not_exist_are_refused_with_those_that_do() -> None:
    with pytest.raises(ConfigError, match="task='copying'.*fuzzy_copying"):
        modes_of("copying", "upper")
    with pytest.raises(ConfigError, match="variant='title'.*lower, upper, past"):
        modes_of("fuzzy_copying", "title")
    with pytest.raises(ConfigError, match="n=0"):
        prompts("fuzzy_copying", "upper", 0, 0)
    with pytest.raises(UserError, match="GSM8K"):
        prompts("chain_of_thought", "plain", 1, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": "a to "}, "white space"),
        ({"answer": " x"}, "white space"),
        ({"answer": ""}, "white space"),
        ({"choices": ("y", "z")}, "not among"),
        ({"choices": ("x", "xy")}, "begins another"),
        ({"choices": ("x", "x")}, "begins another"),
    ],
)
def test_what_tokenization_would_decide_is_no_prompt(change: dict[str, object], message: str) -> None:
    [made] = prompts("fuzzy_copying", "upper", 1, 0)
    values = {field.name: getattr(made, field.name) for field in fields(made)}
    with pytest.raises(ValueError, match=message):
        Prompt(**{**values, "answer": "x", **change})


def test_the_names_of_sets_can_be_looked_up_without_torch() -> None:
    code = "import sys; import compgen.heads.prompts.registry; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
