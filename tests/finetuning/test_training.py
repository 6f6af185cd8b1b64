"""Batches, the loop, and going on after a kill."""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from compgen.errors import ConfigError
from compgen.finetuning.config import (
    CorpusSizes,
    FinetuningSchedule,
    PretrainConfig,
    PretrainingSchedule,
    ScheduleConfig,
    TinyModelConfig,
)
from compgen.finetuning.corpus.skills import examples
from compgen.finetuning.model import new_model
from compgen.finetuning.tokenizer import BEGIN, END, PAD, encode, train_tokenizer
from compgen.finetuning.training import (
    IGNORED,
    KEPT,
    Examples,
    loss_of,
    packed_documents,
    share_right,
    train,
)

TINY = TinyModelConfig(width=16, layers=1, heads=2, key_value_heads=1, head_width=8, feedforward=32, positions=256)
SIZES = CorpusSizes(examples=40)
DOCUMENTS = [list(range(10, 10 + length)) for length in (5, 64, 90)]


@pytest.fixture(scope="module")
def items() -> Any:
    return examples("gsm8k", SIZES)


@pytest.fixture(scope="module")
def tokenizer(items: Any) -> Any:
    return train_tokenizer([item.prompt + item.answer for item in items], 400)


class Checkpoint:
    """Saves at every step, forgets nothing; stops the loop when it is told to."""

    def __init__(self, stop_at: int | None = None, state: Mapping[str, Any] | None = None) -> None:
        self.state, self._stop_at = state, stop_at

    def load(self) -> Any:
        return self.state

    def save(self, state: Mapping[str, Any]) -> None:
        self.state = state
        if state["step"] == self._stop_at:
            raise KeyboardInterrupt

    def due(self) -> bool:
        return True


class Context:
    """What the loop needs of a job."""

    directory = Path()
    inputs: Mapping[str, Any] = {}

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.rows: list[Mapping[str, float | int]] = []

    def log(self, values: Mapping[str, float | int]) -> None:
        self.rows.append(values)

    def progress(self, *_: object) -> None:
        pass


def trained(tokenizer: Any, items: Any, checkpoint: Checkpoint) -> tuple[Any, list[float]]:
    schedule = FinetuningSchedule(steps=6, batch_size=3, warmup=2, report_every=4)
    model = new_model(TINY, len(tokenizer), 0)
    draw = Examples(tokenizer, [items], DOCUMENTS, schedule).draw
    losses = train(model, schedule, draw, 5, Context(checkpoint))  # type: ignore[arg-type]
    return model, losses


def test_a_killed_training_goes_on_to_the_same_bits(tokenizer: Any, items: Any) -> None:
    whole, losses = trained(tokenizer, items, Checkpoint())
    killed = Checkpoint(stop_at=3)
    with pytest.raises(KeyboardInterrupt):
        trained(tokenizer, items, killed)
    resumed, resumed_losses = trained(tokenizer, items, Checkpoint(state=killed.state))
    assert resumed_losses == losses
    assert len(losses) == 2
    for ours, theirs in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_training_lowers_the_loss(tokenizer: Any, items: Any) -> None:
    schedule = ScheduleConfig(steps=40, batch_size=4, warmup=4, learning_rate=1e-2, report_every=10)
    model = new_model(TINY, len(tokenizer), 0)
    draw = packed_documents([encode(tokenizer, item.prompt + item.answer) for item in items], 4, 32)
    losses = train(model, schedule, draw, 0, Context(Checkpoint()))  # type: ignore[arg-type]
    assert losses[-1] < losses[0] - 1


def test_the_tokenizer_round_trips_begins_once_and_splits_numbers_into_digits(tokenizer: Any, items: Any) -> None:
    for text in (*(item.prompt + item.answer for item in items), '{"a": "é\\n"}\t€', "  two  spaces"):
        assert tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True) == text
        assert tokenizer(text)["input_ids"].count(BEGIN) == 1
    assert [tokenizer.decode([token]) for token in encode(tokenizer, "1234")] == ["1", "2", "3", "4"]


