"""Training a stack of models on their tasks, with next-token loss on y and EOS.

Covers the schedule, the loop and its resumable state. Which models there are is decided by the job.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from compgen.charsub.autoregressive.model import forward
from compgen.charsub.autoregressive.sequences import draw_batch, draw_length
from compgen.charsub.autoregressive.tasks import name_of
from compgen.charsub.autoregressive_config import (
    AutoregressiveDataConfig,
    AutoregressiveModelConfig,
    ScheduleConfig,
)
from compgen.charsub.model import Parameters
from compgen.charsub.rules import Rule
from compgen.randomness import torch_stream

BETA_ONE = 0.9


class StackTrainer:
    """Trains several models at once, each on its own task and strings, to the same weights as it would have alone."""

    def __init__(
        self,
        parameters: Parameters,
        tasks: Sequence[Rule],
        model: AutoregressiveModelConfig,
        data: AutoregressiveDataConfig,
        schedule: ScheduleConfig,
        seed: int,
        group: str,
        hazard: float = 0.0,
    ) -> None:
        """Take over the initial weights. `group` names the random streams; lengths are shared by the whole group."""
        self.parameters = {name: weight.clone().requires_grad_() for name, weight in parameters.items()}
        self.step = 0
        self._model, self._data, self.schedule, self._hazard = model, data, schedule, hazard
        self._tables = torch.from_numpy(np.stack([task.table for task in tasks]))  # (model, symbol)
        self._lengths = torch_stream(seed, group, "lengths")
        self._strings = [torch_stream(seed, group, name_of(task), "strings") for task in tasks]
        self._optimizer = torch.optim.AdamW(
            list(self.parameters.values()),
            lr=schedule.learning_rate,
            betas=(BETA_ONE, schedule.second_moment),
            weight_decay=schedule.weight_decay,
            fused=True,
        )

    def advance(self) -> Tensor:
        """One step. Returns each model's loss per token in nats before it, shape (model,)."""
        length = draw_length(self._data, self._lengths)
        scheme = self._model.positions
        size = self.schedule.batch_size
        batch = draw_batch(self._tables, size, length, self._data, scheme, self._strings, self._hazard)
        logits = forward(self.parameters, self._model.heads, batch.tokens, batch.positions, length + 1)
        losses = functional.cross_entropy(logits.flatten(0, 2), batch.targets.flatten(), reduction="none")
        per_model = losses.view(len(self._strings), -1).mean(1)  # (model,)
        self._set_learning_rate()
        self._optimizer.zero_grad()
        per_model.sum().backward()
        self._optimizer.step()
        self.step += 1
        return per_model.detach()

    def weights(self) -> Parameters:
        """The current weights, detached."""
        return {name: weight.detach().clone() for name, weight in self.parameters.items()}

    def state(self) -> dict[str, Any]:
        """Everything that a bit-identical continuation needs."""
        return {
            "step": self.step,
            "parameters": self.weights(),
            "optimizer": self._optimizer.state_dict(),
            "generators": [generator.get_state() for generator in (self._lengths, *self._strings)],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""
        self.step = int(state["step"])
        with torch.no_grad():
            for name, weight in self.parameters.items():
                weight.copy_(state["parameters"][name])
        self._optimizer.load_state_dict(state["optimizer"])
        for generator, saved in zip((self._lengths, *self._strings), state["generators"], strict=True):
            generator.set_state(saved)

    def _set_learning_rate(self) -> None:
        """Linear warm-up times linear decay to zero."""
        schedule = self.schedule
        warm = min(1.0, (self.step + 1) / max(schedule.warmup, 1))
        for group in self._optimizer.param_groups:
            group["lr"] = schedule.learning_rate * warm * (1 - self.step / schedule.steps)
