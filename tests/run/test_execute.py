import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compgen.errors import UserError
from compgen.run import execute as execute_module
from compgen.run.context import FinishedJob, read_json
from compgen.run.execute import JobOrder, execute
from compgen.run.paths import JobPaths
from compgen.run.workspace import writer_lock

Order = Callable[..., JobOrder]


def test_a_finished_job_holds_metrics_history_and_a_manifest_that_repeats_it(order: Order, tmp_path: Path) -> None:
    job = execute(order(1, 2, 3))

    assert job.directory == tmp_path / "run/sum/job"
    assert job.metrics == {"sum": 6}
    assert job.history() == [{"sum/step": i, "sum/value": i + 1} for i in range(3)]
    assert job.config == {"numbers": [1, 2, 3]}
    assert job.manifest["command"] == "python -m compgen job=sum"
    assert set(job.manifest["artifacts"]) == {"metrics.json", "history.jsonl", "numbers.txt"}
    assert not JobPaths(job.directory).partial.exists()


def test_a_job_whose_result_stands_is_not_run_again(order: Order, job_module: types.ModuleType) -> None:
    execute(order(1))
    job_module.run = lambda config, context: pytest.fail("ran again")  # type: ignore[attr-defined]
    assert execute(order(1)).metrics == {"sum": 1}


def test_a_finished_directory_is_not_replaced_by_a_job_with_other_values(order: Order) -> None:
    execute(order(1))
    with pytest.raises(UserError, match=r"numbers \[1\] -> \[2\].*force=true"):
        execute(order(2))
    assert execute(order(1)).metrics == {"sum": 1}


@pytest.mark.parametrize("permission", [{"force": True}, {"replace_stale": True}])
def test_a_finished_directory_is_replaced_when_that_is_allowed(order: Order, permission: dict[str, bool]) -> None:
    execute(order(1))
    assert execute(order(2, **permission)).metrics == {"sum": 2}


def test_finished_files_are_read_only(order: Order) -> None:
    job = execute(order(1))
    assert all(path.stat().st_mode & 0o222 == 0 for path in job.directory.rglob("*") if path.is_file())


def test_without_a_place_the_directory_is_named_by_content(order: Order, tmp_path: Path) -> None:
    first, again, other = (execute(order(*numbers, out=None)) for numbers in ([1], [1], [2]))
    assert first.directory == again.directory != other.directory
    assert first.directory.parent == tmp_path / "run" / "sum"
    assert first.manifest["fingerprint"].startswith(first.directory.name)


def test_equal_jobs_in_two_places_have_equal_content(order: Order) -> None:
    one, two = execute(order(1, 2, out="run/sum/one")), execute(order(1, 2, out="run/sum/two"))
    assert one.manifest["content"] == two.manifest["content"]
    assert (one.directory / "metrics.json").read_bytes() == (two.directory / "metrics.json").read_bytes()


def test_changed_code_makes_a_result_stale(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    execute(order(1))
    monkeypatch.setattr(execute_module, "job_closure", lambda kind: {"jobs/sum.py": "other"})
    with pytest.raises(UserError, match=r"jobs/sum.py added"):
        execute(order(1))


def test_an_input_changed_in_content_makes_a_result_stale_and_a_touched_one_does_not(order: Order) -> None:
    source = execute(order(1, out="run/sum/source"))
    user = order(10, out="run/sum/user", inputs={"source": source.directory})
    assert execute(user).metrics == {"sum": 11}
    for path in source.directory.rglob("*"):
        os.utime(path)
    assert execute(user).metrics == {"sum": 11}
    execute(order(2, out="run/sum/source", replace_stale=True))
    with pytest.raises(UserError, match="input source changed"):
        execute(user)


def test_a_damaged_input_is_named_before_work_begins(order: Order, job_module: types.ModuleType) -> None:
    source = execute(order(1, out="run/sum/source"))
    path = source.directory / "numbers.txt"
    path.chmod(0o644)
    path.write_text("7", encoding="utf-8")
    job_module.run = lambda config, context: pytest.fail("work began")  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="source is damaged .*numbers.txt differs from its manifest"):
        execute(order(10, out="run/sum/user", inputs={"source": source.directory}))


def test_an_unfinished_input_is_refused(order: Order, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not a finished job"):
        execute(order(1, inputs={"nothing": tmp_path}))


def test_a_failing_job_keeps_its_reason_and_never_looks_finished(order: Order, job_module: types.ModuleType) -> None:
    def fail(config: Any, context: Any) -> dict[str, Any]:
        raise RuntimeError("the loss is not a number")

    job_module.run = fail  # type: ignore[attr-defined]
    wanted = order(1)
    with pytest.raises(RuntimeError):
        execute(wanted)
    assert wanted.out is not None
    assert not wanted.out.exists()
    assert "the loss is not a number" in read_json(JobPaths(wanted.out).failure)["error"]


def test_a_metric_that_is_not_finite_is_refused(order: Order, job_module: types.ModuleType) -> None:
    job_module.run = lambda config, context: {"loss": float("nan")}  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="not finite"):
        execute(order(1))


