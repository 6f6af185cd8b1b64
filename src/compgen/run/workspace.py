"""The directory of a running job: lock, partial directory, resumable checkpoint, and the rename that finishes it.

A killed job leaves a `.partial` directory, which never looks finished. The lock belongs to the process and goes
with it.
"""

import json
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from compgen.errors import UserError
from compgen.run.context import HISTORY, MANIFEST, read_json
from compgen.run.paths import JobPaths

SECONDS_BETWEEN_CHECKPOINTS = float(os.environ.get("COMPGEN_CHECKPOINT_SECONDS", "30"))
MINIMUM_FREE_BYTES = 200_000_000


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically: readers see the old or the new content, never a part."""
    temporary = path.with_name(path.name + ".writing")
    temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)


@contextmanager
def writer_lock(paths: JobPaths) -> Iterator[None]:
    """Hold the right to write a job's directory.

    Raises:
        UserError: another process holds it, or the place cannot be written to.
    """
    try:
        paths.final.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(paths.lock, timeout=0)
        lock.acquire()
    except Timeout as error:
        raise UserError(
            f"out={paths.final}: {owner(paths)} is writing it: wait for it, or choose another RUN"
        ) from error
    except OSError as error:
        raise UserError(
            f"out={paths.final}: cannot be written ({error.strerror or error}): choose another RUN or out"
        ) from error
    try:
        yield
    finally:
        lock.release()


def is_running(paths: JobPaths) -> bool:
    """Whether a living process holds the job's lock."""
    if not paths.lock.exists():
        return False
    lock = FileLock(paths.lock, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def owner(paths: JobPaths) -> str:
    """Who works in the partial directory, for messages."""
    if paths.started.is_file():
        started = read_json(paths.started)
        return f"process {started['process']} on {started['host']}"
    return "another process"


def prepare_partial(paths: JobPaths, fingerprint: str) -> bool:
    """Open the partial directory; keep what is in it only if it is for the same fingerprint.

    Returns:
        Whether there is former work to resume.

    Raises:
        UserError: too little room on the disk.
    """
    free = shutil.disk_usage(paths.final.parent).free
    if free < MINIMUM_FREE_BYTES:
        raise UserError(
            f"out={paths.final}: {free // 1_000_000} MB are free on this disk and a job needs at least "
            f"{MINIMUM_FREE_BYTES // 1_000_000} MB: make room and run again; what is finished is kept"
        )
    resumes = paths.resume.is_file() and _started_for(paths) == fingerprint
    if not resumes and paths.partial.exists():
        shutil.rmtree(paths.partial)
    paths.partial.mkdir(exist_ok=True)
    paths.failure.unlink(missing_ok=True)
    write_json(
        paths.started,
        {
            "fingerprint": fingerprint,
            "process": os.getpid(),
            "host": os.uname().nodename,
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        },
    )
    return resumes


def _started_for(paths: JobPaths) -> str | None:
    try:
        return str(read_json(paths.started)["fingerprint"])
    except (OSError, ValueError, KeyError):
        return None


def finish(paths: JobPaths, manifest: Mapping[str, Any]) -> None:
    """Write the manifest, make the files read-only, and rename the directory into its final place."""
    write_json(paths.partial / MANIFEST, manifest)
    for path in paths.partial.rglob("*"):
        if path.is_file():
            path.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    shutil.rmtree(paths.replaced, ignore_errors=True)
    if paths.final.exists():
        paths.final.replace(paths.replaced)
    paths.partial.replace(paths.final)
    shutil.rmtree(paths.replaced, ignore_errors=True)


def discard_scratch(paths: JobPaths) -> None:
    """Remove what is only of use while the job runs."""
    for path in (paths.resume, paths.started, paths.failure):
        path.unlink(missing_ok=True)


class TorchCheckpoint:
    """The resumable state of one job, with the length of its history at that moment."""

    def __init__(self, paths: JobPaths) -> None:
        """Keep the state in the job's partial directory."""
        self._paths = paths
        self._saved_at = time.monotonic()
        self._started = False

    def due(self) -> bool:
        """Whether the last save (or the start) is long enough ago."""
        return time.monotonic() - self._saved_at >= SECONDS_BETWEEN_CHECKPOINTS

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the saved state atomically."""
        import torch  # here, because jobs without torch must not pay for its import

        temporary = self._paths.resume.with_suffix(".writing")
        torch.save({"state": dict(state), "history_bytes": self._history_bytes()}, temporary)
        temporary.replace(self._paths.resume)
        self._saved_at = time.monotonic()

    def load(self) -> dict[str, Any] | None:
        """The saved state, or None. The first call also cuts the history back to that moment, or clears it.

        Raises:
            UserError: the checkpoint cannot be read.
        """
        if not self._paths.resume.is_file():
            self._cut_history(0)
            return None
        import torch

        try:
            saved = torch.load(self._paths.resume, map_location="cpu", weights_only=True)
        except Exception as error:
            raise UserError(
                f"{self._paths.resume}: the checkpoint is damaged ({type(error).__name__}): "
                "delete this file to start the job afresh"
            ) from error
        self._cut_history(saved["history_bytes"])
        state: dict[str, Any] = saved["state"]
        return state

    def _history_bytes(self) -> int:
        history = self._paths.partial / HISTORY
        return history.stat().st_size if history.exists() else 0

    def _cut_history(self, length: int) -> None:
        history = self._paths.partial / HISTORY
        if history.exists() and not self._started:
            os.truncate(history, length)
        self._started = True
