"""Answering the samples of a benchmark with a composed model: batches by length, the shared prefix computed once.

Covers what forms a batch, in which order, and resuming. In float32 an answer does not depend on the batch that it was
made in. Decoding one batch is in `decoding.py`, scoring elsewhere.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compgen.composition.causal_lm import NonFiniteError
from compgen.errors import UserError
from compgen.evaluation.decoding import DecodingOptions, Reader, Row, as_generation, decode
from compgen.evaluation.prefix import SharedPrefix, shared_length
from compgen.evaluation.samples import Generation, Sample


class Answerer:
    """A composed model with its tokenizer, answering samples in a fixed order of batches."""

    def __init__(self, model: Any, tokenizer: Any, batch_size: int, options: DecodingOptions) -> None:
        """Take the model; nothing is computed yet."""
        self._model = model
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._options = options

    def answer(self, samples: Sequence[Sample], finished: int = 0) -> Iterator[list[Generation]]:
        """The generations of every batch, in the order of the plan, without its first `finished` batches.

        Raises:
            UserError: a prompt with its answer is longer than the model's positions, or a component's numbers are not
                finite; the sample is named.
        """
        if not samples:
            return
        prompts = {sample.id: self._encode(sample) for sample in samples}
        length = 0 if self._model.has_contexts else shared_length(list(prompts.values()))
        prefix = self._prefix(next(iter(prompts.values()))[:length])
        longest_stop = max((len(stop) for sample in samples for stop in sample.stop), default=0)
        reader = Reader(self._tokenizer, longest_stop)
        for batch in plan(samples, lambda sample: len(prompts[sample.id]), self._batch_size)[finished:]:
            yield self._batch([self._row(sample, prompts[sample.id]) for sample in batch], prefix, reader)

    def _row(self, sample: Sample, prompt: list[int]) -> Row:
        if not self._options.oracle_stop:
            return Row(sample, prompt)
        if not sample.reference:
            raise UserError(f"sample {sample.id}: an oracle's stop needs a reference answer, which it has not")
        reference = self._tokenizer(sample.reference, add_special_tokens=False)["input_ids"]
        return Row(sample, prompt, limit=len(reference))

    def _prefix(self, ids: list[int]) -> SharedPrefix:
        try:
            return SharedPrefix(self._model, ids)
        except NonFiniteError as error:
            raise UserError(f"every sample, in the prefix that all prompts share: {error}") from error

    def _batch(self, rows: list[Row], prefix: SharedPrefix, reader: Reader) -> list[Generation]:
        cache, chunk, mask = prefix.rows([row.prompt_ids for row in rows], self._padding)
        decode(self._model, rows, cache, chunk, mask, reader, self._options)
        return [as_generation(row, reader) for row in rows]

    @property
    def _padding(self) -> int:
        given = self._tokenizer.pad_token_id
        return int(given if given is not None else self._model.end_tokens[0])

    def _encode(self, sample: Sample) -> list[int]:
        """The prompt's tokens, the one that begins a sequence included exactly once where the tokenizer has it."""
        ids: list[int] = self._tokenizer(sample.prompt)["input_ids"]
        begin = self._tokenizer.bos_token_id
        if begin is not None and begin in ids[1:]:
            raise UserError(
                f"sample {sample.id}: the prompt's tokens hold the begin token twice: leave it out of the text"
            )
        reach = self._model.longest
        needed = len(ids) + self._options.max_new_tokens
        if reach is not None and needed > reach:
            raise UserError(
                f"sample {sample.id}: {len(ids)} prompt tokens and max_new_tokens={self._options.max_new_tokens} "
                f"exceed the model's {reach} positions: use fewer shots or fewer new tokens"
            )
        return ids


def plan(samples: Sequence[Sample], length: Callable[[Sample], int], batch_size: int) -> list[list[Sample]]:
    """Batches of samples of similar length, the longest first so that memory runs out at once or never."""
    ordered = sorted(samples, key=lambda sample: (-length(sample), sample.id))
    return [ordered[start : start + batch_size] for start in range(0, len(ordered), batch_size)]


def in_order(samples: Sequence[Sample], generations: Sequence[Generation]) -> list[Generation]:
    """The generations in the order of their samples.

    Raises:
        ValueError: a sample has none, or its prompt was another one.
    """
    by_id = {generation.id: generation for generation in generations}
    for sample in samples:
        if sample.id not in by_id or by_id[sample.id].prompt_digest != sample.prompt_digest:
            raise ValueError(f"sample {sample.id} has no generation for its prompt")
    return [by_id[sample.id] for sample in samples]
