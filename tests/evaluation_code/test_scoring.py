"""Completions become outcomes: what passes, what fails and how, and when nothing is scored at all."""

from collections.abc import Mapping
from typing import Any

import pytest

from compgen.errors import ConfigError, UserError
from compgen.evaluation.code import scoring
from compgen.evaluation.code.posed import samples as pose
from compgen.evaluation.code.sandbox import Finished
from compgen.evaluation.code.scoring import CodeScoring, score_code
from compgen.evaluation.config import SandboxKind
from compgen.evaluation.protocol import Extraction, TaskProtocol
from compgen.evaluation.samples import Generation, Outcome, Sample, Score, StopReason

Row = dict[str, Any]

ADD = {
    "right": "    return first + second\n",
    "with a tail": "    return first + second\n\nprint(add(1, 2)",
    "cheat": "    return 5\n",
    "base only": "    return first + second if abs(first) < 100 else 0\n",
    "endless": "    while True: pass\n",
    "endless against exceptions": "    while True:\n        try:\n            while True: pass\n        except: pass\n",
    "memory": "    return len(bytearray(2**40))\n",
    "exits": "    import sys; sys.exit()\n",
    "exits at once": "    import os; os._exit(0)\n",
    "exits while imported": "    return first + second\nimport os; os._exit(0)\n",
    "syntax": "    return first +\n",
    "prints endlessly": "    while True: print('x' * 100000)\n",
    "writes past Python": "    import os\n    while True: os.write(2, b'x' * 100000)\n",
    "own ==": "    class Same:\n        def __eq__(self, other): return True\n    return Same()\n",
    "own == of an int": "    class Same(int):\n        def __eq__(self, other): return True\n    return Same()\n",
    "numpy": "    import numpy\n    return numpy.int64(first + second)\n",
    "starts others": "    import posix\n    if not posix.fork():\n        while 1: pass\n    return first + second\n",
    "keeps state": "    add.calls = getattr(add, 'calls', 0) + 1\n    return first + second if add.calls < 5 else 0\n",
}
NO_TIME = ("endless", "endless against exceptions", "prints endlessly", "writes past Python")


def protocol(benchmark: str, **changes: Any) -> TaskProtocol:
    extraction = changes.pop("extraction", Extraction.code_cut)
    return TaskProtocol(
        benchmark=benchmark, prompt="raw", shots=0, stop=(), max_new_tokens=64, extraction=extraction, **changes
    )


def answer(sample: Sample, text: str, **changes: Any) -> Generation:
    values: dict[str, Any] = {"raw_text": text, "stop_reason": StopReason.end_token, **changes}
    return Generation(sample.id, sample.prompt_digest, (1, 2), text, prompt_tokens=3, **values)


@pytest.fixture(scope="module")
def options(containment: SandboxKind) -> CodeScoring:
    return CodeScoring(sandbox=containment, minimum_seconds=0.3, memory_bytes=2**30)


@pytest.fixture
def add(humaneval_rows: list[Row]) -> Sample:
    return pose(humaneval_rows, [], protocol("humaneval_plus"), 1)[0]


@pytest.fixture(scope="module")
def judged(options: CodeScoring) -> Mapping[str, Score]:
    """All programs above, as many arms of one run."""
    row = {
        "task_id": "HumanEval/900",
        "prompt": 'def add(first, second):\n    """The sum.\n    >>> add(2, 3)\n    5\n    """\n',
        "canonical_solution": "    return first + second\n",
        "base_input": [[2, 3], [1, 4]],
        "plus_input": [[0, 5], [1000, 1], [-4, -4]],
        "atol": 0,
        "entry_point": "add",
    }
    sample = pose([row], [], protocol("humaneval_plus"), None)[0]
    asked = [([sample], [answer(sample, text)], protocol("humaneval_plus")) for text in ADD.values()]
    found = score_code("humaneval_plus", asked, options)
    return dict(zip(ADD, (scores[0] for scores in found), strict=True))


def test_a_right_program_is_correct_and_a_wrong_one_wrong(judged):
    assert judged["right"].outcome is Outcome.correct
    assert judged["cheat"].outcome is Outcome.wrong
    assert judged["right"].metrics == {
        "raw": 1.0,
        "cut": 1.0,
        "base_tests": 1.0,
        "disagree": 0.0,
        "timeout": 0.0,
        "repeated": 0.0,
    }


def test_the_further_tests_find_what_the_base_tests_do_not(judged):
    for name in ("cheat", "base only"):
        score = judged[name]
        assert (score.outcome, score.metrics["cut"], score.metrics["base_tests"]) == (Outcome.wrong, 0.0, 1.0)


