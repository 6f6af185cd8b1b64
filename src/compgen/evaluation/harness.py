"""lm-eval's own tasks on rows that we give them: prompts and scores, without its index, its caches or the network.

Covers building a task, its prompts in order, and re-scoring stored texts with its filters and metrics.
"""

import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

Row = dict[str, Any]
SHOT_SEED = 1234
"""lm-eval's default seed of few-shot sampling."""
FILES = {"gsm8k": "gsm8k/gsm8k.yaml", "math": "hendrycks_math/hendrycks_math_algebra.yaml"}
"""The task definitions, inside lm-eval."""


class HarnessTask:
    """One of lm-eval's tasks with rows of ours."""

    def __init__(self, name: str, test: Sequence[Row], train: Sequence[Row] = ()) -> None:
        """Take the rows; nothing is built yet.

        Args:
            name: gsm8k or math.
            test: rows that are asked.
            train: rows that shots are taken from.
        """
        self._name, self._test, self._train = name, list(test), list(train)

    @cached_property
    def _task(self) -> Any:
        import lm_eval.tasks
        from datasets import Dataset
        from lm_eval.api.task import ConfigurableTask
        from lm_eval.tasks._yaml_loader import load_yaml

        config = load_yaml(Path(lm_eval.tasks.__file__).parent / FILES[self._name])
        splits = {"test": Dataset.from_list(self._test)}
        if self._train:
            splits["train"] = Dataset.from_list(self._train)
        else:
            config.update(training_split=None, fewshot_split=None)
        config.update(dataset_path="compgen", dataset_name=None, custom_dataset=lambda **_: splits)
        config["metadata"] = {"version": config["metadata"]["version"]}
        logging.getLogger("lm_eval").setLevel(logging.ERROR)
        return ConfigurableTask(config=config)

    def prompts(self, shots: int) -> list[str]:
        """The prompts of all test rows, in order; sampled shots depend on the order, as in lm-eval."""
        self._task.set_config("num_fewshot", shots)
        self._task.set_fewshot_seed(SHOT_SEED)
        return [self._text(document, shots) for document in self._task.test_docs()]

    def _text(self, document: Row, shots: int) -> str:
        return str(self._task.fewshot_context(document, shots))

    @property
    def documents(self) -> list[Row]:
        """The test rows as the task sees them."""
        return list(self._task.test_docs())

    def scores(self, texts: Sequence[str]) -> list[dict[str, float]]:
        """The task's own metrics of one completion for each test row, by filter: `{"strict-match": 1.0, …}`."""
        documents = self.documents
        assert len(documents) == len(texts)
        found: list[dict[str, float]] = [{} for _ in texts]
        for name, apply in self._filters():
            for place, kept in enumerate(apply(texts, documents)):
                found[place][name] = float(self._task.process_results(documents[place], [kept])["exact_match"])
        return found

    def _filters(self) -> list[tuple[str, Callable[[Sequence[str], Sequence[Row]], list[Any]]]]:
        def applied(ensemble: Any) -> Callable[[Sequence[str], Sequence[Row]], list[Any]]:
            def apply(texts: Sequence[str], documents: Sequence[Row]) -> list[Any]:
                kept: list[Any] = [[text] for text in texts]
                for make in ensemble.filters:
                    kept = list(make().apply(kept, list(documents)))
                return kept

            return apply

        return [(ensemble.name, applied(ensemble)) for ensemble in self._task._filters]
