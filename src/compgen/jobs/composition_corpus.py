"""Job `composition_corpus`: the laptop study's text, its tokenizer, and benchmarks with held-out questions."""

import random
from typing import Any

from compgen.finetuning.config import CorpusConfig
from compgen.finetuning.corpus.background import document
from compgen.finetuning.corpus.items import Item
from compgen.finetuning.corpus.skills import FORMS, examples, held_out, write_benchmark, write_rows
from compgen.finetuning.tokenizer import encode, train_tokenizer
from compgen.run.context import JobContext

SHOWN = 5


def run(config: CorpusConfig, context: JobContext) -> dict[str, Any]:
    """Write everything; the counts and mean lengths are the metrics."""
    sizes = config.corpus
    generator = random.Random(f"{sizes.seed}/background")
    documents = [document(generator) for _ in range(sizes.documents)]
    train = {benchmark: examples(benchmark, sizes) for benchmark in FORMS}
    texts = [*documents, *(item.prompt + item.answer for items in train.values() for item in items)]
    tokenizer = train_tokenizer(texts, sizes.vocabulary)
    tokenizer.save_pretrained(context.directory / "tokenizer")
    write_rows(context.directory / "background.jsonl", [{"text": text} for text in documents])
    metrics: dict[str, Any] = {"vocabulary": len(tokenizer), "documents": len(documents), "benchmarks": {}}
    for benchmark, items in train.items():
        tests, validation = held_out(benchmark, sizes)
        write_benchmark(benchmark, tests, items, context.directory / "benchmarks")
        _write_items(context, f"train/{benchmark}", items)
        _write_items(context, f"validation/{benchmark}", validation)
        lengths = [len(encode(tokenizer, item.prompt + item.answer)) for item in tests]
        metrics["benchmarks"][benchmark] = {
            "train": len(items),
            "train_skeletons": len({item.skeleton for item in items}),
            "test": len(tests),
            "test_skeletons": len({item.skeleton for item in tests}),
            "mean_tokens": sum(lengths) / len(lengths),
            "most_tokens": max(lengths),
        }
    shown = [(name, item.prompt, item.answer) for name, items in train.items() for item in items[:SHOWN]]
    context.table("examples", ["benchmark", "prompt", "answer"], shown)
    return metrics


def _write_items(context: JobContext, name: str, items: list[Item]) -> None:
    rows = [{"prompt": item.prompt, "answer": item.answer} for item in items]
    write_rows(context.directory / f"{name}.jsonl", rows)
