"""Reading scores, pairing arms, refusing what cannot be compared, withholding what could not be judged."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compgen.errors import ConfigError, UserError
from compgen.evaluation.protocol import Extraction, TaskProtocol
from compgen.evaluation.results import Results
from compgen.evaluation.samples import Outcome, Score, write_lines
from compgen.evaluation.summary import summarize
from compgen.run.context import FinishedJob

EXTRACTIONS = {"gsm8k": "numeric", "math": "boxed", "humaneval_plus": "code_cut", "mbpp_plus": "code_cut"}
SCORERS = (
    "numeric",
    "harness_strict",
    "harness_flexible",
    "harness",
    "authors",
    "boxed",
    "last_expression",
    "raw",
    "cut",
)
STOPS = ("premature", "no_stop", "end_token", "run_on")
Write = Callable[..., FinishedJob]


def protocol(benchmark: str) -> TaskProtocol:
    extraction = Extraction(EXTRACTIONS.get(benchmark, "numeric"))
    return TaskProtocol(benchmark, "harness", 2, ("\n\n",), 64, extraction)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a finished scoring job from right/wrong values by (arm, benchmark)."""

    def write(
        seed: int,
        right: Mapping[tuple[str, str], Sequence[float]],
        name: str = "controlled",
        change: Mapping[str, Any] | None = None,
        errors: int = 0,
        metrics: Mapping[str, float] | None = None,
    ) -> FinishedJob:
        directory = tmp_path / "run" / "composition" / f"score-{name}-{seed}-{len(list(tmp_path.rglob('score-*')))}"
        units = []
        for (arm, benchmark), values in right.items():
            file = f"scores/{arm}/{benchmark}.jsonl"
            scores = [
                Score(
                    id=f"{benchmark}/{number}",
                    outcome=Outcome.error if number < errors else Outcome.correct if value else Outcome.wrong,
                    extracted="1",
                    gold="1",
                    metrics=dict.fromkeys((*SCORERS, *STOPS), value) | dict(metrics or {}),
                )
                for number, value in enumerate(values)
            ]
            (directory / file).parent.mkdir(parents=True, exist_ok=True)
            write_lines(directory / file, scores)
            task = replace(protocol(benchmark), **(change or {}))
            units.append(
                {
                    "protocol_name": name,
                    "arm": arm,
                    "benchmark": benchmark,
                    "seed": seed,
                    "file": file,
                    "protocol": task.as_dict(),
                }
            )
        (directory / "metrics.json").write_text(json.dumps({"units": units}))
        (directory / "manifest.json").write_text(json.dumps({"kind": "composition_score", "config": {}}))
        return FinishedJob(directory)

    return write


def test_a_difference_is_paired_by_sample_and_carries_mcnemars_p_value(write: Write) -> None:
    ours, theirs = [1, 1, 1, 1, 0, 1, 1, 1], [0, 1, 0, 1, 0, 1, 0, 1]
    results = Results([write(0, {("composed", "gsm8k"): ours, ("math", "gsm8k"): theirs})], 1000)
    found = results.difference([("controlled", "composed", "gsm8k")], [("controlled", "math", "gsm8k")])
    assert found["value"] == pytest.approx(3 / 8)
    assert found["n"] == 8
    assert found["seeds"] == [0]
    assert "McNemar p = 0.25" in found["note"]  # three samples of one kind, none of the other: 2 · (1/2)^3


def test_two_protocols_are_never_compared(write: Write) -> None:
    jobs = [
        write(0, {("composed", "gsm8k"): [1, 0]}),
        write(0, {("math", "gsm8k"): [1, 0]}, change={"shots": 0, "prompt": "authors_zero_shot"}),
    ]
    with pytest.raises(ConfigError, match=r"composed and math on gsm8k .*prompt .*shots 2 / 0"):
        Results(jobs, 200).difference([("controlled", "composed", "gsm8k")], [("controlled", "math", "gsm8k")])


