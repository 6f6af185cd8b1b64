"""A synthetic run tree with claims of every verdict, and sections that draw from it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from matplotlib.figure import Figure as Canvas

from compgen.report.claims import load_claims
from compgen.report.figure import Figure, RunTree, blank, heat_map, paper_line, plot_band, plot_points
from compgen.report.page import write_report
from compgen.report.view import Section

PAPER_1 = "Kumar, Bucarelli, Natale 2026"
PAPER_2 = "Song, Xu, Zhong 2025"
ENVIRONMENT = {
    "python": "3.11.2",
    "packages": {"torch": "2.13.0", "numpy": "2.4.6"},
    "platform": "Linux",
    "processor": "a processor",
    "cores": 2,
}


def write_job(run: Path, name: str, kind: str, metrics: dict[str, Any], seconds: float = 61.0) -> Path:
    """A finished directory as the run layer leaves it."""
    directory = run / name
    directory.mkdir(parents=True)
    (directory / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
    manifest = {
        "kind": kind,
        "config": {},
        "command": f"python -m compgen job={kind} seed=0",
        "code": {"errors.py": "0" * 64},
        "git": {"commit": "0123456789abcdef", "dirty": True},
        "environment": ENVIRONMENT,
        "finished": "2026-01-02T03:04:05Z",
        "seconds": seconds,
        "peak_memory_bytes": 512 * 2**20,
    }
    (directory / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return directory


def measured(value: float, low: float | None = None, high: float | None = None, **more: Any) -> dict[str, Any]:
    """An entry of a summary's measurements."""
    interval = None if low is None else {"low": low, "high": high, "method": "percentile bootstrap over 8 seeds"}
    return {"value": value, "interval": interval, "n": 8000, "seeds": list(range(8)), **more}


