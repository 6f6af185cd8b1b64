"""The page from a synthetic run: complete, self-contained, repeatable, and honest about what is missing."""

import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compgen.errors import ConfigError
from compgen.jobs import report
from compgen.report.claims import load_claims
from compgen.report.config import ReportJobConfig
from compgen.report.figure import Figure, RunTree, blank
from compgen.report.page import SMOKE_NOTICE, section_of, write_report
from compgen.report.provenance import duration, memory
from compgen.report.verdicts import SMOKE
from compgen.report.view import Section
from compgen.run.context import FinishedJob

VOID = {"meta", "link", "input", "br", "img", "hr"}
Contents = tuple[Section, ...]


class Page(HTMLParser):
    """Collects identifiers, addresses and text of a page, and checks that its elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.words: list[str] = []
        self.images_without_alternative = 0
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.ids.extend(value for name, value in attrs if name == "id" and value)
        self.addresses.extend(str(values[name]) for name in ("href", "src", "xlink:href") if values.get(name))
        if tag == "img" or values.get("role") == "img":
            self.images_without_alternative += not (values.get("alt") or values.get("aria-label"))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def write(run: RunTree, reference: Path, contents: Contents, name: str = "report") -> Path:
    directory = run.directory / name
    directory.mkdir()
    write_report(run, load_claims(reference), contents, directory)
    return directory


def files_in(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def page(written: Path) -> Page:
    return Page((written / "index.html").read_text(encoding="utf-8"))


def test_the_report_has_all_its_files(written: Path) -> None:
    names = ["copying-error", "copying-maps", "copying-points"]
    figures = {f"figures/{name}.{ending}" for name in names for ending in ("png", "svg")}
    assert set(files_in(written)) == {"index.html", "report.md", "results.json", *figures}


def test_every_claim_is_on_the_page_with_verdict_reason_and_command(written: Path, page: Page) -> None:
    claims = json.loads((written / "results.json").read_text(encoding="utf-8"))["claims"]
    markdown = (written / "report.md").read_text(encoding="utf-8")
    assert len(claims) == 5
    for claim in claims:
        for field in ("id", "statement", "location", "verdict", "reason", "command"):
            assert claim[field] in page.text
            assert claim[field] in markdown


def test_the_page_needs_no_network_and_no_script(written: Path) -> None:
    text = (written / "index.html").read_text(encoding="utf-8")
    namespaces = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert all(address.startswith("http://www.w3.org/") for address in namespaces)
    assert "<script" not in text


def test_every_link_resolves_from_where_the_report_will_be(written: Path, page: Page) -> None:
    for address in page.addresses:
        if address.startswith("#"):
            assert address[1:] in page.ids
        elif not address.startswith("data:"):
            assert (written / address).is_file(), address


def test_identifiers_are_unique_and_pictures_have_alternatives(page: Page) -> None:
    assert [name for name, times in Counter(page.ids).items() if times > 1] == []
    assert page.images_without_alternative == 0


def test_links_in_markdown_resolve(written: Path) -> None:
    markdown = (written / "report.md").read_text(encoding="utf-8")
    for address in re.findall(r"\]\(([^)]+)\)", markdown):
        if address.startswith("#"):
            assert f'<a id="{address[1:]}">' in markdown
        else:
            assert (written / address).is_file(), address


def test_equal_inputs_give_equal_bytes_whatever_the_directory_is_called(
    run: RunTree, reference: Path, contents: Contents, written: Path
) -> None:
    assert files_in(write(run, reference, contents, "report.partial")) == files_in(written)


def test_text_is_escaped_and_paragraphs_are_kept(written: Path) -> None:
    html = (written / "index.html").read_text(encoding="utf-8")
    assert "<p>Nothing is sampled &amp; nothing is trained.</p>" in html
    assert "<p>A two-layer transformer learns to repeat a segment. Its one-layer control cannot.</p>" in html
    assert "Nothing is sampled & nothing is trained." in (written / "report.md").read_text(encoding="utf-8")


def test_provenance_lists_jobs_costs_and_uncommitted_changes(page: Page) -> None:
    for words in ("1 h 02 min", "512 MiB", "0123456789+", "torch 2.13.0", "2 jobs ran from a checkout with"):
        assert words in page.text


def test_a_section_without_results_says_so(page: Page) -> None:
    assert "No figure: the jobs that they are drawn from have not been run." in page.text


def test_a_smoke_run_is_marked_everywhere(run_directory: Path, reference: Path, contents: Contents) -> None:
    written = write(RunTree(run_directory, "smoke"), reference, contents)
    html = (written / "index.html").read_text(encoding="utf-8")
    assert '<body class="smoke">' in html
    assert SMOKE_NOTICE in html
    assert SMOKE_NOTICE in (written / "report.md").read_text(encoding="utf-8")
    entries = json.loads((written / "results.json").read_text(encoding="utf-8"))
    assert entries["profile"] == "smoke"
    assert all(entry["reason"].startswith(SMOKE) for entry in entries["claims"])


def test_other_profiles_carry_no_mark(written: Path) -> None:
    html = (written / "index.html").read_text(encoding="utf-8")
    assert '<body class="smoke">' not in html
    assert SMOKE_NOTICE not in html


def test_evidence_that_is_gone_is_named_without_a_link(
    run: RunTree, run_directory: Path, reference: Path, contents: Contents
) -> None:
    (run_directory / "copying/train-seed0/metrics.json").unlink()
    html = (write(run, reference, contents) / "index.html").read_text(encoding="utf-8")
    assert "<code>copying/train-seed0/metrics.json</code> (missing)" in html


def section(name: str, *figures: Figure) -> Section:
    return Section(name, name, name, lambda: "Words.", lambda run: list(figures))


def test_a_section_that_raises_stops_the_report(run: RunTree, reference: Path) -> None:
    def broken() -> Any:
        raise KeyError("curve")

    contents = (section("theory"), section("copying", Figure("a", "", "", broken)))
    with pytest.raises(KeyError, match="curve"):
        write(run, reference, contents)


def test_two_figures_of_one_name_are_refused(run: RunTree, reference: Path) -> None:
    figure = Figure("a", "", "", lambda: blank()[0])
    with pytest.raises(ValueError, match="two figures of the report are named a"):
        write(run, reference, (section("theory", figure), section("copying", figure)))


def test_a_large_drawing_stands_in_the_page_as_pixels(
    run: RunTree, reference: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compgen.report.page.LARGEST_INLINE_SVG", 100)
    html = (write(run, reference, contents) / "index.html").read_text(encoding="utf-8")
    assert html.count('<img src="data:image/png;base64,') == 3


def test_claims_go_to_the_section_of_their_file_or_of_their_experiment(reference: Path) -> None:
    claim = load_claims(reference)[0]
    assert section_of(claim, (section("copying_causal"), section("copying"))).name == "copying"
    assert section_of(claim, (section("theory"), section("copying_causal"))).name == "copying_causal"
    with pytest.raises(ConfigError, match=r"copying.yaml: belongs to no section"):
        section_of(claim, (section("theory"),))


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.24, "4.2 s"), (59.0, "59.0 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(300 * 2**20, "300 MiB"), (3 * 2**29, "1.50 GiB")])
def test_memory(size: int, text: str) -> None:
    assert memory(size) == text


def test_the_job_reports_only_inputs_that_stand(
    run_directory: Path, reference: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "CONTENTS", contents)
    directory = run_directory / "report.partial"
    directory.mkdir()
    inputs = {"train-seed0": FinishedJob(run_directory / "copying/train-seed0")}
    context: Any = SimpleNamespace(directory=directory, inputs=inputs, progress=lambda *_: None)
    config = ReportJobConfig(str(run_directory), "laptop", "laptop", str(reference), "digest")
    metrics = report.run(config, context)
    assert metrics["verdicts"] == {"reproduced": 0, "not reproduced": 0, "inconclusive": 0, "not run": 5}
    assert (metrics["claims"], metrics["jobs"]) == (5, 1)
    entries = json.loads((directory / "results.json").read_text(encoding="utf-8"))["claims"]
    assert entries[0]["reason"].startswith("The result of copying/summary is stale")


@pytest.mark.parametrize(("field", "value"), [("run_directory", ""), ("run_name", ""), ("profile", "huge")])
def test_impossible_configurations_name_their_field(field: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"report.{field}="):
        ReportJobConfig(**{field: value})
