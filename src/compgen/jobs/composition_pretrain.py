"""Job `composition_pretrain`: the base of one seed."""

from typing import Any

from transformers import AutoTokenizer

from compgen.errors import UserError
from compgen.finetuning.config import PretrainConfig
from compgen.finetuning.model import new_model, save_checkpoint
from compgen.finetuning.training import background, packed_documents, train
from compgen.run.context import JobContext

CORPUS = "composition_corpus"


def run(config: PretrainConfig, context: JobContext) -> dict[str, Any]:
    """Train on the background and write the checkpoint."""
    corpora = [job for job in context.inputs.values() if job.kind == CORPUS]
    if len(corpora) != 1:
        raise UserError(f"inputs={list(context.inputs)}: name exactly one finished job of kind {CORPUS}")
    tokenizer = AutoTokenizer.from_pretrained(corpora[0].directory / "tokenizer")
    documents = background(corpora[0].directory, tokenizer)
    model = new_model(config.model, len(tokenizer), config.seed)
    draw = packed_documents(documents, config.schedule.batch_size, config.schedule.row_tokens)
    losses = train(model, config.schedule, draw, config.seed, context)
    save_checkpoint(model, tokenizer, context.directory / "model")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tokens = config.schedule.steps * config.schedule.batch_size * config.schedule.row_tokens
    return {"seed": config.seed, "parameters": parameters, "tokens": tokens, "losses": losses}
