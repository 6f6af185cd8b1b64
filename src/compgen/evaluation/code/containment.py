"""What holds a program that nobody trusts: command lines of bubblewrap and of util-linux, and the world they show it.

Covers what is visible inside, how it is put there, and limits on resources. Running and probing are in `sandbox.py`.
Does not bound the memory of all processes together: that is `processes` times `memory_bytes`. Free of torch.

Both containments show the same small world instead of hiding parts of a big one: an empty read-only root, into which
system libraries, the interpreter and this package are mounted read-only at their own places, and `/scratch`. Below a
home directory that only its owner can enter the interpreter is reachable all the same, and nothing else is.
"""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from compgen.evaluation.config import SandboxKind

SCRATCH = "/scratch"
SCRATCH_BYTES = 256 * 2**20
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
FIRST_USER, USERS = 61184, 4336
"""Numeric users that no account has (those of systemd's DynamicUser), so that a limit on processes counts ours only."""


@dataclass(frozen=True)
class Limits:
    """Beyond which a program is killed or refused."""

    seconds: float
    """Wall time of the whole run."""
    memory_bytes: int
    """Address space of each process."""
    processes: int
    """Processes and threads at one time."""
    output_bytes: int
    """Of standard output, of standard error, and of every file."""


def command(arguments: Sequence[str], kind: SandboxKind, limits: Limits, directory: Path) -> list[str]:
    """The whole command that runs Python with some arguments in a containment.

    Args:
        arguments: of the interpreter.
        kind: what holds it; not `auto`.
        limits: put on every process inside.
        directory: empty and ours; the root is built here, or it is the scratch directory of `unsafe`.
    """
    program = _limited([sys.executable, "-P", *arguments], limits, counted=kind is not SandboxKind.unsafe)
    match kind:
        case SandboxKind.bubblewrap:
            return _bubblewrap(program)
        case SandboxKind.unshare:
            return _unshare(program, directory)
        case _:
            return program


def environment(scratch: Path | None) -> dict[str, str]:
    """All environment variables of the program; `scratch` is None for the one inside a containment."""
    place = SCRATCH if scratch is None else str(scratch)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    libraries = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
        "HOME": place,
        "TMPDIR": place,
        "USER": "nobody",
        "XDG_CACHE_HOME": f"{place}/cache",
        "PYTHONPATH": str(_package().parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        **threads,
        **libraries,
    }


def visible() -> list[str]:
    """What exists inside, each at its own place: the least set of directories and files."""
    interpreter = {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix, str(Path(sys.executable).parent)}
    links = {str(path) for path in _links(Path(sys.executable))}
    wanted = {*SYSTEM, *SETTINGS, *interpreter, *links, str(_package())}
    present = sorted(path for path in wanted if path != "/" and Path(path).exists())
    return [path for path in present if not any(path.startswith(f"{other}/") for other in present)]


def _links(path: Path) -> list[Path]:
    """The directories of all symbolic links from a path to the file that it means."""
    found = []
    while path.is_symlink():
        path = Path(os.path.normpath(path.parent / path.readlink()))
        found.append(path.parent)
    return found


def _package() -> Path:
    return Path(__file__).resolve().parents[2]


def _limited(program: list[str], limits: Limits, counted: bool) -> list[str]:
    """Under `unsafe`, processes are not counted, for the user's others would be; without prlimit nothing is."""
    if which("prlimit") is None:
        return program
    processes = [f"--nproc={limits.processes}"] if counted else []
    sizes = [f"--as={limits.memory_bytes}", f"--fsize={limits.output_bytes}", "--core=0", "--nofile=256"]
    return ["prlimit", *sizes, *processes, "--", *program]


def _without_rights(program: list[str]) -> list[str]:
    """Another user where we are root, no capabilities in any set, and none to be had."""
    user = str(FIRST_USER + os.getpid() % USERS)
    identity = ["--reuid", user, "--regid", user, "--clear-groups"] if os.geteuid() == 0 else []
    return ["setpriv", *identity, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", "--", *program]


def _bubblewrap(program: list[str]) -> list[str]:
    """Root keeps what setpriv needs to become another user; setpriv drops it."""
    spaces = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    root = os.geteuid() == 0
    user = [] if root else ["--unshare-user"]
    kept = [part for name in ("SETUID", "SETGID", "SETPCAP") for part in ("--cap-add", f"CAP_{name}")] if root else []
    paths = visible()
    above = dict.fromkeys(str(parent) for path in (*paths, *DEVICES) for parent in reversed(Path(path).parents[:-1]))
    places = [part for path in above for part in ("--dir", path)]  # else they are for root alone
    mounts = [part for path in paths for part in ("--ro-bind", path, path)]
    devices = [part for path in DEVICES for part in ("--dev-bind", path, path)]
    scratch = ["--perms", "1777", "--size", str(SCRATCH_BYTES), "--tmpfs", SCRATCH, "--remount-ro", "/"]
    held = _without_rights(program) if root else program
    return [
        *(
            which("bwrap") or "bwrap",
            "--die-with-parent",
            "--new-session",
            *spaces,
            *user,
            *places,
            *mounts,
            *devices,
            "--proc",
            "/proc",
        ),
        *(*scratch, "--chdir", SCRATCH, "--cap-drop", "ALL", *kept, "--", *held),
    ]


SCRIPT = r"""
set -e
root=$1 bytes=$2 count=$3
shift 3
readonly_bind() {
    mount --bind "$1" "$2"
    mount -o remount,bind,ro,nosuid,nodev "$2" || mount -o remount,bind,ro,nosuid,nodev,noatime "$2"
}
place() {
    if [ -d "$1" ]; then mkdir -p "$root$1"; else mkdir -p "$root${1%/*}"; touch "$root$1"; fi
}
mount -t tmpfs -o mode=755,size=1m tmpfs "$root"
while [ "$count" -gt 0 ]; do place "$1"; readonly_bind "$1" "$root$1"; shift; count=$((count - 1)); done
while [ "$1" != -- ]; do place "$1"; mount --bind "$1" "$root$1"; shift; done
shift
mkdir "$root/proc" "$root/scratch"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t tmpfs -o "mode=1777,nosuid,nodev,size=$bytes" tmpfs "$root/scratch"
mount -o remount,bind,ro,nosuid,nodev "$root"
chroot "$root" "$@"
exit $?
"""
"""Builds the world and waits for the program in it. It stays the first process of its space, so that it reaps."""


def _unshare(program: list[str], directory: Path) -> list[str]:
    """The first setpriv ends everything when we die; unshare passes that on."""
    paths = visible()
    spaces = ["--mount", "--net", "--pid", "--ipc", "--uts", "--propagation", "private", "--fork", "--kill-child=KILL"]
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    inside = _without_rights(["/bin/sh", "-c", f'cd {SCRATCH} && exec "$@"', "sh", *program])
    return [
        *(
            which("setpriv") or "setpriv",
            "--pdeathsig",
            "KILL",
            "--",
            "unshare",
            *user,
            *spaces,
            "--",
            "/bin/sh",
            "-c",
            SCRIPT,
            "sh",
        ),
        *(str(directory), str(SCRATCH_BYTES), str(len(paths)), *paths, *DEVICES, "--", *inside),
    ]
