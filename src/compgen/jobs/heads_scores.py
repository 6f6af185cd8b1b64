"""Job `heads_scores`: induction, previous-token, duplicate-token, copying and function-vector scores of every head."""

import json
from typing import Any

from compgen.heads.config import HeadsScoresConfig
from compgen.heads.function_vectors import exact_scores
from compgen.heads.loading import Subject, load_subject, source_of
from compgen.heads.ranking import head_lists, ranked
from compgen.heads.repeated import Repeated, authors_sequences, beginning_token, controlled_sequences
from compgen.heads.rivals import label_pairs
from compgen.heads.scores import Definition, attention_scores, copying_scores
from compgen.run.context import JobContext

SHOWN = 20


def run(config: HeadsScoresConfig, context: JobContext) -> dict[str, Any]:
    """Write `lists.json` with every head in every list; the first of each are among the metrics."""
    inputs = list(context.inputs.values())
    subject = load_subject(config.model, config.dtype, inputs)
    scores = config.scores
    found: dict[str, Any] = {}
    for definition, repeated in sequences(config, subject).items():
        measured = attention_scores(subject.view, repeated, definition, scores.batch_size, context.progress)
        found[definition.value] = head_lists(measured, repeated, definition, config.seed)
    pairs = label_pairs(subject, scores.function_vector_prompts, config.seed)
    rival = ranked(exact_scores(subject.view, pairs, progress=context.progress), config.seed)
    for entry in found.values():
        entry["lists"]["function_vector"] = rival
    found["controlled"]["lists"]["copying"] = ranked(copying_scores(subject.view))
    (context.directory / "lists.json").write_text(json.dumps(found), encoding="utf-8")
    shown = {name: _first(entry) for name, entry in found.items()}
    _show(shown, context)
    view = subject.view
    architecture = {
        "model_type": subject.model.config.model_type,
        "layers": view.layers,
        "query_heads": view.query_heads,
        "key_value_heads": view.key_value_heads,
        "head_width": view.head_width,
        "width": view.width,
    }
    return {"source": source_of(config.model, inputs), "architecture": architecture, "definitions": shown}


def sequences(config: HeadsScoresConfig, subject: Subject) -> dict[Definition, Repeated]:
    """The random tokens of both definitions."""
    scores, vocabulary, begin = config.scores, subject.model.config.vocab_size, beginning_token(subject.view)
    size = (scores.sequences, scores.segment)
    return {
        Definition.authors: authors_sequences(vocabulary, begin, *size, scores.authors_seed),
        Definition.controlled: controlled_sequences(vocabulary, begin, subject.special_tokens, *size, config.seed),
    }


def _first(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "lists": {kind: rows[:SHOWN] for kind, rows in entry["lists"].items()}}


def _show(definitions: dict[str, Any], context: JobContext) -> None:
    rows = [
        [name, kind, f"{row['layer']}.{row['head']}", row["score"]]
        for name, entry in definitions.items()
        for kind, listed in entry["lists"].items()
        for row in listed
    ]
    context.table("heads", ["definition", "score", "head", "value"], rows)
