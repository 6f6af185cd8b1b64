"""The shipped report: every section, every claims file and every source belong together."""

import re
from pathlib import Path

from compgen.report.claims import load_claims
from compgen.report.contents import CONTENTS
from compgen.report.figure import RunTree
from compgen.report.page import section_of, write_report

ROOT = Path(__file__).resolve().parents[2]


def test_every_section_introduces_itself_and_has_a_name_of_its_own() -> None:
    assert len({section.name for section in CONTENTS}) == len(CONTENTS)
    assert all(len(section.introduction().split()) > 20 for section in CONTENTS)


def test_every_claims_file_belongs_to_the_section_of_its_name() -> None:
    assert all(section_of(claim, CONTENTS).name == claim.group for claim in load_claims(ROOT / "data" / "reference"))


def test_every_claims_source_is_a_job_of_the_pipelines() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "pipelines").glob("*.mk"))
    jobs = set(re.findall(r"\$\(call job,([^,$]+),", text))
    assert {claim.source for claim in load_claims(ROOT / "data" / "reference")} <= jobs


def test_a_run_without_any_result_still_gives_a_report(tmp_path: Path) -> None:
    claims = load_claims(ROOT / "data" / "reference")
    directory = tmp_path / "laptop" / "report"
    directory.mkdir(parents=True)
    counts = write_report(RunTree(tmp_path / "laptop"), claims, CONTENTS, directory)
    assert counts["not run"] == len(claims)
    assert (directory / "index.html").stat().st_size < 5_000_000
