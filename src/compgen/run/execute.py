"""The life of one job: check, lock, run or resume, record, rename, track."""

import importlib
import logging
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compgen.errors import UserError
from compgen.run.config import TrackerConfig
from compgen.run.console import Console, duration
from compgen.run.context import HISTORY, MANIFEST, METRICS, FinishedJob
from compgen.run.determinism import make_deterministic
from compgen.run.fingerprint import JOB_PACKAGE, canonical_json, job_closure
from compgen.run.manifest import (
    VERSION,
    artifacts_of,
    content_digest,
    damaged,
    environment,
    git_state,
    job_fingerprint,
    peak_memory_bytes,
    readable,
)
from compgen.run.paths import JobPaths, check_writable_path, project_root
from compgen.run.staleness import in_words, stale_reasons
from compgen.run.tracking import track
from compgen.run.workspace import (
    TorchCheckpoint,
    discard_scratch,
    finish,
    prepare_partial,
    write_json,
    writer_lock,
)


@dataclass(frozen=True)
class JobOrder:
    """One job to be done, fully checked."""

    kind: str
    config: Any
    """The kind's own dataclass."""
    values: Mapping[str, Any]
    """The same configuration as plain values."""
    inputs: Mapping[str, Path]
    """Finished directories by name, in order."""
    out: Path | None
    """The finished directory; None names it by the job's fingerprint."""
    run_name: str
    run_directory: Path
    profile: str
    command: str
    tracker: TrackerConfig
    force: bool = False
    replace_stale: bool = False


@dataclass(frozen=True)
class Identity:
    """What a job's result depends on."""

    code: Mapping[str, str]
    inputs: Mapping[str, str]
    fingerprint: str


def execute(order: JobOrder) -> FinishedJob:
    """Run a job unless its result is there already, and return the finished job.

    Raises:
        UserError: an input is missing or damaged, the place is taken or cannot be written to.
    """
    inputs = open_inputs(order.inputs)
    identity = identify(order, inputs)
    final = order.out or order.run_directory / order.kind / identity.fingerprint[:12]
    check_writable_path(final)
    paths = JobPaths(final.absolute())
    with writer_lock(paths):
        existing = _usable_result(order, identity, paths)
        job = existing or _run(order, identity, inputs, paths)
        track(job, order.tracker)
    return job


def name_inputs(directories: Sequence[Path]) -> dict[str, Path]:
    """Inputs by the names of their directories; of the form `parent/name` where two have the same name.

    Raises:
        UserError: two inputs cannot be told apart.
    """
    names = [directory.name for directory in directories]
    if len(set(names)) != len(names):
        names = [f"{directory.parent.name}/{directory.name}" for directory in directories]
    if len(set(names)) != len(names):
        raise UserError(f"inputs={names}: two inputs have the same name: rename one")
    return dict(zip(names, directories, strict=True))


def open_inputs(directories: Mapping[str, Path]) -> dict[str, FinishedJob]:
    """The finished jobs that a job reads.

    Raises:
        UserError: a directory is not finished.
    """
    inputs = {}
    for name, directory in directories.items():
        if not (directory / MANIFEST).is_file():
            raise UserError(f"inputs={directory}: not a finished job (no {MANIFEST}): run that job first")
        inputs[name] = FinishedJob(directory.absolute())
        if not readable(inputs[name]):
            raise UserError(f"inputs={directory}: {MANIFEST} is damaged: delete the directory and run that job again")
    return inputs


def identify(order: JobOrder, inputs: Mapping[str, FinishedJob]) -> Identity:
    """Digest the code and the inputs before anything is imported or run."""
    code = job_closure(order.kind)
    contents = {name: str(job.manifest["content"]) for name, job in inputs.items()}
    return Identity(code, contents, job_fingerprint(order.kind, order.values, code, contents))


def _usable_result(order: JobOrder, identity: Identity, paths: JobPaths) -> FinishedJob | None:
    """The finished job if it stands for the order; None if it may be made anew.

    Raises:
        UserError: a finished directory stands for something else and nobody allowed to replace it.
    """
    if not (paths.final / MANIFEST).is_file():
        _check_nothing_there(paths.final)
        return None
    if order.force:
        return None
    job = FinishedJob(paths.final)
    wanted = (order.kind, order.values, identity.code, identity.inputs)
    reasons = stale_reasons(job, *wanted) if readable(job) else [f"damaged: {MANIFEST} cannot be read"]
    if not reasons:
        print(f"{job.name}: up to date", flush=True)
        return job
    if order.replace_stale:
        return None
    raise UserError(
        f"out={paths.final}: holds a finished job with other values ({in_words(reasons)}): "
        "choose another out, or force=true to replace it"
    )