def claim(identity: str, source: str, *conditions: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A claim as it stands in YAML."""
    return {
        "id": identity,
        "paper": PAPER_2,
        "location": "Section 3",
        "statement": f"The sentence of {identity} that a reader can judge on its own",
        "protocol": "aligned",
        "paper_value": 0.05,
        "prediction": None,
        "source": source,
        "conditions": list(conditions),
        **more,
    }


CLAIMS = {
    "copying": [
        claim(
            "copying.two_layers_learn_the_rule",
            "copying/summary",
            {"measurement": "error_two_layers", "rule": "at_most", "threshold": 0.05},
            {"measurement": "error_two_layers_early", "rule": "at_least", "threshold": 0.9},
            statement="Two layers fall below 5 % error on out-of-distribution copies between steps 2,000 and 4,000",
        ),
        claim(
            "copying.one_layer_stays",
            "copying/summary",
            {"measurement": "error_one_layer", "rule": "at_least", "threshold": 0.9},
            statement="One layer never learns to copy out of distribution",
            paper_value="stays near 0.98",
        ),
        claim(
            "copying.transition_is_sharp",
            "copying/summary",
            {"measurement": "transition_width", "rule": "within", "low": 100, "high": 600},
            statement="The transition takes between 100 and 600 steps",
            paper_value=None,
            prediction="The width is a small fraction of the step at which it happens.",
            protocol="beyond",
        ),
        claim(
            "copying.pool_1000",
            "copying/summary",
            {"measurement": "error_pool_1000", "rule": "at_most", "threshold": 0.1},
            statement="A pool of 1,000 segments is enough to learn the rule",
        ),
    ],
    "theory": [
        claim(
            "theory.normalizer_is_a_covariance",
            "theory/summary",
            {"measurement": "largest_gap", "rule": "equals", "target": 0, "tolerance": "1e-12"},
            paper=PAPER_1,
            statement="The normalizer of two experts minus one equals the covariance of their density ratios",
            protocol="exact",
            paper_value=0,
        )
    ],
}
METRICS = {
    "measurements": {
        "error_two_layers": measured(0.021, 0.012, 0.034, files=["copying/train-seed0/metrics.json"]),
        "error_two_layers_early": measured(0.976, 0.969, 0.981),
        "error_one_layer": measured(0.84, 0.81, 0.88, note="still falling at the last step"),
        "transition_width": measured(540, 430, 690),
    }
}


def make_reference(directory: Path) -> Path:
    """A directory of claims files."""
    directory.mkdir()
    for name, claims in CLAIMS.items():
        text = yaml.safe_dump(claims, sort_keys=False, allow_unicode=True)
        (directory / f"{name}.yaml").write_text(text, encoding="utf-8")
    return directory


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """A directory of claims files."""
    return make_reference(tmp_path / "reference")


def make_run(directory: Path) -> Path:
    """A run tree with one finished experiment and one that failed."""
    write_job(directory, "copying/summary", "copying_summary", METRICS)
    write_job(directory, "copying/train-seed0", "copying_train", {"loss": 0.1}, seconds=3723)
    partial = directory / "theory" / "summary.partial"
    partial.mkdir(parents=True)
    (partial / "failure.json").write_text('{"error": "UserError: the disk is full"}', encoding="utf-8")
    return directory


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    """The directory of a synthetic run in the default profile."""
    return make_run(tmp_path / "outputs" / "laptop")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the synthetic run, for tests that only read it."""
    base = tmp_path_factory.mktemp("written")
    run = RunTree(make_run(base / "outputs" / "laptop"))
    directory = run.directory / "report"
    directory.mkdir()
    write_report(run, load_claims(make_reference(base / "reference")), CONTENTS, directory)
    return directory


@pytest.fixture
def run(run_directory: Path) -> RunTree:
    """The synthetic run."""
    return RunTree(run_directory)


def _curve() -> Canvas:
    canvas, (axes,) = blank()
    steps = np.arange(0, 6001, 200)
    for label, late in (("two layers", 0.02), ("one layer", 0.84)):
        error = late + (0.98 - late) / (1 + np.exp((steps - 3000) / 250))
        plot_band(axes, steps, error, error - 0.02, error + 0.02, label=label)
    paper_line(axes, 0.05, "paper: below .05")
    axes.set(xlabel="training step", ylabel="error on the second segment", ylim=(0, 1), title="Out of distribution")
    axes.legend()
    return canvas


def _maps() -> Canvas:
    canvas, axes = blank(1, 2, height=3.4)
    for each, name in zip(axes, ("before", "after"), strict=True):
        heat_map(each, np.random.default_rng(0).random((16, 16)), "attention", vmin=0, vmax=1)
        each.set(xlabel="key position", ylabel="query position", title=name)
    return canvas


def _points() -> Canvas:
    canvas, (axes,) = blank()
    for label, shift in (("composition", 0.0), ("with KL gate", 0.2)):
        value = np.linspace(1, 0.2 + shift, 8)
        plot_points(axes, range(1, 9), value, value - 0.05, value + 0.05, label=label)
    axes.set(xlabel="experts k", ylabel="exact match")
    axes.legend()
    return canvas


def _copying_figures(run: RunTree) -> list[Figure]:
    if run.job("copying/summary") is None:
        return []
    source = ("copying/summary/metrics.json",)
    caption = "Mean over 8 seeds, 1,000 segments each; bands are percentile bootstraps over seeds; protocol aligned."
    return [
        Figure("copying-error", "Error out of distribution against steps", caption, _curve, source),
        Figure("copying-maps", "Attention of the second layer", "Seed 0, one sequence.", _maps, source),
        Figure("copying-points", "Composed accuracy against k", caption, _points, source),
    ]


CONTENTS = (
    Section(
        "theory",
        "Exact theory of logit composition",
        "Theory",
        lambda: "Every statement is enumerated on small distributions.\n\nNothing is sampled & nothing is trained.",
        lambda run: [],
    ),
    Section(
        "copying",
        "Learning to copy",
        "Copying",
        lambda: "A two-layer transformer learns to repeat a segment.\nIts one-layer control cannot.",
        _copying_figures,
    ),
)


@pytest.fixture
def contents() -> tuple[Section, ...]:
    """Two sections: one with figures, one without."""
    return CONTENTS


@pytest.fixture
def job_writer() -> Callable[..., Path]:
    """`write_job` for tests that need further jobs."""
    return write_job


@pytest.fixture
def claim_entry() -> Callable[..., dict[str, Any]]:
    """`claim` for tests that need further claims."""
    return claim


@pytest.fixture
def measurement_entry() -> Callable[..., dict[str, Any]]:
    """`measured` for tests that need further measurements."""
    return measured
