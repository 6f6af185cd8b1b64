"""Stacked training against training each model alone, with transformers' GPT-2 and PyTorch's AdamW as the truth."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from compgen.charsub.model import ModelShape, Parameters, initialize, select
from compgen.charsub.training import Batch, Schedule, StackTrainer, model_losses, train_stack

from .conftest import Stopped
from .test_model import hf_name, reference, strings

STEPS = 12
FAST = Schedule(learning_rate=1e-2, weight_decay=0.1)


def batch_of(step: int, models: int = 3) -> Batch:
    return Batch(strings(models, 1, 16, seed=step), strings(models, 1, 16, seed=1000 + step))


def part(batch: Batch, model: int) -> Batch:
    return Batch(batch.tokens[model : model + 1], batch.targets[model : model + 1])


def trained(parameters: Parameters, shape: ModelShape, seeds: list[int], batches: list[Batch]) -> Any:
    trainer = StackTrainer(parameters, shape, FAST, seeds)
    losses = torch.stack([trainer.advance(batch) for batch in batches])
    return trainer.parameters(), losses


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_three_models_train_together_as_each_does_alone(dropout: float) -> None:
    shape = ModelShape(dropout=dropout)
    parameters, seeds = initialize(shape, [4, 5, 6]), [4, 5, 6]
    batches = [batch_of(step) for step in range(STEPS)]
    together, losses = trained(parameters, shape, seeds, batches)
    for model in range(3):
        single = [part(batch, model) for batch in batches]
        alone, expected = trained(select(parameters, [model]), shape, [seeds[model]], single)
        torch.testing.assert_close(losses[:, model], expected[:, 0], atol=1e-5, rtol=0)
        for name, value in together.items():
            torch.testing.assert_close(value[model], alone[name][0], atol=1e-4, rtol=1e-3, msg=name)


def test_a_stacked_model_trains_as_gpt2_does_with_pytorchs_adamw() -> None:
    shape = ModelShape(dropout=0.0)
    parameters = initialize(shape, [4, 5, 6])
    batches = [batch_of(step) for step in range(STEPS)]
    _, losses = trained(parameters, shape, [4, 5, 6], batches)
    network = reference(parameters, 1)
    optimizer = torch.optim.AdamW(network.parameters(), lr=FAST.learning_rate, weight_decay=FAST.weight_decay)
    for step, batch in enumerate(batches):
        loss = cross_entropy(network(batch.tokens[1]).logits.flatten(0, 1), batch.targets[1].flatten())
        assert float(losses[step, 1]) == pytest.approx(float(loss.detach()), abs=1e-5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert len(dict(network.named_parameters())) == len(parameters)  # tied: one matrix in, the same out
    assert {hf_name(name) for name in parameters} == set(dict(network.named_parameters()))


def test_masked_positions_do_not_count() -> None:
    batch = batch_of(0)
    logits = torch.randn(3, 1, 16, 27, generator=torch.Generator().manual_seed(0))
    mask = torch.zeros(3, 1, 16, dtype=torch.bool)
    mask[:, :, 5:9] = True
    masked = model_losses(logits, Batch(batch.tokens, batch.targets, mask))
    cut = model_losses(logits[:, :, 5:9], Batch(batch.tokens[:, :, 5:9], batch.targets[:, :, 5:9]))
    torch.testing.assert_close(masked, cut)


def run_through(context: Any, shape: ModelShape) -> Any:
    trainer = StackTrainer(initialize(shape, [1, 2, 3]), shape, FAST, [1, 2, 3])
    return train_stack(trainer, STEPS, batch_of, context, 3, lambda step, losses: context.log({"train/step": step}))


def test_a_killed_training_resumes_to_the_same_bits(context: Callable[..., Any], tmp_path: Path) -> None:
    shape = ModelShape(dropout=0.1)
    whole = run_through(context("whole"), shape)
    killed = context("killed", stops_after=2)
    with pytest.raises(Stopped):
        run_through(killed, shape)
    again = context("killed")
    resumed = run_through(again, shape)
    assert [row["train/step"] for row in again.rows] == [9, 12]
    assert torch.equal(resumed.losses, whole.losses)
    assert all(torch.equal(resumed.parameters[name], value) for name, value in whole.parameters.items())


def test_mean_losses_are_means_over_whole_periods(context: Callable[..., Any]) -> None:
    result = run_through(context(), ModelShape(dropout=0.0))
    means = result.mean_losses(5)
    assert means.shape == (2, 3)
    torch.testing.assert_close(means[1], result.losses[5:10].double().mean(0))


def test_a_loss_that_is_not_finite_names_the_model(context: Callable[..., Any]) -> None:
    shape = ModelShape(dropout=0.0)
    broken = initialize(shape, [1, 2, 3])
    broken["token"][1] = torch.inf
    trainer = StackTrainer(broken, shape, FAST, [1, 2, 3])
    with pytest.raises(FloatingPointError, match="model 1 is not finite"):
        train_stack(trainer, STEPS, batch_of, context(), 3, lambda step, losses: None)
