"""What a study will need: by hand-made sums, and what is said when something is missing."""

from pathlib import Path
from typing import Any

import pytest

from compgen.errors import ConfigError, UserError
from compgen.evaluation.config import ArmConfig, ProtocolConfig, TaskConfig
from compgen.evaluation.preflight import Machine, arm_bytes, missing, needs
from compgen.evaluation.preflight_config import PreflightConfig
from compgen.jobs import composition_preflight
from compgen.questions.config import BenchmarkConfig, SplitConfig
from compgen.weights.config import ModelConfig
from compgen.weights.hub import Published

SIZES = {"base": Published(1000, False), "math": Published(1000, False), "code": Published(500, True)}


def config(**changes: Any) -> PreflightConfig:
    values: dict[str, Any] = {
        "models": {name: ModelConfig("org/model", "0" * 40, parameters=500) for name in SIZES},
        "arms": {
            "base": ArmConfig(),
            "composed": ArmConfig(experts=["math", "code"]),
            "merged": ArmConfig(base="merge/ties"),
        },
        "runs": {"controlled": ["base", "composed", "merged"]},
        "protocols": {"controlled": ProtocolConfig(batch_size=2, single={"gsm8k": TaskConfig(max_new_tokens=10)})},
        "benchmarks": ["gsm8k"],
        "sources": {"gsm8k": BenchmarkConfig(splits={"test": SplitConfig(rows=720)})},
        "bandwidth": 1000.0,
        "bandwidth_share": 0.5,
    }
    return PreflightConfig(**{**values, **changes})


def test_needs_are_the_sums_that_one_makes_by_hand() -> None:
    needed = needs(config(), SIZES)
    assert needed.disk == 1000 + 1000 + 1000  # two models to fetch, one merged; the third model is here
    assert needed.gpu_memory == int(1.2 * 2500)
    # 720 rows in batches of 2, 10 tokens each: 3,600 steps; the base takes 1000 / 500 = 2 s a step, so 2 hours
    assert needed.hours_by_arm == {
        "controlled/base": pytest.approx(2.0),
        "controlled/composed": pytest.approx(5.0),
        "controlled/merged": pytest.approx(2.0),
    }
    assert needed.gpu_hours == pytest.approx(9.0)
    assert needs(config(limit=72), SIZES).gpu_hours == pytest.approx(0.9)


def test_a_model_that_an_arm_names_twice_is_held_once() -> None:
    assert arm_bytes(ArmConfig(base="math", experts=["math"]), SIZES) == 1000


def test_everything_that_is_missing_is_said_at_once() -> None:
    needed = needs(config(), SIZES)
    assert missing(needed, Machine(10**6, 10**6)) == []
    assert len(missing(needed, Machine(10, 10))) == 2
    assert "no GPU" in missing(needed, Machine(10**6, 0))[0]


class Context:
    def __init__(self, directory: Path) -> None:
        self.directory = directory


def test_the_job_says_its_needs_and_all_problems_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "here", classmethod(lambda cls, directory: cls(0, 0)))
    loose = {name: ModelConfig("org/model", parameters=500) for name in SIZES}
    with pytest.raises(UserError) as caught:
        composition_preflight.run(config(models=loose), Context(tmp_path))  # type: ignore[arg-type]
    for part in ("needed: disk", "GPU hours", "models base, math, code: pin", "of disk are needed", "no GPU"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": {}}, "models"),
        ({"runs": {"fair": ["base"]}}, "fair"),
        ({"runs": {"controlled": ["bsae"]}}, "bsae"),
        ({"benchmarks": ["gsm9k"]}, "gsm9k"),
        ({"bandwidth_share": 0.0}, "bandwidth_share"),
    ],
)
def test_bad_values_are_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config(**changes)
