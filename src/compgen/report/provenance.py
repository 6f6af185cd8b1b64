"""Where the numbers come from: every finished job with its cost, code, commit and command.

Covers reading manifests for the page; it changes nothing and checks nothing (see `compgen.run.manifest`).
"""

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from compgen.report.figure import RunTree
from compgen.report.view import NOTHING, slug
from compgen.run.context import MANIFEST, FinishedJob

DIGITS = 10
SHOWN_PACKAGES = ("torch", "numpy", "scipy", "transformers", "hydra-core", "wandb")


@dataclass(frozen=True)
class JobView:
    """One finished job."""

    name: str
    anchor: str
    manifest: str
    kind: str
    seconds: str
    memory: str
    code: str
    commit: str
    finished: str
    command: str


@dataclass(frozen=True)
class ProvenanceView:
    """The jobs of a run and the machines that they ran on."""

    summary: str
    environments: list[str]
    jobs: list[JobView]


def provenance(run: RunTree) -> ProvenanceView:
    """Read the manifests of all finished jobs."""
    manifests = [job.manifest for job in run.finished.values()]
    jobs = [_job_view(name, job) for name, job in run.finished.items()]
    environments = Counter(_environment(manifest.get("environment") or {}) for manifest in manifests)
    lines = [f"{_jobs(times)}: {words}" for words, times in sorted(environments.items())]
    return ProvenanceView(_summary(manifests), lines, jobs)


def _summary(manifests: list[dict[str, Any]]) -> str:
    if not manifests:
        return "No job has finished."
    seconds = sum(float(manifest["seconds"]) for manifest in manifests)
    peak = max(int(manifest["peak_memory_bytes"]) for manifest in manifests)
    dirty = sum(bool(manifest["git"].get("dirty")) for manifest in manifests)
    text = f"{_jobs(len(manifests))} took {duration(seconds)} of wall time in all, at most {memory(peak)} each"
    if dirty:
        text += f"; {_jobs(dirty)} ran from a checkout with uncommitted changes, marked +"
    return text + "."


def _jobs(number: int) -> str:
    return f"{number} job" + ("" if number == 1 else "s")


def _job_view(name: str, job: FinishedJob) -> JobView:
    manifest = job.manifest
    return JobView(
        name=name,
        anchor=slug(name),
        manifest=f"../{name}/{MANIFEST}",
        kind=str(manifest["kind"]),
        seconds=duration(float(manifest["seconds"])),
        memory=memory(int(manifest["peak_memory_bytes"])),
        code=_digest(manifest["code"]),
        commit=_commit(manifest["git"]),
        finished=str(manifest["finished"]),
        command=str(manifest["command"]),
    )


def _digest(code: Any) -> str:
    """The first digits of one digest over the digests of all source files of a job."""
    return hashlib.sha256(json.dumps(code, sort_keys=True).encode()).hexdigest()[:DIGITS]


def _commit(git: dict[str, Any]) -> str:
    if not git.get("commit"):
        return NOTHING
    return str(git["commit"])[:DIGITS] + ("+" if git.get("dirty") else "")


def _environment(environment: dict[str, Any]) -> str:
    packages = environment.get("packages") or {}
    versions = [f"{name} {packages[name]}" for name in SHOWN_PACKAGES if packages.get(name)]
    parts = [
        f"Python {environment.get('python', 'unknown')}",
        *versions,
        f"{environment.get('processor', 'unknown processor')}, {environment.get('cores', '?')} cores",
        str(environment.get("platform", "unknown platform")),
    ]
    return "; ".join(parts)


def duration(seconds: float) -> str:
    """Seconds as a reader says them: `4.2 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def memory(size: int) -> str:
    """Bytes in mebibytes, or gibibytes from one up."""
    return f"{size / 2**20:.0f} MiB" if size < 2**30 else f"{size / 2**30:.2f} GiB"
