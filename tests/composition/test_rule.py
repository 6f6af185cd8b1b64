import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from compgen.composition.diagnostics import diagnose
from compgen.composition.options import Combination, CompositionRule, EndOfSequence, Remedy, Weighting
from compgen.composition.rule import compose, divergence, log_normalizer
from compgen.errors import ConfigError

PAPER = CompositionRule()


def random_logits(seed: int, *shape: int, spread: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64) * spread


def test_two_experts_on_four_tokens_by_hand() -> None:
    base = [0.4, 0.3, 0.2, 0.1]
    first = [0.1, 0.6, 0.2, 0.1]
    second = [0.4, 0.2, 0.1, 0.3]
    products = [f * s / b for b, f, s in zip(base, first, second, strict=True)]
    expected = [p / sum(products) for p in products]

    composed = compose(torch.tensor(base).log(), torch.tensor([first, second]).log(), PAPER).exp()

    assert composed.tolist() == pytest.approx(expected, rel=1e-6)
    z = log_normalizer(torch.tensor(base).log(), torch.tensor([first, second]).log())
    assert float(z) == pytest.approx(math.log(sum(products)), rel=1e-5)


def test_no_expert_is_the_base_and_one_expert_is_itself_bit_for_bit() -> None:
    base, expert = torch.randn(5, 7), torch.randn(1, 5, 7)
    assert torch.equal(compose(base, expert[:0], PAPER), base.log_softmax(-1))
    assert torch.equal(compose(base, expert, PAPER), expert[0].log_softmax(-1))