def _check_nothing_there(final: Path) -> None:
    """Raise UserError where a directory or file that is no finished job would be replaced."""
    if final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise UserError(f"out={final}: exists and is no finished job: choose another out, or remove it yourself")


def _run(order: JobOrder, identity: Identity, inputs: Mapping[str, FinishedJob], paths: JobPaths) -> FinishedJob:
    resumes = prepare_partial(paths, identity.fingerprint)
    console = Console(paths.final.name, paths.partial / "log.txt")
    started = time.monotonic()
    try:
        _check_inputs(inputs)
        console.say("resumes" if resumes else "starts")
        metrics = _call(order, inputs, paths, console)
        _write_metrics(paths.partial / METRICS, metrics)
        discard_scratch(paths)
        seconds = time.monotonic() - started
        finish(paths, _manifest(order, identity, paths, seconds, resumes))
    except Exception as error:
        _record_failure(paths, error)
        raise
    print(f"{paths.final.name}: done in {duration(seconds)}", flush=True)
    return FinishedJob(paths.final)


def _check_inputs(inputs: Mapping[str, FinishedJob]) -> None:
    for name, job in inputs.items():
        wrong = damaged(job)
        if wrong:
            raise UserError(f"inputs: {name} is damaged ({wrong}): delete {job.directory} and run it again")


def _call(order: JobOrder, inputs: Mapping[str, FinishedJob], paths: JobPaths, console: Console) -> Mapping[str, Any]:
    logging.captureWarnings(True)
    module = importlib.import_module(f"{JOB_PACKAGE}.{order.kind}")
    make_deterministic()
    context = RunningJob(paths.partial, inputs, TorchCheckpoint(paths), console)
    metrics: Mapping[str, Any] = module.run(order.config, context)
    return metrics


def _write_metrics(path: Path, metrics: Mapping[str, Any]) -> None:
    try:
        canonical_json(metrics)
    except ValueError as error:
        raise ValueError(f"the job returned a metric that is not finite ({error})") from error
    write_json(path, metrics)


def _manifest(order: JobOrder, identity: Identity, paths: JobPaths, seconds: float, resumed: bool) -> dict[str, Any]:
    artifacts = artifacts_of(paths.partial)
    return {
        "version": VERSION,
        "kind": order.kind,
        "experiment": order.kind.partition("_")[0],
        "run": order.run_name,
        "profile": order.profile,
        "command": order.command,
        "config": dict(order.values),
        "fingerprint": identity.fingerprint,
        "code": dict(identity.code),
        "inputs": dict(identity.inputs),
        "content": content_digest(artifacts),
        "artifacts": artifacts,
        "git": git_state(project_root()),
        "environment": environment(),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(seconds, 2),
        "resumed": resumed,
        "peak_memory_bytes": peak_memory_bytes(),
    }


def _record_failure(paths: JobPaths, error: Exception) -> None:
    """Leave the reason beside the unfinished work; a disk that takes nothing more must not hide the first error."""
    try:
        with (paths.partial / "log.txt").open("a", encoding="utf-8") as log:
            log.write("".join(traceback.format_exception(error)))
        write_json(paths.failure, {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"})
    except OSError as second:
        print(f"{paths.final.name}: the failure could not be recorded ({second})", file=sys.stderr)


class RunningJob:
    """The JobContext of a job in its partial directory."""

    def __init__(
        self,
        directory: Path,
        inputs: Mapping[str, FinishedJob],
        checkpoint: TorchCheckpoint,
        console: Console,
    ) -> None:
        """Collect what the job may see."""
        self.directory = directory
        self.inputs = inputs
        self.checkpoint = checkpoint
        self._console = console

    def log(self, values: Mapping[str, float | int]) -> None:
        """Append one row to the history.

        Raises:
            ValueError: a value is not finite, or a group lacks its step.
        """
        for group in {key.partition("/")[0] for key in values}:
            if f"{group}/step" not in values:
                raise ValueError(f"a logged row has metrics of group {group!r} but no {group}/step")
        with (self.directory / HISTORY).open("a", encoding="utf-8") as history:
            history.write(canonical_json(dict(values)) + "\n")

    def table(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Store a table of samples.

        Raises:
            ValueError: a row has another number of cells than there are columns.
        """
        if any(len(row) != len(columns) for row in rows):
            raise ValueError(f"table {name!r}: every row needs {len(columns)} cells")
        (self.directory / "tables").mkdir(exist_ok=True)
        write_json(
            self.directory / "tables" / f"{name}.json",
            {"columns": list(columns), "data": [list(row) for row in rows]},
        )

    def progress(self, done: int, total: int, note: str = "") -> None:
        """Tell how far the job is."""
        self._console.progress(done, total, note)
