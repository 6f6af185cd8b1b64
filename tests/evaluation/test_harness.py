"""lm-eval's tasks on our rows, beside what lm-eval's own evaluator asks and scores on the same rows."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from compgen.evaluation.answers import boxed_in
from compgen.evaluation.harness import FILES, HarnessTask
from compgen.questions.rows import read_lines
from compgen.run.paths import project_root

SHARED = project_root().parent / "shared" / "data"
GSM = [{"question": f"What is {n} + {n}?", "answer": f"{n} + {n} = {2 * n}\n#### {2 * n}"} for n in range(1, 9)]
ANSWER = {"gsm8k": "answer", "math": "solution"}
GOLD: dict[str, Callable[[dict[str, Any]], str]] = {
    "gsm8k": lambda row: row["answer"].rsplit("#### ")[1],
    "math": lambda row: boxed_in(row["solution"]) or "",
}


def test_lm_evals_own_scores_come_from_its_own_task() -> None:
    task = HarnessTask("gsm8k", GSM[:3])
    assert task.scores(["#### 2", "4 it is", "none"]) == [
        {"strict-match": 1.0, "flexible-extract": 1.0},
        {"strict-match": 0.0, "flexible-extract": 1.0},
        {"strict-match": 0.0, "flexible-extract": 0.0},
    ]


def rows(name: str, count: int) -> list[dict[str, Any]]:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} of ../shared/data is not on this machine")
    return read_lines(path)[:count]


def evaluated(
    name: str, test: Sequence[Any], train: Sequence[Any], shots: int, write: Callable[[Any], str]
) -> tuple[list[str], list[dict[str, float]]]:
    """Prompts and scores out of `simple_evaluate` with a model that writes what we say."""
    import lm_eval.tasks
    from datasets import Dataset
    from lm_eval import simple_evaluate
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    class Written(LM):  # type: ignore[misc]
        def generate_until(self, requests: Any) -> list[str]:
            return [write(request.doc) for request in requests]

        def loglikelihood(self, requests: Any) -> Any:
            raise NotImplementedError

        loglikelihood_rolling = loglikelihood

    config = load_yaml(Path(lm_eval.tasks.__file__).parent / FILES[name])
    splits = {"test": Dataset.from_list(list(test)), "train": Dataset.from_list(list(train))}
    config.update(dataset_path="here", dataset_name=None, custom_dataset=lambda **_: splits, task="one")
    manager = TaskManager(include_defaults=False)
    found = simple_evaluate(
        Written(), tasks=[config], num_fewshot=shots, task_manager=manager, bootstrap_iters=0, log_samples=True
    )
    (samples,) = found["samples"].values()
    prompts: dict[int, str] = {}
    scores: dict[int, dict[str, float]] = {}
    for sample in samples:
        prompts[sample["doc_id"]] = sample["arguments"][0][0]
        scores.setdefault(sample["doc_id"], {})[sample["filter"]] = float(sample["exact_match"])
    return [prompts[place] for place in sorted(prompts)], [scores[place] for place in sorted(scores)]


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "file", "shots"),
    [("gsm8k", "gsm8k/{}.jsonl", 5), ("gsm8k", "gsm8k/{}.jsonl", 0), ("math", "math/math_{}.jsonl.gz", 0)],
)
def test_prompts_and_scores_equal_those_of_lm_evals_own_evaluator(name: str, file: str, shots: int) -> None:
    test, train = rows(file.format("test"), 40), rows(file.format("train"), 200)
    forms = ["#### {}", "The answer is ${}.00.", "It is {}... or so", "$1$ and ${}$", "so ${}$"]
    writing = {row[ANSWER[name]]: form.format(GOLD[name](row)) for row, form in zip(test, forms * 8, strict=True)}
    prompts, scores = evaluated(name, test, train, shots, lambda row: writing[row[ANSWER[name]]])
    task = HarnessTask(name, test, train)
    assert task.prompts(shots) == prompts
    assert HarnessTask(name, test).scores(list(writing.values())) == scores
    assert {value for score in scores for value in score.values()} == {0.0, 1.0}


@pytest.mark.shared
def test_every_gold_answer_of_gsm8k_is_right_to_lm_eval_and_its_neighbour_hardly_ever() -> None:
    test = rows("gsm8k/test.jsonl", 1319)
    own = HarnessTask("gsm8k", test).scores([row["answer"] for row in test])
    assert all(set(score.values()) == {1.0} for score in own)
    shifted = HarnessTask("gsm8k", test[:-1]).scores([row["answer"] for row in test[1:]])
    assert sum(score["strict-match"] for score in shifted) / len(shifted) < 0.03
