"""What the components' distributions say about a composition, token by token, beside the answer itself.

All in nats, on the composition's own trajectory if the caller feeds it. How well any of it predicts failure is measured
by the experiments, not assumed here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from compgen.composition.options import CompositionRule
from compgen.composition.rule import compose, divergence, log_normalizer, normalize


@dataclass(frozen=True)
class Diagnostics:
    """One value a token, shape (...), unless said otherwise."""

    log_normalizer: Tensor
    """log Z_t, signed: positive where tails add up, negative where bystanders suppress."""
    divergence: Tensor
    """(expert, ...), KL(p_i‖p_b)."""
    co_active: Tensor
    """Whether at least two experts diverge by more than the rule's threshold."""
    new_top: Tensor
    """Whether the composition's most likely token is that of no component."""
    tail_leakage: Tensor
    """max_v [Σ_{j≠i} δ_j(v) − δ_j(v*)] − margin_i(v), with i the dominant expert and v* its most likely token: positive
    exactly where the paper's rule does not choose v* (dossier 1.8)."""
    end_surplus: Tensor
    """Σ_i δ_i − max_i δ_i on the end token with the largest sum; zero without end tokens."""


def diagnose(
    base: Tensor, experts: Tensor, kl_threshold: float = 0.1, end_of_sequence_tokens: Sequence[int] = ()
) -> Diagnostics:
    """Diagnose the paper's rule.

    Args:
        base: (..., vocabulary), logits or log-probabilities.
        experts: (expert, ..., vocabulary), at least one.
        kl_threshold: from which divergence in nats an expert counts as active.
        end_of_sequence_tokens: the union of all components' end tokens.

    Raises:
        ValueError: there is no expert, or as for `compose`.
    """
    if experts.shape[0] == 0:
        raise ValueError("there is no expert to diagnose")
    base, experts = normalize(base), normalize(experts)
    composed = compose(base, experts, CompositionRule())
    divergences = divergence(experts, base)
    deltas = experts - base  # (expert, ..., vocabulary)
    return Diagnostics(
        log_normalizer=log_normalizer(base, experts),
        divergence=divergences,
        co_active=(divergences > kl_threshold).sum(0) >= 2,
        new_top=_new_top(composed, base, experts),
        tail_leakage=_tail_leakage(experts, deltas, divergences),
        end_surplus=_end_surplus(deltas, end_of_sequence_tokens),
    )


def _new_top(composed: Tensor, base: Tensor, experts: Tensor) -> Tensor:
    tops = torch.cat((base[None], experts)).argmax(-1)  # (component, ...)
    return (tops != composed.argmax(-1)).all(0)


def _tail_leakage(experts: Tensor, deltas: Tensor, divergences: Tensor) -> Tensor:
    dominant = divergences.argmax(0)  # (...)
    index = dominant[None, ..., None].expand(1, *experts.shape[1:])
    leader = experts.gather(0, index)[0]  # (..., vocabulary)
    others = deltas.sum(0) - deltas.gather(0, index)[0]
    chosen = leader.argmax(-1, keepdim=True)
    margin = leader.gather(-1, chosen) - leader
    leak = others - others.gather(-1, chosen) - margin
    return leak.scatter(-1, chosen, -torch.inf).amax(-1)  # v* itself is no rival


def _end_surplus(deltas: Tensor, end_tokens: Sequence[int]) -> Tensor:
    if not end_tokens:
        return deltas.new_zeros(deltas.shape[1:-1])
    ends = deltas[..., list(end_tokens)]  # (expert, ..., end token)
    total = ends.sum(0)
    best = total.argmax(-1, keepdim=True)
    return (total - ends.amax(0)).gather(-1, best)[..., 0]
