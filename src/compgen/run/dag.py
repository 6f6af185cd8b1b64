"""The DAG as Make knows it, and what would run: which jobs are done, stale, failed, running or missing, and why.

Make writes the DAG (name, kind, inputs, overrides of every job) from pipelines/*.mk into one file and asks here
which results still stand. For those it finds a stamp; Make runs the jobs without one, and what depends on them.
"""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compgen.errors import UserError
from compgen.run.context import MANIFEST, FinishedJob, read_json
from compgen.run.execute import name_inputs
from compgen.run.fingerprint import job_closure
from compgen.run.manifest import readable
from compgen.run.paths import JobPaths
from compgen.run.staleness import in_words, stale_reasons
from compgen.run.workspace import is_running

STATE_DIRECTORY = ".make"
STAMP_TIME = 1_000_000_000.0
"""All stamps of results that stand carry this one time: equal times are up to date for Make."""


@dataclass(frozen=True)
class DagJob:
    """One line of the DAG."""

    name: str
    """`experiment/job`, which is also the directory below the run tree."""
    kind: str
    inputs: tuple[str, ...]
    overrides: tuple[str, ...]

    @property
    def experiment(self) -> str:
        """The part of the name before the slash."""
        return self.name.partition("/")[0]

    @property
    def overrides_with_kind(self) -> list[str]:
        """All that Hydra needs to compose the job's configuration."""
        return [f"job={self.kind}", *self.overrides]


@dataclass(frozen=True)
class JobState:
    """How a job stands."""

    job: DagJob
    state: str
    """done, stale, failed, running or missing."""
    reason: str
    seconds: float | None = None


@dataclass(frozen=True)
class Run:
    """A run tree and its DAG."""

    directory: Path
    jobs: tuple[DagJob, ...]
    values_of: Callable[[DagJob], Mapping[str, Any]] = field(compare=False)
    """Resolves a job's configuration to plain values."""

    def out(self, name: str) -> Path:
        """The finished directory of a job."""
        return self.directory / name

    def job(self, name: str) -> DagJob:
        """A job by name.

        Raises:
            UserError: there is none.
        """
        for job in self.jobs:
            if job.name == name:
                return job
        raise UserError(f"job {name}: not in the DAG of this run ({len(self.jobs)} jobs)")


def read_dag(path: Path) -> tuple[DagJob, ...]:
    """Parse the file that Make wrote: name, kind, inputs and overrides, separated by bars, one job a line.

    Raises:
        UserError: the file is missing, a name occurs twice, an input does not exist or comes later than its user.
    """
    if not path.is_file():
        raise UserError(f"{path}: no DAG there: start with `make plan`, which writes it")
    jobs: dict[str, DagJob] = {}
    for line in filter(None, (line.strip() for line in path.read_text(encoding="utf-8").splitlines())):
        name, kind, inputs, overrides = (part.strip() for part in line.split("|"))
        if name in jobs:
            raise UserError(f"pipelines: the job {name} is defined twice")
        jobs[name] = DagJob(name, kind, tuple(inputs.split()), tuple(shlex.split(overrides)))
    for job in jobs.values():
        for wanted in job.inputs:
            if wanted not in jobs:
                raise UserError(f"pipelines: the job {job.name} needs {wanted}, which is defined nowhere")
    return _inputs_first(jobs)


def _inputs_first(jobs: Mapping[str, DagJob]) -> tuple[DagJob, ...]:
    """The jobs in an order in which every job comes after its inputs.

    Raises:
        UserError: the jobs need each other in a circle.
    """
    ordered: dict[str, DagJob] = {}
    waiting = dict(jobs)
    while waiting:
        ready = [name for name, job in waiting.items() if all(wanted in ordered for wanted in job.inputs)]
        if not ready:
            raise UserError(f"pipelines: these jobs need each other in a circle: {', '.join(waiting)}")
        for name in ready:
            ordered[name] = waiting.pop(name)
    return tuple(ordered.values())


def examine(run: Run) -> list[JobState]:
    """How every job of a run stands, inputs before their users."""
    states: dict[str, JobState] = {}
    for job in run.jobs:
        upset = [name for name in job.inputs if states[name].state != "done"]
        states[job.name] = _examine(run, job, upset)
    return list(states.values())


def _examine(run: Run, job: DagJob, upset: Sequence[str]) -> JobState:
    paths = JobPaths(run.out(job.name))
    if is_running(paths):
        return JobState(job, "running", "a process is at work on it")
    finished = FinishedJob(paths.final) if (paths.final / MANIFEST).is_file() else None
    if finished is None:
        if paths.failure.is_file():
            return JobState(job, "failed", str(read_json(paths.failure)["error"]))
        resumable = "begun and can be resumed" if paths.resume.is_file() else "not run yet"
        return JobState(job, "missing", resumable)
    if not readable(finished):
        return JobState(job, "stale", f"damaged: {MANIFEST} cannot be read")
    seconds = float(finished.manifest["seconds"])
    inputs = {name: _content(path) for name, path in name_inputs([run.out(name) for name in job.inputs]).items()}
    reasons = stale_reasons(finished, job.kind, run.values_of(job), job_closure(job.kind), inputs)
    if reasons:
        return JobState(job, "stale", in_words(reasons), seconds)
    if upset:
        return JobState(job, "stale", in_words([f"input {name} runs first" for name in upset]), seconds)
    return JobState(job, "done", "", seconds)


def _content(directory: Path) -> str:
    if not (directory / MANIFEST).is_file():
        return "missing"
    job = FinishedJob(directory)
    return str(job.manifest["content"]) if readable(job) else "damaged"


def stamp(run: Run, name: str) -> Path:
    """The file whose presence tells Make that a job's result stands."""
    return run.directory / STATE_DIRECTORY / f"{name}.done"


def write_stamps(run: Run, states: Sequence[JobState]) -> None:
    """Give every result that stands its stamp, and take the stamp from the others."""
    for state in states:
        path = stamp(run, state.job.name)
        if state.state == "done":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            os.utime(path, (STAMP_TIME, STAMP_TIME))
        else:
            path.unlink(missing_ok=True)
