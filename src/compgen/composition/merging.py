"""Merging experts in weight space with mergekit, and what a merge did to their task vectors.

Covers the methods of merging_config.MergeMethod on Hugging Face folders with safetensors, on the CPU, without a
network. Sums are taken in float32 and stored in the base's dtype. A merged folder holds the weights, and the
base's own configuration and tokenizer, nothing of mergekit's. Does not cover whether experts and base share
their tokens: see checks.py.
"""

import hashlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mergekit.common import ModelPath, ModelReference
from mergekit.config import InputModelDefinition, MergeConfiguration
from mergekit.io import LazyTensorLoader, ShardedTensorIndex
from mergekit.io.tasks import LoaderCache
from mergekit.merge import run_merge
from mergekit.options import MergeOptions
from safetensors import safe_open
from torch import Tensor

from compgen.composition.merging_config import MergeMethod, WeightMerge
from compgen.errors import UserError
from compgen.randomness import stream_seed

WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "model-*-of-*.safetensors")
COPIED = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
)
"""What a merged folder takes from the base, as far as the base has it."""
CHUNK = 2**22
"""Entries of a tensor that are compared at a time."""


def merge_models(merge: WeightMerge, base: Path, experts: Sequence[Path], target: Path, seed: int) -> None:
    """Write one merged model as a Hugging Face folder; a rerun writes the same bytes.

    Args:
        merge: What to do; its own list of experts is not looked at.
        base: The folder of the model that the experts were tuned from.
        experts: Folders of the experts that are merged, in the order in which they are added.
        target: The new folder; must not exist.
        seed: Of DARE's masks. Merges of one seed draw alike, so that a sweep over λ or density varies nothing else.

    Raises:
        UserError: a folder lacks safetensors weights, or its tensors do not have the base's names and shapes.
    """
    check_same_tensors([base, *experts])
    assert not target.exists(), target
    with torch.random.fork_rng(devices=[]):
        _run_mergekit(_mergekit_configuration(merge, base, experts), target, stream_seed(seed, "merge") % 2**32)
    _keep_weights_only(target)
    for name in COPIED:
        if (base / name).is_file():
            shutil.copyfile(base / name, target / name)
    check_same_tensors([base, target])


def _mergekit_configuration(merge: WeightMerge, base: Path, experts: Sequence[Path]) -> MergeConfiguration:
    """The merge in mergekit's terms."""
    is_mean = merge.method is MergeMethod.linear
    per_expert = {"weight": 1.0} if is_mean else {"weight": 1.0, "density": merge.density}
    models = [InputModelDefinition(model=_reference(expert), parameters=per_expert) for expert in experts]
    return MergeConfiguration(
        merge_method=merge.method.value,
        models=models,
        base_model=None if is_mean else _reference(base),
        parameters=_shared_parameters(merge),
        dtype="float32",
        out_dtype=str(next(tensors(base))[1].dtype).removeprefix("torch."),
    )


def _shared_parameters(merge: WeightMerge) -> dict[str, Any]:
    """λ, and whether the experts are averaged.

    DARE divides by the density. mergekit would scale each tensor to its former L1 norm instead, which is not
    unbiased; so its rescaling is off and the division is part of λ.
    """
    if merge.method is MergeMethod.linear:
        return {"normalize": True}
    if merge.method is MergeMethod.task_arithmetic:
        return {"normalize": False, "lambda": merge.scaling}
    if merge.method is MergeMethod.ties:
        return {"normalize": True, "rescale": False, "lambda": merge.scaling}
    return {"normalize": False, "rescale": False, "lambda": merge.scaling / merge.density}


def _reference(folder: Path) -> ModelReference:
    """A local folder for mergekit; given as text, a `+` or `@` in its path would mean an adapter or a revision."""
    return ModelReference(model=ModelPath(path=str(folder)))


def _run_mergekit(configuration: MergeConfiguration, target: Path, seed: int) -> None:
    options = MergeOptions(copy_tokenizer=False, write_model_card=False, random_seed=seed, quiet=True, device="cpu")
    try:
        run_merge(configuration, str(target), options)
    finally:
        LoaderCache().loaders.clear()  # kept by path for the whole process, while the files may change


