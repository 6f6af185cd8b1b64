"""Whether heads form a bridge beyond chance: scores of pairs of heads beside three nulls.

- `random`: lists of stand-ins, each drawn from the other heads of the layer whose head it stands for. Pairs of one model
  share much that is no circuit (a norm's gain, few directions with large entries), so this is the null that matters.
- `gaussian`: independent Gaussian weights of the same widths; what the paper's dashed lines show.
- `untrained`: the same heads of the same architecture at random initialization.

A single pair is compared with the distinct pairs of stand-ins. A whole list is compared with whole lists, because pairs
that share a head are not independent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from compgen.errors import require
from compgen.heads.bridge import MEASURES, HeadSvds, PairScores, PairTable, composable, grid, pair_scores, table_of_pairs
from compgen.heads.parts import NormGain
from compgen.heads.views import Head, HeadView
from compgen.measures import FloatArray, gaussian_heads_null, match_null, upper_p_value
from compgen.randomness import numpy_stream, stream_seed

Lists = tuple[list[Head], list[Head]]
"""Later and earlier heads."""
LEVEL = 0.05


@dataclass(frozen=True)
class BridgeSettings:
    """How pairs are scored and compared."""

    rank: int = 10
    """Of the matched subspaces."""
    distance: float = 0
    """Of the rotation inside W_QK; 0 is none, as in the paper's diagonal score."""
    gain: NormGain = NormGain.folded
    """The authors leave norms apart."""
    draws: int = 100
    """Lists of stand-ins."""
    gaussian_draws: int = 500
    """Pairs of Gaussian heads."""
    seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        """Refuse nulls without draws."""
        require(self.draws >= 1, "draws", self.draws, "at least 1")
        require(self.gaussian_draws >= 1, "gaussian_draws", self.gaussian_draws, "at least 1")


@dataclass(frozen=True)
class RandomPairs:
    """Lists of stand-ins and the scores of all their pairs."""

    lists: list[Lists]
    table: PairTable

    def distinct(self, measure: str, only_composable: bool) -> FloatArray:
        """The scores of every pair that occurs, once: (pair,)."""
        place = MEASURES.index(measure)
        kept = [row[place] for pair, row in self.table.items() if composable(pair) or not only_composable]
        return np.array(kept)

    @cached_property
    def _scores(self) -> list[tuple[PairScores, NDArray[np.bool_]]]:
        return [(grid(self.table, *lists), composable_pairs(*lists)) for lists in self.lists]

    def of_lists(self, measure: str, only_composable: bool) -> list[FloatArray]:
        """The scores of each list's pairs: one (pair,) for every list that has any."""
        chosen = [scores[measure][mask if only_composable else mask | True] for scores, mask in self._scores]
        return [values for values in chosen if values.size]


@dataclass(frozen=True)
class Bridge:
    """The scores of two lists of heads and of what they are compared with."""

    later: list[Head]
    earlier: list[Head]
    scores: PairScores
    """(later, earlier)"""
    random: RandomPairs
    gaussian: PairScores
    """(draw,)"""
    untrained: PairScores | None
    """(later, earlier)"""

    def null(self, name: str, measure: str, only_composable: bool) -> FloatArray:
        """The single scores of the null `random`, `gaussian` or `untrained`: (draw,)."""
        if name == "random":
            return self.random.distinct(measure, only_composable)
        if name == "gaussian":
            return self.gaussian[measure]
        assert self.untrained is not None, "no model at random initialization was given"
        return self.untrained[measure][self.counted(only_composable)]

    def counted(self, only_composable: bool) -> NDArray[np.bool_]:
        """Which pairs count: (later, earlier)."""
        mask = composable_pairs(self.later, self.earlier)
        return mask if only_composable else mask | True

    def p_values(self, name: str, measure: str, only_composable: bool = True) -> FloatArray:
        """Of every pair against single pairs of a null: (later, earlier), not corrected for their number."""
        null = self.null(name, measure, only_composable)
        rows = [[upper_p_value(value, null) for value in row] for row in self.scores[measure]]
        return np.array(rows)

    def summary(self, only_composable: bool = True) -> dict[str, dict[str, Any]]:
        """By measure: what the lists score, what the nulls score, and how rare the difference is.

        `p_mean` and `p_largest` compare the lists' mean and largest score with those of whole lists of stand-ins;
        below `nulls`, `pairs_below` counts pairs with p ≤ 0.05, of which `pairs` · 0.05 are expected by chance.

        Args:
            only_composable: count only pairs whose earlier head is in a lower layer; the paper counts all.

        Raises:
            ConfigError: no pair can compose.
        """
        counted = self.counted(only_composable)
        require(bool(counted.any()), "heads", [*map(str, self.later), *map(str, self.earlier)], "no pair can compose")
        return {measure: self._summary(measure, only_composable) for measure in MEASURES}

    def _summary(self, measure: str, only_composable: bool) -> dict[str, Any]:
        counted = self.counted(only_composable)
        values = self.scores[measure][counted]
        lists = self.random.of_lists(measure, only_composable)
        means, largest = [part.mean() for part in lists], [part.max() for part in lists]
        names = ("random", "gaussian") if self.untrained is None else ("random", "gaussian", "untrained")
        return {
            "pairs": int(values.size),
            "mean": float(values.mean()),
            "largest": float(values.max()),
            "lists": len(lists),
            "p_mean": upper_p_value(float(values.mean()), means),
            "p_largest": upper_p_value(float(values.max()), largest),
            "nulls": {name: self._against(name, measure, only_composable) for name in names},
        }

    def _against(self, name: str, measure: str, only_composable: bool) -> dict[str, Any]:
        null = self.null(name, measure, only_composable)
        p_values = self.p_values(name, measure, only_composable)[self.counted(only_composable)]
        return {
            "draws": int(null.size),
            "mean": float(null.mean()),
            "largest": float(null.max()),
            "pairs_below": int((p_values <= LEVEL).sum()),
        }


