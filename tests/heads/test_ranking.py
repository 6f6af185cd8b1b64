"""Ranked lists: order, intervals, and the authors' published lists."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub import try_to_load_from_cache
from transformers import AutoModelForCausalLM

from compgen.errors import UserError
from compgen.heads.ranking import head_lists, mean_intervals, ranked, read_authors_list, top_heads
from compgen.heads.repeated import authors_sequences
from compgen.heads.scores import Definition, attention_scores, pattern_scores
from compgen.heads.views import Head, HeadView
from compgen.run.paths import project_root
from compgen.statistics import bootstrap_mean

PUBLISHED = project_root().parent / "shared" / "data" / "paper2" / "heads"
CHECKED = [
    ("openai-community/gpt2", "gpt2"),
    ("openai-community/gpt2-xl", "gpt2-xl"),
    ("EleutherAI/pythia-6.9b", "pythia-7b"),
]
NOISE = 0.005
"""Published scores came from other hardware and versions; a wrong token or position would change them by far more."""


def test_heads_are_ordered_by_score_and_ties_by_layer_and_head() -> None:
    scores = torch.tensor([[0.2, 0.9], [0.9, 0.2], [0.5, 0.9]])
    ranking = ranked(scores)
    assert top_heads(ranking) == [Head(0, 1), Head(1, 0), Head(2, 1), Head(2, 0), Head(0, 0), Head(1, 1)]
    assert top_heads(ranking, 2) == [Head(0, 1), Head(1, 0)]
    assert all(row["interval"] is None for row in ranking)


def test_a_ranking_is_plain_json_with_an_interval_around_every_score() -> None:
    scores = torch.rand(12, 3, 4, generator=torch.Generator().manual_seed(0))
    ranking = json.loads(json.dumps(ranked(scores)))
    assert len(ranking) == 12
    for row in ranking:
        values = scores[:, row["layer"], row["head"]]
        assert row["score"] == pytest.approx(values.mean().item())
        assert row["interval"]["low"] < row["score"] < row["interval"]["high"]


def test_lists_say_what_they_were_measured_on() -> None:
    repeated = authors_sequences(40, 1, sequences=3, segment=6)
    scores = pattern_scores(torch.eye(13).expand(3, 2, 13, 13), repeated, Definition.authors)
    lists = head_lists({kind: values[:, None] for kind, values in scores.items()}, repeated, Definition.authors)
    found = json.loads(json.dumps(lists))
    assert set(found.pop("lists")) == {"induction", "previous", "duplicate"}
    assert found == {"definition": "authors", "sequences": 3, "segment": 6, "beginning": 1}


def test_intervals_are_those_of_the_common_bootstrap() -> None:
    values = np.random.default_rng(1).normal(size=(9, 300))
    intervals = mean_intervals(values, seed=5)
    for column in (0, 7, 299):
        expected = bootstrap_mean(values[:, column], seed=5)
        assert intervals[column]["low"] == pytest.approx(expected.low, abs=1e-12)
        assert intervals[column]["high"] == pytest.approx(expected.high, abs=1e-12)
        assert intervals[column]["method"] == expected.method
    assert "unknown" in mean_intervals(values[:1])[0]["method"]


def test_a_published_list_is_read_and_another_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "list.json.gz"
    path.write_bytes(gzip.compress(b'[{"0": [5, 1, 0.98]}, {"1": [6, 9, 0.97]}]'))
    assert top_heads(read_authors_list(path)) == [Head(5, 1), Head(6, 9)]
    for content in (b"[1]", b"{", gzip.compress(b"[[1, 2]]"), gzip.compress(b"[{}]")):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"list\.json\.gz"):
            read_authors_list(path)
    with pytest.raises(UserError, match="absent"):
        read_authors_list(tmp_path / "absent")


def local_model(hub_id: str) -> Any:
    """A model that this machine already has, or a skip that says that it has not."""
    if not isinstance(try_to_load_from_cache(hub_id, "config.json"), str):
        pytest.skip(f"the weights of {hub_id} are not on this machine")
    return AutoModelForCausalLM.from_pretrained(
        hub_id, attn_implementation="eager", dtype=torch.float32, local_files_only=True
    ).eval()


@pytest.mark.shared
@pytest.mark.parametrize(
    ("hub_id", "name"),
    [
        ("openai-community/gpt2", "gpt2"),
        ("openai-community/gpt2-xl", "gpt2-xl"),
        ("EleutherAI/pythia-6.9b", "pythia-7b"),
    ],
)
def test_scores_of_real_weights_are_the_published_ones(hub_id: str, name: str) -> None:
    if not PUBLISHED.exists():
        pytest.skip("../shared/data/paper2/heads is not on this machine")
    view = HeadView(local_model(hub_id))
    scores = attention_scores(view, authors_sequences(view.model.config.vocab_size, None), Definition.authors)
    for kind, suffix in (("induction", "IH"), ("previous", "PTH")):
        found = scores[kind].mean(0)
        published = read_authors_list(PUBLISHED / f"{name}__{suffix}.json.gz")
        assert len(published) == found.numel()
        for row in published:
            assert found[row["layer"], row["head"]].item() == pytest.approx(row["score"], abs=NOISE)


@pytest.mark.shared
def test_every_published_list_is_a_whole_ranking() -> None:
    if not PUBLISHED.exists():
        pytest.skip("../shared/data/paper2/heads is not on this machine")
    for path in sorted(PUBLISHED.glob("*.json.gz")):
        ranking = read_authors_list(path)
        heads = top_heads(ranking)
        assert len(set(heads)) == len(heads)
        assert [row["score"] for row in ranking] == sorted((row["score"] for row in ranking), reverse=True)