def test_a_tail_fails_raw_and_passes_cut_and_is_flagged(judged):
    for name in ("with a tail", "exits while imported"):
        metrics = judged[name].metrics
        assert (metrics["raw"], metrics["cut"], metrics["disagree"]) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize("name", [*NO_TIME, "memory", "exits", "exits at once", "syntax"])
def test_whatever_a_program_does_it_is_wrong_and_no_error(judged, name):
    assert judged[name].outcome is Outcome.wrong


@pytest.mark.parametrize("name", ADD)
def test_running_out_of_time_is_told_apart_and_tried_twice(judged, name):
    late = name in NO_TIME
    assert judged[name].metrics["timeout"] == judged[name].metrics["repeated"] == float(late)


@pytest.mark.parametrize("name", ["own ==", "own == of an int"])
def test_a_value_that_says_itself_what_it_equals_does_not_pass(judged, name):
    assert judged[name].metrics["base_tests"] == 0.0


def test_what_equals_by_a_library_does_pass(judged):
    assert judged["numpy"].outcome is Outcome.correct


def test_values_inside_others_that_say_themselves_what_they_equal_do_not_pass(mbpp_rows, options):
    forged = "class Same:\n    def __eq__(self, other): return True\n"
    text = f"{forged}def evens(values): return [Same() for value in values if value % 2 == 0]\n"
    asked = protocol("mbpp_plus")
    sample = pose(mbpp_rows, [], asked, None)[0]
    score = score_code("mbpp_plus", [([sample], [answer(sample, text)], asked)], options)[0][0]
    assert (score.outcome, score.metrics["base_tests"]) == (Outcome.wrong, 0.0)


def test_programs_do_not_disturb_each_other(judged):
    assert judged["starts others"].outcome is Outcome.correct


def test_each_suite_begins_with_fresh_state(judged):
    """evalplus runs base and further tests apart: two and three calls, never five in a row."""
    assert judged["keeps state"].outcome is Outcome.correct


def test_both_benchmarks_score_their_own_solutions(humaneval_rows, mbpp_rows, options):
    for benchmark, rows in (("humaneval_plus", humaneval_rows), ("mbpp_plus", mbpp_rows)):
        asked = protocol(benchmark)
        samples = pose(rows, [], asked, None)
        assert [sample.prompt for sample in samples] == [row["prompt"] for row in rows]
        answers = [answer(sample, sample.reference) for sample in samples]
        (scores,) = score_code(benchmark, [(samples, answers, asked)], options)
        assert [score.outcome for score in scores] == [Outcome.correct] * len(rows)
        assert [score.id for score in scores] == [row["task_id"] for row in rows]


def test_a_subset_is_scored_and_workers_change_nothing(humaneval_rows, options):
    asked = protocol("humaneval_plus")
    samples = pose(humaneval_rows, [], asked, 2)
    answers = [answer(samples[0], ADD["right"]), answer(samples[1], "    return []\n")]
    parallel = CodeScoring(sandbox=options.sandbox, workers=2, minimum_seconds=0.3)
    alone, together = (
        score_code("humaneval_plus", [(samples, answers, asked)], each)[0] for each in (options, parallel)
    )
    assert alone == together
    assert [score.outcome for score in alone] == [Outcome.correct, Outcome.wrong]
    assert score_code("humaneval_plus", [(samples[:1], answers[:1], asked)], options) == [alone[:1]]
    assert pose(humaneval_rows, [], asked, 1) == samples[:1]


def test_what_was_not_generated_is_an_error_and_what_was_cut_off_is_truncated(add, options):
    asked = protocol("humaneval_plus")
    failed = answer(add, "", stop_reason=StopReason.error, error="out of memory")
    long = answer(add, "    while", stop_reason=StopReason.length)
    right = answer(add, ADD["right"], stop_reason=StopReason.length)
    found = score_code("humaneval_plus", [([add], [each], asked) for each in (failed, long, right)], options)
    assert [scores[0].outcome for scores in found] == [Outcome.error, Outcome.truncated, Outcome.correct]


def test_the_protocol_says_whether_raw_or_cut_counts(add, options):
    tail = answer(add, ADD["with a tail"])
    asked = [([add], [tail], protocol("humaneval_plus", extraction=name)) for name in scoring.VARIANTS]
    raw, cut = (scores[0] for scores in score_code("humaneval_plus", asked, options))
    assert (raw.outcome, cut.outcome) == (Outcome.wrong, Outcome.correct)
    assert raw.metrics == cut.metrics
    assert (raw.extracted, cut.extracted) == (ADD["with a tail"], ADD["right"])
    with pytest.raises(ConfigError, match="code_raw, code_cut"):
        score_code(
            "humaneval_plus", [([add], [tail], protocol("humaneval_plus", extraction=Extraction.exact))], options
        )


