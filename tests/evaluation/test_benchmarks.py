"""Questions as they are posed, compared with lm-eval's own prompts, and scores beside its own."""

from dataclasses import replace
from typing import Any

import pytest

from compgen.errors import ConfigError
from compgen.evaluation.benchmarks import TEXT, gsm8k, math
from compgen.evaluation.protocol import Extraction, TaskProtocol
from compgen.evaluation.samples import Generation, Outcome, Sample, StopReason
from compgen.evaluation.stopping import stopping

GSM = [{"question": f"What is {n} + {n}?", "answer": f"{n} + {n} = {2 * n}\n#### {2 * n}"} for n in range(1, 9)]
MATH = [
    {
        "problem": f"Find ${n}/2$.",
        "level": "1",
        "type": "Algebra",
        "solution": f"It is $\\boxed{{\\frac{{{n}}}{{2}}}}$.",
    }
    for n in (1, 3, 5, 7)
]
RECORDS = [{"question": f"Write {n}.", "answer": f'{{"n": {n}}}'} for n in range(4)]
PROTOCOL = TaskProtocol("gsm8k", "controlled", 2, ("Question:",), 64, Extraction.numeric)


def protocol(benchmark: str, prompt: str, extraction: Extraction, shots: int = 0) -> TaskProtocol:
    return replace(PROTOCOL, benchmark=benchmark, prompt=prompt, extraction=extraction, shots=shots)


def answer(sample: Sample, text: str, raw: str | None = None, stop: StopReason = StopReason.end_token) -> Generation:
    return Generation(sample.id, sample.prompt_digest, (1,), text, raw or text, stop, 5)


def test_fixed_shots_are_the_first_rows_for_every_question() -> None:
    samples = gsm8k.samples(GSM[4:], GSM, PROTOCOL, None)
    head = "".join(f"Question: {row['question']}\nAnswer: {row['answer']}\n\n" for row in GSM[:2])
    assert [one.prompt for one in samples] == [f"{head}Question: {row['question']}\nAnswer:" for row in GSM[4:]]
    assert samples[0].prompt[: samples[0].shared].startswith(head)
    assert {one.prompt[: samples[0].shared] for one in samples} == {samples[0].prompt[: samples[0].shared]}
    assert len({one.prompt[: samples[0].shared + 1] for one in samples}) > 1
    assert samples[0].reference == f" {GSM[4]['answer']}"


def test_harness_prompts_are_lm_evals_own() -> None:
    """Its template, its separators, and its seeded sample of shots for each question."""
    from random import Random

    found = gsm8k.samples(GSM[4:], GSM[:4], replace(PROTOCOL, prompt="harness"), None)
    draw = Random(1234)
    for one, row in zip(found, GSM[4:], strict=True):
        shots = draw.sample(GSM[:4], 2)
        head = "".join(f"Question: {shot['question']}\nAnswer: {shot['answer']}\n\n" for shot in shots)
        assert one.prompt == f"{head}Question: {row['question']}\nAnswer:"


def test_the_authors_prompts_are_those_of_their_notebooks() -> None:
    (word_problem,) = gsm8k.samples(GSM[:1], [], protocol("gsm8k", "authors_zero_shot", Extraction.authors), None)
    assert word_problem.prompt == (
        "Solve the following grade-school math word problem step by step. "
        "End your response with '#### <final numeric answer>'.\nQuestion: What is 1 + 1?\nAnswer:"
    )
    (problem,) = math.samples(MATH[:1], [], protocol("math", "authors_two_shot", Extraction.authors), None)
    lines = problem.prompt.split("\n")
    assert lines[0] == r"Solve the following math problem step by step. Put your final answer in \boxed{}."
    assert [line.split(":")[0] for line in lines[1:]] == ["Problem", "Solution"] * 3
    assert lines[2].endswith(r"The answer is $\boxed{1024}$.")
    assert lines[4].endswith(r"The answer is $\boxed{x+1}$.")
    assert lines[5:] == ["Problem: Find $1/2$.", "Solution:"]
    assert (word_problem.shared, problem.shared) == (0, 0)


def test_a_limit_keeps_the_first_samples_and_their_prompts() -> None:
    whole = gsm8k.samples(GSM, GSM, PROTOCOL, None)
    assert [one.prompt for one in gsm8k.samples(GSM, GSM, PROTOCOL, 3)] == [one.prompt for one in whole[:3]]


def test_an_unknown_prompt_and_too_many_shots_are_refused() -> None:
    with pytest.raises(ConfigError, match="prompt=raw: .*choose one of harness, controlled, authors_zero_shot"):
        gsm8k.samples(GSM, GSM, replace(PROTOCOL, prompt="raw"), None)
    with pytest.raises(ConfigError, match="only 2 training rows"):
        gsm8k.samples(GSM, GSM[:2], replace(PROTOCOL, shots=3), None)
    samples = gsm8k.samples(GSM[:1], GSM, PROTOCOL, None)
    with pytest.raises(ConfigError, match="extraction=boxed"):
        gsm8k.score(samples, [answer(samples[0], "1")], replace(PROTOCOL, extraction=Extraction.boxed))


