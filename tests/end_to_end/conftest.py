"""One smoke run of the whole DAG, made by the same command that users type; the tests look at what it left."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from compgen.run.paths import project_root

Make = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Run make at smoke size into a directory of its own; `make.outputs` is not needed: see smoke_run."""
    outputs = tmp_path_factory.mktemp("outputs")

    def run(*arguments: str, check: bool = True, run: str = "smoke") -> "subprocess.CompletedProcess[str]":
        command = ["make", *arguments, "PROFILE=smoke", f"RUN={run}", f"OUTPUTS={outputs}"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "WANDB"))}
        finished = subprocess.run(command, cwd=project_root(), env=environment, capture_output=True, text=True)
        if check:
            assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished

    run.outputs = outputs  # type: ignore[attr-defined]
    return run


@pytest.fixture(scope="session")
def smoke_run(make: Make) -> Path:
    """The finished run tree."""
    make("reproduce-all", "-j2")
    outputs: Path = make.outputs  # type: ignore[attr-defined]
    return outputs / "smoke"
