"""Copying sequences: background tokens with one segment that stands in them two or more times.

Covers the generator of the copying paper (its code's "varied repetition", dossier 1.1), vectorized, and the variations
that take its out-of-distribution shift apart. What counts as an error is in `errors.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ZIPF_SHIFT = 2.7
FREQUENT_TOKENS = 4
FREQUENT_SHARE = 0.5


@dataclass(frozen=True)
class CopyBatch:
    """Sequences and where their copies stand."""

    tokens: Tensor
    """(sequence, position), token ids."""
    starts: Tensor
    """(sequence, copy), the position of the first token of each copy, increasing."""
    lengths: Tensor
    """(sequence,), tokens in the segment."""

    def __len__(self) -> int:
        return self.tokens.shape[0]

    def rows(self, start: int, stop: int) -> "CopyBatch":
        """Some of the sequences."""
        return CopyBatch(self.tokens[start:stop], self.starts[start:stop], self.lengths[start:stop])


@dataclass(frozen=True)
class SegmentPool:
    """A fixed set of segments; sequences then differ in background and positions only."""

    tokens: Tensor
    """(segment, maximal length)."""
    lengths: Tensor
    """(segment,)."""


def token_law(name: str, vocabulary: int) -> Tensor:
    """Probabilities of the tokens, shape (vocabulary,), float64.

    zipf: p_i ∝ 1/(i + 2.7), i = 1…V (Zipf-Mandelbrot, the law of the paper's runs). two_level: four tokens of 1/8 each,
    the others share 1/2. uniform.
    """
    if name == "zipf":
        weights = 1 / (torch.arange(1, vocabulary + 1, dtype=torch.float64) + ZIPF_SHIFT)
    elif name == "two_level":
        rare = (1 - FREQUENT_SHARE) / (vocabulary - FREQUENT_TOKENS)
        weights = torch.full((vocabulary,), rare, dtype=torch.float64)
        weights[:FREQUENT_TOKENS] = FREQUENT_SHARE / FREQUENT_TOKENS
    elif name == "uniform":
        weights = torch.ones(vocabulary, dtype=torch.float64)
    else:
        raise ValueError(f"no token law {name!r}")
    return weights / weights.sum()


def draw_tokens(law: Tensor, shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Independent tokens of a law, as int64 of the given shape."""
    count = int(torch.tensor(shape).prod())
    return torch.multinomial(law, count, replacement=True, generator=generator).view(*shape)


def draw_pool(law: Tensor, size: int, shortest: int, longest: int, generator: torch.Generator) -> SegmentPool:
    """A pool of segments with lengths uniform in shortest…longest, drawn once."""
    lengths = torch.randint(shortest, longest + 1, (size,), generator=generator)
    return SegmentPool(draw_tokens(law, (size, longest), generator), lengths)


def draw_sequences(
    count: int,
    length: int,
    background_law: Tensor,
    segment_law: Tensor,
    shortest: int,
    longest: int,
    generator: torch.Generator,
    repeats: int = 2,
    pool: SegmentPool | None = None,
    gap: int | None = None,
) -> CopyBatch:
    """Draw sequences (dossier 1.1).

    The segment's length is uniform in shortest…longest; with r = length − repeats·segment, as many distinct values as
    copies are drawn from 0…r−1 and sorted, g_1 < g_2 < …, and copy i starts at g_i + i·segment: copies never touch,
    and the last token is always background.

    Args:
        count: sequences.
        length: tokens in a sequence, T.
        background_law, segment_law: (vocabulary,) probabilities.
        shortest, longest: of the segment; ignored with a pool.
        generator: source of all randomness.
        repeats: copies of the segment.
        pool: take the segments from it instead of drawing fresh ones.
        gap: exactly so many background tokens between neighbouring copies, instead of drawn ones.

    Raises:
        ValueError: the copies do not fit into the sequence.
    """
    if pool is None:
        pool = draw_pool(segment_law, count, shortest, longest, generator)
        segments, lengths = pool.tokens, pool.lengths
    else:
        chosen = torch.randint(len(pool.lengths), (count,), generator=generator)
        segments, lengths = pool.tokens[chosen], pool.lengths[chosen]
    starts = _draw_starts(lengths, length, repeats, gap, generator)
    tokens = draw_tokens(background_law, (count, length), generator)
    return CopyBatch(_place(tokens, segments, starts, lengths), starts, lengths)


def _draw_starts(lengths: Tensor, length: int, repeats: int, gap: int | None, generator: torch.Generator) -> Tensor:
    free = length - repeats * lengths  # (sequence,)
    copies = torch.arange(repeats)
    if gap is not None:
        room = free - gap * (repeats - 1)
        if int(room.min()) < 1:
            raise ValueError(f"{repeats} copies with gaps of {gap} do not fit into {length} tokens")
        first = (torch.rand(len(lengths), generator=generator, dtype=torch.float64) * room).long()
        return first[:, None] + copies * (lengths[:, None] + gap)
    if int(free.min()) < repeats:
        raise ValueError(f"{repeats} copies of {int(lengths.max())} tokens do not fit into {length} tokens")
    keys = torch.rand(len(lengths), int(free.max()), generator=generator)
    keys = keys.masked_fill(torch.arange(keys.shape[1]) >= free[:, None], 2.0)
    gaps = keys.topk(repeats, largest=False).indices.sort().values  # a uniform choice of distinct values
    return gaps + copies * lengths[:, None]


def _place(tokens: Tensor, segments: Tensor, starts: Tensor, lengths: Tensor) -> Tensor:
    positions = torch.arange(tokens.shape[1])
    for copy in range(starts.shape[1]):
        offset = positions - starts[:, copy, None]  # (sequence, position)
        inside = (offset >= 0) & (offset < lengths[:, None])
        copied = segments.gather(1, offset.clamp(0, segments.shape[1] - 1))
        tokens = torch.where(inside, copied, tokens)
    return tokens
