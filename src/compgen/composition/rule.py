"""The rule that combines a base model's next-token distribution with those of its experts.

Covers the paper's product rule (Kumar, Bucarelli, Natale 2026: p̂ ∝ p_b · Π_i p_i / p_b), its remedies, its
end-of-sequence policies and the output-space baselines, on tensors of any leading shape. Models and decoding are
elsewhere.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from compgen.composition.options import Combination, CompositionRule, EndOfSequence, Remedy, Weighting


def compose(base: Tensor, experts: Tensor, rule: CompositionRule, end_of_sequence_tokens: Sequence[int] = ()) -> Tensor:
    """Combine distributions over the next token.

    Args:
        base: (..., vocabulary), logits or log-probabilities of the base model.
        experts: (expert, ..., vocabulary), the same of the experts; none is allowed.
        rule: how they are combined.
        end_of_sequence_tokens: the union of all components' end tokens, for the end-of-sequence policy.

    Returns:
        (..., vocabulary), normalized log-probabilities in float32 or wider. Without experts the base's; with one expert
        of weight 1 and no options exactly that expert's.

    Raises:
        ValueError: a component has NaN or infinite entries (named with its first row), or shapes, coefficients or end
            tokens do not fit.
    """
    _check_components(base, experts)
    _check_rule(rule, experts.shape[0], base.shape[-1], end_of_sequence_tokens)
    base, experts = normalize(base), normalize(experts)
    if experts.shape[0] == 0:
        return base
    if rule.combination is Combination.mixture:
        return experts.logsumexp(0) - math.log(experts.shape[0])
    if rule.combination is Combination.mean_log_probability:
        return experts.mean(0).log_softmax(-1)
    if rule.combination is Combination.product_without_base:
        return experts.sum(0).log_softmax(-1)
    if _is_single_expert(experts, rule):
        return experts[0]
    return _product(base, experts, rule, end_of_sequence_tokens)


def log_normalizer(base: Tensor, experts: Tensor) -> Tensor:
    """log Z_t = log Σ_v p_b Π_i p_i/p_b of the paper's rule, shape (...): zero where the experts do not interfere.

    For two experts Z_t − 1 is the covariance of the density ratios p_1/p_b and p_2/p_b under p_b.

    Raises:
        ValueError: as for `compose`.
    """
    _check_components(base, experts)
    base, experts = normalize(base), normalize(experts)
    return (base + (experts - base).sum(0)).logsumexp(-1)


def normalize(values: Tensor) -> Tensor:
    """Log-probabilities of logits, float32 at least: sums of log-ratios lose whole tokens in half precision."""
    wide = values if values.dtype in (torch.float32, torch.float64) else values.float()
    return wide.log_softmax(-1)


def divergence(experts: Tensor, base: Tensor) -> Tensor:
    """KL(p_i‖p_b) in nats, (expert, ...), from log-probabilities (expert, ..., vocabulary) and (..., vocabulary)."""
    return (experts.exp() * (experts - base)).sum(-1)


def _is_single_expert(experts: Tensor, rule: CompositionRule) -> bool:
    """Whether the product is one expert's own distribution, which must then come out bit for bit."""
    plain = rule.remedy is Remedy.none and rule.end_of_sequence is EndOfSequence.sum
    plain = plain and rule.weighting is Weighting.fixed
    return experts.shape[0] == 1 and plain and (rule.coefficients is None or rule.coefficients[0] == 1)


def _product(base: Tensor, experts: Tensor, rule: CompositionRule, end_tokens: Sequence[int]) -> Tensor:
    ratios = _weighted_ratios(base, experts, rule)  # (expert, ..., vocabulary)
    total = _largest(ratios) if rule.remedy is Remedy.largest_delta else ratios.sum(0)
    scores = base + total
    ends = torch.tensor(list(end_tokens), dtype=torch.long, device=base.device)
    policy = rule.end_of_sequence if end_tokens else EndOfSequence.sum
    if policy not in (EndOfSequence.sum, EndOfSequence.gate):
        scores = scores.index_copy(-1, ends, _end_scores(base, ratios, policy, ends))
    if rule.remedy is Remedy.plausibility_mask:
        scores = scores.masked_fill(~_plausible(base, experts, rule.plausibility), -torch.inf)
    elif rule.remedy is Remedy.base_nucleus:
        scores = scores.masked_fill(~_nucleus(base, rule.nucleus), -torch.inf)
    if policy is EndOfSequence.gate:
        return _gate_end(scores, experts, base, ends)
    return scores.log_softmax(-1)


