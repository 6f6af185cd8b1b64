"""The command line: one job by Hydra, and the few commands that look at a whole run tree.

Imports are local to the commands, so that help and errors come at once.
"""

import inspect
import os
import sys
from collections.abc import Callable, Sequence

from compgen.errors import UserError

USAGE = """compgen: compositional generalization, replicated

  compgen job=KIND [key=value ...]      run one job into outputs/manual/KIND/<hash of its content>
  compgen -m job=KIND seed=0,1,2 ...    several jobs (Hydra multirun; hydra/launcher=joblib|submitit_slurm|ray)
  compgen plan RUN_DIRECTORY            what would run and why
  compgen status RUN_DIRECTORY          how every job stands
  compgen dag RUN_DIRECTORY             picture of the DAG (dag.svg) and Mermaid text (dag.mmd)
  compgen make RUN_DIRECTORY JOB        run one job of the DAG (used by the Makefile)
  compgen report RUN_DIRECTORY          write the report from what is finished
  compgen sync RUN_DIRECTORY            send the run tree to W&B, in order, once (needs WANDB_API_KEY)
  compgen compose OUT BASE EXPERT ...   write a composed model that transformers, lm-eval and evalplus can load
  compgen tool lm-eval|evalplus.* ...   another package's command line, with composed models known to it
  compgen --hydra-help                  Hydra's own help

Kinds of job: {kinds}
Values: conf/; every experiment: `make help` in the checkout.
"""


def main() -> None:
    """Run the command line and leave with 0 (done), 1 (defect) or 2 (the user can mend it)."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(USAGE.format(kinds=", ".join(_kinds())))
        return
    try:
        _dispatch(arguments)
    except UserError as error:
        _leave(error)
    except OSError as error:
        place = error.filename or "a file"
        _leave(UserError(f"{place}: {error.strerror or error}: mend it and run again; what is finished is kept"))


def _kinds() -> list[str]:
    from compgen.run.paths import project_root

    return sorted(path.stem for path in (project_root() / "conf" / "job").glob("*.yaml"))


def _dispatch(arguments: Sequence[str]) -> None:
    from compgen import commands

    known: dict[str, Callable[..., None]] = {
        "plan": commands.plan,
        "status": commands.status,
        "dag": commands.dag,
        "make": commands.make,
        "report": commands.report,
        "sync": commands.sync,
        "compose": commands.compose,
    }
    if arguments[0] == "tool":
        from compgen.composition.tools import run_tool

        run_tool(arguments[1:])
    elif arguments[0] in known:
        command = known[arguments[0]]
        try:
            inspect.signature(command).bind(*arguments[1:])
        except TypeError as error:
            raise UserError(f"compgen {' '.join(arguments)}: {error}; see compgen --help") from error
        command(*arguments[1:])
    else:
        _run_jobs(arguments)


def _run_jobs(arguments: Sequence[str]) -> None:
    from compgen.config import compose_root, resolve_job
    from compgen.launch import command_line, run_resolved

    if any(argument.startswith("-") for argument in arguments):
        _run_hydra(arguments)
    else:
        run_resolved(resolve_job(compose_root(arguments)), command_line(arguments))


def _run_hydra(arguments: Sequence[str]) -> None:
    """Multirun, launchers and Hydra's own flags."""
    import hydra

    from compgen.config import as_user_error, configuration_directory, register_schema
    from compgen.launch import check_launcher, run_composed

    check_launcher(arguments)
    register_schema()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come here instead of being printed over many lines
    entry = hydra.main(version_base="1.3", config_path=str(configuration_directory()), config_name="config")
    try:
        entry(run_composed)()
    except Exception as error:
        mendable = as_user_error(error)
        if mendable is None:
            raise
        raise mendable from error


def _leave(error: UserError) -> None:
    print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    main()
