from pathlib import Path

import pytest

from compgen.run.fingerprint import canonical_json, source_closure


@pytest.fixture
def package(tmp_path: Path) -> Path:
    files = {
        "__init__.py": "",
        "jobs/__init__.py": "",
        "jobs/work.py": "from compgen.science import rule\nimport json\n",
        "science/__init__.py": "from . import base\n",
        "science/rule.py": "def f():\n    from compgen.science.deep import value\n",
        "science/base.py": "",
        "science/deep.py": "from ..leaf import thing\n",
        "leaf.py": "thing = 1\n",
        "unused.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "compgen" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_the_closure_holds_what_is_imported_directly_indirectly_relatively_and_in_functions(
    package: Path,
) -> None:
    assert set(source_closure("compgen.jobs.work", package)) == {
        "__init__.py",
        "jobs/__init__.py",
        "jobs/work.py",
        "leaf.py",
        "science/__init__.py",
        "science/base.py",
        "science/deep.py",
        "science/rule.py",
    }


def test_the_closure_changes_with_content_and_not_with_time(package: Path) -> None:
    before = source_closure("compgen.jobs.work", package)
    (package / "compgen/leaf.py").touch()
    (package / "compgen/unused.py").write_text("x = 1", encoding="utf-8")
    assert source_closure("compgen.jobs.work", package) == before
    (package / "compgen/leaf.py").write_text("thing = 2\n", encoding="utf-8")
    after = source_closure("compgen.jobs.work", package)
    assert {name for name in after if after[name] != before[name]} == {"leaf.py"}


def test_canonical_json_ignores_the_order_of_keys_and_refuses_nan() -> None:
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == canonical_json({"a": [1.5, "é"], "b": 1})
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": float("nan")})


def test_templates_beside_a_module_count_as_its_source(package: Path) -> None:
    template = package / "compgen/science/templates/page.html"
    template.parent.mkdir()
    template.write_text("<p>", encoding="utf-8")
    before = source_closure("compgen.jobs.work", package)
    assert "science/templates/page.html" in before
    template.write_text("<h1>", encoding="utf-8")
    assert source_closure("compgen.jobs.work", package) != before
