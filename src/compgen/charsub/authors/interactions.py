"""Experts that get in each other's way: two rules for one letter, chained rules, the same expert twice, shared sets."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from compgen.charsub.authors.components import Components, mean, share
from compgen.charsub.rules import Rule, decode, encode, together
from compgen.composition.options import CompositionRule
from compgen.composition.rule import compose, log_normalizer

PAPER_RULE = CompositionRule()


def two_for_one(components: Components, first: Rule, rival: Rule) -> dict[str, Any]:
    """Two rules that replace the same letter by different ones (A→K, A→C): which one wins, and how surely."""
    pair = components.named([first, rival])
    composed = compose(pair.base, pair.experts, PAPER_RULE)
    at = _where(pair.strings, first)
    probabilities = composed[at].exp().double().mean(0)  # (symbol,)
    targets = [int(encode(rule.pairs[0][1])[0]) for rule in (first, rival)]
    calm = ~at
    shares = _answer_shares(composed[at].argmax(-1))
    return {
        "shares": shares,
        "winner_share": max(shares.values(), default=None),
        "first_share": share(composed[at].argmax(-1) == targets[0]),
        "rival_share": share(composed[at].argmax(-1) == targets[1]),
        "first_probability": float(probabilities[targets[0]]),
        "rival_probability": float(probabilities[targets[1]]),
        "source_probability": float(probabilities[int(first.sources[0])]),
        "elsewhere_right": share(composed[calm].argmax(-1) == pair.strings[calm]),
    }


def chained(components: Components, first: Rule, second: Rule) -> dict[str, Any]:
    """A→K with K→R: at A the sequential composition of functions would give R, the simultaneous one K."""
    pair = components.named([first, second])
    answer = compose(pair.base, pair.experts, PAPER_RULE).argmax(-1)
    target, followed = (int(encode(rule.pairs[0][1])[0]) for rule in (first, second))
    at_first, at_second = _where(pair.strings, first), _where(pair.strings, second)
    return {
        "first_simultaneous": share(answer[at_first] == target),
        "first_sequential": share(answer[at_first] == followed),
        "second_right": share(answer[at_second] == followed),
    }


def twice(components: Components, rule: Rule) -> dict[str, Any]:
    """The same expert counted twice."""
    pair = components.named([rule, rule])
    answer = compose(pair.base, pair.experts, PAPER_RULE).argmax(-1)
    return {
        "exact": share((answer == pair.expected).all(-1)),
        "active_right": _right(answer, pair.expected, pair.active),
    }


def overlapping(components: Components, first: Rule, second: Rule) -> dict[str, Any]:
    """Two experts with several letters each, some of which both replace, by different letters.

    At a contested letter there is no right answer; `either_share` is how often one of the two rules is followed. An
    exact match is right everywhere else and follows either rule there.
    """
    pair = components.named([first, second])
    answer = compose(pair.base, pair.experts, PAPER_RULE).argmax(-1)
    tables = torch.stack([torch.from_numpy(rule.table) for rule in (first, second)])  # (rule, symbol)
    by_first, by_second = tables[:, pair.strings]  # each (string, position)
    contested = _where(pair.strings, first) & _where(pair.strings, second)
    alone = (_where(pair.strings, first) | _where(pair.strings, second)) & ~contested
    wanted = torch.from_numpy(together((first, second)).table)[pair.strings]
    either = (answer == by_first) | (answer == by_second)
    normalizer = log_normalizer(pair.base, pair.experts)
    places = {"contested": contested, "uncontested": alone, "inactive": ~(contested | alone)}
    return {
        "shared_letters": len(set(first.sources.tolist()) & set(second.sources.tolist())),
        "letters": len(second.pairs),
        "exact": share(torch.where(contested, either, answer == wanted).all(-1)),
        "first_share": share((answer == by_first)[contested]),
        "second_share": share((answer == by_second)[contested]),
        "either_share": share(either[contested]),
        "winner_share": _winner_share(answer, pair.strings, contested),
        "right": {name: _right(answer, wanted, at) for name, at in places.items() if name != "contested"},
        "log_normalizer": {name: mean(normalizer[at]) for name, at in places.items()},
    }


def _winner_share(answer: Tensor, strings: Tensor, contested: Tensor) -> float | None:
    """The mean over contested letters of the share of the letter's most frequent answer; 1 is winner takes all."""
    shares = []
    for symbol in strings[contested].unique():
        counts = answer[contested & (strings == symbol)].bincount()
        shares.append(float(counts.max()) / float(counts.sum()))
    return sum(shares) / len(shares) if shares else None


def _where(strings: Tensor, rule: Rule) -> Tensor:
    """(string, position), where a rule replaces the symbol."""
    return torch.isin(strings, torch.from_numpy(rule.sources))


def _right(answer: Tensor, wanted: Tensor, at: Tensor) -> float | None:
    return share((answer == wanted)[at])


def _answer_shares(answers: Tensor) -> dict[str, float]:
    counts: Sequence[int] = answers.bincount().tolist()
    total = max(sum(counts), 1)
    return {decode([symbol]): count / total for symbol, count in enumerate(counts) if count}
