"""The picture of the DAG: families, states, columns and Mermaid text."""

from pathlib import Path
from xml.etree import ElementTree

import networkx as nx
import pytest

from compgen.report.dag import DagNode, collapse, common_name, draw_dag, layout, mermaid

SEEDS = range(8)
JOBS = [
    *(DagNode(f"copying/train-seed{seed}", "copying_train", (), "done") for seed in SEEDS),
    *(
        DagNode(
            f"copying/probe-seed{seed}",
            "copying_probe",
            (f"copying/train-seed{seed}",),
            "failed" if seed == 3 else "stale",
        )
        for seed in SEEDS
    ),
    DagNode("copying/summary", "copying_summary", tuple(f"copying/probe-seed{seed}" for seed in SEEDS), "missing"),
    DagNode("theory/summary", "theory_summary", (), "done"),
]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a/train-seed0"], "a/train-seed0"),
        ([f"a/train-seed{seed}" for seed in (2, 0, 1)], "a/train-seed{0..2}"),
        (["a/pool-100-seed0", "a/pool-750-seed0"], "a/pool-{100,750}-seed0"),
        ([f"a/k{k}" for k in (1, 10, 20, 30, 500)], "a/k{1…500}"),
    ],
)
def test_names_that_differ_in_numbers_become_one(names: list[str], expected: str) -> None:
    assert common_name(names) == expected


def test_seeds_become_one_node_that_shows_the_worst_state() -> None:
    graph = collapse(JOBS)
    assert [family.name for family in graph.nodes] == [
        "copying/train-seed{0..7}",
        "copying/probe-seed{0..7}",
        "copying/summary",
        "theory/summary",
    ]
    probe = list(graph.nodes)[1]
    assert (probe.state, probe.note) == ("failed", "8 jobs: 7 stale, 1 failed")
    assert len(graph.edges) == 2


def test_inputs_stand_left_of_their_users_and_no_boxes_overlap() -> None:
    graph = collapse(JOBS)
    boxes = layout(graph)
    assert all(boxes[before].right < boxes[after].left for before, after in graph.edges)
    places = [(box.left, box.middle) for box in boxes.values()]
    assert len(set(places)) == len(places)


def test_edges_that_others_imply_are_left_out() -> None:
    names = ("a/x", "a/y", "a/z")
    jobs = [DagNode(name, "kind", names[:place], "done") for place, name in enumerate(names)]
    assert [(before.name, after.name) for before, after in collapse(jobs).edges] == [("a/x", "a/y"), ("a/y", "a/z")]


def test_equal_names_of_different_kinds_stay_apart() -> None:
    jobs = [DagNode("a/run-1", "first", (), "done"), DagNode("a/run-2", "second", (), "done")]
    assert len(collapse(jobs)) == 2


def test_the_picture_is_valid_repeats_and_names_every_family(tmp_path: Path) -> None:
    draw_dag(JOBS, tmp_path / "a.svg")
    draw_dag(JOBS, tmp_path / "b.svg")
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    assert text == (tmp_path / "b.svg").read_text(encoding="utf-8")
    assert "train-seed{0..7}" in text
    assert "8 jobs: 7 stale, 1 failed" in text


def test_no_jobs_give_an_empty_picture(tmp_path: Path) -> None:
    draw_dag([], tmp_path / "dag.svg")
    assert (tmp_path / "dag.svg").is_file()


def test_a_circle_is_refused(tmp_path: Path) -> None:
    jobs = [DagNode("a/x", "k", ("a/y",), "done"), DagNode("a/y", "k", ("a/x",), "done")]
    with pytest.raises(nx.NetworkXException):
        draw_dag(jobs, tmp_path / "dag.svg")


def test_mermaid_has_a_subgraph_for_each_experiment_and_a_class_for_each_state() -> None:
    text = mermaid(JOBS)
    assert text.startswith("flowchart LR\n")
    assert '  subgraph copying["copying"]\n' in text
    assert '    job0["train-seed{0..7}<br/>8 jobs: 8 done"]:::done\n' in text
    assert "  job1 --> job2\n" in text
    assert "classDef failed" in text
