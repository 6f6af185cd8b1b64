"""One batch of rows, decoded greedily until each of them has stopped: what ends a row, and rows leaving the batch.

Covers the loop over tokens and the reading of texts. Which samples share a batch, and files, are in `generation.py`;
where the first keys and values come from is in `prefix.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from compgen.composition.causal_lm import NonFiniteError
from compgen.errors import UserError
from compgen.evaluation.samples import Generation, Sample, StopReason

TAIL_TOKENS = 24
"""How many of the last tokens are read after each step in search of a stop string; every token has a character."""


@dataclass(frozen=True)
class DecodingOptions:
    """What ends a row, beside an end token."""

    max_new_tokens: int
    runs_on: bool = False
    """Whether a row goes on behind its first stop string. Its `text` is cut there all the same."""
    oracle_stop: bool = False
    """Whether end tokens are never chosen and a row ends after as many tokens as its reference answer has."""


@dataclass
class Row:
    """One sample being answered."""

    sample: Sample
    prompt_ids: list[int]
    new_ids: list[int] = field(default_factory=list)
    limit: int | None = None
    """New tokens, where the row has a limit of its own."""
    stop_reason: StopReason | None = None


class Reader:
    """Turns new tokens into text: exactly what they add behind the prompt's last token."""

    def __init__(self, tokenizer: Any, longest_stop: int = 0) -> None:
        """Read with a tokenizer; stop strings have at most `longest_stop` characters."""
        self._tokenizer = tokenizer
        self._tail = max(TAIL_TOKENS, longest_stop + 4)

    def text(self, row: Row) -> str:
        """All new tokens as text, special tokens left out."""
        return self._behind(row.prompt_ids[-1:], row.new_ids)

    def tail(self, row: Row) -> str:
        """At least the characters in which a stop string that the last token completes must lie."""
        ids = row.prompt_ids[-1:] + row.new_ids
        return (
            self._behind(ids[-self._tail - 1 : -self._tail], ids[-self._tail :])
            if len(ids) > self._tail
            else self.text(row)
        )

    def _behind(self, anchor: list[int], ids: list[int]) -> str:
        """Some tokenizers drop the first space of a text, so a token before it is decoded too and taken off again."""
        before = self._decode(anchor)
        return self._decode(anchor + ids)[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def cut(text: str, stops: Sequence[str]) -> str:
    """The text before its first stop string."""
    places = [place for place in (text.find(stop) for stop in stops) if place >= 0]
    return text[: min(places)] if places else text


@torch.no_grad()
def decode(
    model: Any, rows: Sequence[Row], cache: Any, chunk: Tensor, mask: Tensor, reader: Reader, options: DecodingOptions
) -> None:
    """Extend every row until it stops.

    Args:
        model: a composed model.
        rows: as many as the batch has; each gets its new tokens and its reason to stop.
        cache: what stands before the chunk, of all components.
        chunk: (row, column), the last tokens of the prompts, padded on the left.
        mask: (row, cached + column), 0 where nothing stands.
        reader: for stop strings.
        options: what ends a row.

    Raises:
        UserError: a component's logits are NaN or infinite; the sample is named.
    """
    ends = set(model.end_tokens)
    forbidden = torch.tensor(sorted(ends), dtype=torch.long, device=chunk.device)
    alive = list(rows)
    while True:
        positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -chunk.shape[1] :]
        scores = _scores(model, alive, chunk, mask, positions, cache)
        if options.oracle_stop:
            scores = scores.index_fill(-1, forbidden, -torch.inf)
        chosen = scores.argmax(-1)
        for row, token in zip(alive, chosen.tolist(), strict=True):
            _extend(row, token, ends, reader, options)
        kept = [place for place, row in enumerate(alive) if not _ended(row, ends, options)]
        if not kept:
            return
        if len(kept) < len(alive):
            places = torch.tensor(kept, device=chunk.device)
            alive = [alive[place] for place in kept]
            cache.batch_select_indices(places)
            chosen, mask = chosen[places], mask[places]
        chunk = chosen[:, None]
        mask = torch.cat((mask, mask.new_ones(len(alive), 1)), dim=1)


def _scores(model: Any, alive: Sequence[Row], chunk: Tensor, mask: Tensor, positions: Tensor, cache: Any) -> Tensor:
    """Log-probabilities of the next token, (row, vocabulary)."""
    try:
        output = model(
            input_ids=chunk, attention_mask=mask, position_ids=positions, cache=cache, use_cache=True, logits_to_keep=1
        )
    except NonFiniteError as error:
        raise UserError(f"sample {alive[error.row].sample.id}: {error}") from error
    return cast(Tensor, output.logits[:, -1])


def _extend(row: Row, token: int, ends: set[int], reader: Reader, options: DecodingOptions) -> None:
    """Add a token; note the first reason to stop, which later ones do not replace."""
    row.new_ids.append(token)
    if row.stop_reason is not None:
        return
    if token in ends:
        row.stop_reason = StopReason.end_token
    elif row.sample.stop and any(stop in reader.tail(row) for stop in row.sample.stop):
        row.stop_reason = StopReason.stop_string
    elif len(row.new_ids) >= _limit(row, options):
        row.stop_reason = StopReason.length


def _ended(row: Row, ends: set[int], options: DecodingOptions) -> bool:
    if not options.runs_on:
        return row.stop_reason is not None
    return row.new_ids[-1] in ends or len(row.new_ids) >= _limit(row, options)


def _limit(row: Row, options: DecodingOptions) -> int:
    return options.max_new_tokens if row.limit is None else min(row.limit, options.max_new_tokens)


def as_generation(row: Row, reader: Reader) -> Generation:
    """The record of a row that has stopped."""
    assert row.stop_reason is not None
    text = reader.text(row)
    return Generation(
        id=row.sample.id,
        prompt_digest=row.sample.prompt_digest,
        token_ids=tuple(row.new_ids),
        text=cut(text, row.sample.stop),
        raw_text=text,
        stop_reason=row.stop_reason,
        prompt_tokens=len(row.prompt_ids),
    )
