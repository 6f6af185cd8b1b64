"""From the name of an arm to a model that answers: which finished jobs or hub models are its components.

Every arm is one composed model; a single model is a composition without experts. What an arm is stands in `config.py`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from compgen.composition.causal_lm import ComposedForCausalLM
from compgen.composition.components import ComponentSpec
from compgen.errors import UserError
from compgen.evaluation.config import ArmConfig
from compgen.evaluation.contexts import CONTEXTS
from compgen.inputs import FETCH, FINETUNE, MERGE, PRETRAIN
from compgen.run.context import FinishedJob
from compgen.weights.config import ModelConfig


def available(inputs: Sequence[FinishedJob], models: Mapping[str, ModelConfig]) -> dict[str, ComponentSpec]:
    """Every model that an arm may name: base, skills, merge/<name>, contexts, and those of the configuration."""
    found: dict[str, ComponentSpec] = {}
    for job in inputs:
        if job.kind == PRETRAIN:
            found["base"] = _trained("base", job.directory / "model")
        elif job.kind == FINETUNE:
            skill = str(job.config["skill"])
            found[skill] = _trained(skill, job.directory / "model")
        elif job.kind == MERGE:
            for directory in sorted((job.directory / "merges").iterdir()):
                found[f"merge/{directory.name}"] = _trained(directory.name, directory)
        elif job.kind == FETCH:
            found |= _by_context(job.directory / "model")
    for name, model in models.items():
        found[name] = ComponentSpec(
            source=model.source, revision=model.revision, adapter=model.adapter, prompt=model.prompt, name=name
        )
    return found


def _by_context(directory: Path) -> dict[str, ComponentSpec]:
    """A fetched model as the base, and as an expert under each context."""
    experts = {name: ComponentSpec(str(directory), prompt=text, name=name) for name, text in CONTEXTS.items()}
    return {"base": _trained("base", directory), **experts}


def _trained(name: str, directory: Path) -> ComponentSpec:
    return ComponentSpec(source=str(directory), name=name)


def load_arm(arm: ArmConfig, specs: Mapping[str, ComponentSpec], dtype: str, attention: str) -> ComposedForCausalLM:
    """The composed model of an arm.

    Raises:
        UserError: it names a model that is not there, or its components do not fit each other.
    """
    missing = [name for name in (arm.base, *arm.experts) if name not in specs]
    if missing:
        raise UserError(f"inputs: no job gives {', '.join(missing)}; there are {', '.join(sorted(specs)) or 'none'}")
    return ComposedForCausalLM.compose(
        base=specs[arm.base],
        experts=[specs[name] for name in arm.experts],
        rule=arm.rule,
        dtype=getattr(torch, dtype),
        attn_implementation=attention,
        device_map="auto" if torch.cuda.is_available() else None,
    )


def tokenizer_of(specs: Mapping[str, ComponentSpec], arm: ArmConfig) -> Any:
    """The tokenizer of an arm's base, which all its components share."""
    from transformers import AutoTokenizer

    spec = specs[arm.base]
    return AutoTokenizer.from_pretrained(spec.source, revision=spec.revision)
