"""Training one model on the copying task, with its errors measured at stated steps.

Covers the paper's optimizer and schedule (dossier 1.3), the test sets, checkpoints, and resuming bit for bit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from compgen.copying.config import CopyingTrainConfig, DataConfig, TrainConfig
from compgen.copying.errors import DEFINITIONS, Evaluation, evaluate
from compgen.copying.model import AttentionTransformer, Hooks
from compgen.copying.sequences import CopyBatch, SegmentPool, draw_pool, draw_sequences, token_law
from compgen.randomness import stream_seed, torch_stream
from compgen.run.context import FinishedJob, JobContext

EVALUATION_SEED = 2026
"""The test sets are the same for every training seed and every arm."""
WARMUP_FACTOR = 1 / 3
IGNORED = -100


def scheduled_steps(every: int, last: int) -> list[int]:
    """0, the powers of two below `every`, its multiples, and the last step."""
    powers = {2**i for i in range(every.bit_length()) if 2**i < every}
    return sorted(step for step in {0, *powers, *range(every, last + 1, every), last} if step <= last)


@dataclass(frozen=True)
class Source:
    """Where training sequences come from: fresh segments, or a pool drawn once for the seed."""

    data: DataConfig
    pool: SegmentPool | None

    @classmethod
    def of(cls, data: DataConfig, seed: int) -> "Source":
        """The source for a training seed."""
        if data.pool_size is None:
            return cls(data, None)
        law = token_law(data.law, data.vocabulary)
        generator = torch_stream(seed, "pool")
        return cls(data, draw_pool(law, data.pool_size, data.segment_minimum, data.segment_maximum, generator))

    def draw(self, count: int, generator: torch.Generator, pooled: bool = True) -> CopyBatch:
        """Sequences of the training law, with segments of the pool if there is one and `pooled`."""
        law = token_law(self.data.law, self.data.vocabulary)
        return draw_sequences(
            count,
            self.data.length,
            law,
            law,
            self.data.segment_minimum,
            self.data.segment_maximum,
            generator,
            self.data.repeats,
            self.pool if pooled else None,
        )

    def draw_ood(self, count: int, generator: torch.Generator) -> CopyBatch:
        """Sequences of the paper's out-of-distribution test: other token law, longer segment."""
        law = token_law(self.data.ood_law, self.data.vocabulary)
        segment = self.data.ood_segment
        return draw_sequences(count, self.data.length, law, law, segment, segment, generator, self.data.repeats)


def draw_test_sets(source: Source, count: int) -> dict[str, CopyBatch]:
    """The test sets: `id` (fresh segments of the training law), `ood`, and `pool` (trained segments) if any."""
    sets = {
        "id": source.draw(count, torch_stream(EVALUATION_SEED, "id"), pooled=False),
        "ood": source.draw_ood(count, torch_stream(EVALUATION_SEED, "ood")),
    }
    if source.pool is not None:
        sets["pool"] = source.draw(count, torch_stream(EVALUATION_SEED, "pool"))
    return sets


