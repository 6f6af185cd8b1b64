"""Training a stack of small models at once: one AdamW over stacked tensors is AdamW on every model alone.

Covers the loop, per-model losses and resuming. What the models learn comes in as batches.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from compgen.charsub.model import Dropout, ModelShape, Parameters, forward
from compgen.run.context import JobContext


@dataclass(frozen=True)
class Batch:
    """One step's batch of every model."""

    tokens: Tensor
    """(model, batch, position), inputs."""
    targets: Tensor
    """(model, batch, position), the token to predict at each position."""
    mask: Tensor | None = None
    """(model, batch, position), which positions count; None is all. At least one a model."""


@dataclass(frozen=True)
class Schedule:
    """AdamW at a constant rate; PyTorch's defaults are the authors' (dossier 2.1)."""

    learning_rate: float = 3e-4
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = 1e-8


def model_losses(logits: Tensor, batch: Batch) -> Tensor:
    """Each model's mean cross-entropy over its counted positions in nats, (model,)."""
    losses = F.cross_entropy(logits.flatten(0, 2), batch.targets.flatten(), reduction="none").view_as(batch.targets)
    if batch.mask is None:
        return losses.flatten(1).mean(1)
    counted = batch.mask.to(losses.dtype)
    return (losses * counted).flatten(1).sum(1) / counted.flatten(1).sum(1)


class StackTrainer:
    """The state of a stack in training. No model influences another: none sees another's numbers or random stream."""

    def __init__(self, parameters: Parameters, shape: ModelShape, schedule: Schedule, seeds: Sequence[int]) -> None:
        """Start from `parameters`, which stay as they are; `seeds`, one a model, are for its dropout."""
        self.step = 0
        self._shape = shape
        self._parameters = {name: value.clone().requires_grad_() for name, value in parameters.items()}
        self._seeds = tuple(seeds)
        self._dropout = Dropout(shape.dropout, self._seeds) if shape.dropout > 0 else None
        self._optimizer = torch.optim.AdamW(
            list(self._parameters.values()),
            lr=schedule.learning_rate,
            betas=schedule.betas,
            eps=schedule.epsilon,
            weight_decay=schedule.weight_decay,
            fused=True,
        )

    def advance(self, batch: Batch) -> Tensor:
        """One optimizer step of all models. Returns each one's loss before it, (model,).

        The gradient of the sum of the models' losses is, for every model, the gradient of its own.
        """
        losses = model_losses(forward(self._parameters, self._shape, batch.tokens, self._dropout), batch)
        self._optimizer.zero_grad()
        losses.sum().backward()
        self._optimizer.step()
        self.step += 1
        return losses.detach()

    def parameters(self) -> Parameters:
        """The parameters as they are now, detached copies."""
        return {name: value.detach().clone() for name, value in self._parameters.items()}

    def state(self) -> dict[str, Any]:
        """Everything that a bit-identical continuation needs."""
        return {
            "step": self.step,
            "parameters": self.parameters(),
            "optimizer": self._optimizer.state_dict(),
            "dropout": list(self._dropout.place) if self._dropout else [],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        self.step = int(state["step"])
        with torch.no_grad():
            for name, value in self._parameters.items():
                value.copy_(state["parameters"][name])
        self._optimizer.load_state_dict(state["optimizer"])
        if self._dropout is not None:
            block, offset = state["dropout"]
            self._dropout = Dropout(self._shape.dropout, self._seeds, place=(block, offset))


@dataclass(frozen=True)
class TrainedStack:
    """What training gives."""

    parameters: Parameters
    losses: Tensor
    """(step, model), float32: the loss before every step."""

    def mean_losses(self, steps: int) -> Tensor:
        """Means over so many steps at a time, (period, model); a last incomplete period is left out."""
        periods = self.losses.shape[0] // steps
        means: Tensor = self.losses[: periods * steps].double().unflatten(0, (periods, steps)).mean(1)
        return means


def train_stack(
    trainer: StackTrainer,
    steps: int,
    batches: Callable[[int], Batch],
    context: JobContext,
    report_every: int,
    report: Callable[[int, Tensor], None],
) -> TrainedStack:
    """Train a stack to the end, continuing from the job's checkpoint if there is one.

    Args:
        trainer: fresh.
        steps: how many in all.
        batches: the batch of a step counted from 0: a function of the step alone, so that a resumed run sees the same.
        context: of the job, for its checkpoint and progress.
        report_every: steps between two reports.
        report: called with the step and the mean losses since the last report, (model,).

    Raises:
        FloatingPointError: a loss is not finite; names the model.
    """
    losses = _restore(trainer, context)
    while trainer.step < steps:
        losses.append(trainer.advance(batches(trainer.step)))
        if trainer.step % report_every == 0 or trainer.step == steps:
            recent = torch.stack(losses[-report_every:]).mean(0)
            _check_finite(recent, trainer.step)
            report(trainer.step, recent)
            context.progress(trainer.step, steps, f"mean loss {float(recent.mean()):.3g}")
            if context.checkpoint.due():
                context.checkpoint.save({**trainer.state(), "losses": torch.stack(losses)})
    return TrainedStack(trainer.parameters(), torch.stack(losses))


def _restore(trainer: StackTrainer, context: JobContext) -> list[Tensor]:
    state = context.checkpoint.load()
    if state is None:
        return []
    trainer.restore(state)
    return list(state["losses"])


def _check_finite(losses: Tensor, step: int) -> None:
    wrong = (~torch.isfinite(losses)).nonzero().flatten().tolist()
    if wrong:
        raise FloatingPointError(f"the loss of model {wrong[0]} is not finite at step {step}")
