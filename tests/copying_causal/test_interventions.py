"""Hooks against edits of weights and against brute force."""

import copy

import pytest
import torch

from compgen.copying.config import DataConfig, ModelConfig
from compgen.copying.interventions import (
    DIRECT,
    ROLES,
    AblateHead,
    CutPaths,
    HoldFirstLayer,
    ProjectKeys,
    mean_first_addition,
    mean_head_output,
    predictor,
    projector,
    record,
)
from compgen.copying.model import AttentionTransformer
from compgen.copying.sequences import CopyBatch
from compgen.copying.training import Source
from compgen.randomness import torch_stream

HEADS = 2


@pytest.fixture
def model() -> AttentionTransformer:
    built = AttentionTransformer(ModelConfig(heads=HEADS), 64, seed=11)
    for parameter in built.parameters():
        parameter.requires_grad_(False)
        parameter.mul_(1.5)  # far from uniform attention
    return built


@pytest.fixture
def batch() -> CopyBatch:
    return Source(DataConfig(), None).draw_ood(5, torch_stream(0, "test"))


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("head", range(HEADS))
def test_removing_a_head_by_hook_is_zeroing_its_output_weights(
    model: AttentionTransformer, batch: CopyBatch, layer: int, head: int
) -> None:
    edited = copy.deepcopy(model)
    edited.layers[layer].output.weight[:, head * 32 : (head + 1) * 32] = 0
    ablated = predictor(model, AblateHead(layer, head, torch.zeros(32)))(batch.tokens)
    torch.testing.assert_close(ablated, edited(batch.tokens), rtol=1e-4, atol=1e-3)
    assert not torch.allclose(ablated, model(batch.tokens), atol=1e-2)


def test_a_mean_ablated_head_gives_its_mean_everywhere(model: AttentionTransformer, batch: CopyBatch) -> None:
    mean = mean_head_output(model, batch, 0, 1)
    outputs = record(model, batch.tokens).outputs[0]
    torch.testing.assert_close(mean, outputs[:, :, 1].flatten(0, 1).mean(0))


def test_projecting_the_input_of_keys_is_projecting_their_weights(
    model: AttentionTransformer, batch: CopyBatch
) -> None:
    basis = torch.linalg.qr(torch.randn(64, 6, dtype=torch.float64))[0]
    for keep in (True, False):
        edited = copy.deepcopy(model)
        edited.layers[1].key.weight.copy_(model.layers[1].key.weight @ projector(basis, keep))
        projected = predictor(model, ProjectKeys(projector(basis, keep)))(batch.tokens)
        torch.testing.assert_close(projected, edited(batch.tokens), rtol=1e-3, atol=1e-3)


def test_projectors_add_up_to_the_identity_and_are_idempotent() -> None:
    basis = torch.linalg.qr(torch.randn(20, 4, dtype=torch.float64))[0]
    keep, remove = projector(basis, True), projector(basis, False)
    torch.testing.assert_close(keep + remove, torch.eye(20), rtol=0, atol=1e-6)
    torch.testing.assert_close(keep @ keep, keep, rtol=0, atol=1e-6)
    assert float(torch.trace(keep)) == pytest.approx(4, abs=1e-5)


def test_cutting_no_path_changes_nothing(model: AttentionTransformer, batch: CopyBatch) -> None:
    mean = mean_first_addition(model, batch)
    uncut = predictor(model, CutPaths(model, [], mean))(batch.tokens)
    torch.testing.assert_close(uncut, model(batch.tokens), rtol=1e-4, atol=1e-3)


def test_cutting_every_path_is_a_second_layer_alone_on_the_embedding_and_the_mean(
    model: AttentionTransformer, batch: CopyBatch
) -> None:
    mean = mean_first_addition(model, batch)
    cut = predictor(model, CutPaths(model, [*ROLES, DIRECT], mean))(batch.tokens)
    stream = model.embedding(batch.tokens) + mean
    turns = model._turns_of(batch.tokens.shape[1])
    expected = model.unembedding(stream + model.layers[1](stream, turns))
    torch.testing.assert_close(cut, expected, rtol=1e-4, atol=1e-3)


def test_a_held_first_layer_looks_only_at_the_previous_token_or_never(
    model: AttentionTransformer, batch: CopyBatch
) -> None:
    pattern = record(model, batch.tokens).patterns[0]
    held = HoldFirstLayer("previous").pattern(0, pattern)
    assert bool((held.diagonal(-1, -2, -1) == 1).all())
    forbidden = HoldFirstLayer("forbid").pattern(0, pattern)
    assert bool((forbidden.diagonal(-1, -2, -1) == 0).all())
    torch.testing.assert_close(forbidden.sum(-1), torch.ones_like(forbidden[..., 0]))
    kept = forbidden[..., 9, :9] / pattern[..., 9, :9]
    torch.testing.assert_close(kept[..., :8], kept[..., :1].expand_as(kept[..., :8]), rtol=1e-3, atol=1e-4)
    for mode in ("previous", "forbid"):
        assert HoldFirstLayer(mode).pattern(1, pattern) is pattern
    assert HoldFirstLayer("free").pattern(0, pattern) is pattern
