"""Job `heads_removal`: a model's answers while more and more heads are removed; inputs are the model and its scores."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from compgen.heads.config import HeadsRemovalConfig
from compgen.heads.loading import load_subject
from compgen.heads.prompts.prompt import Rows
from compgen.heads.removal import answers_without, needs_rows, questions, replacement
from compgen.heads.selection import Condition, conditions
from compgen.inputs import HEADS_SCORES, only
from compgen.questions.rows import load_rows
from compgen.run.context import JobContext, read_json

ANSWERS = "answers.jsonl"
HEADLINE = ("accuracy", "choice", "strict", "greedy")
"""The first of these that a task has is drawn as its accuracy."""


def run(config: HeadsRemovalConfig, context: JobContext) -> dict[str, Any]:
    """Write `answers.jsonl`, one line for each condition, task and prompt; the removed heads are among the metrics."""
    inputs = list(context.inputs.values())
    subject = load_subject(config.model, config.dtype, inputs)
    lists = read_json(only(inputs, HEADS_SCORES).directory / "lists.json")
    chosen = lists[config.removal.protocol.value]["lists"]
    planned = list(conditions(config.removal, subject.view, chosen, config.seed))
    asked = questions(config.removal, subject.tokenizer, config.seed, _rows(config))
    values = replacement(subject, config.removal.replacement, planned, config.seed)
    done: dict[str, list[dict[str, Any]]] = context.checkpoint.load() or {}
    for place, condition in enumerate(planned):
        if condition.name not in done:
            found = answers_without(subject, condition, asked, values, config.removal.batch_size)
            done[condition.name] = list(found)
            if context.checkpoint.due():
                context.checkpoint.save(done)
        context.progress(place + 1, len(planned), condition.name)
    records = [record for condition in planned for record in done[condition.name]]
    text = "".join(json.dumps(record, sort_keys=True) + "\n" for record in records)
    (context.directory / ANSWERS).write_text(text, encoding="utf-8")
    means = _means(records)
    _show(means, context)
    return {
        "seed": config.seed,
        "conditions": [_described(condition) for condition in planned],
        "tasks": {name: len(question.identifiers) for name, question in asked.items()},
        "means": means,
    }


def _rows(config: HeadsRemovalConfig) -> Rows | None:
    """GSM8K, where a task asks its questions."""
    if not needs_rows(config.removal):
        return None
    directory = Path(config.data.directory) if config.data.directory else None
    test, train = (load_rows(directory, config.source, "gsm8k", split).rows for split in ("test", "train"))
    return Rows(test, train)


def _described(condition: Condition) -> dict[str, Any]:
    heads = [str(head) for head in condition.heads]
    return {"set": condition.set, "count": condition.count, "draw": condition.draw, "heads": heads}


def _means(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    grouped: dict[tuple[Any, ...], list[float]] = defaultdict(list)
    for record in records:
        metric = next(name for name in HEADLINE if record.get(name) is not None)
        key = (record["task"], record["set"], record["count"], record["draw"], metric)
        grouped[key].append(record[metric])
    names = ("task", "set", "count", "draw", "metric")
    return [
        {**dict(zip(names, key, strict=True)), "value": sum(values) / len(values), "n": len(values)}
        for key, values in grouped.items()
    ]


def _show(means: list[dict[str, Any]], context: JobContext) -> None:
    columns = ["task", "set", "count", "draw", "metric", "value", "n"]
    context.table("removal", columns, [[row[name] for name in columns] for row in means])
