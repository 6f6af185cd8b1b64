"""The commands beside running one job: plan, status, dag, make, report and sync on a run tree, and compose."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compgen.config_cache import ConfigCache
from compgen.errors import UserError
from compgen.run.context import MANIFEST, FinishedJob
from compgen.run.dag import STATE_DIRECTORY, DagJob, JobState, Run, examine, read_dag, write_stamps
from compgen.run.fingerprint import file_digest, mapping_digest
from compgen.run.paths import project_root

DAG_FILE = "dag.txt"


def open_run(directory: str) -> Run:
    """The run tree in a directory, with the DAG that Make wrote there."""
    path = Path(directory)
    cache = ConfigCache(path / STATE_DIRECTORY / "configs.json")
    jobs = read_dag(path / STATE_DIRECTORY / DAG_FILE)

    def values_of(job: DagJob) -> Mapping[str, Any]:
        return cache.values(job.overrides_with_kind)

    run = Run(path, jobs, values_of)
    for job in jobs:
        values_of(job)
    cache.save()
    return run


def plan(directory: str, stamps: str = "") -> None:
    """Print what would run and why; with `--stamps` also tell Make which results stand."""
    run = open_run(directory)
    states = examine(run)
    if stamps == "--stamps":
        write_stamps(run, states)
    waiting = [state for state in states if state.state != "done"]
    for state in waiting:
        print(f"{state.job.name}: {state.state}: {state.reason}")
    done = len(states) - len(waiting)
    print(
        f"{directory}: {len(waiting)} of {len(states)} jobs would run, {done} stand"
        if waiting
        else f"{directory}: all {done} jobs are up to date"
    )


def status(directory: str) -> None:
    """Print how every job stands and how long it took."""
    from compgen.run.console import duration

    states = examine(open_run(directory))
    width = max(len(state.job.name) for state in states)
    for state in states:
        took = duration(state.seconds) if state.seconds is not None else "-"
        print(f"{state.job.name:<{width}}  {state.state:<8} {took:>7}  {state.reason}".rstrip())
    print(
        ", ".join(
            f"{sum(s.state == word for s in states)} {word}"
            for word in ("done", "stale", "failed", "running", "missing")
        )
    )


def dag(directory: str) -> None:
    """Write the picture of the DAG and its Mermaid text into the run tree."""
    from compgen.report.dag import DagNode, draw_dag, mermaid

    run = open_run(directory)
    nodes = [DagNode(s.job.name, s.job.kind, s.job.inputs, s.state) for s in examine(run)]
    draw_dag(nodes, run.directory / "dag.svg")
    (run.directory / "dag.mmd").write_text(mermaid(nodes), encoding="utf-8")
    print(f"{run.directory}/dag.svg and {run.directory}/dag.mmd")


def make(directory: str, name: str) -> None:
    """Run one job of the DAG, unless its result stands."""
    from compgen.config import compose_root, resolve_job
    from compgen.launch import command_line, run_resolved

    run = Run(Path(directory), read_dag(Path(directory) / STATE_DIRECTORY / DAG_FILE), lambda _: {})
    job = run.job(name)
    overrides = [
        *job.overrides_with_kind,
        *_place(run, run.out(name)),
        f"inputs=[{','.join(_inputs(run, job))}]",
    ]
    run_resolved(resolve_job(compose_root(overrides)), command_line(overrides), replace_stale=True)


def _inputs(run: Run, job: DagJob) -> list[str]:
    return [_quoted(run.out(name)) for name in job.inputs]


def _place(run: Run, out: Path) -> list[str]:
    return [
        f"run.name={run.directory.name}",
        f"run.directory={_quoted(run.directory)}",
        f"out={_quoted(out)}",
    ]


def _quoted(path: Path) -> str:
    """A path as a Hydra value: quoted, since commas, equals signs and the like would be read as grammar."""
    text = str(path)
    return (
        text
        if all(letter.isalnum() or letter in "/._-" for letter in text) and text.isascii()
        else "'" + text.replace("'", "\\'") + "'"
    )


def report(directory: str) -> None:
    """Write the report of a run tree from the results that stand."""
    from compgen.config import compose_root, resolve_job
    from compgen.launch import command_line, run_resolved

    run = open_run(directory)
    states = examine(run)
    overrides = _report_overrides(run, states)
    job = run_resolved(resolve_job(compose_root(overrides)), command_line(overrides), replace_stale=True)
    print(f"report: {job.directory}/index.html")


def _report_overrides(run: Run, states: Sequence[JobState]) -> list[str]:
    done = [_quoted(run.out(state.job.name)) for state in states if state.state == "done"]
    reference = project_root() / "data" / "reference"
    profile = next((o for job in run.jobs for o in job.overrides if o.startswith("profile=")), "profile=laptop")
    return [
        "job=report",
        profile,
        *_place(run, run.directory / "report"),
        f"reference.digest={evidence_digest(reference, states)}",
        f"inputs=[{','.join(done)}]",
    ]


def evidence_digest(directory: Path, states: Sequence[JobState]) -> str:
    """One digest for all claims and for how every job stands, which the report tells."""
    claims = {path.name: file_digest(path) for path in sorted(directory.glob("*.yaml"))}
    return mapping_digest({**claims, **{state.job.name: f"{state.state}: {state.reason}" for state in states}})


def sync(directory: str) -> None:
    """Send every finished job of a run tree to W&B, inputs before their users; those already sent stay alone."""
    from compgen.run.config import TrackerConfig
    from compgen.run.tracking import ONLINE, track, tracked_mode

    if not os.environ.get("WANDB_API_KEY"):
        raise UserError("WANDB_API_KEY is not set: `make sync` needs the key of a W&B account")
    run = open_run(directory)
    tracker = TrackerConfig(entity=os.environ.get("WANDB_ENTITY"))
    for state in examine(run):
        path = run.out(state.job.name)
        if not (path / MANIFEST).is_file():
            print(f"{state.job.name}: {state.state}, nothing to send")
            continue
        job = FinishedJob(path.absolute())
        already = tracked_mode(job) == ONLINE
        if not already:
            track(job, tracker, ONLINE)
        print(f"{state.job.name}: {'sent before' if already else 'sent'}")


def compose(out: str, base: str, *experts: str) -> None:
    """Write a directory that holds a base and its experts as one model.

    Raises:
        UserError: the directory is there already, or the models do not fit together.
    """
    from compgen.composition.causal_lm import ComposedForCausalLM

    directory = Path(out)
    if directory.exists():
        raise UserError(f"{out}: is there already: choose another directory")
    ComposedForCausalLM.compose(base, experts).save_pretrained(directory)
    print(f"composed model: {directory}; try: compgen tool lm-eval run --model hf --model_args pretrained={directory}")
