"""What the components say along a composition's own outputs: per region, per string, and projected from k = 2 to more.

Covers turning per-token diagnostics into numbers that need no answers. Whether they predict failure is asked in the
summary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from compgen.charsub.autoregressive.generation import Arm, Library, component_logits, content_lengths
from compgen.charsub.autoregressive.sequences import END
from compgen.composition.diagnostics import Diagnostics, diagnose
from compgen.composition.rule import compose, divergence

ACTIVE_DIVERGENCE = 0.1
"""From which KL(p_i‖p_b) in nats an expert counts as acting (dossier 6.2)."""


@dataclass(frozen=True)
class Trajectory:
    """One composition's outputs with its components' distributions."""

    base: Tensor
    """(string, step, vocabulary), log-probabilities."""
    experts: Tensor
    """(expert, string, step, vocabulary), log-probabilities."""
    composed: Tensor
    """(string, step, vocabulary), log-probabilities."""
    visited: Tensor
    """(string, step), up to and with EOS."""
    regions: dict[str, Tensor]
    """(string, step): where a rule changes the symbol, where none does, and where y should end. Visited steps only."""


def trace(library: Library, arm: Arm, outputs: Tensor, answers: Tensor) -> Trajectory:
    """Collect what the components said while `outputs` (string, step) were generated for answers (string, length)."""
    rows = torch.arange(len(outputs))
    base, experts = component_logits(library, arm, rows, outputs)
    steps, length = torch.arange(library.steps), answers.shape[1]
    visited = steps <= content_lengths(outputs)[:, None]
    changed = torch.zeros_like(visited)
    changed[:, :length] = answers != library.strings
    content = steps < length
    regions = {
        "active": visited & changed,
        "inactive": visited & content & ~changed,
        "end": visited & (steps == length),
    }
    composed = compose(base, experts, arm.rule, (END,))
    return Trajectory(base.log_softmax(-1), experts.log_softmax(-1), composed, visited, regions)


def diagnose_trajectory(trajectory: Trajectory) -> Diagnostics:
    """The per-token diagnostics of the paper's rule along a trajectory."""
    return diagnose(trajectory.base, trajectory.experts, ACTIVE_DIVERGENCE, (END,))


def by_region(trajectory: Trajectory, found: Diagnostics) -> dict[str, dict[str, float | int | None]]:
    """Means per region; None where a region was never visited."""
    largest = found.divergence.amax(0)
    values = {
        "log_normalizer": found.log_normalizer,
        "divergence": largest,
        "co_active": found.co_active,
        "new_top": found.new_top,
        "tail_leakage": found.tail_leakage,
        "leaking": found.tail_leakage > 0,
        "end_surplus": found.end_surplus,
    }
    return {name: _region_means(values, where) for name, where in trajectory.regions.items()}


def _region_means(values: dict[str, Tensor], where: Tensor) -> dict[str, float | int | None]:
    count = int(where.sum())
    means = {name: float(value[where].double().mean()) if count else None for name, value in values.items()}
    return {"tokens": count, **means}


def string_features(trajectory: Trajectory, found: Diagnostics) -> dict[str, Tensor]:
    """One number per string and diagnostic, larger where failure is expected; none needs the answers.

    `tail_leakage` is positive exactly where the rule overrules the acting expert, so it is close to failure itself.
    `uncertainty` is what the composed model alone gives away: −log p̂ of its own least certain choice.
    """
    visited = trajectory.visited
    second = found.divergence.topk(min(2, len(found.divergence)), dim=0).values[-1]
    per_token = {
        "co_activity": second,
        "divergence": found.divergence.amax(0),
        "log_normalizer_high": found.log_normalizer,
        "log_normalizer_low": -found.log_normalizer,
        "log_normalizer_size": found.log_normalizer.abs(),
        "tail_leakage": found.tail_leakage,
        "end_surplus": found.end_surplus,
        "uncertainty": -trajectory.composed.amax(-1),
    }
    features = {name: value.masked_fill(~visited, -torch.inf).amax(1) for name, value in per_token.items()}
    return {**features, "new_top": (found.new_top & visited).sum(1).float()}


def project(trajectory: Trajectory, counts: list[int]) -> dict[str, list[tuple[int, int]]]:
    """From a composition of two, how often the acting model would keep its choice among k experts.

    The prediction, stated before any larger composition was looked at: at every step the acting model is the expert
    with the largest KL if that exceeds the threshold, else the base; each further expert adds what the bystanders at
    this step add on average. A step holds at k if the acting model's first choice still has the largest sum.

    Returns:
        For every region a list over k of (steps that hold, steps).
    """
    divergences = divergence(trajectory.experts, trajectory.base)  # (expert, string, step)
    strongest, leader = divergences.max(0)
    acting = strongest > ACTIVE_DIVERGENCE
    index = leader[None, ..., None].expand(1, *trajectory.base.shape)
    expert = trajectory.experts.gather(0, index)[0]
    scores = torch.where(acting[..., None], expert, trajectory.base)  # (string, step, vocabulary)
    deltas = trajectory.experts - trajectory.base
    bystanders = torch.where(acting[..., None], deltas.sum(0) - (expert - trajectory.base), deltas.mean(0))
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in trajectory.regions}
    for count in counts:
        others = torch.where(acting, count - 1, count)[..., None]
        holds = (scores + others * bystanders).argmax(-1) == scores.argmax(-1)
        for name, where in trajectory.regions.items():
            found[name].append((int((holds & where).sum()), int(where.sum())))
    return found


def drift(trajectory: Trajectory) -> dict[str, Any]:
    """Two means at the steps where an expert acts: log Z, and the acting expert's lead over its second choice."""
    where = trajectory.regions["active"]
    found = diagnose_trajectory(trajectory)
    index = found.divergence.argmax(0)[None, ..., None].expand(1, *trajectory.base.shape)
    first, second = trajectory.experts.gather(0, index)[0].topk(2, dim=-1).values.unbind(-1)
    return {
        "tokens": int(where.sum()),
        "log_normalizer": float(found.log_normalizer[where].double().sum()),
        "lead": float((first - second)[where].double().sum()),
    }
