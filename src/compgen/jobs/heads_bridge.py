"""Job `heads_bridge`: how induction and previous-token heads fit together, and what the bridge carries."""

import json
from typing import Any

import torch

from compgen.heads.bridge import Bridge, all_pairs, random_pairs
from compgen.heads.config import HeadsBridgeConfig
from compgen.heads.crossing import copies_under, edits
from compgen.heads.edits import conflicts
from compgen.heads.loading import Subject, load_subject
from compgen.heads.ranking import top_heads
from compgen.heads.views import Head, HeadView
from compgen.inputs import HEADS_SCORES, only
from compgen.run.context import JobContext, read_json

ANSWERS = "answers.jsonl"


def run(config: HeadsBridgeConfig, context: JobContext) -> dict[str, Any]:
    """Score pairs of heads, then edit the model in every way and let it copy; `answers.jsonl` holds every sequence."""
    inputs = list(context.inputs.values())
    subject = load_subject(config.model, config.dtype, inputs)
    lists = read_json(only(inputs, HEADS_SCORES).directory / "lists.json")["controlled"]["lists"]
    induction, previous = top_heads(lists["induction"]), top_heads(lists["previous"])
    pairs = _pairs(config, subject, induction, previous)
    done: dict[str, list[dict[str, Any]]] = context.checkpoint.load() or {}
    records: list[dict[str, Any]] = []
    for place, edit in enumerate(edits(config.bridge, subject, induction, previous, config.seed)):
        if edit.key not in done:
            done[edit.key] = copies_under(subject, edit, config.bridge, config.seed)
            if context.checkpoint.due():
                context.checkpoint.save(done)
        records += done[edit.key]
        context.progress(place + 1, _count(config), edit.key)
    text = "".join(json.dumps(record, sort_keys=True) + "\n" for record in records)
    (context.directory / ANSWERS).write_text(text, encoding="utf-8")
    return {"seed": config.seed, "pairs": pairs, "reached": _reached(config, subject, induction)}


def _pairs(
    config: HeadsBridgeConfig, subject: Subject, induction: list[Head], previous: list[Head]
) -> dict[str, list[dict[str, Any]]]:
    """Scores of the top pairs, of random pairs of the same layers, and of the top pairs' places at initialization."""
    sizes = config.bridge
    tops = induction[: sizes.heads], previous[: sizes.heads]
    pairs = all_pairs(*tops)
    rivals = random_pairs(subject.view, [*tops[0], *tops[1]], pairs, config.seed, sizes.random_times)
    rank = min(sizes.match_rank, subject.view.head_width)
    trained, untrained = Bridge(subject.view, rank), Bridge(_initialized(subject, config.seed), rank)
    found = {"top": trained.scores(pairs), "random": trained.scores(rivals), "initial": untrained.scores(pairs)}
    return {name: [one.as_dict() for one in scored] for name, scored in found.items()}


def _initialized(subject: Subject, seed: int) -> HeadView:
    """The same architecture before training."""
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return HeadView(AutoModelForCausalLM.from_config(subject.model.config).eval())


def _count(config: HeadsBridgeConfig) -> int:
    sizes = config.bridge
    return 1 + 2 * len(sizes.ranks) * (1 + sizes.draws) + 4 * sizes.draws


def _reached(config: HeadsBridgeConfig, subject: Subject, induction: list[Head]) -> dict[str, int]:
    """How many heads an edit of keys was asked for and how many share these keys (defect 5 of dossier 4.3)."""
    chosen = induction[: max(1, round(config.bridge.edited_share * len(induction)))]
    groups = subject.view.query_groups(chosen)
    reached = sum(len(group.reached) for group in groups)
    shared = conflicts(subject.view, induction[: config.bridge.heads])
    counted = {"chosen": len(chosen), "keys": len(groups), "reached": reached, "heads": len(induction)}
    return {**counted, "exchanged": config.bridge.heads, "exchanged_sharing_keys": shared}
