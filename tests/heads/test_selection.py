"""Which heads are removed: nested sets, a control that holds no top head and keeps the layers, numbers that fit."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from compgen.errors import ConfigError, UserError
from compgen.heads.config import HeadSet, RemovalConfig
from compgen.heads.selection import any_heads, conditions, matched_heads
from compgen.heads.views import Head, HeadView

LISTS = {
    kind: [{"layer": layer, "head": head, "score": 0.0} for layer, head in order]
    for kind, order in {
        "induction": [(1, 0), (1, 3), (0, 2), (1, 1)],
        "previous": [(0, 0), (0, 1), (0, 3), (0, 2)],
    }.items()
}


@pytest.fixture
def view(model_of: Any) -> HeadView:
    """Two layers of four heads."""
    return HeadView(model_of("llama"))


def config(**changes: Any) -> RemovalConfig:
    values: dict[str, Any] = {"counts": [1, 3], "sets": [HeadSet.induction, HeadSet.random], "draws": 2}
    return RemovalConfig(**{**values, **changes})


def test_nothing_is_removed_first_and_then_every_set_number_and_draw(view: HeadView) -> None:
    found = [(one.set, one.count, one.draw) for one in conditions(config(), view, LISTS, 0)]
    draws = [("random", count, draw) for draw in (0, 1) for count in (1, 3)]
    assert found == [("none", 0, 0), ("induction", 1, 0), ("induction", 3, 0), *draws]


def test_smaller_sets_are_the_beginnings_of_larger_ones(view: HeadView) -> None:
    sets = [HeadSet.induction, HeadSet.previous, HeadSet.random, HeadSet.matched]
    found = [one for one in conditions(config(sets=sets), view, LISTS, 0) if one.count]
    for small, large in pairwise(found):
        if (small.set, small.draw) == (large.set, large.draw):
            assert large.heads[: small.count] == small.heads
            assert len(large.heads) == len(set(large.heads)) == large.count


def test_top_heads_are_those_of_the_list(view: HeadView) -> None:
    last = [one for one in conditions(config(), view, LISTS, 0) if one.set == "induction"][-1]
    assert last.heads == (Head(1, 0), Head(1, 3), Head(0, 2))


def test_a_matched_control_has_no_top_head_and_the_same_layers_while_they_last(view: HeadView) -> None:
    top = [Head(1, 0), Head(1, 3), Head(0, 2)]
    for draw in range(20):
        found = matched_heads(view, top, 0, draw)
        assert not set(found) & set(top)
        assert Counter(head.layer for head in found) == Counter(head.layer for head in top)
    assert len({tuple(matched_heads(view, top, 0, draw)) for draw in range(20)}) > 1


def test_a_layer_without_free_heads_borrows_from_the_nearest(view: HeadView) -> None:
    top = [Head(1, index) for index in range(4)]
    assert {head.layer for head in matched_heads(view, top, 0, 0)} == {0}


def test_random_heads_of_the_authors_may_be_top_heads(view: HeadView) -> None:
    drawn = [any_heads(view, 4, 0, draw) for draw in range(20)]
    assert any(Head(1, 0) in heads for heads in drawn)
    assert all(len(set(heads)) == 4 for heads in drawn)


def test_more_heads_than_half_of_the_model_are_refused(view: HeadView) -> None:
    with pytest.raises(ConfigError, match="8 heads: remove at most half"):
        list(conditions(config(counts=[5]), view, LISTS, 0))


def test_a_set_without_a_list_is_refused(view: HeadView) -> None:
    with pytest.raises(UserError, match="hold no list function_vector"):
        list(conditions(config(sets=[HeadSet.function_vector]), view, LISTS, 0))
