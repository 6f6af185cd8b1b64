"""Whether the bridge carries the copying: accuracy while keys are projected and circuits are exchanged.

Covers what is edited, and the answers of every edit sequence by sequence. The subspace and its random rival are in
`bridge.py`, the edits themselves in `edits.py`, the comparison in `bridging.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from compgen.heads.asking import read_copies
from compgen.heads.bridge import common_subspace, random_subspace
from compgen.heads.config import BridgeConfig
from compgen.heads.edits import Place, edited, exchanged, outside, projected_keys, within
from compgen.heads.loading import Subject
from compgen.heads.prompts.exact_copying import token_prompts
from compgen.heads.views import Head


@dataclass(frozen=True)
class Edit:
    """One way of changing the model."""

    name: str
    """`none`; `remove` or `keep` with the bridge or a random subspace; `within` or `outside` with a circuit."""
    rank: int
    """Of a projection; 0 for others."""
    draw: int
    changes: Mapping[Place, Tensor]

    @property
    def key(self) -> str:
        """For checkpoints and messages."""
        return f"{self.name}-{self.rank}-{self.draw}"


def edits(
    config: BridgeConfig, subject: Subject, induction: Sequence[Head], previous: Sequence[Head], seed: int
) -> Iterator[Edit]:
    """Nothing first, then every projection and exchange, made when they are asked for.

    Args:
        config: sizes.
        subject: the model.
        induction: all heads by induction score.
        previous: all heads by previous-token score.
        seed: of random subspaces and exchanges.
    """
    yield Edit("none", 0, 0, {})
    yield from _projections(config, subject, induction, seed)
    top = {"query_key": induction[: config.heads], "output_value": previous[: config.heads]}
    for circuit, heads in top.items():
        others = [head for group in top.values() for head in group]
        for draw in range(config.draws):
            inside = within(heads, seed, draw)
            yield Edit(f"within-{circuit}", 0, draw, exchanged(subject.view, circuit, heads, inside))
            strangers = outside(subject.view, heads, others, seed, draw)
            yield Edit(f"outside-{circuit}", 0, draw, exchanged(subject.view, circuit, heads, strangers))


def _projections(config: BridgeConfig, subject: Subject, induction: Sequence[Head], seed: int) -> Iterator[Edit]:
    view = subject.view
    chosen = induction[: max(1, round(config.edited_share * len(induction)))]
    for rank in sorted({min(rank, view.width) for rank in config.ranks}):
        bridge = common_subspace(view, induction[: config.heads], rank, config.distance)
        for keep, name in ((False, "remove"), (True, "keep")):
            yield Edit(f"{name}-bridge", rank, 0, projected_keys(view, chosen, bridge, keep))
            for draw in range(config.draws):
                rival = random_subspace(view.width, rank, seed, draw)
                yield Edit(f"{name}-random", rank, draw, projected_keys(view, chosen, rival, keep))


@torch.no_grad()
def copies_under(subject: Subject, edit: Edit, config: BridgeConfig, seed: int) -> list[dict[str, Any]]:
    """The answers to exact copying while the model is edited, one record a sequence."""
    prompts = token_prompts(config.sequences, seed)
    with edited(subject.view, edit.changes):
        rows = read_copies(subject, prompts, config.batch_size)
    labels = {"edit": edit.name, "rank": edit.rank, "draw": edit.draw}
    return [{**labels, "id": prompt.identifier, **row} for prompt, row in zip(prompts, rows, strict=True)]