def test_a_row_without_its_step_is_refused(order: Order, job_module: types.ModuleType) -> None:
    job_module.run = lambda config, context: context.log({"train/loss": 1.0})  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="no train/step"):
        execute(order(1))


def test_a_second_writer_gets_one_line_and_the_first_is_not_disturbed(
    order: Order, job_module: types.ModuleType
) -> None:
    wanted = order(1)
    assert wanted.out is not None

    def run_and_meet_another(config: Any, context: Any) -> dict[str, Any]:
        with pytest.raises(UserError, match=f"process {os.getpid()} on"), writer_lock(JobPaths(wanted.out)):  # type: ignore[arg-type]
            pass
        return {"sum": 1}

    job_module.run = run_and_meet_another  # type: ignore[attr-defined]
    assert execute(wanted).metrics == {"sum": 1}


def test_a_failed_job_resumes_from_its_checkpoint_with_its_history_cut_to_that_moment(
    order: Order, job_module: types.ModuleType
) -> None:
    attempts: list[int] = []

    def count_to_ten(config: Any, context: Any) -> dict[str, Any]:
        state = context.checkpoint.load() or {"next": 0}
        attempts.append(state["next"])
        for step in range(state["next"], 10):
            if step == 5:
                context.checkpoint.save({"next": step})
            context.log({"count/step": step})
            if step == 7 and len(attempts) == 1:
                raise KeyboardInterrupt
        return {"rows": 10}

    job_module.run = count_to_ten  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        execute(order(1))
    job = execute(order(1))
    assert attempts == [0, 5]
    assert [row["count/step"] for row in job.history()] == list(range(10))
    assert "resume.pt" not in job.manifest["artifacts"]


def test_work_for_another_configuration_is_not_resumed(order: Order, job_module: types.ModuleType) -> None:
    def stop(config: Any, context: Any) -> dict[str, Any]:
        assert context.checkpoint.load() is None
        context.checkpoint.save({"next": 1})
        raise KeyboardInterrupt

    job_module.run = stop  # type: ignore[attr-defined]
    for numbers in ([1], [2]):
        with pytest.raises(KeyboardInterrupt):
            execute(order(*numbers))


def test_a_damaged_checkpoint_is_named_with_the_remedy(order: Order, job_module: types.ModuleType) -> None:
    def load(config: Any, context: Any) -> dict[str, Any]:
        context.checkpoint.load()
        context.checkpoint.save({"next": 1})
        raise KeyboardInterrupt

    job_module.run = load  # type: ignore[attr-defined]
    wanted = order(1)
    with pytest.raises(KeyboardInterrupt):
        execute(wanted)
    assert wanted.out is not None
    JobPaths(wanted.out).resume.write_bytes(b"not a checkpoint")
    with pytest.raises(UserError, match="checkpoint is damaged .*delete this file"):
        execute(wanted)


def test_a_path_that_is_not_utf8_is_refused_in_one_line(order: Order, tmp_path: Path) -> None:
    bad = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9/job"))
    with pytest.raises(UserError, match="not valid UTF-8"):
        execute(order(1, out=None, run_directory=bad))


def test_a_full_disk_is_named_before_work_begins(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("compgen.run.workspace.shutil.disk_usage", lambda path: types.SimpleNamespace(free=5_000_000))
    with pytest.raises(UserError, match="5 MB are free.*make room"):
        execute(order(1))


def test_an_unwritable_place_is_named(order: Order, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(UserError, match="cannot be written"):
        execute(order(1, out="file/sum/job"))


def test_inputs_are_seen_in_the_order_given(order: Order) -> None:
    sources = {name: execute(order(i, out=f"run/sum/{name}")).directory for i, name in enumerate("ba")}
    job = execute(order(5, out="run/sum/user", inputs=sources))
    assert list(FinishedJob(job.directory).manifest["inputs"]) == ["b", "a"]


def test_a_place_that_holds_something_else_is_never_replaced(order: Order, tmp_path: Path) -> None:
    precious = tmp_path / "run" / "sum" / "job" / "thesis.txt"
    precious.parent.mkdir(parents=True)
    precious.write_text("years of work", encoding="utf-8")
    for permission in ({}, {"force": True}, {"replace_stale": True}):
        with pytest.raises(UserError, match="is no finished job"):
            execute(order(1, **permission))
    assert precious.read_text(encoding="utf-8") == "years of work"


def damage_manifest(job: FinishedJob) -> None:
    path = job.directory / "manifest.json"
    path.chmod(0o644)
    path.write_text('{"kind": "su', encoding="utf-8")


def test_a_damaged_manifest_is_named_and_the_job_can_be_run_again(order: Order) -> None:
    damage_manifest(execute(order(1)))
    with pytest.raises(UserError, match="manifest.json cannot be read"):
        execute(order(1))
    assert execute(order(1, replace_stale=True)).metrics == {"sum": 1}


def test_an_input_with_a_damaged_manifest_is_refused_in_one_line(order: Order) -> None:
    source = execute(order(1, out="run/sum/source"))
    damage_manifest(source)
    with pytest.raises(UserError, match="manifest.json is damaged: delete"):
        execute(order(2, out="run/sum/user", inputs={"source": source.directory}))
