"""Weights & Biases: every finished job becomes one run there, made from the job's own files.

The local files are the truth and W&B is a projection of them, made when a job is complete: a killed attempt
leaves no half run, a resumed one no gap, and what was logged can be counted against what was stored. Offline
unless WANDB_MODE says otherwise; `sync` sends a run tree later, in order, once.
"""

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast, get_args

from compgen.errors import UserError
from compgen.run.config import TrackerConfig
from compgen.run.context import FinishedJob, read_json
from compgen.run.paths import JobPaths
from compgen.run.staleness import flatten
from compgen.run.workspace import write_json

Mode = Literal["online", "offline", "disabled"]
ONLINE: Mode = "online"
OFFLINE: Mode = "offline"
DISABLED: Mode = "disabled"
PAPERS = {
    "theory": "logit-composition",
    "charsub": "logit-composition",
    "composition": "logit-composition",
    "copying": "induction-heads",
    "heads": "induction-heads",
}
CHECKPOINT_SUFFIXES = (".safetensors",)


def mode() -> Mode:
    """The W&B mode of this process; offline when WANDB_MODE is unset, so that nobody is asked for an account.

    Raises:
        UserError: WANDB_MODE has another value.
    """
    value = os.environ.get("WANDB_MODE") or OFFLINE
    if value not in get_args(Mode):
        raise UserError(f"WANDB_MODE={value}: choose {ONLINE}, {OFFLINE} or {DISABLED}")
    return cast(Mode, value)


def track(job: FinishedJob, tracker: TrackerConfig, wanted_mode: Mode | None = None) -> None:
    """Write a finished job to W&B, unless it is there already in the same mode."""
    chosen = wanted_mode or mode()
    if not tracker.enabled or chosen == DISABLED:
        return
    place = JobPaths(job.directory).tracking
    if tracked_mode(job) in (chosen, ONLINE):
        return
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    with _environment(place):
        identifier = _send(job, tracker, chosen, place)
    write_json(place / "tracked.json", {"mode": chosen, "id": identifier, "content": job.manifest["content"]})


def tracked_mode(job: FinishedJob) -> str | None:
    """The mode in which this very result was written to W&B; None if it was not."""
    marker = JobPaths(job.directory).tracking / "tracked.json"
    if not marker.is_file():
        return None
    stored = read_json(marker)
    same = stored["content"] == job.manifest["content"] and stored["id"] == _identifier(job)
    return str(stored["mode"]) if same else None


@contextmanager
def _environment(place: Path) -> Iterator[None]:
    """Keep every file of W&B below the run tree and its console output quiet."""
    wanted = {
        "WANDB_DIR": str(place),
        "WANDB_DATA_DIR": str(place / "data"),
        "WANDB_CACHE_DIR": str(place / "cache"),
        "WANDB_CONFIG_DIR": str(place / "config"),
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _identifier(job: FinishedJob) -> str:
    """The same result of the same attempt has the same id, so that it cannot be uploaded twice."""
    return str(job.manifest["fingerprint"])[:16] + str(job.manifest["content"])[:8]


def _send(job: FinishedJob, tracker: TrackerConfig, chosen: Mode, place: Path) -> str:
    import wandb  # here, because its import costs a second that planning must not pay

    run = wandb.init(
        project=tracker.project,
        entity=tracker.entity,
        id=_identifier(job),
        name=f"{job.manifest['run']}/{job.manifest['experiment']}/{job.name}",
        group=job.manifest["experiment"],
        job_type=job.kind,
        tags=_tags(job),
        config=_config(job),
        mode=chosen,
        dir=str(place),
        settings=wandb.Settings(
            console="off",
            x_disable_stats=True,
            x_disable_meta=True,
            save_code=False,
            disable_git=True,
            silent=True,
        ),
    )
    try:
        _send_history(run, job)
        _send_tables(run, job)
        run.summary.update(final_scalars(job.metrics))
        _send_artifacts(run, job)
    finally:
        run.finish()
    return _identifier(job)


def _tags(job: FinishedJob) -> list[str]:
    experiment = str(job.manifest["experiment"])
    protocols = [str(value) for key, value in flatten(job.config).items() if key.split(".")[-1] == "protocol"]
    return [PAPERS.get(experiment, experiment), f"profile-{job.manifest['profile']}", *protocols]


def _config(job: FinishedJob) -> dict[str, Any]:
    return {
        "job": job.config,
        "kind": job.kind,
        "profile": job.manifest["profile"],
        "fingerprint": job.manifest["fingerprint"],
        "content": job.manifest["content"],
        "command": job.manifest["command"],
    }


def _send_history(run: Any, job: FinishedJob) -> None:
    """Replay the local rows; every group of metrics has its own step, so no row can be dropped as out of order."""
    rows = job.history()
    for group in sorted({key.split("/")[0] for row in rows for key in row}):
        run.define_metric(f"{group}/step")
        run.define_metric(f"{group}/*", step_metric=f"{group}/step")
    for row in rows:
        run.log(row)


def _send_tables(run: Any, job: FinishedJob) -> None:
    import wandb

    for path in sorted((job.directory / "tables").glob("*.json")):
        stored = read_json(path)
        rows = [
            [cell if isinstance(cell, int | float | bool | None) else str(cell) for cell in row]
            for row in stored["data"]
        ]
        run.log({f"tables/{path.stem}": wandb.Table(columns=stored["columns"], data=rows, allow_mixed_types=True)})


def _send_artifacts(run: Any, job: FinishedJob) -> None:
    """Checkpoints and results as two artifacts that refer to the finished, immutable files."""
    import wandb

    for purpose in ("checkpoint", "result"):
        names = [
            name
            for name in job.manifest["artifacts"]
            if name.endswith(CHECKPOINT_SUFFIXES) == (purpose == "checkpoint")
        ]
        if not names:
            continue
        artifact = wandb.Artifact(
            f"{job.manifest['experiment']}-{job.name}-{purpose}",
            type=purpose,
            metadata={"content": job.manifest["content"]},
        )
        for name in names:
            artifact.add_file(str(job.directory / name), name=name, policy="immutable", skip_cache=True)
        if purpose == "result":
            artifact.add_file(
                str(job.directory / "manifest.json"),
                name="manifest.json",
                policy="immutable",
                skip_cache=True,
            )
        run.log_artifact(artifact)


def final_scalars(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a metrics file under dotted names; measurements by their id, with both ends of the interval."""
    scalars: dict[str, float] = {}
    for key, value in flatten(metrics).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        scalars[key.removeprefix("measurements.").removesuffix(".value")] = value
    return scalars