def _keep_weights_only(folder: Path) -> None:
    kept = {path for pattern in WEIGHTS for path in folder.glob(pattern)}
    for path in set(folder.iterdir()) - kept:
        path.unlink()


def _loader(folder: Path) -> LazyTensorLoader:
    """The tensors of a folder, read one at a time.

    Raises:
        UserError: the folder has no safetensors weights; pickles are not read.
    """
    if not any((folder / name).is_file() for name in WEIGHTS[:2]):
        raise UserError(f"{folder}: has no model.safetensors: save the model with safetensors")
    return LazyTensorLoader(ShardedTensorIndex.from_disk(str(folder)), lazy_unpickle=False)


def _shapes(folder: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of a folder's tensors, read from the headers of its files."""
    shapes: dict[str, tuple[int, ...]] = {}
    for shard in _loader(folder).index.shards:
        with safe_open(folder / shard.filename, framework="pt") as file:
            shapes |= {name: tuple(file.get_slice(name).get_shape()) for name in shard.contained_keys}
    return shapes


def check_same_tensors(folders: Sequence[Path]) -> None:
    """Refuse models that cannot be added entry by entry: mergekit would leave out or cut what does not match.

    Raises:
        UserError: naming the folder and a tensor that is missing, too many, or of another shape.
    """
    wanted, *others = map(_shapes, folders)
    for folder, found in zip(folders[1:], others, strict=True):
        for name in sorted(wanted.keys() | found.keys()):
            if wanted.get(name) != found.get(name):
                raise UserError(
                    f"{folder}: tensor {name} has shape {found.get(name)}, in {folders[0]} {wanted.get(name)}: "
                    "merge only models of one architecture that were tuned from one base"
                )


def tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a model's folder with their names, in the order of the names."""
    loader = _loader(folder)
    for name in sorted(loader.index.tensor_paths):
        yield name, loader.get_tensor(name)


def weights_digest(folder: Path) -> str:
    """SHA-256 over names, dtypes, shapes and values of all tensors: equal weights have one digest, sharded or not."""
    digest = hashlib.sha256()
    for name, tensor in tensors(folder):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


@dataclass(frozen=True)
class TaskVectors:
    """Task vectors of several models, all in relation to one base."""

    names: tuple[str, ...]
    """The experts' names, then the merges' as `merge/<name>`."""
    products: Tensor
    """(model, model), their inner products, float64."""
    left: Mapping[str, float]
    """For each merge, the share of the entries that its experts changed and that it left at the base's value."""

    def norm(self, name: str) -> float:
        """The Euclidean norm of one task vector."""
        i = self.names.index(name)
        return float(self.products[i, i].sqrt())

    def cosine(self, first: str, second: str) -> float | None:
        """The cosine of the angle between two task vectors; None where one of them is zero."""
        scale = self.norm(first) * self.norm(second)
        i, j = self.names.index(first), self.names.index(second)
        return float(self.products[i, j]) / scale if scale > 0 else None


def measure_task_vectors(
    base: Path, experts: Mapping[str, Path], merges: Mapping[str, Path], parts: Mapping[str, Sequence[str]]
) -> TaskVectors:
    """Compare task vectors in one pass over all tensors, in float64.

    Args:
        base: The folder of the base.
        experts: Folders by name.
        merges: Folders of merged models by name.
        parts: For each merged model the names of the experts that it is made of.
    """
    models = {**experts, **{f"merge/{name}": folder for name, folder in merges.items()}}
    names = tuple(models)
    products = torch.zeros(len(names), len(names), dtype=torch.float64)
    changed, left = dict.fromkeys(merges, 0), dict.fromkeys(merges, 0)
    for columns in zip(tensors(base), *map(tensors, models.values()), strict=True):
        for origin, *values in zip(*(tensor.reshape(-1).split(CHUNK) for _, tensor in columns), strict=True):
            vectors = torch.stack(values).double() - origin.double()  # (model, entry)
            products += vectors @ vectors.T
            moved = dict(zip(names, vectors != 0, strict=True))
            for merge, chosen in parts.items():
                touched = torch.stack([moved[expert] for expert in chosen]).any(0)
                changed[merge] += int(touched.sum())
                left[merge] += int((touched & ~moved[f"merge/{merge}"]).sum())
    return TaskVectors(names, products, {merge: left[merge] / max(changed[merge], 1) for merge in merges})
