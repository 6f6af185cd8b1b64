"""Sequences of random tokens repeated twice, on which heads are scored: the authors' and controlled ones."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compgen.errors import require
from compgen.heads.views import HeadView
from compgen.measures import copy_queries
from compgen.randomness import numpy_stream


@dataclass(frozen=True)
class Repeated:
    """Equally long sequences of one segment and its copy, after a begin token or none."""

    tokens: Tensor
    """(sequence, position)"""
    segment: int
    """Tokens in a copy; the distance between the copies is the same."""
    beginning: int | None
    """The token before the first copy."""

    @property
    def start(self) -> int:
        """The position of the first copy."""
        return 0 if self.beginning is None else 1

    def copied(self) -> Tensor:
        """The queries of the second copy whose next token copying predicts, all but its last: (1, position)."""
        second, length = torch.tensor([self.start + self.segment]), torch.tensor([self.segment])
        return copy_queries(second, length, self.tokens.shape[1])

    def preceded(self) -> Tensor:
        """The queries whose previous token is one of the copies', not the begin token: (1, position)."""
        return (torch.arange(self.tokens.shape[1]) > self.start)[None]


def authors_sequences(
    vocabulary: int, beginning: int | None, sequences: int = 50, segment: int = 25, seed: int = 2024
) -> Repeated:
    """The authors' own sequences, token by token: uniform over the whole vocabulary, special tokens included.

    Args:
        vocabulary: number of tokens (`model.config.vocab_size`).
        beginning: the begin token, or None for none.
    """
    drawn = np.random.RandomState(seed).randint(0, vocabulary, sequences * segment)  # the authors' generator
    return _repeat(drawn.reshape(sequences, segment), beginning)


def controlled_sequences(
    vocabulary: int,
    beginning: int | None,
    excluded: Collection[int],
    sequences: int = 50,
    segment: int = 25,
    seed: int = 0,
) -> Repeated:
    """Sequences in which every token occurs once in each copy, so that its earlier occurrence is unique.

    Args:
        vocabulary: number of tokens.
        beginning: the begin token, or None for none.
        excluded: tokens never drawn: special ones and ids without a token. The begin token is excluded anyway.

    Raises:
        ConfigError: too few tokens are left.
    """
    refused = {*excluded} | ({beginning} if beginning is not None else set())
    allowed = np.setdiff1d(np.arange(vocabulary), np.fromiter(refused, dtype=np.int64))
    require(segment <= len(allowed), "segment", segment, f"at most the {len(allowed)} tokens that may be drawn")
    generator = numpy_stream(seed, "repeated", segment)
    drawn = np.stack([generator.choice(allowed, segment, replace=False) for _ in range(sequences)])
    return _repeat(drawn, beginning)


def beginning_token(view: HeadView) -> int | None:
    """The begin token that a model's configuration names, or None where texts of its family begin with none."""
    token = view.model.config.bos_token_id if view.family.begins_with_token else None
    return None if token is None else int(token)


def _repeat(segments: NDArray[np.int64], beginning: int | None) -> Repeated:
    tokens = np.tile(segments, 2)
    if beginning is not None:
        tokens = np.insert(tokens, 0, beginning, axis=1)
    return Repeated(torch.from_numpy(tokens.astype(np.int64)), segments.shape[1], beginning)
