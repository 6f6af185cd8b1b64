"""The manifest: everything that is needed to trust, explain and repeat a finished job.

Covers what is recorded and how a finished directory is checked against it. Whether a job is stale is decided
in `staleness.py`.
"""

import os
import platform
import resource
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from compgen.run.context import MANIFEST, FinishedJob
from compgen.run.fingerprint import canonical_json, file_digest, mapping_digest, text_digest

VERSION = 1
RECORDED_PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "hydra-core",
    "omegaconf",
    "transformers",
    "datasets",
    "wandb",
    "lm-eval",
    "evalplus",
    "accelerate",
    "peft",
    "safetensors",
    "matplotlib",
)
NOT_CONTENT = frozenset({MANIFEST, "log.txt"})
"""Files that hold times and therefore differ between two equal runs."""


def job_fingerprint(kind: str, config: Mapping[str, Any], code: Mapping[str, str], inputs: Mapping[str, str]) -> str:
    """The identity of a job: its kind, resolved config, transitive source files and the content of its inputs."""
    return text_digest(
        canonical_json({"kind": kind, "config": config, "code": dict(code), "inputs": list(inputs.items())})
    )


def artifacts_of(directory: Path) -> dict[str, dict[str, Any]]:
    """Size in bytes and SHA-256 of every file below a directory that counts as its content."""
    return {
        path.relative_to(directory).as_posix(): {"bytes": path.stat().st_size, "sha256": file_digest(path)}
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.relative_to(directory).as_posix() not in NOT_CONTENT
    }


def content_digest(artifacts: Mapping[str, Mapping[str, Any]]) -> str:
    """One digest for all artifacts of a finished job: equal results, equal digest."""
    return mapping_digest({name: entry["sha256"] for name, entry in artifacts.items()})


def readable(job: FinishedJob) -> bool:
    """Whether the manifest can be read; a damaged one makes the job as good as not run."""
    try:
        return "artifacts" in job.manifest
    except ValueError:
        return False


def missing_or_resized(job: FinishedJob) -> str | None:
    """The first artifact that is absent or has another size than recorded; None when all are there. Fast."""
    for name, entry in job.manifest["artifacts"].items():
        path = job.directory / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != entry["bytes"]:
            return f"{name} has {path.stat().st_size} bytes instead of {entry['bytes']}"
    return None


def damaged(job: FinishedJob) -> str | None:
    """The first artifact whose content differs from the manifest; None when all are intact. Reads every byte."""
    wrong = missing_or_resized(job)
    if wrong:
        return wrong
    for name, entry in job.manifest["artifacts"].items():
        if file_digest(job.directory / name) != entry["sha256"]:
            return f"the content of {name} differs from its manifest"
    return None


def environment() -> dict[str, Any]:
    """Versions, hardware and the flags that decide about numerical results."""
    return {
        "python": platform.python_version(),
        "packages": _package_versions(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "torch": _torch_state(),
    }


def _package_versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {}
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return versions


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _torch_state() -> dict[str, Any] | None:
    """Numerical settings of torch; None for a job that never imported it."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    return {
        "default_dtype": str(torch.get_default_dtype()),
        "threads": torch.get_num_threads(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cuda": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def git_state(root: Path) -> dict[str, str | bool | None]:
    """Commit and the digest of uncommitted changes; commit None outside a git checkout."""
    try:
        commit = _git(root, "rev-parse", "HEAD").strip()
        difference = _git(root, "diff", "HEAD", "--", "src", "conf", "pipelines", "data", "pyproject.toml")
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None, "difference_sha256": None}
    return {
        "commit": commit,
        "dirty": bool(difference),
        "difference_sha256": text_digest(difference) if difference else None,
    }


def _git(root: Path, *arguments: str) -> str:
    finished = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return finished.stdout


def peak_memory_bytes() -> int:
    """The largest resident size of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else usage * 1024