def test_different_samples_are_never_paired(write: Write) -> None:
    jobs = [write(0, {("composed", "gsm8k"): [1, 0]}), write(0, {("math", "gsm8k"): [1, 0, 1]})]
    with pytest.raises(UserError, match="different samples"):
        Results(jobs, 200).difference([("controlled", "composed", "gsm8k")], [("controlled", "math", "gsm8k")])


def test_a_value_is_withheld_while_the_infrastructure_has_failed_on_a_sample(write: Write) -> None:
    results = Results([write(0, {("composed", "gsm8k"): [1, 1, 1]}, errors=1)], 200)
    found = results.accuracy("controlled", "composed", "gsm8k")
    assert found["value"] is None
    assert "1 of 3 answers could not be judged" in found["note"]


def test_an_arm_that_was_scored_twice_is_refused(write: Write) -> None:
    jobs = [write(0, {("composed", "gsm8k"): [1]}), write(0, {("composed", "gsm8k"): [1]})]
    with pytest.raises(UserError, match="scored twice"):
        Results(jobs, 200)


def test_seeds_are_averaged_and_pooled_samples_counted(write: Write) -> None:
    jobs = [write(seed, {("base", "gsm8k"): [seed, 1, 1, 1]}) for seed in (0, 1)]
    found = Results(jobs, 500).accuracy("controlled", "base", "gsm8k")
    assert found["value"] == pytest.approx((0.75 + 1) / 2)
    assert (found["n"], found["seeds"]) == (8, [0, 1])
    assert found["interval"]["low"] < found["value"] < found["interval"]["high"]


def whole_run(generator: np.random.Generator, chances: Mapping[str, float]) -> dict[tuple[str, str], list[float]]:
    benchmarks = ("gsm8k", "math", "humaneval_plus", "mbpp_plus")
    return {
        (arm, name): list((generator.random(40) < p).astype(float)) for arm, p in chances.items() for name in benchmarks
    }


def test_the_summary_measures_what_its_scores_hold(write: Write) -> None:
    chances = {"base": 0.05, "math": 0.9, "code": 0.9, "composed": 0.8, "mixture": 0.4, "k3": 0.5, "k4": 0.3}
    chances |= {"k4-oracle": 0.55, "k4-mean": 0.6, "task-arithmetic-0.5": 0.5, "task-arithmetic-1.0": 0.7}
    jobs, cells = [], []
    for seed in (0, 1):
        cells.append(whole_run(np.random.default_rng(seed), chances))
        jobs.append(write(seed, cells[-1]))
    measured = summarize(jobs, 300)["measurements"]

    def mean(arm: str) -> float:
        return float(np.mean([np.mean(values) for run in cells for (name, _), values in run.items() if name == arm]))

    assert measured["k4_minus_composed"]["value"] == pytest.approx(mean("k4") - mean("composed"))
    assert measured["composed_minus_mixture"]["value"] == pytest.approx(mean("composed") - mean("mixture"))
    best = measured["composed_minus_best_task_arithmetic"]
    assert best["value"] == pytest.approx(mean("composed") - mean("task-arithmetic-1.0"))
    by_seed = [{name: np.mean([v for (arm, _), v in run.items() if arm == name]) for name in chances} for run in cells]
    shares = [(run["k4-oracle"] - run["k4"]) / (run["composed"] - run["k4"]) for run in by_seed]
    assert measured["oracle_stop_recovers_k4"]["value"] == pytest.approx(float(np.mean(shares)))
    assert measured["code_gap_raw_minus_cut"]["value"] == 0.0  # raw and cut agree on every sample here


def test_nothing_to_recover_is_withheld_with_its_reason(write: Write) -> None:
    chances = dict.fromkeys(("base", "math", "code", "composed", "k3", "k4", "k4-oracle"), 1.0)
    measured = summarize([write(0, whole_run(np.random.default_rng(0), chances | {"base": 0.0}))], 200)["measurements"]
    assert measured["oracle_stop_recovers_k4"]["value"] is None
    assert "too little" in measured["oracle_stop_recovers_k4"]["note"]
