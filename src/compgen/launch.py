"""From a composed configuration to an executed job; shared by single runs, Hydra's launchers and the Makefile."""

import importlib.util
import shlex
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from compgen.config import ResolvedJob, resolve_job
from compgen.errors import UserError
from compgen.run.context import FinishedJob
from compgen.run.execute import JobOrder, execute, name_inputs

LAUNCHERS = {"submitit_local": "submitit", "submitit_slurm": "submitit", "ray": "ray", "ray_aws": "ray"}
"""Hydra launchers that come as optional extras, and the extra that brings each."""


def run_composed(root: DictConfig) -> str:
    """Run the job of a composed configuration; the task function of Hydra. Returns the finished directory."""
    resolved = resolve_job(root)
    return str(run_resolved(resolved, command=manual_command()).directory)


def run_resolved(resolved: ResolvedJob, command: str, replace_stale: bool = False) -> FinishedJob:
    """Run a checked job where its root configuration says."""
    root = resolved.root
    return execute(
        JobOrder(
            kind=resolved.kind,
            config=resolved.config,
            values=resolved.values,
            inputs=name_inputs([Path(text) for text in root.inputs]),
            out=Path(root.out) if root.out else None,
            run_name=root.run.name,
            run_directory=Path(root.run.directory),
            profile=root.profile.name,
            command=command,
            tracker=root.tracker,
            force=root.force,
            replace_stale=replace_stale,
        )
    )


def manual_command() -> str:
    """The command line that repeats the job that Hydra runs now; Hydra keeps its overrides in a global of its own."""
    from hydra.core.hydra_config import HydraConfig

    return command_line(list(HydraConfig.get().overrides.task))


def command_line(overrides: Sequence[str]) -> str:
    """A command line for some overrides, quoted for a shell."""
    return " ".join(["python -m compgen", *(shlex.quote(override) for override in overrides)])


def check_launcher(arguments: Sequence[str]) -> None:
    """Raise UserError when the chosen Hydra launcher is an optional extra that is not installed."""
    for argument in arguments:
        name, _, launcher = argument.partition("=")
        extra = LAUNCHERS.get(launcher)
        if name == "hydra/launcher" and extra:
            plugin = f"hydra_plugins.hydra_{extra}_launcher"
            if importlib.util.find_spec("hydra_plugins") is None or importlib.util.find_spec(plugin) is None:
                raise UserError(
                    f"hydra/launcher={launcher}: the launcher is not installed: "
                    f"pip install -c constraints.txt -e '.[{extra}]'"
                )
