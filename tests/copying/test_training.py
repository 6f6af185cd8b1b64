from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from compgen.copying.config import CopyingTrainConfig, DataConfig, EvaluationConfig, ModelConfig, TrainConfig
from compgen.copying.model import AttentionTransformer
from compgen.copying.training import Trainer, build_optimizer, learning_rate, scheduled_steps
from compgen.errors import ConfigError
from compgen.jobs.copying_train import run
from compgen.randomness import torch_stream


class Memory:
    """A checkpoint in memory that is due every few calls and can interrupt the run."""

    def __init__(self, every: int, stop_after: int | None = None, state: dict[str, Any] | None = None) -> None:
        self.every, self.stop_after, self.state = every, stop_after, state
        self.calls = 0

    def due(self) -> bool:
        self.calls += 1
        if self.stop_after is not None and self.calls > self.stop_after:
            raise KeyboardInterrupt
        return self.calls % self.every == 0

    def save(self, state: Any) -> None:
        import io

        buffer = io.BytesIO()
        torch.save(state, buffer)
        buffer.seek(0)
        self.state = torch.load(buffer, weights_only=True)

    def load(self) -> dict[str, Any] | None:
        return self.state


class Context:
    def __init__(self, directory: Path, checkpoint: Memory) -> None:
        directory.mkdir(exist_ok=True)
        self.directory, self.checkpoint, self.inputs = directory, checkpoint, {}
        self.rows: list[dict[str, float]] = []

    def log(self, values: dict[str, float]) -> None:
        self.rows.append(values)

    def progress(self, done: int, total: int, note: str = "") -> None: ...


def small(**train: Any) -> CopyingTrainConfig:
    return CopyingTrainConfig(
        seed=3,
        data=DataConfig(pool_size=7),
        train=TrainConfig(steps=9, batch=4, **train),
        evaluation=EvaluationConfig(every=4, sequences=6, final_sequences=8, checkpoint_every=3),
    )


def test_a_run_that_was_killed_and_resumed_ends_with_the_same_bits(tmp_path: Path) -> None:
    whole = Context(tmp_path / "whole", Memory(every=100))
    metrics = run(small(), whole)  # type: ignore[arg-type]
    broken = Context(tmp_path / "broken", Memory(every=2, stop_after=5))
    with pytest.raises(KeyboardInterrupt):
        run(small(), broken)  # type: ignore[arg-type]
    resumed = Context(tmp_path / "broken", Memory(every=100, state=broken.checkpoint.state))
    assert run(small(), resumed) == metrics  # type: ignore[arg-type]
    for path in (tmp_path / "whole").rglob("*.safetensors"):
        assert path.read_bytes() == (tmp_path / "broken" / path.relative_to(tmp_path / "whole")).read_bytes(), path
    assert whole.rows[-len(resumed.rows) :] == resumed.rows


def test_training_steps_equal_a_plain_loop_with_the_same_batches(tmp_path: Path) -> None:
    config = small()
    config.model.dropout = 0.0
    trainer = Trainer(config, Context(tmp_path, Memory(every=100)))  # type: ignore[arg-type]
    reference = AttentionTransformer(config.model, 64, seed=0)
    reference.load_state_dict(trainer.model.state_dict())
    optimizer = torch.optim.AdamW(reference.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer)  # the authors' schedule with its defaults
    stream = torch_stream(3, "data")
    for _ in range(8):
        loss = trainer._train_step()
        trainer._step += 1
        tokens = trainer._source.draw(4, stream).tokens
        expected = F.cross_entropy(reference(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        expected.backward()
        optimizer.step()
        schedule.step()
        assert loss == pytest.approx(expected.item(), rel=1e-5)


def test_the_learning_rate_has_the_authors_accidental_warm_up() -> None:
    rates = [learning_rate(TrainConfig(), step) for step in range(7)]
    assert rates == pytest.approx([1e-3 / 3] * 5 + [1e-3] * 2)


def test_errors_are_measured_at_powers_of_two_and_multiples() -> None:
    assert scheduled_steps(200, 600) == [0, 1, 2, 4, 8, 16, 32, 64, 128, 200, 400, 600]
    assert scheduled_steps(4, 10) == [0, 1, 2, 4, 8, 10]
    assert scheduled_steps(200, 3) == [0, 1, 2, 3]


def test_the_optimizer_covers_all_parameters() -> None:
    model = AttentionTransformer(ModelConfig(), 64, seed=0)
    optimizer = build_optimizer(model, TrainConfig())
    assert sum(p.numel() for g in optimizer.param_groups for p in g["params"]) == sum(
        p.numel() for p in model.parameters()
    )


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: DataConfig(length=40), "copying.data.length=40"),
        (lambda: DataConfig(law="gauss"), "copying.data.law='gauss'"),
        (lambda: DataConfig(segment_maximum=9), "copying.data.segment_maximum=9"),
        (lambda: DataConfig(pool_size=0), "copying.data.pool_size=0"),
        (lambda: ModelConfig(heads=3), "copying.model.width=64"),
        (lambda: ModelConfig(dropout=1.0), "copying.model.dropout=1.0"),
        (lambda: TrainConfig(steps=0), "copying.train.steps=0"),
        (lambda: TrainConfig(learning_rate=-1.0), "copying.train.learning_rate=-1.0"),
        (lambda: EvaluationConfig(sequences=0), "copying.evaluation.sequences=0"),
    ],
)
def test_impossible_values_name_their_field(build: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build()
