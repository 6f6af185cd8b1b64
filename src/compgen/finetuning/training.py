"""Training a small language model on batches that a seeded generator draws; resumable to the bit.

Covers the loop, the two kinds of batch and the test on held-out questions. What is trained on is in corpus/.
"""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compgen.finetuning.config import FinetuningSchedule, ScheduleConfig
from compgen.finetuning.corpus.items import Item
from compgen.finetuning.tokenizer import BEGIN, END, PAD, encode
from compgen.prompts import SEPARATOR, ZERO_SHOT
from compgen.run.context import JobContext

IGNORED = -100
KEPT = -200
"""The label of a token where a teacher's distribution is the target."""
BETAS = (0.9, 0.95)
LARGEST_GRADIENT = 1.0
LAST_SHARE = 0.02
"""Of the learning rate, at the last step."""
MOST_SHOWN = 2
REPLAYED_TOKENS = 64
"""Of one replayed row."""
Batch = tuple[Tensor, Tensor]
Draw = Callable[[random.Random], Batch]


@dataclass(frozen=True)
class Encoded:
    """A question and its answer as tokens, without begin and end."""

    prompt: list[int]
    answer: list[int]


def train(
    model: Any, schedule: ScheduleConfig, draw: Draw, seed: int, context: JobContext, teacher: Any = None
) -> list[float]:
    """Train in place.

    Args:
        model: a transformers causal language model.
        schedule: steps, rates, batch size.
        draw: token ids and labels, both (row, token), from a generator.
        seed: of the generator.
        context: for progress, history and checkpoints.
        teacher: gives the targets where labels say `KEPT`: a model that this one must stay near.

    Returns:
        The mean loss of every `report_every` steps.
    """
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=schedule.learning_rate, betas=BETAS, weight_decay=schedule.weight_decay
    )
    generator = random.Random(seed)
    step, losses, reported = _restore(context.checkpoint.load(), model, optimizer, generator)
    model.train()
    while step < schedule.steps:
        losses.append(_step(model, optimizer, draw(generator), _rate(schedule, step), teacher))
        step += 1
        if len(losses) == schedule.report_every or step == schedule.steps:
            reported.append(sum(losses) / len(losses))
            losses = []
            context.log({"train/step": step, "train/loss": reported[-1]})
            context.progress(step, schedule.steps, f"loss {reported[-1]:.3f}")
        if context.checkpoint.due():
            context.checkpoint.save(_state(step, losses, reported, model, optimizer, generator))
    model.eval()
    return reported


def _step(model: Any, optimizer: torch.optim.Optimizer, batch: Batch, rate: float, teacher: Any) -> float:
    for group in optimizer.param_groups:
        group["lr"] = rate
    loss = loss_of(model, batch, teacher)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
    optimizer.step()
    optimizer.zero_grad()
    return float(loss.detach())


def loss_of(model: Any, batch: Batch, teacher: Any = None) -> Tensor:
    """The mean over targets: cross-entropy where labels are tokens, KL(teacher‖model) in nats where they are `KEPT`."""
    ids, labels = batch
    mask = (ids != PAD).long()
    targets = labels[:, 1:]
    scores = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1].log_softmax(-1)
    learned, kept = targets >= 0, targets == KEPT
    total = torch.nn.functional.nll_loss(scores[learned], targets[learned], reduction="sum")
    if teacher is not None and bool(kept.any()):
        with torch.no_grad():
            wanted = teacher(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1].log_softmax(-1)
        total = total + torch.nn.functional.kl_div(scores[kept], wanted[kept], reduction="sum", log_target=True)
    return total / (learned.sum() + kept.sum())


def _rate(schedule: ScheduleConfig, step: int) -> float:
    warm = min(1.0, (step + 1) / max(1, schedule.warmup))
    return schedule.learning_rate * warm * max(LAST_SHARE, 1 - step / schedule.steps)


def _state(
    step: int, losses: list[float], reported: list[float], model: Any, optimizer: Any, generator: random.Random
) -> dict[str, Any]:
    version, numbers, gauss = generator.getstate()
    return {
        "step": step,
        "losses": losses,
        "reported": reported,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generator": [version, list(numbers), gauss],
    }


def _restore(
    state: dict[str, Any] | None, model: Any, optimizer: Any, generator: random.Random
) -> tuple[int, list[float], list[float]]:
    if state is None:
        return 0, [], []
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    version, numbers, gauss = state["generator"]
    generator.setstate((version, tuple(numbers), gauss))
    return state["step"], state["losses"], state["reported"]


