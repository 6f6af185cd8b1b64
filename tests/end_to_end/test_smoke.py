import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from compgen.run.context import read_json
from compgen.run.paths import project_root

from .conftest import Make

CLAIM_KEYS = {
    "id", "paper", "location", "statement", "protocol", "paper_value", "prediction", "value", "interval", "n", "seeds",
    "verdict", "rule", "reason", "files", "command",
}  # fmt: skip


@pytest.fixture(scope="session")
def results(smoke_run: Path) -> dict[str, Any]:
    stored: dict[str, Any] = read_json(smoke_run / "report" / "results.json")
    return stored


def test_every_job_of_the_dag_is_done(smoke_run: Path, make: Make) -> None:
    states = [line.split()[1] for line in make("status").stdout.splitlines() if "/" in line.split()[0]]
    assert states
    assert set(states) == {"done"}


def test_an_up_to_date_tree_runs_nothing(smoke_run: Path, make: Make) -> None:
    before = {path: path.stat().st_mtime_ns for path in smoke_run.rglob("manifest.json")}
    said = make("reproduce-all").stdout
    assert re.search(r"all \d+ jobs are up to date", said)
    assert {path: path.stat().st_mtime_ns for path in smoke_run.rglob("manifest.json")} == before


def test_results_hold_every_claim_with_a_verdict_a_rule_and_a_reason(results: dict[str, Any]) -> None:
    assert results["profile"] == "smoke"
    assert len({claim["id"] for claim in results["claims"]}) == len(results["claims"]) > 30
    for claim in results["claims"]:
        assert claim.keys() >= CLAIM_KEYS, claim["id"]
        assert claim["verdict"] in {"reproduced", "not reproduced", "inconclusive", "not run"}
        assert claim["rule"]
        assert claim["reason"], claim["id"]
        assert claim["paper_value"] is not None or claim["prediction"]


def test_every_claim_names_its_evidence_or_why_there_is_none(smoke_run: Path, results: dict[str, Any]) -> None:
    """At smoke size some events never happen (no transition, no failing string); all other claims are measured."""
    for claim in results["claims"]:
        if claim["verdict"] == "not run":
            known = ("did not measure", "is not part of profile smoke: ")
            assert any(text in claim["reason"] for text in known), (claim["id"], claim["reason"])
            continue
        assert claim["files"], claim["id"]
        for name in claim["files"]:
            assert (smoke_run / name).is_file(), (claim["id"], name)
    own = [claim for claim in results["claims"] if "not part of profile" not in claim["reason"]]
    assert sum(claim["verdict"] == "not run" for claim in own) <= 12


def test_smoke_numbers_are_never_shown_as_evidence(smoke_run: Path, results: dict[str, Any]) -> None:
    assert all("smoke" in claim["reason"] for claim in results["claims"])
    page = (smoke_run / "report" / "index.html").read_text(encoding="utf-8")
    assert "smoke" in page.lower()


def test_the_page_is_one_file_whose_links_resolve(smoke_run: Path) -> None:
    report = smoke_run / "report"
    page = (report / "index.html").read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="https?://', page)
    for link in set(re.findall(r'href="([^"#]+)"', page)):
        if not link.startswith("data:"):
            assert (report / link).resolve().exists(), link


def test_figures_come_as_svg_and_png(smoke_run: Path) -> None:
    figures = smoke_run / "report" / "figures"
    vector, raster = ({path.stem for path in figures.glob(f"*.{suffix}")} for suffix in ("svg", "png"))
    assert vector == raster
    assert len(vector) > 10


def test_a_dag_picture_and_its_mermaid_text_are_written(smoke_run: Path, make: Make) -> None:
    make("dag")
    assert "<svg" in (smoke_run / "dag.svg").read_text(encoding="utf-8")
    assert "flowchart" in (smoke_run / "dag.mmd").read_text(encoding="utf-8")


def test_every_job_is_an_offline_tracker_run(smoke_run: Path) -> None:
    jobs = [path.parent for path in smoke_run.glob("*/*/manifest.json")]
    for job in jobs:
        marker = read_json(job.parent / ".wandb" / job.name / "tracked.json")
        assert marker["mode"] == "offline"


def test_sync_without_a_key_is_one_clear_line(smoke_run: Path, make: Make) -> None:
    failed = make("sync", check=False)
    assert failed.returncode != 0
    assert "WANDB_API_KEY is not set" in failed.stderr


def test_overrides_need_a_run_of_their_own(smoke_run: Path, make: Make) -> None:
    failed = make("plan", "OVERRIDES=copying.train.steps=7", check=False)
    assert failed.returncode != 0
    assert "add RUN=" in failed.stderr


def test_an_override_is_planned_in_words_and_leaves_the_tree_alone(smoke_run: Path, make: Make) -> None:
    said = make("plan", "OVERRIDES=copying.train.steps=7", run="short").stdout
    assert "copying/" in said
    assert not list((smoke_run.parent / "short").glob("copying/*"))
    assert "up to date" in make("plan").stdout


def compgen(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
    environment = {**os.environ, "WANDB_MODE": "disabled", "COMPGEN_CHECKPOINT_SECONDS": "0"}
    return subprocess.Popen(
        [sys.executable, "-m", "compgen", *arguments],
        cwd=project_root(),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


def killed_and_restarted(arguments: list[str], out: Path) -> None:
    """Kill a job soon after each of its first three checkpoints, then let it finish."""
    partial = out.with_name(out.name + ".partial")
    for _ in range(3):
        process = compgen(*arguments, f"out={out}")
        deadline = time.monotonic() + 120
        seen = (partial / "resume.pt").stat().st_mtime_ns if (partial / "resume.pt").exists() else 0
        while process.poll() is None and time.monotonic() < deadline:
            if (partial / "resume.pt").exists() and (partial / "resume.pt").stat().st_mtime_ns != seen:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.01)
        process.wait()
        if process.returncode == 0:
            return
    finishing = compgen(*arguments, f"out={out}")
    output, _ = finishing.communicate()
    assert finishing.returncode == 0, output
    assert json.loads((out / "manifest.json").read_text(encoding="utf-8"))["resumed"]


@pytest.mark.parametrize("kind", ["copying_train"])
def test_a_job_killed_at_its_checkpoints_and_restarted_ends_with_the_same_bytes(kind: str, tmp_path: Path) -> None:
    arguments = [f"job={kind}", "profile=smoke"]
    whole = tmp_path / "whole" / "job"
    unbroken = compgen(*arguments, f"out={whole}")
    output, _ = unbroken.communicate()
    assert unbroken.returncode == 0, output
    broken = tmp_path / "broken" / "job"
    killed_and_restarted(arguments, broken)
    for name in ("metrics.json", "history.jsonl"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    contents = [read_json(path / "manifest.json")["content"] for path in (whole, broken)]
    assert contents[0] == contents[1]


def test_multirun_with_joblib_gives_each_job_its_own_directory(tmp_path: Path) -> None:
    process = compgen("-m", "job=theory_exact", "profile=smoke", "seed=1,2", "hydra/launcher=joblib",
                      f"run.directory={tmp_path}", f"hydra.sweep.dir={tmp_path}/.multirun")  # fmt: skip
    output, _ = process.communicate()
    assert process.returncode == 0, output
    seeds = {read_json(path)["config"]["seed"] for path in tmp_path.glob("theory_exact/*/manifest.json")}
    assert seeds == {1, 2}
