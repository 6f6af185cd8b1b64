"""Rows of benchmarks: the recorded ones or a refusal, and damage in one line."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from compgen.errors import UserError
from compgen.questions.config import BenchmarkConfig, SplitConfig
from compgen.questions.rows import fingerprint, load_rows, read_lines
from compgen.run.paths import project_root

SHARED = project_root().parent / "shared" / "data"
GSM = [{"question": f"What is {n} + {n}?", "answer": f"{n} + {n} = {2 * n}\n#### {2 * n}"} for n in range(1, 9)]


def source(rows: list[dict[str, Any]], fields: list[str] | None = None) -> BenchmarkConfig:
    split = SplitConfig(["a/test.jsonl"], None, len(rows), fingerprint(rows, fields))
    return BenchmarkConfig(fields=fields, splits={"test": split})


def write(path: Any, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_another_version_of_a_benchmark_is_refused_and_generated_rows_are_not(tmp_path: Any) -> None:
    write(tmp_path / "a" / "test.jsonl", GSM)
    assert load_rows(tmp_path, source(GSM), "gsm8k", "test").rows == GSM
    changed = [*GSM[:-1], {**GSM[-1], "answer": "#### 0"}]
    with pytest.raises(UserError, match="benchmark gsm8k, split test: .*another version"):
        load_rows(tmp_path, source(changed), "gsm8k", "test")
    assert len(load_rows(tmp_path, source(changed), "gsm8k", "test", recorded=False).rows) == len(GSM)


def test_the_fingerprint_covers_the_named_fields_only(tmp_path: Any) -> None:
    write(tmp_path / "a" / "test.jsonl", [{**row, "id": n} for n, row in enumerate(GSM)])
    load_rows(tmp_path, source(GSM, ["question", "answer"]), "gsm8k", "test")
    with pytest.raises(UserError, match="another version"):
        load_rows(tmp_path, source(GSM), "gsm8k", "test")


def test_rows_that_cannot_be_had_are_one_line(tmp_path: Any) -> None:
    with pytest.raises(UserError, match="none of a/test.jsonl"):
        load_rows(tmp_path, source(GSM), "gsm8k", "test")
    with pytest.raises(UserError, match="no split train"):
        load_rows(tmp_path, source(GSM), "gsm8k", "train")
    with pytest.raises(UserError, match="not on the hub"):
        load_rows(None, source(GSM), "gsm8k", "test")
    (tmp_path / "bad.jsonl").write_text("{")
    with pytest.raises(UserError, match="not a file of JSON lines"):
        read_lines(tmp_path / "bad.jsonl")


@pytest.mark.parametrize("cut", [10, -4])
def test_a_damaged_file_is_one_line(tmp_path: Path, cut: int) -> None:
    whole = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in GSM))
    (tmp_path / "rows.jsonl.gz").write_bytes(whole)
    assert read_lines(tmp_path / "rows.jsonl.gz") == GSM
    (tmp_path / "rows.jsonl.gz").write_bytes(whole[:cut])
    with pytest.raises(UserError, match="rows.jsonl.gz: not a file of JSON lines"):
        read_lines(tmp_path / "rows.jsonl.gz")


def test_rows_of_another_shape_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("[1]\n")
    with pytest.raises(UserError, match="every line must be an object"):
        read_lines(tmp_path / "rows.jsonl")
    write(tmp_path / "a" / "test.jsonl", GSM)
    other = source(GSM, ["question", "answer"])
    other.fields = ["problem", "answer"]
    with pytest.raises(UserError, match="benchmark gsm8k: row 0 has no field problem, only question, answer"):
        load_rows(tmp_path, other, "gsm8k", "test")


@pytest.mark.parametrize("kind", ["ConnectionError", "DatasetNotFoundError", "DatasetGenerationError"])
def test_a_hub_that_cannot_be_read_is_one_line(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    def refuse(*_: Any, **__: Any) -> None:
        raise getattr(datasets.exceptions, kind, ConnectionError)("x")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    record = BenchmarkConfig(hub="some/one", splits={"test": SplitConfig(["a"], "test", 1, "x")})
    with pytest.raises(UserError, match=f"some/one cannot be read from the hub .{kind}.: go online, or set"):
        load_rows(None, record, "gsm8k", "test")


def test_rows_of_the_hub_are_asked_for_by_revision_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    asked: list[Any] = []

    def give(*where: Any, **how: Any) -> list[dict[str, Any]]:
        asked.append((where, how))
        return GSM

    monkeypatch.setattr(datasets, "load_dataset", give)
    split = SplitConfig(["a"], "test", len(GSM), fingerprint(GSM))
    record = BenchmarkConfig(hub="some/one", configuration="main", revision="abc", splits={"test": split})
    assert load_rows(None, record, "gsm8k", "test").rows == GSM
    assert asked == [(("some/one", "main"), {"split": "test", "revision": "abc"})]
    split.fingerprint = "0" * 64
    with pytest.raises(UserError, match="another version"):
        load_rows(None, record, "gsm8k", "test")


@pytest.mark.shared
@pytest.mark.parametrize("benchmark", ["gsm8k", "math", "humaneval_plus", "mbpp_plus"])
def test_rows_of_the_mirror_have_the_recorded_fingerprints(benchmark: str) -> None:
    if not SHARED.exists():
        pytest.skip("../shared/data is not on this machine")
    from compgen.config import compose_root, resolve_job

    record = resolve_job(compose_root(["job=composition_generate"])).config.sources[benchmark]
    for name, split in record.splits.items():
        loaded = load_rows(SHARED, record, benchmark, name)
        assert (len(loaded.rows), loaded.fingerprint) == (split.rows, split.fingerprint)
