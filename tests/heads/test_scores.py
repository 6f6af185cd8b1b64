"""Head scores against plain loops, hand-made heads and eigenvalues of whole matrices."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compgen.errors import UserError
from compgen.heads.parts import NormGain
from compgen.heads.repeated import Repeated, authors_sequences, controlled_sequences
from compgen.heads.scores import Definition, attention_scores, authors_score, copying_scores, pattern_scores
from compgen.heads.views import Head, HeadView

ModelOf = Callable[..., Any]
KINDS = ("induction", "previous", "duplicate")


def random_pattern(length: int) -> Tensor:
    """(sequence, head, query, key)"""
    generator = torch.Generator().manual_seed(3)
    return (torch.randn(3, 2, length, length, generator=generator) * 2).exp().tril().double().softmax(-1)


def shifted(length: int, offset: int) -> Tensor:
    """A head that attends `offset` back, or where there is nothing to itself: (query, key)."""
    position = torch.arange(length)
    keys = torch.where(position < offset, position, position - offset)
    return torch.nn.functional.one_hot(keys, length).double()


def resting(length: int) -> Tensor:
    """A head that always attends the first position: (query, key)."""
    return torch.eye(length, dtype=torch.float64)[:1].expand(length, length)


def authors_loop(pattern: np.ndarray[Any, Any], offset: int) -> float:
    """The paper's formula for one head and sequence, entry by entry."""
    length = len(pattern)
    adjusted = np.zeros_like(pattern)
    for t in range(1, length):
        adjusted[t, 1:] = pattern[t, 1:] / sum(pattern[t, s] + 1e-6 for s in range(1, length))
    return float(np.mean([adjusted[t, t - offset] for t in range(offset, length)][1:]))


@pytest.mark.parametrize("beginning", [None, 1])
def test_the_authors_scores_equal_their_formula_entry_by_entry(beginning: int | None) -> None:
    repeated = authors_sequences(40, beginning, sequences=3, segment=6)
    pattern = random_pattern(repeated.tokens.shape[1])
    scores = pattern_scores(pattern, repeated, Definition.authors)
    for kind, offset in zip(KINDS, (5, 1, 6), strict=True):
        loops = [[authors_loop(pattern[row, head].numpy(), offset) for head in range(2)] for row in range(3)]
        torch.testing.assert_close(scores[kind], torch.tensor(loops, dtype=torch.float64))


@pytest.mark.parametrize("beginning", [None, 1])
def test_the_controlled_scores_are_means_over_queries_that_can_be_right(beginning: int | None) -> None:
    repeated = controlled_sequences(40, beginning, (), sequences=3, segment=6)
    length, start = repeated.tokens.shape[1], repeated.start
    pattern = random_pattern(length)
    scores = pattern_scores(pattern, repeated, Definition.controlled)
    for row in range(3):
        tokens = repeated.tokens[row].tolist()
        for head in range(2):
            found: dict[str, list[float]] = {kind: [] for kind in KINDS}
            for t in range(start + 1, length):
                found["previous"].append(float(pattern[row, head, t, t - 1]))
                earlier = [s for s in range(start, t) if tokens[s] == tokens[t]]
                if earlier and t < length - 1:
                    found["duplicate"].append(float(pattern[row, head, t, earlier[0]]))
                    found["induction"].append(float(pattern[row, head, t, earlier[0] + 1]))
            for kind in KINDS:
                assert scores[kind][row, head].item() == pytest.approx(np.mean(found[kind]), abs=1e-12)


@pytest.mark.parametrize("definition", list(Definition))
@pytest.mark.parametrize("beginning", [None, 1])
def test_perfect_heads_have_known_scores(definition: Definition, beginning: int | None) -> None:
    repeated = controlled_sequences(40, beginning, (), sequences=1, segment=6)
    length = repeated.tokens.shape[1]
    pattern = torch.stack([shifted(length, offset) for offset in (5, 1, 6)])[None]  # induction, previous, duplicate
    scores = pattern_scores(pattern, repeated, definition)
    for head, kind in enumerate(KINDS):
        expected = torch.zeros(3, dtype=torch.float64)
        expected[head] = 1
        torch.testing.assert_close(scores[kind][0], expected, rtol=0, atol=1e-4)


