from itertools import pairwise

import pytest
import torch
from scipy.stats import chisquare

from compgen.copying.sequences import draw_pool, draw_sequences, token_law
from compgen.randomness import torch_stream


def laws(name: str = "zipf", vocabulary: int = 64) -> torch.Tensor:
    return token_law(name, vocabulary)


def test_token_laws_have_the_dossiers_formulas() -> None:
    zipf = token_law("zipf", 64)
    assert float(zipf[0] / zipf[9]) == pytest.approx((10 + 2.7) / (1 + 2.7))
    assert float(zipf[0]) == pytest.approx(1 - 0.915, abs=0.005)  # the most frequent token: the weak learner's hit rate
    two_level = token_law("two_level", 64)
    assert two_level[:4].tolist() == pytest.approx([1 / 8] * 4)
    assert float(two_level[4:].sum()) == pytest.approx(0.5)
    assert token_law("uniform", 50).tolist() == pytest.approx([0.02] * 50)


@pytest.mark.parametrize("repeats", [2, 3])
def test_copies_are_equal_never_touch_and_leave_the_last_token_to_the_background(repeats: int) -> None:
    batch = draw_sequences(400, 96, laws(), laws(), 10, 19, torch_stream(0, "x"), repeats=repeats)
    for tokens, starts, length in zip(batch.tokens, batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        assert 10 <= length <= 19
        copies = [tokens[start : start + length] for start in starts]
        assert all(torch.equal(copy, copies[0]) for copy in copies)
        assert all(second >= first + length + 1 for first, second in pairwise(starts))
        assert starts[-1] + length <= 95


def test_segment_lengths_and_positions_follow_the_law() -> None:
    batch = draw_sequences(20_000, 64, laws(), laws(), 10, 19, torch_stream(1, "x"))
    counts = torch.bincount(batch.lengths)[10:20]
    assert chisquare(counts.numpy()).pvalue > 1e-4
    # Two distinct values of 0…r−1, sorted: their distance d has probability 2(r − d)/(r(r − 1)).
    chosen = batch.lengths == 15
    distance = (batch.starts[chosen, 1] - batch.starts[chosen, 0] - 15).numpy()
    r = 64 - 30
    expected = torch.tensor([2 * (r - d) / (r * (r - 1)) for d in range(1, r)]) * len(distance)
    assert chisquare(torch.bincount(torch.tensor(distance))[1:r].numpy(), expected.numpy()).pvalue > 1e-4


def test_tokens_follow_their_laws_inside_and_outside_the_segment() -> None:
    batch = draw_sequences(4000, 64, laws("uniform"), laws("two_level"), 25, 25, torch_stream(2, "x"))
    inside = batch.tokens.gather(1, batch.starts[:, :1] + torch.arange(25))
    assert float((inside < 4).double().mean()) == pytest.approx(0.5, abs=0.01)
    assert float((batch.tokens[:, -1] < 4).double().mean()) == pytest.approx(4 / 64, abs=0.02)


def test_a_pool_limits_the_segments_and_nothing_else() -> None:
    generator = torch_stream(3, "x")
    pool = draw_pool(laws(), 5, 10, 19, generator)
    batch = draw_sequences(500, 64, laws(), laws(), 10, 19, generator, pool=pool)
    known = {tuple(tokens[:length].tolist()) for tokens, length in zip(pool.tokens, pool.lengths, strict=True)}
    rows = zip(batch.tokens, batch.starts[:, 0], batch.lengths, strict=True)
    seen = {tuple(tokens[start : start + length].tolist()) for tokens, start, length in rows}
    assert seen == known
    assert len({tuple(starts) for starts in batch.starts.tolist()}) > 100


def test_a_stated_gap_is_kept() -> None:
    batch = draw_sequences(200, 64, laws(), laws(), 10, 12, torch_stream(4, "x"), gap=16)
    assert bool((batch.starts[:, 1] - batch.starts[:, 0] == batch.lengths + 16).all())
    assert int((batch.starts[:, 1] + batch.lengths).max()) <= 64


def test_equal_streams_give_equal_sequences_and_copies_that_do_not_fit_are_refused() -> None:
    first, second = (draw_sequences(9, 64, laws(), laws(), 10, 19, torch_stream(5, "x")) for _ in range(2))
    assert torch.equal(first.tokens, second.tokens)
    with pytest.raises(ValueError, match="do not fit"):
        draw_sequences(3, 40, laws(), laws(), 25, 25, torch_stream(6, "x"))
