"""Reading claims: every fault names file, claim and field; the claims that are shipped are sound."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from compgen.errors import ConfigError
from compgen.report.claims import Condition, load_claims, number

SHIPPED = Path(__file__).resolve().parents[2] / "data" / "reference"
HOLDS = {"measurement": "error", "rule": "at_most", "threshold": 0.1}
Entry = Callable[..., dict[str, Any]]


def store(directory: Path, *claims: Any, name: str = "copying") -> Path:
    directory.mkdir(exist_ok=True)
    (directory / f"{name}.yaml").write_text(yaml.safe_dump(list(claims)), encoding="utf-8")
    return directory


def test_every_shipped_claim_loads_with_an_id_of_its_own() -> None:
    claims = load_claims(SHIPPED)
    assert len({claim.id for claim in claims}) == len(claims) > 0


def test_every_shipped_claim_that_goes_beyond_its_paper_makes_a_prediction() -> None:
    assert all(claim.prediction for claim in load_claims(SHIPPED) if claim.paper_value is None)


def test_a_claim_keeps_its_fields_and_knows_its_file(tmp_path: Path, claim_entry: Entry) -> None:
    (claim,) = load_claims(store(tmp_path, claim_entry("copying.a", "copying/summary", HOLDS)))
    assert (claim.id, claim.group, claim.experiment, claim.paper_value) == ("copying.a", "copying", "copying", 0.05)
    assert claim.rule == "error ≤ 0.1"


@pytest.mark.parametrize(
    ("rule", "low", "high", "words"),
    [
        ({"rule": "at_most", "threshold": 0.5}, -math.inf, 0.5, "≤ 0.5"),
        ({"rule": "at_least", "threshold": 3}, 3, math.inf, "≥ 3"),
        ({"rule": "within", "low": 100, "high": 600}, 100, 600, "100 … 600"),
        ({"rule": "equals", "target": 0, "tolerance": "1e-12"}, -1e-12, 1e-12, "= 0 ± 1e-12"),
    ],
)
def test_every_rule_is_a_closed_range(
    tmp_path: Path, claim_entry: Entry, rule: dict[str, Any], low: float, high: float, words: str
) -> None:
    entry = claim_entry("copying.a", "copying/summary", {"measurement": "error", **rule})
    (condition,) = load_claims(store(tmp_path, entry))[0].conditions
    assert (condition.low, condition.high, condition.in_words) == (low, high, words)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"statment": "x"}, r"copying.yaml: copying.a: statment: .*did you mean statement"),
        ({"paper": ""}, r"copying.yaml: copying.a: paper=''"),
        ({"id": "Copying A"}, r"copying.yaml: Copying A: id='Copying A'"),
        ({"source": "summary"}, r"copying.yaml: copying.a: source='summary'"),
        ({"paper_value": None}, r"copying.yaml: copying.a: prediction=None: is required"),
        ({"paper_value": True}, r"copying.yaml: copying.a: paper_value=True"),
        ({"paper_value": float("nan")}, r"copying.yaml: copying.a: paper_value=nan"),
        ({"conditions": []}, r"copying.yaml: copying.a: conditions=\[\]"),
        ({"conditions": [{**HOLDS, "rule": "below"}]}, r"copying.a: conditions\[0\]: rule='below'"),
        ({"conditions": [{**HOLDS, "threshold": "low"}]}, r"copying.a: conditions\[0\]: threshold=None"),
        ({"conditions": [{**HOLDS, "low": 1}]}, r"copying.a: conditions\[0\]: low: there is no such field"),
        (
            {"conditions": [{"measurement": "error", "rule": "at_most"}]},
            r"conditions\[0\]: threshold: the field is missing",
        ),
        (
            {"conditions": [{"measurement": "error", "rule": "within", "low": 2, "high": 1}]},
            r"conditions\[0\]: high=1: leaves an empty range",
        ),
    ],
)
def test_a_fault_names_file_claim_and_field(
    tmp_path: Path, claim_entry: Entry, change: dict[str, Any], message: str
) -> None:
    entry = {**claim_entry("copying.a", "copying/summary", HOLDS), **change}
    with pytest.raises(ConfigError, match=message):
        load_claims(store(tmp_path, entry))


def test_a_missing_field_is_named(tmp_path: Path, claim_entry: Entry) -> None:
    entry = claim_entry("copying.a", "copying/summary", HOLDS)
    del entry["protocol"]
    with pytest.raises(ConfigError, match=r"copying.a: protocol: the field is missing"):
        load_claims(store(tmp_path, entry))


def test_an_id_in_two_files_is_refused(tmp_path: Path, claim_entry: Entry) -> None:
    entry = claim_entry("copying.a", "copying/summary", HOLDS)
    store(tmp_path, entry)
    with pytest.raises(ConfigError, match=r"theory.yaml: copying.a: the id stands in copying.yaml already"):
        load_claims(store(tmp_path, entry, name="theory"))


@pytest.mark.parametrize("text", ["a: [", "just words", "", "- 3"])
def test_a_file_that_is_no_list_of_claims_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "copying.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"copying.yaml"):
        load_claims(tmp_path)


def test_a_directory_without_claims_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no claims file"):
        load_claims(tmp_path)


@pytest.mark.parametrize(
    ("value", "text"), [(3.0, "3"), (20000, "20000"), (0.123456, "0.1235"), (1e-12, "1e-12"), (-2.5, "-2.5")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_a_condition_reads_as_a_sentence_part() -> None:
    assert Condition("gap", "equals", -0.5, 1.5).in_words == "= 0.5 ± 1"
