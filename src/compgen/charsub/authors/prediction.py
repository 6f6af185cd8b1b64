"""Where the paper's rule will break, predicted from a base and two experts. Stated before the results were seen.

All predictors see what one and two experts say, nothing of the others. Composition breaks at the first k at which
fewer than half of the strings of length T are right; at one more than the largest k where that never happens.

1. `log_normalizer`: log Z at active positions is taken to be −(k−1)·d, d the pull of one bystander, and the active
   expert to hold until that exceeds its margin m over the best other symbol: k = 1 + m/d (dossier 6.2: log Z is
   roughly −(k−1) times the drift).
2. `replicated`: every further expert is taken to say at every position what the bystander among the first two says.
   Right for drift that all experts share, wrong for noise that is each expert's own.
3. `relabelled`: every further expert is taken to be one of the first two with its symbols renamed at random. The task
   is the same under renaming, so experts from independent initializations are exchangeable under it; the base, which
   all share, keeps its names. Works on mean log-probabilities by input symbol, (symbol, symbol).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compgen.charsub.authors.components import Components, right_symbols
from compgen.charsub.rules import SYMBOLS, Rule
from compgen.composition.options import CompositionRule
from compgen.composition.rule import compose, log_normalizer
from compgen.randomness import numpy_stream

SEEN = 2
HALF = 0.5
RENAMINGS = 200
FloatArray = NDArray[np.float64]


def first_below(values: Sequence[float], threshold: float = HALF) -> int:
    """The first k, counted from 1, whose value is below the threshold; one more than their number if none is."""
    return next((k for k, value in enumerate(values, start=1) if value < threshold), len(values) + 1)


def observe(components: Components) -> list[float]:
    """Share of exact matches of the paper's rule on the components' strings, for the first k = 1, 2, … experts."""
    shares = []
    for k in range(1, len(components.rules) + 1):
        chosen = components.choose(range(k))
        answer = compose(chosen.base, chosen.experts, CompositionRule()).argmax(-1)
        right = right_symbols(answer, chosen.expected) == answer.shape[-1]
        shares.append(float(right.double().mean()))
    return shares


def predict(pair: Components, largest: int, seed: int) -> dict[str, Any]:
    """What two experts say about k = 1…largest.

    Args:
        pair: the first two experts, one substitution each.
        largest: up to which k.
        seed: of the random renamings.

    Returns:
        By predictor the first k that breaks, and the expected share of exact matches by k where it gives one.
    """
    replicated = _replicated(pair, largest)
    relabelled = _relabelled(pair, largest, seed)
    return {
        "log_normalizer": {"break": min(largest + 1, _from_log_normalizer(pair)), "exact": None},
        "replicated": {"break": first_below(replicated), "exact": replicated},
        "relabelled": {"break": first_below(relabelled), "exact": relabelled},
    }


def _from_log_normalizer(pair: Components) -> int:
    pull = -float(log_normalizer(pair.base, pair.experts)[pair.active].double().mean())
    # of each expert alone where it acts
    margins = [_margin(pair.experts[index], pair.expected)[_source(pair, index)] for index in range(SEEN)]
    margin = float(torch.cat(margins).double().mean())
    return int(1 + margin / pull) + 1 if pull > 0 else len(SYMBOLS)


def _replicated(pair: Components, largest: int) -> list[float]:
    deltas = pair.experts - pair.base  # (expert, string, position, symbol)
    sources = [_source(pair, index) for index in range(SEEN)]
    calm = ~pair.active
    predicted = []
    for k in range(1, largest + 1):
        negative = []
        for index, at in enumerate(sources):
            composed = pair.experts[index][at] + (k - 1) * deltas[1 - index][at]
            negative.append(_margin(composed, pair.expected[at]) < 0)
        resting = pair.base[calm] + k / SEEN * deltas[:, calm].sum(0)
        passive = _margin(resting, pair.expected[calm]) < 0
        active_share = float(torch.cat(negative).double().mean())
        passive_share = float(passive.double().mean())
        failing = (k * active_share + (len(SYMBOLS) - k) * passive_share) / len(SYMBOLS)
        predicted.append(float((1 - failing) ** pair.strings.shape[-1]))
    return predicted


def _margin(values: Tensor, wanted: Tensor) -> Tensor:
    """By how much the wanted symbol leads the best other, (...), from (..., symbol)."""
    right = values.gather(-1, wanted[..., None])
    return right[..., 0] - values.scatter(-1, wanted[..., None], -torch.inf).amax(-1)


def _source(pair: Components, index: int) -> Tensor:
    return pair.choose([index]).active


def _relabelled(pair: Components, largest: int, seed: int) -> list[float]:
    """Mean over random renamings of (1 − share of failing symbols)^T."""
    base = _by_symbol(pair.base, pair.strings)
    experts = [_by_symbol(expert, pair.strings) for expert in pair.experts]
    generator = numpy_stream(seed, "renamings")
    length = pair.strings.shape[-1]
    drawn = [_one_future(base, experts, pair.rules, largest, generator) for _ in range(RENAMINGS)]
    exact: FloatArray = (1 - np.array(drawn) / len(SYMBOLS)) ** length  # (renaming, k)
    return [float(value) for value in exact.mean(0)]


def _one_future(
    base: FloatArray, experts: Sequence[FloatArray], rules: Sequence[Rule], largest: int, generator: np.random.Generator
) -> list[int]:
    """How many of the 27 input symbols come out wrong for k = 1…largest, with further experts made by renaming."""
    total, wanted = base.copy(), np.arange(len(SYMBOLS))
    replaced: set[int] = set()
    failing = []
    for k in range(largest):
        kind = k % SEEN
        source, target = (SYMBOLS.index(symbol) for symbol in rules[kind].pairs[0])
        old = np.arange(len(SYMBOLS)) if k < SEEN else _renaming(source, replaced, generator)  # old name by new name
        new = np.argsort(old)
        total += experts[kind][np.ix_(old, old)] - base
        wanted[new[source]] = new[target]
        replaced.add(int(new[source]))
        failing.append(int((total.argmax(1) != wanted).sum()))
    return failing


def _renaming(source: int, replaced: set[int], generator: np.random.Generator) -> NDArray[np.int64]:
    """A random renaming under which the expert does not replace a symbol that another one replaces."""
    while True:
        old = generator.permutation(len(SYMBOLS))
        if int(np.argsort(old)[source]) not in replaced:
            return old


def _by_symbol(values: Tensor, strings: Tensor) -> FloatArray:
    """Mean log-probabilities by input symbol, (input symbol, symbol)."""
    rows = [values[strings == symbol].double().mean(0) for symbol in range(len(SYMBOLS))]
    return torch.stack(rows).numpy()
