"""Free-running generation against decoding token by token, and scores by hand."""

import pytest
import torch
from torch import Tensor

from compgen.charsub.autoregressive.generation import Arm, Library, content_lengths, generate, transformer
from compgen.charsub.autoregressive.model import initialize
from compgen.charsub.autoregressive.scoring import StopReason, score
from compgen.charsub.autoregressive.sequences import (
    END,
    SEPARATOR,
    VOCABULARY,
    draw_batch,
    draw_strings,
    index_count,
    position_indices,
    prompts,
    with_end,
)
from compgen.charsub.autoregressive_config import (
    AutoregressiveDataConfig,
    AutoregressiveModelConfig,
    PositionScheme,
)
from compgen.charsub.model import Parameters, select
from compgen.composition.options import CompositionRule, EndOfSequence, Remedy
from compgen.composition.rule import compose
from compgen.randomness import torch_stream

OVERRUN = 3
MODEL = AutoregressiveModelConfig(layers=2, width=16, heads=2)
DATA = AutoregressiveDataConfig(longest=5, longest_evaluated=6, overrun=OVERRUN)


@pytest.fixture
def stack() -> Parameters:
    """A base and two experts, untrained and loud, so that outputs vary and stop at different places."""
    generators = [torch_stream(seed, "model") for seed in range(3)]
    made = initialize(MODEL, VOCABULARY, index_count(DATA, MODEL.positions), generators)
    return {name: value * 2 if value.dim() > 2 else value for name, value in made.items()}


@pytest.fixture
def strings() -> Tensor:
    return draw_strings(12, 5, torch_stream(0, "strings"))


def library(stack: Parameters, strings: Tensor) -> Library:
    names = ("base", "one", "two")
    return Library({name: transformer(select(stack, [i]), MODEL) for i, name in enumerate(names)}, strings, OVERRUN)


def token_by_token(stack: Parameters, strings: Tensor, rule: CompositionRule) -> Tensor:
    """The plain loop: one token after the other, each model asked anew for every prefix."""
    steps = strings.shape[1] + OVERRUN + 1
    models = [transformer(select(stack, [i]), MODEL) for i in range(3)]
    rows = []
    for row in strings:
        written: list[int] = []
        while len(written) < steps and END not in written:
            outputs = torch.tensor([[*written, END]])
            logits = torch.stack([model(row[None], outputs)[0, len(written)] for model in models])
            written.append(int(compose(logits[0], logits[1:], rule, (END,)).argmax()))
        rows.append(torch.tensor(written + [END] * (steps - len(written))))
    return torch.stack(rows)


@pytest.mark.parametrize(
    "rule",
    [CompositionRule(), CompositionRule(remedy=Remedy.kl_gate), CompositionRule(end_of_sequence=EndOfSequence.mean)],
)
def test_generation_equals_decoding_token_by_token_whatever_the_draft(
    stack: Parameters, strings: Tensor, rule: CompositionRule
) -> None:
    expected = token_by_token(stack, strings, rule)
    arm = Arm("x", "base", ("one", "two"), rule)
    steps = expected.shape[1]
    drafts = (with_end(strings, steps), torch.full((12, steps), END), torch.randint(VOCABULARY, (12, steps)))
    for draft in drafts:
        assert torch.equal(generate(library(stack, strings), arm, draft), expected)
    assert len({tuple(row) for row in expected.tolist()}) > 3


def test_an_oracle_for_the_end_stops_exactly_at_the_length_of_x(stack: Parameters, strings: Tensor) -> None:
    arm = Arm("x", "base", ("one",), told_to_stop=True)
    outputs = generate(library(stack, strings), arm, torch.full((12, 9), END))
    assert content_lengths(outputs).tolist() == [5] * 12


def test_a_library_asks_a_component_once_for_the_same_string_and_output(stack: Parameters, strings: Tensor) -> None:
    shared = library(stack, strings)
    arm = Arm("x", "base", ("one",))
    first = generate(shared, arm, with_end(strings, shared.steps))
    asked = shared.computed_rows
    assert torch.equal(generate(shared, arm, with_end(strings, shared.steps)), first)
    assert shared.computed_rows == asked


def test_models_see_no_later_token_of_the_answer(stack: Parameters, strings: Tensor) -> None:
    model = transformer(select(stack, [1]), MODEL)
    outputs = with_end(strings, 6)
    changed = outputs.clone()
    changed[:, 3] = (changed[:, 3] + 1) % 27
    before, after = model(strings, outputs), model(strings, changed)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4], after[:, 4])


def test_scores_by_hand() -> None:
    strings = torch.tensor([[0, 1, 2]] * 5)
    answers = torch.tensor([[9, 1, 2]] * 5)
    outputs = torch.tensor(
        [
            [9, 1, 2, END, END],  # right
            [9, 1, END, END, END],  # stops too early
            [9, 1, 2, 5, END],  # too late
            [9, 1, 2, 5, 5],  # never
            [0, 1, 2, END, END],  # the rule is not applied
        ]
    )
    found = score(outputs, strings, answers)
    assert found.exact.tolist() == [True, False, False, False, False]
    reasons = [StopReason.right, StopReason.premature, StopReason.late, StopReason.none, StopReason.right]
    assert found.reasons() == reasons
    summary = found.summary()
    assert summary["exact"] == pytest.approx(0.2)
    assert summary["active_accuracy"] == pytest.approx(4 / 5)
    assert summary["inactive_accuracy"] == pytest.approx(9 / 10)
    assert (summary["premature"], summary["late"], summary["no_stop"]) == pytest.approx((0.2, 0.2, 0.2))
    assert summary["stop_error"] == pytest.approx((0 - 1 + 1 + 2 + 0) / 5)


def test_a_training_batch_is_x_separator_y_with_shared_indices_and_the_end_as_last_target() -> None:
    table = torch.arange(27)
    table[0] = 10
    generators = [torch_stream(seed, "batch") for seed in (0, 1)]
    batch = draw_batch(table.expand(2, 27), 4, 5, DATA, PositionScheme.coupled, generators)
    x, y = batch.tokens[..., :5], batch.tokens[..., 6:]
    assert torch.equal(table[x], y)
    assert bool((batch.tokens[..., 5] == SEPARATOR).all())
    assert torch.equal(batch.targets, with_end(y))
    indices = batch.positions - batch.positions[..., :1]
    assert torch.equal(indices, position_indices(5, 5, PositionScheme.coupled).expand(2, 4, 11))
    assert int(batch.positions.max()) < index_count(DATA, PositionScheme.coupled)


def test_coupled_indices_give_a_symbol_and_the_token_that_predicts_its_answer_one_index() -> None:
    indices = position_indices(4, 4, PositionScheme.coupled)
    assert indices.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 3]
    assert position_indices(4, 4, PositionScheme.contiguous).tolist() == list(range(9))
    assert prompts(torch.tensor([[1, 2]])).tolist() == [[1, 2, SEPARATOR]]
