from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from compgen.errors import UserError
from compgen.run.dag import DagJob, Run, examine, read_dag, stamp, write_stamps
from compgen.run.execute import JobOrder, execute
from compgen.run.paths import JobPaths
from compgen.run.workspace import writer_lock


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "dag.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_dag_is_read_with_inputs_first_and_shell_quotes_removed(tmp_path: Path) -> None:
    path = written(tmp_path, "e/b|sum|e/a|seed=1 'x=${y}'\n e/a|sum||\n")
    assert read_dag(path) == (
        DagJob("e/a", "sum", (), ()),
        DagJob("e/b", "sum", ("e/a",), ("seed=1", "x=${y}")),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("e/a|sum||\ne/a|sum||\n", "defined twice"),
        ("e/a|sum|e/b|\n", "needs e/b"),
        ("e/a|sum|e/b|\ne/b|sum|e/a|\n", "circle"),
    ],
)
def test_an_impossible_dag_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_dag(written(tmp_path, text))


@pytest.fixture
def run(tmp_path: Path) -> Run:
    values: Mapping[str, Mapping[str, Any]] = {"e/a": {"numbers": [1]}, "e/b": {"numbers": [2]}}
    jobs = (DagJob("e/a", "sum", (), ()), DagJob("e/b", "sum", ("e/a",), ()))
    return Run(tmp_path / "run", jobs, lambda job: values[job.name])


def states(run: Run) -> dict[str, tuple[str, str]]:
    return {state.job.name: (state.state, state.reason) for state in examine(run)}


def test_states_and_stamps_follow_the_results(run: Run, order: Callable[..., JobOrder]) -> None:
    assert states(run)["e/a"] == ("missing", "not run yet")
    a = execute(order(1, out="run/e/a"))
    execute(order(2, out="run/e/b", inputs={"a": a.directory}))
    assert states(run) == {"e/a": ("done", ""), "e/b": ("done", "")}
    write_stamps(run, examine(run))
    assert stamp(run, "e/a").exists()
    assert stamp(run, "e/a").stat().st_mtime == stamp(run, "e/b").stat().st_mtime


def test_a_changed_value_is_said_in_words_and_takes_the_stamps_of_all_that_follows(
    run: Run, order: Callable[..., JobOrder]
) -> None:
    a = execute(order(7, out="run/e/a"))
    execute(order(2, out="run/e/b", inputs={"a": a.directory}))
    assert states(run) == {"e/a": ("stale", "numbers [7] -> [1]"), "e/b": ("stale", "input e/a runs first")}
    write_stamps(run, examine(run))
    assert not stamp(run, "e/a").exists()
    assert not stamp(run, "e/b").exists()


def test_a_mixture_of_old_and_new_results_is_stale(run: Run, order: Callable[..., JobOrder]) -> None:
    old = execute(order(7, out="run/e/a"))
    execute(order(2, out="run/e/b", inputs={"a": old.directory}))
    execute(order(1, out="run/e/a", force=True))
    assert states(run) == {"e/a": ("done", ""), "e/b": ("stale", "input a changed")}


def test_a_missing_artifact_is_damage(run: Run, order: Callable[..., JobOrder]) -> None:
    a = execute(order(1, out="run/e/a"))
    (a.directory / "numbers.txt").unlink()
    assert states(run)["e/a"] == ("stale", "damaged: numbers.txt is missing")


def test_a_job_at_work_is_running(run: Run) -> None:
    with writer_lock(JobPaths(run.out("e/a"))):
        assert states(run)["e/a"][0] == "running"


def test_a_failed_job_says_why(run: Run, order: Callable[..., JobOrder], job_module: Any) -> None:
    def fail(config: Any, context: Any) -> dict[str, Any]:
        raise RuntimeError("no luck")

    job_module.run = fail
    with pytest.raises(RuntimeError):
        execute(order(1, out="run/e/a"))
    assert states(run)["e/a"] == ("failed", "RuntimeError: no luck")


def test_a_damaged_manifest_makes_a_job_and_what_follows_stale(run: Run, order: Callable[..., JobOrder]) -> None:
    a = execute(order(1, out="run/e/a"))
    execute(order(2, out="run/e/b", inputs={"a": a.directory}))
    path = a.directory / "manifest.json"
    path.chmod(0o644)
    path.write_text("{", encoding="utf-8")
    assert states(run)["e/a"] == ("stale", "damaged: manifest.json cannot be read")
    assert states(run)["e/b"][0] == "stale"
