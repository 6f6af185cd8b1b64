"""The floors of the house, read from the import statements."""

import pytest

from compgen.run.fingerprint import SOURCE_ROOT, source_closure

DOMAINS = ("composition", "charsub", "copying", "evaluation", "finetuning", "heads")
PACKAGE = SOURCE_ROOT / "compgen"


def imported(module: str) -> set[str]:
    """What one module imports, directly or not, as paths below the package, itself left out."""
    return set(source_closure(module)) - {"__init__.py"}


def modules(room: str) -> list[str]:
    paths = (PACKAGE / room).rglob("*.py")
    return [".".join(path.relative_to(SOURCE_ROOT).with_suffix("").parts) for path in paths if path.stem != "__init__"]


@pytest.mark.parametrize("module", modules("run"))
def test_the_run_layer_knows_no_domain(module: str) -> None:
    assert not [path for path in imported(module) if path.split("/")[0] in (*DOMAINS, "report", "jobs")]


@pytest.mark.parametrize("module", modules("report"))
def test_the_report_reads_files_and_knows_no_domain(module: str) -> None:
    assert not [path for path in imported(module) if path.split("/")[0] in (*DOMAINS, "jobs")]


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_domain_imports_only_what_its_science_needs(domain: str) -> None:
    needed = {"charsub": {"composition"}, "evaluation": {"composition", "finetuning"}}
    allowed = {domain} | needed.get(domain, set())
    for module in modules(domain):
        rooms = {path.split("/")[0] for path in imported(module) if "/" in path}
        assert rooms <= allowed | {"run", "weights", "questions"}, module
        assert {path for path in imported(module) if path.startswith("run/")} <= {"run/__init__.py", "run/context.py"}


@pytest.mark.parametrize("module", modules("jobs"))
def test_jobs_see_of_the_run_layer_only_the_context(module: str) -> None:
    assert {path for path in imported(module) if path.startswith("run/")} <= {"run/__init__.py", "run/context.py"}


def test_changing_how_jobs_are_run_leaves_finished_results_valid() -> None:
    for module in modules("jobs"):
        assert "run/tracking.py" not in imported(module)
        assert "config.py" not in imported(module)
