"""Every model of one seed: which there are, how one comes from another, and where they are stored.

Four stages follow each other: models from a random start, experts fine-tuned from the base among them, a hasty base
whose answers sometimes stop early, and hasty experts fine-tuned from that one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from compgen.charsub.autoregressive.generation import Arm, Component, Library, generate, transformer
from compgen.charsub.autoregressive.model import initialize
from compgen.charsub.autoregressive.scoring import score
from compgen.charsub.autoregressive.sequences import VOCABULARY, draw_strings, index_count, with_end
from compgen.charsub.autoregressive.tasks import BASE, FINETUNED_TASKS, HASTY_TASKS, SCRATCH_TASKS, name_of
from compgen.charsub.autoregressive.training import StackTrainer
from compgen.charsub.autoregressive_config import AutoregressiveTrainConfig
from compgen.charsub.model import Parameters, concatenate, load, repeat, save, select
from compgen.charsub.rules import IDENTITY, Rule
from compgen.randomness import torch_stream
from compgen.run.context import JobContext


class Regime(StrEnum):
    """Where a base and its experts come from."""

    scratch = "scratch"
    """Base and experts each from a random start of its own, as in the authors' code."""
    finetuned = "finetuned"
    """Experts fine-tuned from the base."""
    hasty = "hasty"
    """Experts fine-tuned from a base; all share a small chance to stop after every symbol, the experts a larger one."""


@dataclass(frozen=True)
class Stage:
    """One stack that is trained at once."""

    name: str
    tasks: tuple[Rule, ...]
    parent: str | None
    """The stage whose first model every model of this one starts from; None is a random start."""


STAGES = (
    Stage("scratch", SCRATCH_TASKS, None),
    Stage("finetuned", FINETUNED_TASKS, "scratch"),
    Stage("hasty-base", (IDENTITY,), "scratch"),
    Stage("hasty", HASTY_TASKS, "hasty-base"),
)
PARENTS = {Regime.scratch: "scratch", Regime.finetuned: "scratch", Regime.hasty: "hasty-base"}


def train_all(config: AutoregressiveTrainConfig, context: JobContext) -> dict[str, Parameters]:
    """Train every stage, or continue where a killed job stopped; the weights by stage."""
    state = context.checkpoint.load() or {"finished": {}, "trainer": None}
    finished: dict[str, Parameters] = dict(state["finished"])
    for stage in STAGES[len(finished) :]:
        trainer = _trainer(stage, finished, config)
        if state["trainer"] is not None:
            trainer.restore(state["trainer"])
        _run_stage(stage, trainer, finished, config, context)
        finished[stage.name] = trainer.weights()
        state["trainer"] = None
    return finished


def _run_stage(
    stage: Stage,
    trainer: StackTrainer,
    finished: dict[str, Parameters],
    config: AutoregressiveTrainConfig,
    context: JobContext,
) -> None:
    total = trainer.schedule.steps
    while trainer.step < total:
        losses = trainer.advance()
        if trainer.step % config.train.report_every == 0 or trainer.step == total:
            mean, worst = float(losses.mean()), float(losses.max())
            row = {"step": trainer.step, "loss_mean": mean, "loss_worst": worst}
            context.log({f"{stage.name}/{name}": value for name, value in row.items()})
            context.progress(trainer.step, total, f"{stage.name}: {len(stage.tasks)} models, loss {mean:.4f}")
        if context.checkpoint.due():
            context.checkpoint.save({"finished": finished, "trainer": trainer.state()})


def _trainer(stage: Stage, finished: dict[str, Parameters], config: AutoregressiveTrainConfig) -> StackTrainer:
    schedule = config.train.scratch if stage.parent is None else config.train.finetuned
    hazards = {"hasty-base": config.train.hasty_base_hazard, "hasty": config.train.hasty_expert_hazard}
    return StackTrainer(
        _start(stage, finished, config),
        stage.tasks,
        config.model,
        config.data,
        schedule,
        config.seed,
        stage.name,
        hazards.get(stage.name, 0.0),
    )


def _start(stage: Stage, finished: dict[str, Parameters], config: AutoregressiveTrainConfig) -> Parameters:
    if stage.parent is not None:
        return repeat(select(finished[stage.parent], [0]), len(stage.tasks))
    indices = index_count(config.data, config.model.positions)
    generators = [torch_stream(config.seed, stage.name, name_of(task), "weights") for task in stage.tasks]
    return initialize(config.model, VOCABULARY, indices, generators)


def store(stages: dict[str, Parameters], directory: Path) -> None:
    """Write every stage's weights."""
    for name, parameters in stages.items():
        save(parameters, directory / f"{name}.safetensors")


def load_regime(directory: Path, regime: Regime) -> dict[str, Parameters]:
    """The base and the experts of a regime, each as a stack of one, by the names of their tasks."""
    tasks = next(stage.tasks for stage in STAGES if stage.name == regime)
    stack = load(directory / f"{regime}.safetensors")
    experts = {name_of(task): select(stack, [place]) for place, task in enumerate(tasks) if task != IDENTITY}
    base = load(directory / f"{PARENTS[regime]}.safetensors")
    return {BASE: select(base, [0]), **experts}


def merge(base: Parameters, experts: Sequence[Parameters]) -> Parameters:
    """Task arithmetic with coefficient 1: θ_b + Σ_i (θ_i − θ_b)."""
    stack = concatenate(experts)
    return {name: weight + (stack[name] - weight).sum(0, keepdim=True) for name, weight in base.items()}


def test_all(stages: dict[str, Parameters], config: AutoregressiveTrainConfig) -> list[dict[str, Any]]:
    """Free-running exact match of every model on its own task, over all training lengths."""
    strings = _test_strings(config)
    rows = []
    for stage in STAGES:
        for place, task in enumerate(stage.tasks):
            model = transformer(select(stages[stage.name], [place]), config.model)
            right = [_exact(model, task, batch, config.data.overrun) for batch in strings]
            exact = torch.cat(right)
            rows.append({"stage": stage.name, "task": name_of(task), "n": len(exact), "right": int(exact.sum())})
    return rows


def _test_strings(config: AutoregressiveTrainConfig) -> list[torch.Tensor]:
    generator = torch_stream(config.seed, "tested strings")
    lengths = range(config.data.shortest, config.data.longest + 1)
    return [draw_strings(config.train.tested_strings, length, generator) for length in lengths]


def _exact(model: Component, task: Rule, strings: torch.Tensor, overrun: int) -> torch.Tensor:
    library = Library({BASE: model}, strings, overrun)
    answers = torch.from_numpy(task.table)[strings]
    outputs = generate(library, Arm("alone", BASE), with_end(answers, library.steps))
    return score(outputs, strings, answers).exact