def measure_bridge(
    view: HeadView,
    later: Sequence[Head],
    earlier: Sequence[Head],
    settings: BridgeSettings,
    untrained: HeadView | None = None,
) -> Bridge:
    """Score all pairs of two lists of heads and of their nulls.

    Args:
        view: of the model.
        later: induction heads, best first.
        earlier: previous-token heads, best first.
        settings: how.
        untrained: the same architecture at random initialization.

    Raises:
        ConfigError: a list is empty, the rank is impossible, the model has no such head or none to stand in for them, or
            the untrained model has another shape.
    """
    svds = HeadSvds(view, settings.distance, settings.gain, settings.device)
    scores = pair_scores(svds, later, earlier, settings.rank)
    lists = random_lists(view, later, earlier, settings.draws, settings.seed)
    pairs = ((one, other) for first, second in lists for one in first for other in second)
    random = RandomPairs(lists, table_of_pairs(svds, pairs, settings.rank))
    initial = None if untrained is None else _untrained_scores(view, untrained, later, earlier, settings)
    return Bridge([*later], [*earlier], scores, random, gaussian_scores(view, settings), initial)


def composable_pairs(later: Sequence[Head], earlier: Sequence[Head]) -> NDArray[np.bool_]:
    """Which pairs can compose: (later, earlier)."""
    return np.array([[composable((one, other)) for other in earlier] for one in later], dtype=bool)


# ---- nulls ---------------------------------------------------------------------------------------------------------
def random_lists(
    view: HeadView, later: Sequence[Head], earlier: Sequence[Head], draws: int, seed: int
) -> list[Lists]:
    """Stand-ins for both lists, drawn independently; no head of either list stands in for another.

    Raises:
        ConfigError: the model has too few other heads.
    """
    excluded = {*later, *earlier}
    return [
        (
            stand_ins(view, later, excluded, numpy_stream(seed, "stand-ins", "later", draw)),
            stand_ins(view, earlier, excluded, numpy_stream(seed, "stand-ins", "earlier", draw)),
        )
        for draw in range(draws)
    ]


def stand_ins(
    view: HeadView, heads: Sequence[Head], excluded: set[Head], generator: np.random.Generator
) -> list[Head]:
    """A random other head for each head: of its layer while that has any left, else of any layer, none twice.

    Raises:
        ConfigError: the model has too few other heads.
    """
    free = [head for head in view.heads() if head not in excluded]
    remedy = f"the model has {len(free)} other heads: take shorter lists"
    require(len(heads) <= len(free), "heads", len(heads), remedy)
    drawn: dict[int, Head] = {}
    order = generator.permutation(len(heads))  # where a layer has too few, chance decides who leaves it
    for place in sorted(order, key=lambda place: not any(head.layer == heads[place].layer for head in free)):
        same = [head for head in free if head.layer == heads[place].layer]
        candidates = same or free
        drawn[int(place)] = candidates[generator.integers(len(candidates))]
        free.remove(drawn[int(place)])
    return [drawn[place] for place in range(len(heads))]


def gaussian_scores(view: HeadView, settings: BridgeSettings) -> PairScores:
    """Scores of pairs of independent heads with Gaussian weights: (draw,)."""
    draws, seed = settings.gaussian_draws, settings.seed
    weights = gaussian_heads_null(view.width, view.head_width, draws, stream_seed(seed, "gaussian heads"))
    match = match_null(view.width, settings.rank, draws, numpy_stream(seed, "gaussian match"))
    matched = {"largest": match.largest[:, -1], "rms": match.rms[:, -1]}
    return {"diagonal": weights.diagonal, **matched, "composition": weights.composition}


def _untrained_scores(
    view: HeadView, untrained: HeadView, later: Sequence[Head], earlier: Sequence[Head], settings: BridgeSettings
) -> PairScores:
    found, expected = (
        (one.layers, one.query_heads, one.key_value_heads, one.width, one.head_width) for one in (untrained, view)
    )
    require(found == expected, "untrained", found, f"the model has layers, heads and widths {expected}")
    svds = HeadSvds(untrained, settings.distance, settings.gain, settings.device)
    return pair_scores(svds, later, earlier, settings.rank)
