"""Job `composition_finetune`: one expert, from the base of the same seed."""

import copy
import json
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from compgen.errors import UserError
from compgen.finetuning.config import FinetuneConfig
from compgen.finetuning.corpus.items import Item
from compgen.finetuning.corpus.skills import SKILLS
from compgen.finetuning.model import save_checkpoint
from compgen.finetuning.training import Examples, background, share_right, train
from compgen.inputs import CORPUS, PRETRAIN, only
from compgen.run.context import FinishedJob, JobContext


def run(config: FinetuneConfig, context: JobContext) -> dict[str, Any]:
    """Fine-tune on the skill's training questions, test on its validation questions, write the checkpoint."""
    inputs = list(context.inputs.values())
    corpus, base = only(inputs, CORPUS), only(inputs, PRETRAIN)
    if base.config["seed"] != config.seed:
        raise UserError(
            f"seed={config.seed}: {base.name} has seed {base.config['seed']}: give the base of the same seed"
        )
    tokenizer = AutoTokenizer.from_pretrained(base.directory / "model")
    model = AutoModelForCausalLM.from_pretrained(
        base.directory / "model", dtype=torch.float32, attn_implementation="eager"
    )
    benchmarks = SKILLS[config.skill]
    forms = [_items(corpus, f"train/{benchmark}") for benchmark in benchmarks]
    documents = background(corpus.directory, tokenizer)
    examples = Examples(tokenizer, forms, documents, config.schedule)
    teacher = copy.deepcopy(model).eval()
    losses = train(model, config.schedule, examples.draw, config.seed, context, teacher)
    right = {name: share_right(model, tokenizer, _items(corpus, f"validation/{name}")) for name in benchmarks}
    save_checkpoint(model, tokenizer, context.directory / "model")
    return {"seed": config.seed, "skill": config.skill.value, "losses": losses, "validation": right}


def _items(corpus: FinishedJob, name: str) -> list[Item]:
    lines = (corpus.directory / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [Item(row["prompt"], row["answer"], {}) for row in map(json.loads, lines)]
