"""The claims: what the papers say, or what we predict, as data with a rule fixed before the run.

Covers reading and checking data/reference/*.yaml (the schema is in data/reference/README.md). Judging them is in
`verdicts.py`.
"""

import difflib
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from compgen.errors import ConfigError

CLAIM_ID = re.compile(r"[a-z]+(\.[a-z0-9_]+)+")
JOB_NAME = re.compile(r"[a-z0-9_-]+/[a-z0-9-]+")
RULES: dict[str, tuple[str, ...]] = {
    "at_most": ("threshold",),
    "at_least": ("threshold",),
    "within": ("low", "high"),
    "equals": ("target", "tolerance"),
}
"""Every rule and the numbers that it needs."""


@dataclass(frozen=True)
class Condition:
    """One measurement and the closed range in which it must lie."""

    measurement: str
    rule: str
    """How the range was stated: at_most, at_least, within or equals."""
    low: float
    """Minus infinity where there is no lower bound."""
    high: float
    """Infinity where there is no upper bound."""

    @property
    def in_words(self) -> str:
        """The range as a reader would write it, for example `≤ 0.05`."""
        if self.rule == "at_most":
            return f"≤ {number(self.high)}"
        if self.rule == "at_least":
            return f"≥ {number(self.low)}"
        if self.rule == "within":
            return f"{number(self.low)} … {number(self.high)}"
        middle, tolerance = (self.low + self.high) / 2, (self.high - self.low) / 2
        return f"= {number(middle)} ± {number(tolerance)}"


@dataclass(frozen=True)
class Claim:
    """One sentence that can turn out false, and the rule that decides."""

    id: str
    paper: str
    location: str
    statement: str
    protocol: str
    paper_value: float | str | None
    prediction: str | None
    source: str
    """The job whose metrics.json holds the measurements, as `experiment/job`."""
    conditions: tuple[Condition, ...]
    """All must hold; the first is the headline."""
    group: str = ""
    """The file that the claim stands in, without its ending: the section of the report that it belongs to."""

    @property
    def experiment(self) -> str:
        """The experiment that produces the evidence, which is also a target of the Makefile."""
        return self.source.partition("/")[0]

    @property
    def rule(self) -> str:
        """The rule in words."""
        return " and ".join(f"{condition.measurement} {condition.in_words}" for condition in self.conditions)


FIELDS = tuple(field.name for field in fields(Claim) if field.name != "group")
TEXTS = ("paper", "location", "statement", "protocol")


def number(value: float) -> str:
    """A number with four significant digits, without superfluous zeros; whole numbers in full."""
    if float(value).is_integer() and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.4g}"


def load_claims(directory: Path) -> list[Claim]:
    """All claims of the YAML files in a directory, file by file in the order of their names.

    Raises:
        ConfigError: naming file, claim and field of the first thing that is wrong.
    """
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise ConfigError(f"reference.directory={directory}: there is no claims file (*.yaml) in it")
    claims: dict[str, Claim] = {}
    for path in files:
        for claim in _read_file(path):
            if claim.id in claims:
                first = claims[claim.id].group
                raise ConfigError(f"{path.name}: {claim.id}: the id stands in {first}.yaml already: rename one")
            claims[claim.id] = claim
    return list(claims.values())


def _read_file(path: Path) -> list[Claim]:
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path.name}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path.name}: must hold a list of claims")
    return [_read_claim(path, place, entry) for place, entry in enumerate(entries, start=1)]


def _read_claim(path: Path, place: int, entry: Any) -> Claim:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{path.name}: claim {place}: must be a mapping of fields")
    where = f"{path.name}: {entry.get('id', f'claim {place}')}"
    _check_keys(where, entry, FIELDS)
    for name in ("id", "source", *TEXTS):
        _check(isinstance(entry[name], str) and entry[name].strip(), where, name, entry[name], "must be a text")
    _check(CLAIM_ID.fullmatch(entry["id"]), where, "id", entry["id"], "must look like copying.rule_is_learned")
    _check(JOB_NAME.fullmatch(entry["source"]), where, "source", entry["source"], "must be experiment/job")
    _check_expectation(where, entry)
    conditions = entry["conditions"]
    _check(isinstance(conditions, list) and conditions, where, "conditions", conditions, "must be a list")
    return Claim(
        **{name: entry[name] for name in FIELDS if name != "conditions"},
        conditions=tuple(_read_condition(f"{where}: conditions[{i}]", c) for i, c in enumerate(conditions)),
        group=path.stem,
    )


def _check_expectation(where: str, entry: Mapping[str, Any]) -> None:
    """A claim states what the paper has found or, where it goes beyond the paper, what is expected."""
    value, prediction = entry["paper_value"], entry["prediction"]
    fine = value is None or isinstance(value, str) or _is_number(value)
    _check(fine, where, "paper_value", value, "must be a finite number, a text or null")
    _check(prediction is None or isinstance(prediction, str), where, "prediction", prediction, "must be a text or null")
    _check(value is not None or bool(prediction), where, "prediction", prediction, "is required without paper_value")


def _read_condition(where: str, entry: Any) -> Condition:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where}: must be a mapping of measurement, rule and the rule's numbers")
    rule = entry.get("rule")
    _check(rule in RULES, where, "rule", rule, f"must be one of {', '.join(RULES)}")
    _check_keys(where, entry, ("measurement", "rule", *RULES[str(rule)]))
    measurement = entry["measurement"]
    _check(isinstance(measurement, str) and measurement, where, "measurement", measurement, "must be a text")
    numbers = [_number(where, name, entry[name]) for name in RULES[str(rule)]]
    low, high = _range(str(rule), numbers)
    _check(low <= high, where, RULES[str(rule)][-1], entry[RULES[str(rule)][-1]], "leaves an empty range")
    return Condition(measurement, str(rule), low, high)


def _range(rule: str, numbers: list[float]) -> tuple[float, float]:
    if rule == "at_most":
        return -math.inf, numbers[0]
    if rule == "at_least":
        return numbers[0], math.inf
    if rule == "within":
        return numbers[0], numbers[1]
    return numbers[0] - numbers[1], numbers[0] + numbers[1]


def _number(where: str, name: str, value: Any) -> float:
    """A finite number; YAML reads `1e-9` as a text, which is taken for the number that was meant."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = None
    _check(_is_number(value), where, name, value, "must be a finite number")
    return float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_keys(where: str, entry: Mapping[str, Any], known: Collection[str]) -> None:
    for name in entry:
        if name not in known:
            close = difflib.get_close_matches(str(name), known, n=1)
            hint = f"; did you mean {close[0]}?" if close else f"; known: {', '.join(known)}"
            raise ConfigError(f"{where}: {name}: there is no such field{hint}")
    for name in known:
        if name not in entry:
            raise ConfigError(f"{where}: {name}: the field is missing (null where it does not apply)")


def _check(condition: object, where: str, name: str, value: object, remedy: str) -> None:
    if not condition:
        raise ConfigError(f"{where}: {name}={value!r}: {remedy}")