def test_cut_is_taken_from_what_stands_before_the_stop_string(add, options):
    """Raw is all of it, unless generation ended with the stop string, which is no program's last line."""
    stopping = Sample(add.id, add.prompt, 0, ("\nprint(",), add.document, add.reference)
    text = ADD["right"].rstrip("\n")
    values = {"stop_reason": StopReason.stop_string}
    went_on = answer(stopping, text, raw_text=text + "\nprint(add(1, 2))\nassert False\n", **values)
    ended = answer(stopping, text, raw_text=text + "\nprint(x", **values)
    asked = protocol("humaneval_plus")
    found = score_code("humaneval_plus", [([stopping], [each], asked) for each in (went_on, ended)], options)
    assert [(scores[0].metrics["raw"], scores[0].metrics["cut"]) for scores in found] == [(0.0, 1.0), (1.0, 1.0)]


def test_nothing_is_scored_where_a_solution_known_to_be_good_does_not_pass(add, humaneval_rows, options):
    broken = {**humaneval_rows[0], "canonical_solution": "    return missing\n"}
    changing = {**humaneval_rows[0], "task_id": "HumanEval/902"}
    changing["canonical_solution"] = "    import time; return time.monotonic()\n"
    rows = {row["task_id"]: row for row in (broken, changing, humaneval_rows[1])}
    with pytest.raises(UserError, match=r"2 of 3 .*HumanEval/900 \(NameError.*HumanEval/902 \(base fail"):
        scoring.evaluate("humaneval_plus", rows, {}, options)


def test_a_run_that_fails_gives_errors_and_never_wrong_answers(add, humaneval_rows, options, monkeypatch):
    asked = protocol("humaneval_plus")
    samples = pose(humaneval_rows, [], asked, None)
    answers = [answer(sample, sample.reference) for sample in samples]
    real = scoring.run

    def broken_off(*arguments: Any) -> Finished:
        finished = real(*arguments)
        first = finished.output.index("\n") + 1
        return Finished(-9, finished.output[: first + 20], "Killed", False, False)

    monkeypatch.setattr(scoring, "run", broken_off)
    scores = score_code("humaneval_plus", [(samples, answers, asked)], options)[0]
    assert [score.outcome for score in scores] == [Outcome.correct, Outcome.error]
    monkeypatch.setattr(scoring, "run", lambda *_: Finished(1, "", "ImportError: evalplus", False, False))
    with pytest.raises(UserError, match="nothing was scored, exit status 1: ImportError: evalplus"):
        score_code("humaneval_plus", [(samples, answers, asked)], options)


def test_equal_programs_are_tested_once(add, options, monkeypatch):
    sent = []
    monkeypatch.setattr(scoring, "evaluate", lambda benchmark, rows, programs, options: sent.append(programs) or {})
    asked = protocol("humaneval_plus")
    score_code("humaneval_plus", [([add], [answer(add, ADD["right"])], asked)] * 3, options)
    assert sent == [{add.id: [add.prompt + ADD["right"]]}]


def test_arms_with_different_versions_of_a_problem_are_not_scored_together(add, options):
    other = Sample(add.id, add.prompt, 0, (), {**add.document, "atol": 1}, add.reference)
    asked = protocol("humaneval_plus")
    pairs = [([sample], [answer(sample, ADD["right"])], asked) for sample in (add, other)]
    with pytest.raises(UserError, match="HumanEval/900: arms were asked different versions"):
        score_code("humaneval_plus", pairs, options)


def test_rows_that_evalplus_would_misread_are_refused(humaneval_rows):
    asked = protocol("humaneval_plus")
    with pytest.raises(UserError, match="must be HumanEval/N"):
        pose([{**humaneval_rows[0], "task_id": "ours/1"}], [], asked, None)
    with pytest.raises(UserError, match="lacks atol"):
        pose([{k: v for k, v in humaneval_rows[0].items() if k != "atol"}], [], asked, None)
    other = TaskProtocol("humaneval_plus", "harness", 0, (), 64, Extraction.code_cut)
    with pytest.raises(ConfigError, match="choose one of raw"):
        pose(humaneval_rows, [], other, None)


def test_options_name_the_field_that_is_wrong():
    with pytest.raises(ConfigError, match="workers=0"):
        CodeScoring(workers=0)