def test_a_head_at_rest_on_the_first_token_scores_high_only_by_the_authors_definition() -> None:
    repeated = controlled_sequences(40, 1, (), sequences=1, segment=6)
    pattern = 0.99 * resting(13) + 0.01 * shifted(13, 5)
    by = {kind: pattern_scores(pattern[None, None], repeated, kind)["induction"].item() for kind in Definition}
    assert by[Definition.authors] > 0.99
    assert by[Definition.controlled] == pytest.approx(0.01)


@pytest.mark.parametrize("definition", list(Definition))
def test_scores_of_a_model_equal_those_of_its_own_attentions(
    model_of: ModelOf, name: str, definition: Definition
) -> None:
    view = HeadView(model_of(name))
    repeated = controlled_sequences(48, 1, (0, 2), sequences=5, segment=6)
    scores = attention_scores(view, repeated, definition, batch_size=2)
    with torch.no_grad():
        attentions = view.model(repeated.tokens, output_attentions=True).attentions
    for layer in range(2):
        expected = pattern_scores(attentions[layer], repeated, definition)
        for kind in KINDS:
            assert scores[kind].shape == (5, 2, 4)
            torch.testing.assert_close(scores[kind][:, layer], expected[kind], rtol=1e-5, atol=1e-6)


def test_models_without_patterns_are_refused(model_of: ModelOf, fresh: ModelOf) -> None:
    repeated = authors_sequences(48, None, 1, 4)
    with pytest.raises(UserError, match="load with 'eager'"):
        attention_scores(HeadView(model_of("llama", attention="sdpa")), repeated, Definition.authors)
    with pytest.raises(UserError, match="training"):
        attention_scores(HeadView(fresh("llama").train()), repeated, Definition.authors)


def test_the_authors_score_of_nothing_but_the_first_token_is_zero() -> None:
    assert authors_score(resting(10), 3) == 0


class TestCopying:
    @pytest.mark.parametrize("gain", list(NormGain))
    def test_equals_the_eigenvalues_of_the_map_from_tokens_to_logits(
        self, model_of: ModelOf, name: str, gain: NormGain
    ) -> None:
        view = HeadView(model_of(name))
        scores = copying_scores(view, gain)
        embedding = view.model.get_input_embeddings().weight.detach()
        unembedding = view.model.get_output_embeddings().weight.detach()
        if gain is NormGain.folded:
            unembedding = view.final_norm().fold(unembedding)
        for head in (Head(0, 1), Head(1, 3)):
            whole = unembedding @ view.output_value(head, gain).dense() @ embedding.T  # (token, token)
            eigenvalues = torch.linalg.eigvals(whole)
            expected = eigenvalues.real.sum() / eigenvalues.abs().sum()
            assert scores[head.layer, head.index].item() == pytest.approx(expected.item(), abs=1e-6)

    def test_a_head_that_writes_what_it_reads_copies_and_its_opposite_suppresses(self, fresh: ModelOf) -> None:
        model = fresh("gpt2")
        view = HeadView(model)
        attention = view.attention(0)
        with torch.no_grad():
            attention.output.weight[0].copy_(attention.value.weight[0].T)
            attention.output.weight[1].copy_(-attention.value.weight[1].T)
        scores = copying_scores(view, NormGain.apart)[0]
        assert scores[0] == pytest.approx(1)
        assert scores[1] == pytest.approx(-1)


def test_a_segment_of_one_token_cannot_be_scored() -> None:
    repeated = Repeated(torch.tensor([[3, 3]]), 1, None)
    with pytest.raises(ValueError, match="no query"):
        pattern_scores(random_pattern(2)[:1], repeated, Definition.controlled)