def build_optimizer(model: AttentionTransformer, train: TrainConfig) -> torch.optim.AdamW:
    """AdamW on all parameters, as the authors use it."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=train.learning_rate,
        betas=(train.beta1, train.beta2),
        eps=train.epsilon,
        weight_decay=train.weight_decay,
        fused=True,
    )


def learning_rate(train: TrainConfig, step: int) -> float:
    """The rate of a step counted from 0: a third during the accidental warm-up, then constant."""
    return train.learning_rate * (WARMUP_FACTOR if step < train.warmup_steps else 1.0)


class Trainer:
    """One training run: model, optimizer, random streams, and how far it is."""

    def __init__(self, config: CopyingTrainConfig, context: JobContext, hooks: Hooks | None = None) -> None:
        """Set up a fresh run or continue a former one from the job's checkpoint.

        Args:
            config: of the job.
            context: of the job.
            hooks: changes inside the model, in training and evaluation alike.
        """
        self._config = config
        self._context = context
        self._hooks = hooks
        seed = config.seed
        self.model = AttentionTransformer(config.model, config.data.vocabulary, stream_seed(seed, "model"))
        self._optimizer = build_optimizer(self.model, config.train)
        self._source = Source.of(config.data, seed)
        self._streams = {name: torch_stream(seed, name) for name in ("data", "dropout")}
        self._step = 0
        self._losses: list[float] = []
        self._test_sets = draw_test_sets(self._source, config.evaluation.sequences)
        self._resume(context.checkpoint.load())

    def run(self) -> dict[str, Evaluation]:
        """Train to the end and return the evaluation of the trained model on the large test sets."""
        config, last = self._config, self._config.train.steps
        evaluated = set(scheduled_steps(config.evaluation.every, last))
        kept = set(scheduled_steps(config.evaluation.checkpoint_every, last))
        while True:
            if self._step in kept:
                self._keep_weights()
            if self._step in evaluated:
                self._measure()
            if self._step == last:
                return self._evaluate(draw_test_sets(self._source, config.evaluation.final_sequences))
            self._losses.append(self._train_step())
            self._step += 1
            self._context.progress(self._step, last, f"loss {self._losses[-1]:.3f}")
            if self._context.checkpoint.due():
                self._save()

    def _train_step(self) -> float:
        train = self._config.train
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(train, self._step)
        tokens = self._source.draw(train.batch, self._streams["data"]).tokens
        logits = self.model(tokens, self._streams["dropout"], self._hooks)
        targets = F.pad(tokens[:, 1:], (0, 1), value=IGNORED)  # cheaper than cutting the last position's logits off
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        value = float(loss.detach())
        if value != value:
            raise FloatingPointError(f"the training loss is not a number at step {self._step}")
        return value

    def _measure(self) -> None:
        row: dict[str, float] = {"evaluation/step": self._step}
        for name, evaluation in self._evaluate(self._test_sets).items():
            row.update({f"evaluation/{name}_{kind}": evaluation.error(kind) for kind in DEFINITIONS})
            row[f"evaluation/{name}_loss"] = float(evaluation.loss.mean())
        self._context.log(row)
        if self._losses:
            self._context.log({"train/step": self._step, "train/loss": sum(self._losses) / len(self._losses)})
            self._losses = []

    def _evaluate(self, sets: Mapping[str, CopyBatch]) -> dict[str, Evaluation]:
        def predict(tokens: Tensor) -> Tensor:
            logits: Tensor = self.model(tokens, None, self._hooks)
            return logits

        return {name: evaluate(predict, batch, self._config.data.vocabulary) for name, batch in sets.items()}

    def _keep_weights(self) -> None:
        directory = self._context.directory / "checkpoints"
        directory.mkdir(exist_ok=True)
        save_file(
            {name: value.contiguous() for name, value in self.model.state_dict().items()},
            weights_path(directory, self._step),
        )

    def _save(self) -> None:
        self._context.checkpoint.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self._optimizer.state_dict(),
                "streams": {name: stream.get_state() for name, stream in self._streams.items()},
                "step": self._step,
                "losses": self._losses,
            }
        )

    def _resume(self, state: Mapping[str, Any] | None) -> None:
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        for name, stream in self._streams.items():
            stream.set_state(state["streams"][name])
        self._step = state["step"]
        self._losses = list(state["losses"])


def weights_path(directory: Path, step: int) -> Path:
    """The file of the weights after a number of steps."""
    return directory / f"step-{step:05d}.safetensors"


def kept_steps(job: FinishedJob) -> list[int]:
    """The steps at which a finished training job kept its weights, increasing."""
    return sorted(
        int(path.stem.removeprefix("step-")) for path in (job.directory / "checkpoints").glob("step-*.safetensors")
    )


def load_model(job: FinishedJob, config: CopyingTrainConfig, step: int) -> AttentionTransformer:
    """The model of a finished training job after a number of steps.

    Args:
        job: the finished job.
        config: its configuration, see `trained_config`.
        step: one of `kept_steps`.
    """
    model = AttentionTransformer(config.model, config.data.vocabulary, seed=0)
    model.load_state_dict(load_file(weights_path(job.directory / "checkpoints", step)))
    return model.eval()