def packed_documents(documents: Sequence[Sequence[int]], rows: int, tokens: int) -> Draw:
    """Batches of rows that are filled with whole documents, the last one cut; every token is a target."""

    def draw(generator: random.Random) -> Batch:
        filled = []
        for _ in range(rows):
            row: list[int] = []
            while len(row) < tokens:
                row += [BEGIN, *generator.choice(documents), END]
            filled.append(row[:tokens])
        ids = torch.tensor(filled)
        return ids, ids

    return draw


class Examples:
    """Rows of one skill's questions, the loss on answers and end tokens, and of background that is replayed."""

    def __init__(
        self,
        tokenizer: Any,
        forms: Sequence[Sequence[Item]],
        background: Sequence[Sequence[int]],
        schedule: FinetuningSchedule,
    ) -> None:
        """Encode them; a row draws its form first, so that all forms count the same.

        Args:
            tokenizer: of the base.
            forms: the questions by form.
            background: documents as tokens, without begin and end.
            schedule: the batch size and the shares of the kinds of row.
        """
        self._background = background
        self._forms = [encode_items(tokenizer, items) for items in forms]
        self._instructed = [items[0].prompt.startswith("Question:") for items in forms]
        self._instruction = encode(tokenizer, ZERO_SHOT)
        self._separator = encode(tokenizer, SEPARATOR)
        self._schedule = schedule

    def draw(self, generator: random.Random) -> Batch:
        """One batch."""
        rows = range(self._schedule.batch_size)
        return pad([self._replayed(generator) if self._replays(generator) else self._row(generator) for _ in rows])

    def _replays(self, generator: random.Random) -> bool:
        return generator.random() < self._schedule.replay_share

    def _replayed(self, generator: random.Random) -> tuple[list[int], list[int]]:
        """A stretch of a document that begins anywhere, as in a packed row, so that its end is not at a fixed place."""
        document = generator.choice(self._background)
        start = generator.randrange(max(1, len(document) - REPLAYED_TOKENS + 1))
        stretch = list(document[start : start + REPLAYED_TOKENS])
        ended = [END] if start + REPLAYED_TOKENS >= len(document) else []
        ids = [BEGIN, *stretch, *ended]
        return ids, [IGNORED, *[KEPT] * (len(ids) - 1)]

    def _row(self, generator: random.Random) -> tuple[list[int], list[int]]:
        place = generator.randrange(len(self._forms))
        form, kind = self._forms[place], generator.random()
        row = _Row()
        if kind < self._schedule.shown_share:
            for _ in range(generator.randint(1, MOST_SHOWN)):
                solved = generator.choice(form)
                row.read(solved.prompt).write(solved.answer).read(self._separator)
        elif self._instructed[place] and kind > 1 - self._schedule.instructed_share:
            row.read(self._instruction)
        asked = generator.choice(form)
        row.read(asked.prompt).write([*asked.answer, END])
        return row.ids, row.labels


class _Row:
    """Tokens and labels that grow together."""

    def __init__(self) -> None:
        self.ids, self.labels = [BEGIN], [IGNORED]

    def read(self, ids: list[int]) -> "_Row":
        """Tokens that are given."""
        self.ids += ids
        self.labels += [IGNORED] * len(ids)
        return self

    def write(self, ids: list[int]) -> "_Row":
        """Tokens that are to be learned."""
        self.ids += ids
        self.labels += ids
        return self


def pad(rows: Sequence[tuple[list[int], list[int]]]) -> Batch:
    """Token ids and labels as rectangles, filled on the right."""
    width = max(len(ids) for ids, _ in rows)
    ids = torch.full((len(rows), width), PAD)
    labels = torch.full((len(rows), width), IGNORED)
    for place, (own_ids, own_labels) in enumerate(rows):
        ids[place, : len(own_ids)] = torch.tensor(own_ids)
        labels[place, : len(own_labels)] = torch.tensor(own_labels)
    return ids, labels


def background(corpus: Path, tokenizer: Any) -> list[list[int]]:
    """The background documents of a corpus job's directory as tokens, without begin and end."""
    lines = (corpus / "background.jsonl").read_text(encoding="utf-8").splitlines()
    return [encode(tokenizer, json.loads(line)["text"]) for line in lines]


def encode_items(tokenizer: Any, items: Sequence[Item]) -> list[Encoded]:
    """Items as tokens."""
    return [Encoded(encode(tokenizer, item.prompt), encode(tokenizer, item.answer)) for item in items]


@torch.no_grad()
def share_right(model: Any, tokenizer: Any, items: Sequence[Item], new_tokens: int = 80) -> float:
    """The share of questions whose greedy answer is the worked answer, letter for letter."""
    right = 0
    for item in items:
        ids = [BEGIN, *encode(tokenizer, item.prompt)]
        written = model.generate(torch.tensor([ids]), max_new_tokens=new_tokens, do_sample=False)[0, len(ids) :]
        right += tokenizer.decode(written, skip_special_tokens=True) == item.answer
    return right / len(items)
