"""Letter substitutions: what a rule is, how it is written, and what strings become under it. Free of torch.

A rule is written as its pairs, source before target, joined by plus signs: `AK` replaces A by K, `AK+CD` also C by D.
The space is written `_`; the empty rule is the identity.
"""

import string
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from compgen.errors import require

SYMBOLS = string.ascii_uppercase + " "
"""The authors' 27 symbols (dossier 2.1); a symbol's token is its place here."""

Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class Rule:
    """Substitutions that act on every position at once; nothing is substituted twice."""

    pairs: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """The rule as it is written in configurations."""
        return "+".join(source + target for source, target in self.pairs).replace(" ", "_")

    @property
    def sources(self) -> Tokens:
        """The tokens that are substituted, (source,)."""
        return encode("".join(source for source, _ in self.pairs))

    @property
    def table(self) -> Tokens:
        """What every token becomes, (symbol,)."""
        table = np.arange(len(SYMBOLS))
        for source, target in self.pairs:
            table[SYMBOLS.index(source)] = SYMBOLS.index(target)
        return table


IDENTITY = Rule()


def parse_rule(text: str, field: str) -> Rule:
    """Read a rule.

    Raises:
        ConfigError: naming `field`; a pair is not two symbols, changes nothing, or a source occurs twice.
    """
    pairs = []
    for pair in text.split("+") if text else []:
        symbols = pair.replace("_", " ")
        known = len(symbols) == 2 and all(symbol in SYMBOLS for symbol in symbols)
        require(known, field, text, f"{pair!r} must be two of A-Z and _ (the space), for example AK for A→K")
        require(symbols[0] != symbols[1], field, text, f"{pair!r} must name two different symbols")
        pairs.append((symbols[0], symbols[1]))
    sources = [source for source, _ in pairs]
    require(len(set(sources)) == len(sources), field, text, "must not substitute one symbol twice")
    return Rule(tuple(pairs))


def together(rules: Iterable[Rule]) -> Rule:
    """All substitutions of some rules at once; of two for one symbol the later counts."""
    merged = {source: target for rule in rules for source, target in rule.pairs}
    return Rule(tuple(merged.items()))


def encode(text: str) -> Tokens:
    """Tokens of a string, (position,)."""
    return np.array([SYMBOLS.index(symbol) for symbol in text], dtype=np.int64)


def decode(tokens: Iterable[int]) -> str:
    """The string of some tokens."""
    return "".join(SYMBOLS[token] for token in tokens)