def test_scorers_of_word_problems_differ_where_their_definitions_do() -> None:
    samples = gsm8k.samples(GSM[:5], GSM, PROTOCOL, None)
    texts = ["so it is $2.00.", "#### 4", "it is 6", "#### 8", "#### 10"]
    raws = [*texts[:3], "#### 8\n\nQuestion: x\nAnswer: #### 99", texts[4]]
    found = gsm8k.score(samples, [answer(*three) for three in zip(samples, texts, raws, strict=True)], PROTOCOL)
    metrics = {name: [score.metrics[name] for score in found] for name in found[0].metrics}
    assert metrics["numeric"] == [1, 1, 1, 1, 1]
    assert metrics["harness_strict"] == [0, 1, 0, 1, 1]
    assert metrics["harness_flexible"] == [0, 1, 1, 1, 1]  # "$2.00." is no 2 to lm-eval
    assert metrics["authors"] == [1, 1, 1, 0, 1]  # text behind the answer replaces it


def test_scorers_of_math_differ_where_their_definitions_do() -> None:
    posed = protocol("math", "controlled", Extraction.boxed, shots=1)
    samples = math.samples(MATH[1:], MATH, posed, None)
    texts = [r"so \boxed{1.5}", r"so \boxed{\frac{9}{2}}", r"$\frac{7}{2}$"]
    found = math.score(samples, [answer(*pair) for pair in zip(samples, texts, strict=True)], posed)
    metrics = {name: [score.metrics[name] for score in found] for name in found[0].metrics}
    assert metrics["boxed"] == [1, 0, 0], "an answer without a box is none"
    assert metrics["last_expression"] == [1, 0, 1]
    assert metrics["harness"] == [0, 0, 1]
    assert metrics["authors"] == [0, 0, 0]


def test_what_could_not_be_compared_is_counted_and_not_right() -> None:
    posed = protocol("math", "controlled", Extraction.boxed, shots=1)
    samples = math.samples(MATH[1:2], MATH, posed, None)
    (score,) = math.score(samples, [answer(samples[0], r"\boxed{9^{9^{9}}}")], posed)
    assert (score.outcome, score.metrics["boxed"], score.metrics["undecided"]) == (Outcome.wrong, 0.0, 1.0)


def test_the_authors_scorer_of_math_takes_a_wrong_fraction_for_right() -> None:
    rows = [{**MATH[0], "solution": r"It is $\boxed{\frac{1}{2}}$."}]
    posed = protocol("math", "authors_two_shot", Extraction.authors)
    samples = math.samples(rows, [], posed, None)
    (score,) = math.score(samples, [answer(samples[0], r"\boxed{\frac{1}{3}}")], posed)
    ours = {"boxed": 0.0, "last_expression": 0.0, "harness": 0.0, "undecided": 0.0}
    assert score.metrics == {**ours, "authors": 1.0}
    assert score.outcome is Outcome.correct


def test_records_must_be_right_letter_for_letter() -> None:
    posed = protocol("records", "controlled", Extraction.exact, shots=1)
    samples = TEXT["records"].samples(RECORDS[1:], RECORDS, posed, None)
    texts = [' {"n": 1}\n', '{"n":2}', '{"n": 3} ']
    found = TEXT["records"].score(samples, [answer(*pair) for pair in zip(samples, texts, strict=True)], posed)
    assert [score.outcome for score in found] == [Outcome.correct, Outcome.wrong, Outcome.correct]


def test_an_error_is_never_a_wrong_answer_and_a_cut_one_is_truncated() -> None:
    samples = gsm8k.samples(GSM[:3], GSM, PROTOCOL, None)
    broken = replace(answer(samples[0], "", stop=StopReason.error), error="out of memory")
    cut, right = answer(samples[1], "it", stop=StopReason.length), answer(samples[2], "6", stop=StopReason.length)
    found = gsm8k.score(samples, [broken, cut, right], PROTOCOL)
    assert [score.outcome for score in found] == [Outcome.error, Outcome.truncated, Outcome.correct]


@pytest.mark.parametrize(
    ("benchmark", "text", "stop", "expected"),
    [
        ("gsm8k", "2 + 2", StopReason.end_token, {"premature": 1, "no_stop": 0}),
        ("gsm8k", "2 + 2 = 4\n#### 4", StopReason.end_token, {"premature": 0, "no_stop": 0}),
        ("math", "We have", StopReason.length, {"premature": 0, "no_stop": 1}),
        ("humaneval_plus", "    return", StopReason.end_token, {"premature": 1, "no_stop": 0}),
        ("records", '{"a": 1}', StopReason.stop_string, {"premature": 0, "no_stop": 0}),
    ],
)
def test_how_an_answer_stopped(benchmark: str, text: str, stop: StopReason, expected: dict[str, Any]) -> None:
    found = stopping(benchmark, Generation("x", "", (), text, text + " more", stop, 1))
    assert {name: found[name] for name in expected} == expected
    assert found["run_on"] == 5
