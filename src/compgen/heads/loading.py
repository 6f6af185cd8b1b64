"""A model whose heads are looked at: from a finished job, a directory or the hub, with its tokenizer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from compgen.errors import UserError, require
from compgen.heads.views import HeadView
from compgen.inputs import FETCH, PRETRAIN
from compgen.run.context import FinishedJob
from compgen.weights.config import ModelConfig


@dataclass(frozen=True)
class Subject:
    """The model, its tokenizer, and its heads."""

    model: Any
    tokenizer: Any
    view: HeadView

    @property
    def special_tokens(self) -> set[int]:
        """Ids that no random sequence should hold: special ones, and those that the tokenizer does not know."""
        known = set(self.tokenizer.get_vocab().values())
        unknown = set(range(self.model.config.vocab_size)) - known
        return {int(token) for token in self.tokenizer.all_special_ids} | unknown


def source_of(model: ModelConfig, inputs: Sequence[FinishedJob]) -> str:
    """Where the model is.

    Raises:
        UserError: it is not named, and there is not exactly one model among the inputs.
    """
    if model.source:
        return model.source
    found = [job for job in inputs if job.kind in (FETCH, PRETRAIN)]
    if len(found) != 1:
        named = [job.name for job in found] or "none"
        raise UserError(f"heads.model.source is not set and the inputs hold {named}: name one model")
    return str(found[0].directory / "model")


def load_subject(model: ModelConfig, dtype: str, inputs: Sequence[FinishedJob]) -> Subject:
    """Load a model with attention that keeps its patterns, on every GPU there is or on the CPU.

    Raises:
        UserError: there is no such model, or no adapter for its architecture.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = source_of(model, inputs)
    require(model.adapter is None and model.prompt is None, "heads.model", model.source, "heads are a whole model's")
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, revision=model.revision)
        loaded = AutoModelForCausalLM.from_pretrained(
            source,
            revision=model.revision,
            dtype=getattr(torch, dtype),
            attn_implementation="eager",
            device_map="auto" if torch.cuda.is_available() else None,
            use_safetensors=True,
        )
    except (OSError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise UserError(f"heads.model.source={source}: it cannot be loaded ({reason})") from error
    return Subject(loaded.eval(), tokenizer, HeadView(loaded))
