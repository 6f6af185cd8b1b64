"""Which heads are removed: the top of a ranked list, and random ones as the authors and as a fair control draw them.

Sets are nested: the first heads of a larger set are the smaller set, so that a curve over their number is one path.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compgen.errors import UserError, require
from compgen.heads.config import RANDOM_SETS, HeadSet, RemovalConfig
from compgen.heads.ranking import top_heads
from compgen.heads.views import Head, HeadView
from compgen.randomness import numpy_stream


@dataclass(frozen=True)
class Condition:
    """Which heads a model runs without."""

    set: str
    """`none`, or a HeadSet."""
    count: int
    draw: int
    """Of a random set; 0 for others."""
    heads: tuple[Head, ...]

    @property
    def name(self) -> str:
        """For files and messages."""
        return f"{self.set}-{self.count}-{self.draw}"


NOTHING = Condition("none", 0, 0, ())


def conditions(
    config: RemovalConfig, view: HeadView, lists: Mapping[str, Sequence[dict[str, Any]]], seed: int
) -> Iterator[Condition]:
    """Nothing removed first, then every set and number of heads.

    Args:
        config: sets, numbers and draws.
        view: the model's heads.
        lists: ranked lists by kind of score.
        seed: of the random sets.

    Raises:
        ConfigError: more heads are to be removed than half of what the model has.
        UserError: there is no list for a set.
    """
    largest, every = config.counts[-1], view.heads()
    remedy = f"the model has {len(every)} heads: remove at most half of them"
    require(2 * largest <= len(every), "heads.removal.counts", config.counts, remedy)
    yield NOTHING
    for chosen in config.sets:
        draws = config.draws if chosen in RANDOM_SETS else 1
        for draw in range(draws):
            order = _order(chosen, draw, largest, view, lists, seed)
            for count in config.counts:
                yield Condition(chosen.value, count, draw, tuple(order[:count]))


def _order(
    chosen: HeadSet, draw: int, largest: int, view: HeadView, lists: Mapping[str, Sequence[dict[str, Any]]], seed: int
) -> list[Head]:
    if chosen is HeadSet.random:
        return any_heads(view, largest, seed, draw)
    if chosen is HeadSet.matched:
        return matched_heads(view, _top(lists, HeadSet.induction, largest), seed, draw)
    return _top(lists, chosen, largest)


def _top(lists: Mapping[str, Sequence[dict[str, Any]]], kind: HeadSet, count: int) -> list[Head]:
    if kind.value not in lists:
        raise UserError(f"heads.removal.sets: the scores hold no list {kind.value}, only {', '.join(lists)}")
    return top_heads(lists[kind.value], count)


def any_heads(view: HeadView, count: int, seed: int, draw: int) -> list[Head]:
    """Random heads of the whole model, the top ones included, as the authors draw them (dossier 2.3)."""
    every = view.heads()
    order = numpy_stream(seed, "random heads", draw).permutation(len(every))
    return [every[place] for place in order[:count]]


def matched_heads(view: HeadView, top: Sequence[Head], seed: int, draw: int) -> list[Head]:
    """For each top head another one of its layer that is no top head; where a layer has none left, of the nearest.

    Mends defect 8 of dossier 4.3: a control that may hold the very heads under test, in other layers than these.
    """
    generator = numpy_stream(seed, "matched heads", draw)
    free = {head for head in view.heads() if head not in set(top)}
    found = []
    for head in top:
        nearest = min(abs(other.layer - head.layer) for other in free)
        candidates = sorted(other for other in free if abs(other.layer - head.layer) == nearest)
        pick = candidates[int(generator.integers(len(candidates)))]
        free.remove(pick)
        found.append(pick)
    return found
