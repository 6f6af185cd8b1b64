"""Programs that try to get out of the sandbox stay in it, and a normal one works."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from compgen.errors import UserError
from compgen.evaluation.code import sandbox
from compgen.evaluation.code.containment import Limits
from compgen.evaluation.code.sandbox import Finished, choose, failure, run
from compgen.evaluation.config import SandboxKind

LIMITS = Limits(seconds=20.0, memory_bytes=2**29, processes=12, output_bytes=2**16)
HOLDING = [kind for kind in (SandboxKind.bubblewrap, SandboxKind.unshare) if failure(kind) is None]
NONE_HOLDS = pytest.param(None, marks=pytest.mark.skip(reason="no containment holds on this machine"))


@pytest.fixture(params=HOLDING or [NONE_HOLDS])
def inside(request: pytest.FixtureRequest) -> Callable[..., Finished]:
    """Runs source code in a containment that holds."""

    def execute(source: str, limits: Limits = LIMITS, data: str = "") -> Finished:
        return run(["-c", source], request.param, limits, data)

    return execute


def test_a_normal_program_reads_computes_and_answers(inside):
    finished = inside("import sys, json; print(sum(json.load(sys.stdin)))", data="[1, 2, 3]")
    assert (finished.returncode, finished.output, finished.errors) == (0, "6\n", "")


def test_devices_are_there(inside):
    source = "open('/dev/null', 'r+b', buffering=0).write(b'x'); print(len(open('/dev/urandom', 'rb').read(8)))"
    assert inside(source).output == "8\n"


def test_the_packages_of_this_environment_can_be_imported(inside):
    assert inside("import numpy, compgen; print(numpy.arange(4).sum())", LIMITS).output == "6\n"


def test_nothing_can_be_written_but_in_the_scratch_directory(inside, tmp_path):
    places = [str(tmp_path), str(Path.home()), "/", "/usr", "/tmp", "/dev", sys.prefix, str(Path(__file__).parent)]
    source = (
        "import os, pathlib\n"
        f"for place in {places!r}:\n"
        "    try:\n"
        "        os.makedirs(place, exist_ok=True)\n"
        "        pathlib.Path(place, 'escaped').write_text('x')\n"
        "        print('wrote', place)\n"
        "    except OSError: pass\n"
        "pathlib.Path('here').write_text('x'); print(os.getcwd(), os.listdir())\n"
    )
    assert inside(source).output == "/scratch ['here']\n"
    assert not (tmp_path / "escaped").exists()
    assert not (Path.home() / "escaped").exists()


def test_scratch_is_empty_at_every_start_and_bounded(inside):
    assert inside("open('left', 'w').close()").returncode == 0
    many = Limits(20.0, 2**29, 12, 2**40)
    source = (
        "import os\nprint(os.listdir())\n"
        "try:\n    [open(str(n), 'wb').write(bytes(2**26)) for n in range(8)]\nexcept OSError as e: print(e.strerror)\n"
    )
    assert inside(source, many).output == "[]\nNo space left on device\n"


def test_files_and_variables_of_the_user_are_not_there(inside, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("token")
    monkeypatch.setenv("SECRET_TOKEN", "token")
    source = f"import os; print(os.path.exists({str(tmp_path / 'secret')!r}), 'SECRET_TOKEN' in os.environ)"
    assert inside(source).output == "False False\n"


def test_no_connection_to_this_machine_or_another(inside):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = (
            "import socket\n"
            f"for address in (('127.0.0.1', {port}), ('192.0.2.1', 80)):\n"
            "    try: socket.create_connection(address, timeout=2); print('connected')\n"
            "    except OSError: print('refused')\n"
        )
        assert inside(source).output == "refused\nrefused\n"


def test_no_capabilities_and_none_to_be_had(inside):
    source = "print([line for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNewPrivs'))])"
    output = inside(source).output
    assert output.count("0000000000000000") == 5
    assert "NoNewPrivs:\\t1" in output


def test_a_fork_bomb_ends_at_the_limit_on_processes(inside):
    source = (
        "import os, time\ncount = 0\n"
        "try:\n"
        "    while count < 200:\n"
        "        if os.fork() == 0: time.sleep(30); os._exit(0)\n"
        "        count += 1\n"
        "except OSError: print(count)\n"
    )
    start = time.monotonic()
    assert int(inside(source).output) < LIMITS.processes
    assert time.monotonic() - start < 5


def test_too_much_memory_is_refused(inside):
    finished = inside("bytearray(2**30)")
    assert finished.returncode == 1
    assert finished.reason.endswith("MemoryError")


def test_endless_output_is_cut(inside):
    finished = inside("while True: print('x' * 1000)")
    assert finished.overflowed
    assert len(finished.output) == LIMITS.output_bytes


def test_an_endless_program_is_killed_with_all_that_it_started(inside):
    limits = Limits(1.0, LIMITS.memory_bytes, LIMITS.processes, LIMITS.output_bytes)
    start = time.monotonic()
    finished = inside(_with_child("62.31") + "while True: pass", limits)
    assert finished.timed_out
    assert time.monotonic() - start < 5
    assert _until(lambda: not _running("62.31"))


def test_what_a_program_started_ends_with_it(inside):
    assert inside(_with_child("62.32")).returncode == 0
    assert _until(lambda: not _running("62.32"))


@pytest.mark.parametrize("kind", HOLDING)
def test_a_program_does_not_outlive_us(kind):
    source = _with_child("62.33") + "time.sleep(60)"
    program = (
        "from compgen.evaluation.code.sandbox import *\nfrom compgen.evaluation.code.containment import Limits\n"
        f"run(['-c', {source!r}], SandboxKind.{kind.value}, Limits(60.0, 2**29, 12, 2**16))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    assert _until(lambda: _running("62.33"))
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    assert _until(lambda: not _running("62.33"))


def _with_child(seconds: str) -> str:
    """A program that leaves a child of its own session behind."""
    return (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        f"    os.execvp('sleep', ['sleep', '{seconds}'])\n"
        "time.sleep(0.2)\n"
    )


def _running(argument: str) -> bool:
    """Whether a process of the machine sleeps for so long."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cmdline").read_bytes() == f"sleep\0{argument}\0".encode():
                return True
        except OSError:
            continue
    return False


