"""A program that tries to break out of the sandbox it runs in, and says on standard output what was held back.

Started by `sandbox.failure` with the limit on processes as its argument; every attempt is harmless where it succeeds.
"""

import json
import os
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def main() -> None:
    """Try everything and print {attempt: whether it was held back}."""
    processes = int(sys.argv[1])
    held = {
        "writing outside the scratch directory": _refused(_write_outside),
        "a network connection": _refused(_connect),
        "capabilities": _no_capabilities(),
        "forks beyond the limit": _refused(lambda: _fork(processes)),
        "memory beyond the limit": _refused(_allocate),
        "other processes": _alone(),
    }
    with tempfile.TemporaryFile() as file:
        file.write(b"the scratch directory can be written to")
    with Path(os.devnull).open("r+b", buffering=0) as file:
        file.write(b"and so can this")
    print(json.dumps(held))


def _refused(attempt: Callable[[], object]) -> bool:
    try:
        attempt()
    except (OSError, MemoryError):
        return True
    return False


def _write_outside() -> None:
    """One place that may be written to is one too many."""
    for place in (Path(sys.prefix), Path(__file__).parent, Path("/"), Path("/usr"), Path("/dev")):
        with suppress(OSError):
            file = place / "compgen-probe"
            file.touch()
            file.unlink()
            return
    raise PermissionError


def _connect() -> None:
    """Binding the way to an address of a documentation network sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as connection:
        connection.connect(("192.0.2.1", 9))


def _no_capabilities() -> bool:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    sets = [line for line in lines if line.startswith("Cap")]
    return len(sets) >= 4 and all(int(line.split()[1], 16) == 0 for line in sets)


def _fork(processes: int) -> None:
    children = []
    try:
        for _ in range(processes + 1):
            child = os.fork()
            if child == 0:
                time.sleep(20)
                os._exit(0)
            children.append(child)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _allocate() -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        bytearray(limit)


def _alone() -> bool:
    """Processes of the machine are not to be seen: there are the sandbox's own few."""
    return sum(entry.name.isdigit() for entry in Path("/proc").iterdir()) <= 4


if __name__ == "__main__":
    main()
