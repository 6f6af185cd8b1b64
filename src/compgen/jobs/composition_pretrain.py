"""Job `composition_pretrain`: the base of one seed."""

from typing import Any

from transformers import AutoTokenizer

from compgen.finetuning.config import PretrainConfig
from compgen.finetuning.model import new_model, save_checkpoint
from compgen.finetuning.training import background, packed_documents, train
from compgen.inputs import CORPUS, only
from compgen.run.context import JobContext


def run(config: PretrainConfig, context: JobContext) -> dict[str, Any]:
    """Train on the background and write the checkpoint."""
    corpus = only(context.inputs.values(), CORPUS)
    tokenizer = AutoTokenizer.from_pretrained(corpus.directory / "tokenizer")
    documents = background(corpus.directory, tokenizer)
    model = new_model(config.model, len(tokenizer), config.seed)
    draw = packed_documents(documents, config.schedule.batch_size, config.schedule.row_tokens)
    losses = train(model, config.schedule, draw, config.seed, context)
    save_checkpoint(model, tokenizer, context.directory / "model")
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tokens = config.schedule.steps * config.schedule.batch_size * config.schedule.row_tokens
    return {"seed": config.seed, "parameters": parameters, "tokens": tokens, "losses": losses}
