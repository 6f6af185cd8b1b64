"""The authors' protocol's studies on made-up models whose right results are known."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from compgen.charsub.authors.components import Components, expected, right_symbols
from compgen.charsub.authors.interactions import chained, overlapping, twice, two_for_one
from compgen.charsub.authors.prediction import first_below, observe, predict
from compgen.charsub.authors.sweep import ARMS, diagnose_paper_rule, merge, off_task, right_by_arm
from compgen.charsub.rules import SYMBOLS, Rule, parse_rule

SIZE = len(SYMBOLS)
SURE = 0.999


def rules(*texts: str) -> tuple[Rule, ...]:
    return tuple(parse_rule(text, "test") for text in texts)


def certain(targets: Tensor) -> Tensor:
    """Log-probabilities that are nearly sure of the targets and uniform over all else, (..., symbol)."""
    rest = torch.full((*targets.shape, SIZE), (1 - SURE) / (SIZE - 1), dtype=torch.float64)
    return rest.scatter(-1, targets[..., None], SURE).log()


def ideal(chosen: Sequence[Rule], strings: Tensor) -> Components:
    """A base that copies and experts that do their rule and agree with the base elsewhere, exactly."""
    experts = torch.stack([certain(expected(strings, [rule])) for rule in chosen])
    return Components(strings, certain(strings), experts, tuple(chosen))


@pytest.fixture
def strings() -> Tensor:
    return torch.randint(SIZE, (60, 16), generator=torch.Generator().manual_seed(0))


def test_the_first_wrong_symbol_ends_a_string() -> None:
    answer = torch.tensor([[1, 2, 3], [1, 9, 3], [9, 2, 3]])
    assert right_symbols(answer, torch.tensor([1, 2, 3])).tolist() == [3, 1, 0]


def test_ideal_disjoint_experts_compose_at_every_k(strings: Tensor) -> None:
    components = ideal(rules("AK", "MB", "CD"), strings)
    merged = torch.stack([components.choose(range(k)).expected for k in (1, 2, 3)])
    right = right_by_arm(components, merged)
    for arm in ("product", "plausibility_mask", "kl_gate", "tail_clip", "largest_delta", "task_arithmetic"):
        assert bool((right[arm] == 16).all()), arm
    assert set(right) == {*ARMS, "task_arithmetic"}
    assert not bool((right["uniform"][2] == 16).all())
    assert observe(components) == [1.0, 1.0, 1.0]


def test_ideal_experts_need_no_normalizer_and_are_never_active_together(strings: Tensor) -> None:
    found = diagnose_paper_rule(ideal(rules("AK", "MB"), strings))
    assert found["log_normalizer"]["inactive"]["mean"] == pytest.approx(0, abs=1e-6)
    assert found["co_active"] == 0
    assert found["divergence"]["active"] > 5
    assert found["errors"]["active"] == found["errors"]["inactive"] == 0
    assert found["errors"]["active_share"] is None
    active = int(((strings == 0) | (strings == 12)).sum())
    assert found["errors"]["active_positions"] == active


def test_a_bystander_that_pulls_back_to_the_base_shows_as_skills_not_applied(strings: Tensor) -> None:
    """Background drift: the second expert is much surer of copying than the base, at every position."""
    components = ideal(rules("AK", "MB"), strings)
    drifted = components.experts.clone()
    calm = strings != 12
    drifted[1][calm] = drifted[1][calm] + 20 * torch.nn.functional.one_hot(strings, SIZE)[calm]
    found = diagnose_paper_rule(Components(strings, components.base, drifted.log_softmax(-1), components.rules))
    assert found["errors"]["active_share"] == 1
    assert found["errors"]["skill_not_applied"] == 1
    assert found["log_normalizer"]["active"]["mean"] < -3


def test_off_task_ratios_are_zero_for_ideal_experts_and_signed_for_sharpened_ones(strings: Tensor) -> None:
    components = ideal(rules("AK", "MB"), strings)
    assert off_task(components)["tail_absolute"] == pytest.approx(0, abs=1e-6)
    sharp = Components(strings, components.base, (2 * components.experts).log_softmax(-1), components.rules)
    tail = off_task(sharp)["tail_mean"]
    assert tail is not None
    assert tail < -1


def test_task_arithmetic_adds_the_differences_of_the_first_k_experts() -> None:
    base = {"w": torch.tensor([[1.0, 1.0]])}
    experts = {"w": torch.tensor([[2.0, 1.0], [1.0, 5.0]])}
    assert merge(base, experts)["w"].tolist() == [[2.0, 1.0], [2.0, 5.0]]


def test_the_surer_of_two_experts_for_one_letter_wins(strings: Tensor) -> None:
    components = ideal(rules("AK", "AC"), strings)
    louder = components.experts.clone()
    louder[1] = louder[1] + (strings == 0)[..., None] * torch.nn.functional.one_hot(torch.tensor(2), SIZE) * 2.0
    first, rival = components.rules
    found = two_for_one(Components(strings, components.base, louder.log_softmax(-1), components.rules), first, rival)
    assert found["rival_share"] == found["winner_share"] == 1
    assert found["first_share"] == 0
    assert found["elsewhere_right"] == 1


def test_chained_rules_act_on_the_input_letters_only(strings: Tensor) -> None:
    components = ideal(rules("AK", "KR"), strings)
    found = chained(components, *components.rules)
    assert (found["first_simultaneous"], found["first_sequential"], found["second_right"]) == (1, 0, 1)


def test_an_ideal_expert_twice_does_what_it_does_once(strings: Tensor) -> None:
    components = ideal(rules("AK"), strings)
    assert twice(components, components.rules[0]) == {"exact": 1, "active_right": 1}


def test_contested_letters_are_counted_apart_and_either_rule_is_accepted(strings: Tensor) -> None:
    components = ideal(rules("AK+CD", "AR+NO"), strings)
    found = overlapping(components, *components.rules)
    assert (found["shared_letters"], found["letters"]) == (1, 2)
    assert found["right"] == {"uncontested": 1, "inactive": 1}
    assert found["either_share"] == 1
    assert found["exact"] == 1


def test_the_break_is_the_first_k_below_one_half_or_one_past_the_end() -> None:
    assert first_below([1.0, 0.6, 0.4]) == 3
    assert first_below([1.0, 0.6]) == 3


def test_every_predictor_expects_ideal_experts_to_last(strings: Tensor) -> None:
    found = predict(ideal(rules("AK", "MB"), strings), largest=5, seed=0)
    assert found["replicated"]["break"] == 6
    assert found["relabelled"]["break"] == 6
    assert found["relabelled"]["exact"] == pytest.approx([1.0] * 5)