def _until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_unsafe_has_limits_and_a_clean_environment_and_no_more(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "token")
    finished = run(["-c", "import os; print('SECRET_TOKEN' in os.environ)"], SandboxKind.unsafe, LIMITS)
    assert finished.output == "False\n"
    assert run(["-c", "bytearray(2**30)"], SandboxKind.unsafe, LIMITS).reason.endswith("MemoryError")
    limits = Limits(0.5, LIMITS.memory_bytes, LIMITS.processes, LIMITS.output_bytes)
    assert run(["-c", "while True: pass"], SandboxKind.unsafe, limits).timed_out


def test_without_a_containment_that_holds_only_unsafe_is_accepted(monkeypatch):
    monkeypatch.setattr(sandbox, "failure", lambda kind: f"{kind.value}: not here")
    with pytest.raises(UserError, match="bubblewrap: not here; unshare: not here.*sandbox=unsafe"):
        choose(SandboxKind.auto)
    with pytest.raises(UserError, match="sandbox=unshare"):
        choose(SandboxKind.unshare)
    assert choose(SandboxKind.unsafe) is SandboxKind.unsafe


def test_a_containment_that_lets_something_through_does_not_hold(monkeypatch):
    monkeypatch.setattr(sandbox, "command", lambda arguments, *_: [sys.executable, *arguments])
    failure.cache_clear()
    try:
        found = failure(SandboxKind.unshare)
    finally:
        failure.cache_clear()
    assert found is not None
    assert "memory beyond the limit" in found


def test_a_missing_tool_is_named(monkeypatch):
    monkeypatch.setattr(sandbox, "command", lambda *_: ["/nowhere/tool"])
    failure.cache_clear()
    try:
        assert failure(SandboxKind.unshare) == "unshare: /nowhere/tool is not installed"
    finally:
        failure.cache_clear()
