"""The root configuration: every job in every profile composes; what is misspelt or impossible is one line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from compgen.config import JOBS, Composer, compose_root, resolve_job
from compgen.errors import ConfigError
from compgen.run.paths import project_root

ROOT = project_root()


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
@pytest.mark.parametrize("kind", sorted(JOBS))
def test_every_kind_of_job_composes_in_every_profile(kind: str, profile: str) -> None:
    resolved = resolve_job(compose_root([f"job={kind}", f"profile={profile}"]))
    assert isinstance(resolved.config, JOBS[kind])
    assert resolved.root.profile.name == profile


def test_kinds_configs_and_modules_are_the_same_set() -> None:
    configs = {path.stem for path in (ROOT / "conf" / "job").glob("*.yaml")}
    modules = {path.stem for path in (ROOT / "src/compgen/jobs").glob("*.py")} - {"__init__"}
    assert configs == modules == set(JOBS)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("copying.train.step=5", "did you mean copying.train.steps"),
        ("copying.train.steps=many", "could not be converted to Integer"),
        ("copying.train.steps=0", "copying.train.steps=0"),
        ("copying.train.steps=-5", "copying.train.steps=-5"),
        ("job=copying_trian", "copying_trian"),
        ("profile=huge", "profile/huge"),
        ("run.name=../elsewhere", "run.name"),
    ],
)
def test_bad_input_is_one_line_that_names_the_field(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        resolve_job(compose_root(["job=copying_train", override]))
    assert "\n" not in str(caught.value)


def test_configurations_are_checked_without_importing_torch() -> None:
    script = (
        "import sys; from compgen.config import compose_root, resolve_job\n"
        "resolve_job(compose_root(['job=copying_train']))\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_job_without_a_kind_lists_the_kinds() -> None:
    with pytest.raises(ConfigError, match="job is not set.*copying_train"):
        resolve_job(compose_root([]))


def test_no_file_holds_a_registry_host_or_a_path_of_a_machine() -> None:
    suspicious = ("/root/", "/home/", "index-url", "https://pypi", "find-links")
    for path in [ROOT / "constraints.txt", ROOT / "pyproject.toml", ROOT / "Makefile", *_tracked("conf")]:
        text = path.read_text(encoding="utf-8")
        assert not any(word in text for word in suspicious), path


def _tracked(directory: str) -> list[Path]:
    return [path for path in (ROOT / directory).rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    "overrides",
    [
        ["job=copying_train", "profile=smoke", "seed=3", "copying.train.steps=${copying.long_steps}"],
        ["job=copying_train", "profile=laptop", "copying.train.steps=7", "copying.train.steps=9"],
        ["job=charsub_train", "profile=laptop", "charsub.authors.seeds=[1,2]", "charsub.authors.start=finetuned"],
        ["job=theory_exact", "profile=paper"],
        ["job=copying_train", "copying=smoke"],
    ],
)
def test_composing_for_a_plan_gives_what_hydra_gives(overrides: list[str]) -> None:
    composer = Composer()
    for _ in range(2):
        assert composer.values(overrides) == resolve_job(compose_root(overrides)).values


@pytest.mark.parametrize("kind", sorted(path.stem for path in (ROOT / "conf" / "job").glob("*.yaml")))
def test_composing_for_a_plan_gives_what_hydra_gives_for_every_kind_of_job(kind: str) -> None:
    overrides = [f"job={kind}", "profile=smoke"]
    try:
        expected: object = resolve_job(compose_root(overrides)).values
    except ConfigError as error:
        with pytest.raises(ConfigError, match=re.escape(str(error))):
            Composer().values(overrides)
    else:
        assert Composer().values(overrides) == expected


@pytest.mark.parametrize("override", ["copying.train.step=5", "copying.train.steps=many", "copying.train.steps=0"])
def test_composing_for_a_plan_refuses_what_hydra_refuses(override: str) -> None:
    with pytest.raises(ConfigError, match="copying.train.step"):
        Composer().values(["job=copying_train", override])