def test_the_loss_is_on_answers_and_the_end_and_shown_answers_have_no_end(tokenizer: Any, items: Any) -> None:
    schedule = FinetuningSchedule(batch_size=40, replay_share=0.0, shown_share=0.5, instructed_share=0.2)
    ids, labels = Examples(tokenizer, [items], DOCUMENTS, schedule).draw(random.Random(0))
    answers = {item.answer for item in items}
    shown = set()
    for row, targets in zip(ids, labels, strict=True):
        kept = row[row != PAD].tolist()
        assert kept[0] == BEGIN
        assert kept[-1] == END
        assert kept.count(END) == 1
        assert torch.equal(targets[targets != IGNORED], row[targets != IGNORED])
        learned = tokenizer.decode(targets[targets != IGNORED].tolist(), skip_special_tokens=True)
        written = tokenizer.decode(kept, skip_special_tokens=True)
        parts = [answer for answer in answers if answer in learned]
        assert parts
        assert learned.endswith(max(parts, key=learned.rfind))
        shown.add(written.count("Question:") + ("Solve the following" in written) * 10)
    assert shown == {1, 2, 3, 11}


def test_the_loss_is_the_mean_of_cross_entropy_and_of_the_divergence_from_the_teacher() -> None:
    model, teacher = new_model(TINY, 50, 0), new_model(TINY, 50, 1)
    ids = torch.tensor([[BEGIN, 7, 8, 9, PAD], [BEGIN, 5, 6, 7, 8]])
    labels = torch.tensor([[IGNORED, IGNORED, 8, 9, IGNORED], [IGNORED, KEPT, KEPT, KEPT, KEPT]])
    loss = loss_of(model, (ids, labels), teacher)
    p, q = (net(input_ids=ids, attention_mask=(ids != PAD).long()).logits.softmax(-1) for net in (model, teacher))
    wanted = -p[0, 1, 8].log() - p[0, 2, 9].log()
    wanted = wanted + sum((q[1, n] * (q[1, n] / p[1, n]).log()).sum() for n in range(4))
    assert loss.item() == pytest.approx(wanted.item() / 6, rel=1e-4)


def test_replayed_rows_are_stretches_of_background_that_must_be_kept(tokenizer: Any, items: Any) -> None:
    schedule = FinetuningSchedule(batch_size=60, replay_share=1.0)
    ids, labels = Examples(tokenizer, [items], DOCUMENTS, schedule).draw(random.Random(0))
    ended = 0
    for row, targets in zip(ids, labels, strict=True):
        kept = row[row != PAD].tolist()
        assert kept[0] == BEGIN
        assert targets[: len(kept)].tolist() == [IGNORED, *[KEPT] * (len(kept) - 1)]
        body = [token for token in kept[1:] if token != END]
        assert body == list(range(body[0], body[0] + len(body)))
        ended += kept[-1] == END
    assert 0 < ended < 60  # the long document is cut mostly, the short ones never


def test_packed_rows_are_full_and_all_targets() -> None:
    ids, labels = packed_documents([[5, 6, 7], [8, 9]], rows=3, tokens=16)(random.Random(0))
    assert ids.shape == (3, 16)
    assert torch.equal(ids, labels)
    assert set(ids[:, 0].tolist()) == {BEGIN}


def test_only_an_answer_that_is_right_letter_for_letter_counts(tokenizer: Any, items: Any) -> None:
    class Oracle:
        """Writes every second answer right."""

        calls = 0

        def generate(self, ids: torch.Tensor, **_: Any) -> torch.Tensor:
            item = items[self.calls]
            text = item.answer if self.calls % 2 == 0 else item.answer + "."
            self.calls += 1
            return torch.cat((ids, torch.tensor([[*encode(tokenizer, text), END]])), dim=1)

    assert share_right(Oracle(), tokenizer, items[:10]) == 0.5


def test_initialization_follows_the_seed_and_leaves_torchs_generator_alone() -> None:
    state = torch.get_rng_state()
    first, again, other = (new_model(TINY, 300, seed).lm_head.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: CorpusSizes(vocabulary=10), "corpus.vocabulary"),
        (lambda: CorpusSizes(tests={"gsm8k": 0}), "corpus.tests.gsm8k"),
        (lambda: TinyModelConfig(heads=3, key_value_heads=2), "model.key_value_heads"),
        (lambda: ScheduleConfig(steps=5, warmup=6), "schedule.warmup"),
        (lambda: FinetuningSchedule(shown_share=1.5), "finetune.shown_share"),
        (lambda: PretrainConfig(schedule=PretrainingSchedule(row_tokens=1024)), "pretrain.row_tokens"),
    ],
)
def test_impossible_values_are_refused_with_their_field(make: Any, field: str) -> None:
    with pytest.raises(ConfigError, match=f"composition.training.{field}"):
        make()
