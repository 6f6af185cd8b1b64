"""The run tree, and figures: equal bytes, text as text, nothing shared between drawings on one page."""

import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib.pyplot
import pytest
from matplotlib.figure import Figure as Canvas

from compgen.report.figure import (
    INK,
    Figure,
    RunTree,
    blank,
    draw_svg,
    inline_svg,
    plot_band,
    plot_points,
    series,
    svg_width,
)


def drawing() -> Canvas:
    canvas, (left, right) = blank(1, 2, width=7.0)
    plot_band(left, [0, 1, 2], [1.0, 0.5, 0.1], [0.9, 0.4, 0.0], [1.1, 0.6, 0.2], label="two layers")
    plot_points(right, [0, 1], [1, 2], [0.5, 1.5], [1.5, 2.5], label="one layer")
    left.set(xlabel="training step", ylabel="error")
    left.legend()
    return canvas


FIGURE = Figure("copying-error", "Error", "Eight seeds.", drawing)


@pytest.fixture
def svg(tmp_path: Path) -> str:
    return draw_svg(FIGURE, tmp_path)


def test_two_drawings_are_equal_to_the_byte_whatever_the_users_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "again").mkdir()
    first = draw_svg(FIGURE, tmp_path)
    monkeypatch.setitem(matplotlib.rcParams, "lines.linewidth", 9)
    assert draw_svg(FIGURE, tmp_path / "again") == first
    for ending in ("svg", "png"):
        name = f"copying-error.{ending}"
        assert (tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_words_stay_words(svg: str) -> None:
    assert "training step" in svg
    assert "two layers" in svg


def test_an_inlined_drawing_has_its_own_ids_and_the_pages_colours(svg: str) -> None:
    inlined = inline_svg(svg, "copying-error", "A falling line")
    ElementTree.fromstring(inlined.replace("xlink:href", "href"))
    identities = re.findall(r'\bid="([^"]+)"', inlined)
    assert identities
    assert all(identity.startswith("copying-error-") for identity in identities)
    assert set(re.findall(r"url\(#([^)]+)\)", inlined)) <= set(identities)
    assert set(re.findall(r'href="#([^"]+)"', inlined)) <= set(identities)
    assert INK not in inlined
    assert 'aria-label="A falling line"' in inlined
    assert svg_width(svg) == pytest.approx(7.0 * 72)


def test_a_run_tree_lists_finished_jobs_only(run: RunTree, run_directory: Path) -> None:
    (run_directory / "copying/train-seed1.partial").mkdir()
    (run_directory / "copying/train-seed1.partial/manifest.json").write_text("{}", encoding="utf-8")
    (run_directory / ".make/copying").mkdir(parents=True)
    (run_directory / ".make/copying/manifest.json").write_text("{}", encoding="utf-8")
    assert list(run.finished) == ["copying/summary", "copying/train-seed0"]
    assert [job.kind for job in run.jobs("copying")] == ["copying_summary", "copying_train"]
    assert run.jobs("theory") == []
    assert run.job("theory/summary") is None
    assert run.name == "laptop"


def test_a_run_tree_can_be_restricted_to_what_stands(run_directory: Path) -> None:
    tree = RunTree(run_directory, standing=frozenset({"copying/train-seed0", "copying/never"}))
    assert list(tree.finished) == ["copying/train-seed0"]


def test_series_takes_one_field_of_all_points() -> None:
    assert series([{"low": 1, "n": 3}, {"low": 2.5, "n": 3}], "low") == [1.0, 2.5]


def test_a_figure_that_raises_is_not_swallowed(tmp_path: Path) -> None:
    def broken() -> Canvas:
        raise KeyError("curve")

    with pytest.raises(KeyError, match="curve"):
        draw_svg(Figure("broken", "", "", broken), tmp_path)


def test_drawing_leaves_no_figure_open(tmp_path: Path) -> None:
    draw_svg(FIGURE, tmp_path)
    assert matplotlib.pyplot.get_fignums() == []
