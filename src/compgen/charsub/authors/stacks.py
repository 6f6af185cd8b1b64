"""The trained models of the authors' protocol: which there are, their training strings, and their files.

A stack holds one model for every seed and rule, seed by seed. Training loop: `charsub/training.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compgen.charsub import model as gpt2
from compgen.charsub.authors_config import (
    AuthorsDataConfig,
    AuthorsModelConfig,
    CharsubTrainConfig,
    Start,
    stack_rules,
)
from compgen.charsub.model import ModelShape, Parameters
from compgen.charsub.rules import IDENTITY, SYMBOLS, Rule
from compgen.charsub.training import Batch, Schedule, StackTrainer, TrainedStack, train_stack
from compgen.errors import UserError
from compgen.randomness import numpy_stream, stream_seed
from compgen.run.context import FinishedJob, JobContext

FILE = "models.safetensors"
REPORTS_AN_EPOCH = 20


def model_shape(config: AuthorsModelConfig) -> ModelShape:
    """The shape of every model."""
    return ModelShape(
        len(SYMBOLS), config.positions, config.width, layers=config.layers, heads=config.heads, dropout=config.dropout
    )


def draw_strings(count: int, length: int, seed: int, *purpose: object) -> Tensor:
    """Strings of independent uniform symbols, (string, position)."""
    stream = numpy_stream(seed, *purpose)
    return torch.from_numpy(stream.integers(len(SYMBOLS), size=(count, length)))


@dataclass(frozen=True)
class StackPlan:
    """Which models a stack holds, in its order."""

    seeds: tuple[int, ...]
    rules: tuple[Rule, ...]
    start: Start

    @property
    def models(self) -> list[tuple[int, Rule]]:
        """Seed and rule of every model."""
        return [(seed, rule) for seed in self.seeds for rule in self.rules]

    def stream_seeds(self, purpose: str) -> list[int]:
        """A seed for every model that no other model or purpose shares."""
        return [stream_seed(seed, self.start.value, rule.text, purpose) for seed, rule in self.models]

    def indices(self, seed: int, rules: Sequence[Rule]) -> list[int]:
        """Where the models of some rules stand."""
        return [self.models.index((seed, rule)) for rule in rules]


def plan_of(config: CharsubTrainConfig) -> StackPlan:
    """The models that a training job trains."""
    return StackPlan(tuple(config.seeds), tuple(stack_rules(config.stack)), config.start)


def training_data(plan: StackPlan, data: AuthorsDataConfig) -> tuple[Tensor, Tensor]:
    """Strings and what they should become, both (model, string, position)."""
    seeds = plan.stream_seeds("strings")
    tokens = torch.stack([draw_strings(data.strings, data.length, seed) for seed in seeds])
    tables = torch.from_numpy(np.stack([rule.table for _, rule in plan.models]))  # (model, symbol)
    return tokens, tables[torch.arange(len(seeds))[:, None, None], tokens]


def train(config: CharsubTrainConfig, context: JobContext) -> TrainedStack:
    """Train a stack as the notebook does: one string a step, in one order, the same in every epoch."""
    plan, shape = plan_of(config), model_shape(config.model)
    tokens, targets = training_data(plan, config.data)
    steps = config.stack.epochs * config.data.strings
    schedule = Schedule(config.optimizer.learning_rate, config.optimizer.weight_decay)
    trainer = StackTrainer(_initial(plan, shape, context), shape, schedule, plan.stream_seeds("dropout"))

    def batch(step: int) -> Batch:
        string = step % config.data.strings
        return Batch(tokens[:, string, None], targets[:, string, None])  # (model, 1, position)

    def report(step: int, losses: Tensor) -> None:
        by_rule = losses.view(len(plan.seeds), -1).mean(0).tolist()
        named = {f"train/loss_{rule.text or 'identity'}": loss for rule, loss in zip(plan.rules, by_rule, strict=True)}
        context.log({"train/step": step, **named})

    every = max(1, config.data.strings // REPORTS_AN_EPOCH)
    trained = train_stack(trainer, steps, batch, context, every, report)
    gpt2.save(trained.parameters, context.directory / FILE)
    return trained


def _initial(plan: StackPlan, shape: ModelShape, context: JobContext) -> Parameters:
    if plan.start is Start.scratch:
        return gpt2.initialize(shape, plan.stream_seeds("initialization"))
    bases = gpt2.concatenate([load_models(context.inputs, Start.scratch, seed, [IDENTITY]) for seed in plan.seeds])
    return gpt2.repeat(bases, len(plan.rules))


def plan_of_job(job: FinishedJob) -> StackPlan:
    """The models of a finished training job."""
    values = job.config
    rules = tuple(_rule(text) for text in values["stack"]["rules"])
    return StackPlan(tuple(values["seeds"]), rules, Start(values["start"]))


def _rule(text: str) -> Rule:
    pairs = [pair.replace("_", " ") for pair in text.split("+") if pair]
    return Rule(tuple((pair[0], pair[1]) for pair in pairs))


def load_models(inputs: Mapping[str, FinishedJob], start: Start, seed: int, rules: Sequence[Rule]) -> Parameters:
    """Some of a seed's models, from whichever finished job trained them.

    Raises:
        UserError: no input trained them.
    """
    for job in inputs.values():
        if job.kind != "charsub_train":
            continue
        plan = plan_of_job(job)
        if plan.start is start and seed in plan.seeds and set(rules) <= set(plan.rules):
            return gpt2.select(gpt2.load(job.directory / FILE), plan.indices(seed, rules))
    names = ", ".join(rule.text or "identity" for rule in rules)
    raise UserError(f"no input holds the {start.value} models {names} of seed {seed}: add its charsub_train job")


def training_metrics(config: CharsubTrainConfig, trained: TrainedStack) -> dict[str, Any]:
    """Mean losses in nats of every epoch by seed and rule, and the last steps' mean."""
    plan = plan_of(config)
    epochs = trained.mean_losses(config.data.strings)  # (epoch, model)
    found: dict[str, dict[str, list[float]]] = {str(seed): {} for seed in plan.seeds}
    for index, (seed, rule) in enumerate(plan.models):
        found[str(seed)][rule.text or "identity"] = epochs[:, index].tolist()
    parameters = sum(value[0].numel() for value in trained.parameters.values())
    return {"epoch_losses": found, "steps": trained.losses.shape[0], "parameters_per_model": parameters}
