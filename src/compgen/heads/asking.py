"""What a model says to prompts: the probability of the answer, whether it would write it, which choice it takes.

One forward pass for each prompt reads all of these off; free writing is a second one, where a task asks for it. Rows
are padded on the left and do not depend on their batch. What is removed from the model is the caller's business.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from compgen.heads.loading import Subject
from compgen.heads.prompts.encoding import (
    Encoded,
    begin_ids,
    choice_scores,
    encode_answer,
    encode_choices,
    encode_prompt,
    token_limit,
)
from compgen.heads.prompts.exact_copying import TokenPrompt
from compgen.heads.prompts.judging import judge_beams, new_text
from compgen.heads.prompts.prompt import Prompt, Protocol

AUTHORS_BEAMS = 3
Row = dict[str, float | None]


@dataclass(frozen=True)
class Asked:
    """A prompt as tokens: what is read, and how it may go on."""

    encoded: Encoded
    answer: int
    """The place of the answer among the continuations."""

    @property
    def inputs(self) -> list[tuple[int, ...]]:
        """Different rows to read: a choice of one token needs none of its own."""
        return list(dict.fromkeys(self.encoded.prefix + tail[:-1] for tail in self.encoded.continuations))


def as_asked(tokenizer: Any, prompt: Prompt) -> Asked:
    """A prompt's choices, or its answer alone where it has none."""
    if prompt.choices:
        return Asked(encode_choices(tokenizer, prompt), prompt.choices.index(prompt.answer))
    return Asked(encode_answer(tokenizer, prompt), 0)


@torch.no_grad()
def read_answers(subject: Subject, asked: Sequence[Asked], batch_size: int) -> list[Row]:
    """Probability of the answer, whether greedy decoding writes it, and whether it is the likeliest choice.

    Returns:
        For each prompt `log_probability`, `greedy`, `choice` and `choice_per_token`, the last two None without choices.
    """
    rows = [(place, ids) for place, one in enumerate(asked) for ids in one.inputs]
    tails = max(len(tail) for one in asked for tail in one.encoded.continuations)
    found: dict[tuple[int, tuple[int, ...]], Tensor] = {}
    order = sorted(rows, key=lambda row: len(row[1]))
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        logits = _last_logits(subject, [ids for _, ids in batch], tails)
        found.update(zip(batch, logits, strict=True))
    return [_row(one, {ids: found[place, ids] for ids in one.inputs}) for place, one in enumerate(asked)]


def _last_logits(subject: Subject, rows: Sequence[tuple[int, ...]], keep: int) -> Tensor:
    """Log-probabilities behind the last `keep` tokens of each row, (row, keep, vocabulary)."""
    device = subject.model.device
    width = max(max(map(len, rows)), keep)
    ids = torch.full((len(rows), width), _padding(subject.tokenizer), device=device)
    mask = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, width - len(row) :] = torch.tensor(row)
        mask[place, width - len(row) :] = 1
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    output = subject.model(
        input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=keep, use_cache=False
    )
    return cast(Tensor, output.logits.float().log_softmax(-1))


def _padding(tokenizer: Any) -> int:
    token = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    return int(token or 0)


def _row(one: Asked, logits: dict[tuple[int, ...], Tensor]) -> Row:
    scores, greedy = [], False
    for place, tail in enumerate(one.encoded.continuations):
        own = logits[one.encoded.prefix + tail[:-1]][-len(tail) :]
        values = own[range(len(tail)), tail]
        scores.append([float(value) for value in values])
        if place == one.answer:
            greedy = bool((own.argmax(-1).cpu() == torch.tensor(tail)).all())
    said = sum(scores[one.answer])
    row: Row = {"log_probability": said, "greedy": float(greedy), "choice": None, "choice_per_token": None}
    if len(scores) > 1:
        choices = choice_scores(scores)
        row["choice"] = float(choices.chosen(one.answer))
        row["choice_per_token"] = float(choices.chosen_per_token(one.answer))
    return row


@torch.no_grad()
def write_answers(subject: Subject, prompts: Sequence[Prompt], batch_size: int) -> Iterator[Row]:
    """Free continuations, judged strictly and leniently; greedy, or with three beams under the authors' protocol."""
    beams = AUTHORS_BEAMS if prompts[0].protocol is Protocol.authors else 1
    tokens = prompts[0].new_tokens if beams > 1 else token_limit(subject.tokenizer, prompts)
    for start in range(0, len(prompts), batch_size):
        batch = prompts[start : start + batch_size]
        for prompt, texts in zip(batch, _written(subject, batch, beams, tokens), strict=True):
            judgement = judge_beams(prompt, texts)
            yield {"strict": float(judgement.strict), "lenient": float(judgement.lenient)}


def _written(subject: Subject, prompts: Sequence[Prompt], beams: int, tokens: int) -> list[list[str]]:
    rows = [encode_prompt(subject.tokenizer, prompt) for prompt in prompts]
    width = max(map(len, rows))
    ids = torch.full((len(rows), width), _padding(subject.tokenizer), device=subject.model.device)
    mask = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, width - len(row) :] = torch.tensor(row)
        mask[place, width - len(row) :] = 1
    written = subject.model.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=tokens,
        do_sample=False,
        num_beams=beams,
        num_return_sequences=beams,
        pad_token_id=_padding(subject.tokenizer),
    )
    texts = [new_text(subject.tokenizer, row[width:].tolist()) for row in written]
    return [texts[start : start + beams] for start in range(0, len(texts), beams)]


@torch.no_grad()
def read_copies(subject: Subject, prompts: Sequence[TokenPrompt], batch_size: int) -> list[Row]:
    """Exact copying of random tokens: the share of the scored tokens that greedy decoding gets right, and the mean of
    their log-probabilities."""
    begin = begin_ids(subject.tokenizer)
    special = subject.special_tokens
    vocabulary = [token for token in range(subject.model.config.vocab_size) if token not in special]
    rows: list[Row] = []
    for start in range(0, len(prompts), batch_size):
        batch = prompts[start : start + batch_size]
        ids = torch.tensor([prompt.token_ids(vocabulary, begin) for prompt in batch], device=subject.model.device)
        places = batch[0].scored(len(begin))
        wanted = ids[:, places.start : places.stop]
        output = subject.model(input_ids=ids, logits_to_keep=ids.shape[1] - places.start + 1, use_cache=False)
        said = output.logits[:, :-1].float().log_softmax(-1)
        right = (said.argmax(-1) == wanted).float().mean(-1)
        mean = said.gather(-1, wanted[..., None])[..., 0].mean(-1)
        rows += [{"accuracy": float(one), "log_probability": float(two)} for one, two in zip(right, mean, strict=True)]
    return rows
