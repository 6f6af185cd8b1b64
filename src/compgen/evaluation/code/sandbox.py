"""Running a Python program that nobody trusts: which containment holds on this machine, and one run inside it.

Covers the choice, the probe behind it, and the limits on time and output. What a containment is made of is in
`containment.py`, what the probe tries is in `probe.py`. Does not judge what a program says. Free of torch.
"""

import functools
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from compgen.errors import UserError
from compgen.evaluation.code.containment import Limits, command, environment
from compgen.evaluation.config import SandboxKind

PROBE = "compgen.evaluation.code.probe"
PROBE_LIMITS = Limits(seconds=30.0, memory_bytes=2**30, processes=16, output_bytes=2**16)
PREFERENCE = (SandboxKind.bubblewrap, SandboxKind.unshare)


@dataclass(frozen=True)
class Finished:
    """How a program ended."""

    returncode: int
    """Negative for the signal that ended the outermost process."""
    output: str
    """Standard output."""
    errors: str
    """Standard error."""
    timed_out: bool
    """It was killed at the limit on time."""
    overflowed: bool
    """It wrote as much output as it may."""

    @property
    def reason(self) -> str:
        """Why it ended, in one line."""
        if self.timed_out:
            return "it ran into the limit on time"
        if self.overflowed:
            return "it ran into the limit on output"
        lines = self.errors.strip().splitlines()
        return f"exit status {self.returncode}{': ' + lines[-1][:300] if lines else ''}"


def choose(kind: SandboxKind) -> SandboxKind:
    """The containment to use: the one asked for, or for `auto` the first of bubblewrap and unshare that holds.

    Raises:
        UserError: none holds on this machine, and `unsafe` was not asked for.
    """
    if kind is SandboxKind.unsafe:
        return kind
    failures = []
    for candidate in PREFERENCE if kind is SandboxKind.auto else (kind,):
        found = failure(candidate)
        if found is None:
            return candidate
        failures.append(found)
    raise UserError(
        f"sandbox={kind.value}: nothing here can hold programs that a model wrote ({'; '.join(failures)}); "
        "install bubblewrap, or set sandbox=unsafe to run them with your own rights"
    )


@functools.cache
def failure(kind: SandboxKind) -> str | None:
    """Why a containment does not hold on this machine; None where it does.

    Found by running a program in it that tries to write, to connect, to fork and to allocate more than it may.
    """
    try:
        finished = run(["-m", PROBE, str(PROBE_LIMITS.processes)], kind, PROBE_LIMITS)
    except FileNotFoundError as error:
        return f"{kind.value}: {error.filename} is not installed"
    if finished.returncode != 0:
        return f"{kind.value}: {finished.reason}"
    broken = [name for name, held in json.loads(finished.output).items() if not held]
    return f"{kind.value}: does not hold back {', '.join(broken)}" if broken else None


def run(arguments: Sequence[str], kind: SandboxKind, limits: Limits, data: str = "") -> Finished:
    """Run Python with some arguments in a containment and wait for its end, which ends all that it started.

    Args:
        arguments: of the interpreter, for example `["-m", "package.module"]`.
        kind: what holds it; not `auto`.
        limits: beyond which it is killed, or its own requests fail.
        data: what it reads on standard input.

    Raises:
        FileNotFoundError: a tool that the containment needs is missing.
    """
    assert kind is not SandboxKind.auto, "choose() says which containment holds here"
    with (
        tempfile.TemporaryDirectory(prefix="compgen-sandbox-") as directory,
        tempfile.TemporaryFile() as source,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
    ):
        source.write(data.encode("utf-8"))
        source.seek(0)
        process = subprocess.Popen(
            command(arguments, kind, limits, Path(directory)),
            stdin=source,
            stdout=output,
            stderr=errors,
            cwd=directory,
            env=environment(Path(directory) if kind is SandboxKind.unsafe else None),
            start_new_session=True,
        )
        timed_out = _wait(process, limits.seconds)
        written = [_content(file, limits) for file in (output, errors)]
        overflowed = any(len(content) >= limits.output_bytes for content in written)
        texts = [content.decode("utf-8", errors="replace") for content in written]
        return Finished(process.returncode, texts[0], texts[1], timed_out, overflowed)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end, and see to it; whether it came by the limit on time."""
    try:
        process.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        return True
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _content(file: IO[bytes], limits: Limits) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return file.read(min(size, limits.output_bytes))