def test_experts_equal_to_the_base_change_nothing() -> None:
    base = random_logits(0, 3, 6)
    composed = compose(base, base.expand(4, 3, 6), PAPER)
    torch.testing.assert_close(composed, base.log_softmax(-1))


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(2, 9))
@settings(max_examples=60, deadline=None)
def test_composition_is_normalized_symmetric_and_blind_to_constants(seed: int, k: int, vocabulary: int) -> None:
    base, experts = random_logits(seed, 2, vocabulary), random_logits(seed + 1, k, 2, vocabulary)
    composed = compose(base, experts, PAPER)
    torch.testing.assert_close(composed.exp().sum(-1), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(compose(base + 3, experts - 7, PAPER), composed)
    torch.testing.assert_close(compose(base, experts.flip(0), PAPER), composed)


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_normalizer_of_two_experts_is_the_covariance_of_their_density_ratios(seed: int) -> None:
    base, experts = random_logits(seed, 6, spread=1.0), random_logits(seed + 1, 2, 6, spread=1.0)
    p = base.softmax(-1)
    ratios = experts.softmax(-1) / p
    covariance = (p * ratios[0] * ratios[1]).sum() - (p * ratios[0]).sum() * (p * ratios[1]).sum()
    torch.testing.assert_close(log_normalizer(base, experts).exp() - 1, covariance, rtol=1e-9, atol=1e-9)


def test_the_baselines_equal_their_formulas() -> None:
    base, experts = random_logits(1, 5), random_logits(2, 3, 5)
    p = experts.softmax(-1)
    expected = {
        Combination.mixture: p.mean(0),
        Combination.mean_log_probability: p.prod(0) ** (1 / 3) / (p.prod(0) ** (1 / 3)).sum(),
        Combination.product_without_base: p.prod(0) / p.prod(0).sum(),
    }
    for combination, value in expected.items():
        torch.testing.assert_close(compose(base, experts, CompositionRule(combination=combination)).exp(), value)
    uniform = compose(base, experts, CompositionRule(combination=Combination.uniform))
    weighted = compose(base, experts, CompositionRule(coefficients=(1 / 3, 1 / 3, 1 / 3)))
    torch.testing.assert_close(uniform, weighted)


def test_a_plausibility_mask_keeps_a_token_that_one_component_finds_plausible_and_drops_the_tail() -> None:
    base = torch.tensor([0.98, 0.0199, 0.0001]).log()
    experts = torch.tensor([[0.97, 0.0299, 0.0001], [0.10, 0.8999, 0.0001]]).log()
    composed = compose(base, experts, CompositionRule(remedy=Remedy.plausibility_mask, plausibility=0.01)).exp()
    assert composed[2] == 0
    assert composed[1] > 0


def test_the_kl_gate_ignores_experts_that_hardly_diverge() -> None:
    base = random_logits(3, 6)
    active = random_logits(4, 6)
    bystander = base + 0.01 * random_logits(5, 6)
    gated = compose(base, torch.stack([active, bystander]), CompositionRule(remedy=Remedy.kl_gate, kl_threshold=0.1))
    torch.testing.assert_close(gated, active.log_softmax(-1))


def test_the_tail_clip_drops_ratios_only_where_base_and_expert_find_a_token_implausible() -> None:
    base = torch.tensor([0.9, 0.0999, 0.0001], dtype=torch.float64)
    expert = torch.tensor([0.4, 0.5995, 0.0005], dtype=torch.float64)
    clipped = compose(base.log(), expert.log()[None], CompositionRule(remedy=Remedy.tail_clip, tail_probability=1e-3))
    expected = torch.tensor([0.4, 0.5995, 0.0001], dtype=torch.float64)
    torch.testing.assert_close(clipped.exp(), expected / expected.sum())


def test_the_largest_delta_counts_alone_on_every_token() -> None:
    base, experts = random_logits(6, 5), random_logits(7, 3, 5)
    deltas = experts.log_softmax(-1) - base.log_softmax(-1)
    chosen = torch.stack([deltas[:, v][deltas[:, v].abs().argmax()] for v in range(5)])
    composed = compose(base, experts, CompositionRule(remedy=Remedy.largest_delta))
    torch.testing.assert_close(composed, (base.log_softmax(-1) + chosen).log_softmax(-1))


@pytest.mark.parametrize(
    ("policy", "reduce"),
    [
        (EndOfSequence.base, lambda ratios: torch.zeros(ratios.shape[1:], dtype=ratios.dtype)),
        (EndOfSequence.mean, lambda ratios: ratios.mean(0)),
        (EndOfSequence.max, lambda ratios: ratios.amax(0)),
        (EndOfSequence.sum, lambda ratios: ratios.sum(0)),
    ],
)
def test_end_tokens_follow_their_policy_and_all_others_the_product(policy: EndOfSequence, reduce: object) -> None:
    base, experts, ends = random_logits(8, 4, 6), random_logits(9, 3, 4, 6), (2, 5)
    ratios = experts.log_softmax(-1) - base.log_softmax(-1)
    scores = base.log_softmax(-1) + ratios.sum(0)
    scores[..., list(ends)] = base.log_softmax(-1)[..., list(ends)] + reduce(ratios)[..., list(ends)]  # type: ignore[operator]
    composed = compose(base, experts, CompositionRule(end_of_sequence=policy), ends)
    torch.testing.assert_close(composed, scores.log_softmax(-1))


def test_the_gate_stops_with_the_dominant_experts_probability_and_keeps_the_proportions_of_the_rest() -> None:
    base, experts, ends = random_logits(10, 6), random_logits(11, 3, 6), (5,)
    dominant = int(divergence(experts.log_softmax(-1), base.log_softmax(-1)).argmax())
    gated = compose(base, experts, CompositionRule(end_of_sequence=EndOfSequence.gate), ends).exp()
    plain = compose(base, experts, PAPER).exp()
    assert float(gated[5]) == pytest.approx(float(experts[dominant].softmax(-1)[5]))
    torch.testing.assert_close(gated[:5] / gated[:5].sum(), plain[:5] / plain[:5].sum())
    assert float(gated.sum()) == pytest.approx(1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_component_that_is_not_finite_is_named_with_its_row(bad: float) -> None:
    base, experts = torch.zeros(3, 4), torch.zeros(2, 3, 4)
    experts[1, 2, 0] = bad
    with pytest.raises(ValueError, match=r"expert 1 has NaN or infinite values, first at row \(2,\)"):
        compose(base, experts, PAPER)


def test_half_precision_is_combined_in_single() -> None:
    base, experts = torch.randn(3, 50).bfloat16(), torch.randn(4, 3, 50).bfloat16()
    composed = compose(base, experts, PAPER)
    assert composed.dtype == torch.float32
    torch.testing.assert_close(composed, compose(base.float(), experts.float(), PAPER))


@pytest.mark.parametrize(
    "options",
    [
        {"plausibility": 0.0},
        {"tail_probability": 1.0},
        {"kl_threshold": -0.1},
        {"coefficients": (1.0, math.nan)},
        {"combination": Combination.mixture, "remedy": Remedy.kl_gate},
        {"combination": Combination.mixture, "coefficients": (1.0,)},
        {"combination": Combination.mixture, "weighting": Weighting.sigmoid},
        {"nucleus": 1.0},
        {"kl_scale": 0.0},
        {"combination": Combination.mean_log_probability, "end_of_sequence": EndOfSequence.max},
    ],
)
def test_impossible_options_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="composition"):
        CompositionRule(**options)  # type: ignore[arg-type]


def test_a_batch_is_each_of_its_rows_alone() -> None:
    base, experts = random_logits(12, 4, 3, 8), random_logits(13, 5, 4, 3, 8)
    for remedy in Remedy:
        rule = CompositionRule(remedy=remedy, end_of_sequence=EndOfSequence.gate)
        whole = compose(base, experts, rule, (1, 2))
        torch.testing.assert_close(whole[2, 1], compose(base[2, 1], experts[:, 2, 1], rule, (1, 2)))


@given(st.integers(0, 10_000), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_the_tail_leakage_is_positive_exactly_where_the_dominant_experts_choice_is_lost(seed: int, k: int) -> None:
    base, experts = random_logits(seed, 7), random_logits(seed + 1, k, 7)
    dominant = int(divergence(experts.log_softmax(-1), base.log_softmax(-1)).argmax())
    lost = compose(base, experts, PAPER).argmax() != experts[dominant].argmax()
    assert bool(diagnose(base, experts).tail_leakage > 0) == bool(lost)


def test_diagnostics_name_co_activity_new_tops_and_the_surplus_of_ending() -> None:
    base = torch.tensor([0.5, 0.3, 0.1, 0.1]).log()
    experts = torch.tensor([[0.1, 0.3, 0.5, 0.1], [0.05, 0.35, 0.1, 0.5]]).log()
    found = diagnose(base, experts, end_of_sequence_tokens=(3,))
    deltas = (experts - base)[:, 3]
    assert bool(found.co_active)
    assert float(found.end_surplus) == pytest.approx(float(deltas.sum() - deltas.max()), abs=1e-6)
    composed = compose(base, experts, PAPER).argmax()
    assert bool(found.new_top) == (int(composed) not in {0, 2, 3})


def test_the_gate_is_normalized_where_the_dominant_expert_is_all_but_sure_to_stop() -> None:
    base = torch.zeros(4, dtype=torch.float64)
    experts = torch.tensor([[0.0, 0.0, 0.0, 40.0], [0.1, 0.0, 0.0, 0.0]], dtype=torch.float64)
    gated = compose(base, experts, CompositionRule(end_of_sequence=EndOfSequence.gate), (3,))
    assert float(gated.logsumexp(-1)) == pytest.approx(0, abs=1e-14)
    content = experts[0].log_softmax(-1)[:3].logsumexp(-1)
    assert float(gated[:3].logsumexp(-1)) == pytest.approx(float(content), abs=1e-12)


def test_the_base_nucleus_keeps_the_fewest_most_probable_tokens_that_reach_its_mass() -> None:
    base = torch.tensor([0.1, 0.55, 0.05, 0.3], dtype=torch.float64).log()
    expert = torch.tensor([[0.7, 0.1, 0.1, 0.1]], dtype=torch.float64).log()
    for mass, kept in ((0.5, {1}), (0.6, {1, 3}), (0.9, {0, 1, 3})):
        composed = compose(base, expert, CompositionRule(remedy=Remedy.base_nucleus, nucleus=mass))
        assert {token for token in range(4) if composed[token] > -torch.inf} == kept
        proportions = expert[0][sorted(kept)].softmax(-1)
        torch.testing.assert_close(composed[sorted(kept)].exp(), proportions)


@pytest.mark.parametrize("weighting", [Weighting.sigmoid, Weighting.softmax])
def test_adaptive_weights_follow_the_divergence_of_each_expert_at_each_token(weighting: Weighting) -> None:
    base, experts = random_logits(1, 3, 5), random_logits(2, 2, 3, 5)
    composed = compose(base, experts, CompositionRule(weighting=weighting, kl_threshold=0.3, kl_scale=0.7))
    for row in range(3):
        p = [values[row].softmax(-1).tolist() for values in (base, *experts)]
        said = [sum(e * math.log(e / b) for e, b in zip(expert, p[0], strict=True)) for expert in p[1:]]
        weights = [1 / (1 + math.exp(-(kl - 0.3) / 0.7)) for kl in said]
        if weighting is Weighting.softmax:
            weights = [math.exp(kl / 0.7) / sum(math.exp(other / 0.7) for other in said) for kl in said]
        scores = [
            b * math.prod((e[v] / b) ** w for e, w in zip(p[1:], weights, strict=True)) for v, b in enumerate(p[0])
        ]
        assert composed[row].exp().tolist() == pytest.approx([score / sum(scores) for score in scores])


@pytest.mark.parametrize("policy", [EndOfSequence.base, EndOfSequence.mean, EndOfSequence.max])
def test_an_end_token_that_no_component_finds_plausible_stays_masked(policy: EndOfSequence) -> None:
    base, experts = torch.tensor([5.0, 4.0, -9.0]), torch.tensor([[5.0, 1.0, -8.0], [1.0, 5.0, -9.0]])
    rule = CompositionRule(remedy=Remedy.plausibility_mask, end_of_sequence=policy)
    assert compose(base, experts, rule, (2,))[2] == -torch.inf


def test_an_end_token_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match=r"end tokens \[9\] are outside the vocabulary of 4"):
        compose(torch.zeros(4), torch.zeros(2, 4), PAPER, (1, 9))


@pytest.mark.parametrize("function", [log_normalizer, diagnose])
def test_diagnostics_name_a_component_that_is_not_finite(function: Callable[..., object]) -> None:
    base, experts = torch.zeros(3, 4), torch.zeros(2, 3, 4)
    base[1, 0] = math.nan
    with pytest.raises(ValueError, match=r"the base has NaN or infinite values, first at row \(1,\)"):
        function(base, experts)


def test_diagnostics_of_half_precision_are_those_of_single_and_need_an_expert() -> None:
    base, experts = torch.randn(3, 50).half(), torch.randn(4, 3, 50).half()
    torch.testing.assert_close(
        diagnose(base, experts).log_normalizer, diagnose(base.float(), experts.float()).log_normalizer
    )
    with pytest.raises(ValueError, match="no expert"):
        diagnose(base, experts[:0])