def _weighted_ratios(base: Tensor, experts: Tensor, rule: CompositionRule) -> Tensor:
    """log p_i/p_b times the expert's weight, after the remedies that act on single experts."""
    ratios = experts - base
    if rule.combination is Combination.uniform:
        ratios = ratios / experts.shape[0]
    elif rule.coefficients is not None:
        weights = torch.tensor(rule.coefficients, dtype=base.dtype, device=base.device)
        ratios = ratios * weights.view(-1, *[1] * base.dim())
    if rule.weighting is not Weighting.fixed:
        ratios = ratios * _adaptive_weights(base, experts, rule)[..., None]
    if rule.remedy is Remedy.kl_gate:
        ratios = ratios * (divergence(experts, base) > rule.kl_threshold)[..., None]
    elif rule.remedy is Remedy.tail_clip:
        ratios = ratios * (torch.maximum(experts, base) >= math.log(rule.tail_probability))
    return ratios


def _adaptive_weights(base: Tensor, experts: Tensor, rule: CompositionRule) -> Tensor:
    """One weight an expert and token, (expert, ...), from how much the expert says there."""
    said = divergence(experts, base)
    if rule.weighting is Weighting.softmax:
        return (said / rule.kl_scale).softmax(0)
    return ((said - rule.kl_threshold) / rule.kl_scale).sigmoid()


def _largest(ratios: Tensor) -> Tensor:
    return ratios.gather(0, ratios.abs().argmax(0, keepdim=True))[0]


def _plausible(base: Tensor, experts: Tensor, share: float) -> Tensor:
    """Whether some component gives a token at least `share` of its own largest probability, (..., vocabulary)."""
    components = torch.cat((base[None], experts))
    return (components >= components.amax(-1, keepdim=True) + math.log(share)).any(0)


def _nucleus(base: Tensor, mass: float) -> Tensor:
    """The fewest most probable tokens of the base that together have at least `mass`, (..., vocabulary)."""
    ordered, order = torch.sort(base, dim=-1, descending=True, stable=True)
    before = ordered.exp().cumsum(-1) - ordered.exp()
    return torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before < mass)


def _end_scores(base: Tensor, ratios: Tensor, policy: EndOfSequence, ends: Tensor) -> Tensor:
    """Unnormalized scores of the end tokens, (..., end token)."""
    selected = ratios.index_select(-1, ends)
    if policy is EndOfSequence.base:
        return base.index_select(-1, ends)
    reduced = selected.mean(0) if policy is EndOfSequence.mean else selected.amax(0)
    return base.index_select(-1, ends) + reduced


def _gate_end(scores: Tensor, experts: Tensor, base: Tensor, ends: Tensor) -> Tensor:
    dominant = divergence(experts, base).argmax(0)  # (...)
    index = dominant[None, ..., None].expand(1, *base.shape)
    leader = experts.gather(0, index)[0]  # (..., vocabulary)
    rest = leader.index_fill(-1, ends, -torch.inf).logsumexp(-1, keepdim=True)  # not log(1 − stop): exact near 1
    content = scores.index_fill(-1, ends, -torch.inf).log_softmax(-1) + rest
    return content.index_copy(-1, ends, leader.index_select(-1, ends))


def _check_components(base: Tensor, experts: Tensor) -> None:
    if experts.shape[1:] != base.shape:
        raise ValueError(f"experts {tuple(experts.shape)} do not fit the base {tuple(base.shape)}")
    if bool(torch.isfinite(base).all()) and bool(torch.isfinite(experts).all()):
        return
    for name, values in (("the base", base), *((f"expert {number}", expert) for number, expert in enumerate(experts))):
        wrong = ~torch.isfinite(values)
        if bool(wrong.any()):
            row = tuple(wrong.nonzero()[0][:-1].tolist())
            raise ValueError(f"{name} has NaN or infinite values, first at row {row}")


def _check_rule(rule: CompositionRule, experts: int, vocabulary: int, end_tokens: Sequence[int]) -> None:
    if rule.coefficients is not None and len(rule.coefficients) != experts:
        raise ValueError(f"{len(rule.coefficients)} coefficients for {experts} experts")
    outside = [token for token in end_tokens if not 0 <= token < vocabulary]
    if outside:
        raise ValueError(f"end tokens {outside} are outside the vocabulary of {vocabulary}")
