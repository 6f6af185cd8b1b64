"""Job `composition_merge`: one seed's experts merged in weight space, every way that the config names.

Inputs: the base's finished job and the experts', in any order, as far as `models` does not name them; experts that no
merge takes are left aside.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from compgen.composition.merging import TaskVectors, measure_task_vectors, merge_models, weights_digest
from compgen.composition.merging_config import CompositionMergeConfig, MergingConfig
from compgen.errors import UserError
from compgen.inputs import FINETUNE, PRETRAIN
from compgen.run.context import FinishedJob, JobContext
from compgen.weights.config import ModelConfig
from compgen.weights.hub import local_folder

COLUMNS = ["name", "method", "experts", "scaling", "density", "norm", "left_at_base", "sha256"]


def run(config: CompositionMergeConfig, context: JobContext) -> dict[str, Any]:
    """Write `merges/<name>/` for every merge, and report what became of the task vectors."""
    parts = {merge.name: config.merge.experts_of(merge) for merge in config.merge.merges}
    skills = list(dict.fromkeys(skill for experts in parts.values() for skill in experts))
    base, experts = find_models(skills, context.inputs.values(), config.models)
    folders = {name: context.directory / "merges" / name for name in parts}
    for done, merge in enumerate(config.merge.merges):
        context.progress(done, len(folders), merge.name)
        chosen = [experts[skill] for skill in parts[merge.name]]
        merge_models(merge, base, chosen, folders[merge.name], config.seed)
    vectors = measure_task_vectors(base, experts, folders, parts)
    merges = describe_merges(config.merge, vectors, folders)
    rows = [{**row, "experts": " ".join(row["experts"])} for row in merges]
    context.table("merges", COLUMNS, [[row[column] for column in COLUMNS] for row in rows])
    return {"seed": config.seed, "experts": describe_experts(skills, vectors), "merges": merges}


def find_models(
    skills: Iterable[str], inputs: Iterable[FinishedJob], models: Mapping[str, ModelConfig]
) -> tuple[Path, dict[str, Path]]:
    """The folders of the base, and of the experts by skill; models of the hub are fetched.

    Raises:
        UserError: there is no base or more than one, no expert with a skill or more than one, or the hub does not
            give a model.
    """
    jobs = list(inputs)
    found: dict[str, list[FinishedJob | ModelConfig]] = {
        "base": [job for job in jobs if job.kind == PRETRAIN],
        **{skill: [job for job in jobs if job.kind == FINETUNE and job.config["skill"] == skill] for skill in skills},
    }
    for what, candidates in found.items():
        candidates += [models[what]] if what in models else []
        if len(candidates) != 1:
            names = [job.name if isinstance(job, FinishedJob) else job.source for job in candidates] or "none"
            raise UserError(f"inputs: merging needs exactly one model for {what}, found {names}: name that one")
    folders = {what: _folder(candidates[0]) for what, candidates in found.items()}
    return folders.pop("base"), folders


def _folder(model: FinishedJob | ModelConfig) -> Path:
    return model.directory / "model" if isinstance(model, FinishedJob) else local_folder(model)


def describe_experts(skills: list[str], vectors: TaskVectors) -> list[dict[str, Any]]:
    """Each expert's task vector: its length, and its angles to the others'."""
    return [
        {
            "name": skill,
            "norm": vectors.norm(skill),
            "cosines": {other: vectors.cosine(skill, other) for other in skills if other != skill},
        }
        for skill in skills
    ]


def describe_merges(config: MergingConfig, vectors: TaskVectors, folders: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Each merge: how it was made, its task vector, and the digest of its weights."""
    return [
        {
            "name": merge.name,
            "method": merge.method.value,
            "scaling": merge.scaling,
            "density": merge.density,
            "experts": config.experts_of(merge),
            "norm": vectors.norm(f"merge/{merge.name}"),
            "left_at_base": vectors.left[merge.name],
            "cosines": {skill: vectors.cosine(f"merge/{merge.name}", skill) for skill in config.experts_of(merge)},
            "sha256": weights_digest(folders[merge.name]),
        }
        for merge in config.merges
    ]
