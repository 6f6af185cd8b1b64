"""From one to many experts: every way of combining them on the same strings, and how the paper's rule fails.

Covers accuracy of all arms, log Z and the other diagnostics by active and inactive position, the anatomy of errors and
the size of off-task log-ratios (dossier 6.2). A position is active where some combined rule replaces the symbol.
"""

from typing import Any

import torch
from torch import Tensor

from compgen.charsub.authors.components import Components, log_probabilities, mean, right_symbols, share
from compgen.charsub.model import ModelShape, Parameters
from compgen.composition.diagnostics import diagnose
from compgen.composition.options import Combination, CompositionRule, Remedy
from compgen.composition.rule import compose

PAPER = "product"
TASK_ARITHMETIC = "task_arithmetic"
ARMS: dict[str, CompositionRule] = {
    PAPER: CompositionRule(),
    **{remedy.value: CompositionRule(remedy=remedy) for remedy in Remedy if remedy is not Remedy.none},
    **{
        combination.value: CompositionRule(combination=combination)
        for combination in Combination
        if combination is not Combination.product
    },
}
"""The ways of combining distributions; task arithmetic combines weights."""
TAILS = (0.05, 0.95)


def right_by_arm(components: Components, merged: Tensor) -> dict[str, Tensor]:
    """Right symbols before the first wrong one by arm, (k, string), for the first k = 1, 2, … experts.

    Args:
        components: the experts in the order in which they are added.
        merged: (k, string, position), the answers of task arithmetic.
    """
    found: dict[str, list[Tensor]] = {arm: [] for arm in (*ARMS, TASK_ARITHMETIC)}
    for k in range(1, len(components.rules) + 1):
        chosen = components.choose(range(k))
        wanted = chosen.expected
        for arm, rule in ARMS.items():
            found[arm].append(right_symbols(compose(chosen.base, chosen.experts, rule).argmax(-1), wanted))
        found[TASK_ARITHMETIC].append(right_symbols(merged[k - 1], wanted))
    return {arm: torch.stack(rows) for arm, rows in found.items()}


def merge(base: Parameters, experts: Parameters) -> Parameters:
    """Task arithmetic with λ = 1 for every k: the base plus the first k experts' differences from it, in weights."""
    return {name: value + (experts[name] - value).cumsum(0) for name, value in base.items()}


def merged_answers(base: Parameters, experts: Parameters, shape: ModelShape, strings: Tensor) -> Tensor:
    """What task arithmetic answers for k = 1, 2, … experts, (k, string, position)."""
    return log_probabilities(merge(base, experts), shape, strings).argmax(-1)


def diagnose_paper_rule(components: Components) -> dict[str, Any]:
    """The paper's rule on all experts given: diagnostics by position, and where and how it errs."""
    found = diagnose(components.base, components.experts)
    active = components.active
    answer = compose(components.base, components.experts, ARMS[PAPER]).argmax(-1)
    divergences = found.divergence.amax(0)
    return {
        "experts": len(components.rules),
        "log_normalizer": _by_activity(found.log_normalizer, active),
        "divergence": {"active": mean(divergences[active]), "inactive": mean(divergences[~active])},
        "tail_leakage": {"active": mean(found.tail_leakage[active]), "inactive": mean(found.tail_leakage[~active])},
        "co_active": share(found.co_active),
        "new_top": share(found.new_top),
        "errors": _anatomy(components, answer),
    }


def _by_activity(values: Tensor, active: Tensor) -> dict[str, Any]:
    named = {"active": values[active], "inactive": values[~active]}
    return {
        name: {"mean": mean(part), "low": _quantile(part, TAILS[0]), "high": _quantile(part, TAILS[1])}
        for name, part in named.items()
    }


def _quantile(values: Tensor, level: float) -> float | None:
    return float(values.double().quantile(level)) if values.numel() else None


def _anatomy(components: Components, answer: Tensor) -> dict[str, Any]:
    """Errors by activity, and what won: a symbol that the base finds implausible, or the base's own choice."""
    wrong, active = answer != components.expected, components.active
    winner = components.base.gather(-1, answer[..., None])[..., 0]  # (string, position), base log-probability
    silent = answer == components.base.argmax(-1)
    count = int(wrong.sum())
    return {
        "active": int((wrong & active).sum()),
        "inactive": int((wrong & ~active).sum()),
        "active_positions": int(active.sum()),
        "inactive_positions": int((~active).sum()),
        "active_share": float((wrong & active).sum()) / count if count else None,
        "winner_base_log_probability": mean(winner[wrong]),
        "skill_not_applied": share(silent[wrong & active]),
    }


def off_task(components: Components) -> dict[str, float | None]:
    """Size of the experts' log-ratios δ in nats where they should change nothing: on the right symbol, on the others.

    `tail_mean` is signed: about 0 where tails are noise, negative where fine-tuning sharpened the expert.
    """
    right, tails = [], []
    for index in range(len(components.rules)):
        calm = ~components.choose([index]).active
        deltas = (components.experts[index] - components.base)[calm]  # (calm position, symbol)
        chosen = components.strings[calm][:, None]
        right.append(deltas.gather(1, chosen).flatten())
        other = torch.ones_like(deltas, dtype=torch.bool).scatter(1, chosen, False)
        tails.append(deltas[other])
    tail = torch.cat(tails)
    return {
        "right_absolute": mean(torch.cat(right).abs()),
        "tail_mean": mean(tail),
        "tail_absolute": mean(tail.abs()),
        "tail_largest": float(tail.abs().max()),
        "tail_deviation": float(tail.double().std()),
        "experts": len(components.rules),
    }
