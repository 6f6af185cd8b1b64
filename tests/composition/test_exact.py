"""The enumerations against brute force that shares no code with them."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compgen.composition import guarantees, theorems
from compgen.composition.exact import (
    ExactModel,
    act_between,
    change_variables,
    compose_globally,
    compose_stepwise,
    marginal,
    pull_back,
    random_model,
    switch_between,
    total_variation,
)
from compgen.composition.options import CompositionRule
from compgen.composition.rule import compose
from compgen.composition.theory import (
    exact_measurements,
    measure_exact,
    measure_task_arithmetic,
    task_arithmetic_measurements,
)
from compgen.composition.theory_config import ExactConfig, TaskArithmeticConfig

SEEDS = st.integers(0, 10_000)
ROUNDING = 1e-12
REPOSITORY = Path(__file__).parents[2]


def drawn(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def probability(model: ExactModel, sequence: tuple[int, ...]) -> float:
    value = 1.0
    for t, step in enumerate(model.conditionals):
        value *= step[sequence[: t + 1]]
    return value


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_the_joint_multiplies_conditionals_and_conditionals_come_back_from_it(seed: int) -> None:
    model = random_model(drawn(seed), 3, 3)
    joint = model.joint()
    for sequence in itertools.product(range(3), repeat=3):
        assert joint[sequence] == pytest.approx(probability(model, sequence))
    again = ExactModel.of_joint(joint)
    for one, two in zip(model.conditionals, again.conditionals, strict=True):
        np.testing.assert_allclose(one, two, atol=ROUNDING)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_stepwise_composition_equals_the_production_rule_prefix_by_prefix(seed: int) -> None:
    base, first, second = (random_model(drawn(seed + i), 3, 3) for i in range(3))
    composed, _ = compose_stepwise(base, [first, second])
    for prefix in itertools.product(range(3), repeat=2):
        experts = torch.tensor(np.stack([first.conditionals[2][prefix], second.conditionals[2][prefix]])).log()
        expected = compose(torch.tensor(base.conditionals[2][prefix]).log(), experts, CompositionRule()).exp()
        np.testing.assert_allclose(composed.conditionals[2][prefix], expected.numpy(), atol=ROUNDING)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_global_composition_by_hand(seed: int) -> None:
    base, first, second = (random_model(drawn(seed + i), 2, 3) for i in range(3))
    raw = {
        s: probability(first, s) * probability(second, s) / probability(base, s)
        for s in itertools.product(range(2), repeat=3)
    }
    composed = compose_globally(base, [first, second])
    for sequence, value in raw.items():
        assert composed[sequence] == pytest.approx(value / sum(raw.values()))


def test_marginals_and_changes_of_variables_by_hand() -> None:
    joint = random_model(drawn(1), 2, 3).joint()
    expected = {(a, c): joint[a, 0, c] + joint[a, 1, c] for a in range(2) for c in range(2)}
    found = marginal(joint, [0, 2])
    assert all(found[key] == pytest.approx(value) for key, value in expected.items())

    def swap(symbols: np.ndarray) -> np.ndarray:
        return symbols[:, ::-1]

    np.testing.assert_allclose(change_variables(joint, swap), joint.transpose(2, 1, 0))
    np.testing.assert_allclose(pull_back(change_variables(joint, swap), swap), joint)
    assert total_variation(joint, joint) == 0


@given(SEEDS, st.sampled_from([3, 4]), st.sampled_from([4, 6]))
@settings(max_examples=15, deadline=None)
def test_what_the_theorems_say_is_zero_is_zero_on_every_instance(seed: int, vocabulary: int, length: int) -> None:
    assert max(theorems.factorized_conditionals(drawn(seed), vocabulary, length).values()) < ROUNDING
    switching = theorems.switching_skills(drawn(seed), vocabulary, length)
    assert switching["switching_distance"] < ROUNDING
    assert switching["switching_log_normalizer"] < ROUNDING
    features = theorems.feature_maps(drawn(seed), vocabulary, 4)
    assert max(features["feature_causal_stepwise"], features["feature_noncausal_global"]) < ROUNDING
    assert theorems.overlapping_skills(drawn(seed), vocabulary, 4)["covariance_identity_gap"] < 1e-9


def test_the_dossiers_counterexamples_are_there() -> None:
    features = [theorems.feature_maps(drawn(seed), 3, 4) for seed in range(20)]
    assert min(f["feature_noncausal_stepwise"] for f in features) > 0.01
    overlaps = [theorems.overlapping_skills(drawn(seed), 3, 4) for seed in range(20)]
    assert min(o["overlap_stepwise_against_global"] for o in overlaps) > 0.01
    assert (
        np.mean([theorems.switching_skills(drawn(s), 3, 4)["switching_marginal_difference"] for s in range(20)]) > 0.01
    )


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_the_length_bound_holds_and_grows_with_length(seed: int) -> None:
    rows = guarantees.length_bound(drawn(seed), 5, 3, [1, 4, 16, 64], trusted=16)
    assert all(0 < row["error"] <= row["bound"] for row in rows)
    assert [row["error"] for row in rows] == sorted(row["error"] for row in rows)


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_the_margin_criterion_never_disagrees_with_the_argmax(seed: int) -> None:
    assert guarantees.margin_criterion(drawn(seed), 8, 4)["margin_disagreements"] == 0


@pytest.mark.parametrize("experts", [2, 4, 8])
def test_divergence_vanishes_while_the_choice_stays_wrong(experts: int) -> None:
    found = [guarantees.vanishing_divergence(tail, experts) for tail in (1e-3, 1e-6, 1e-9)]
    assert all(f["choice_is_wrong"] for f in found)
    divergences = [f["divergence"] for f in found]
    assert divergences == sorted(divergences, reverse=True)


def running_skill(prefix: tuple[int, ...]) -> int | None:
    """The symbol that started the skill which runs after a prefix, reading it left to right."""
    running = None
    for symbol in prefix:
        if symbol == 2:
            running = None
        elif symbol in (0, 1) and running is None:
            running = symbol
    return running


@given(SEEDS)
@settings(max_examples=10, deadline=None)
def test_switching_between_stopping_times_follows_the_machine_read_from_the_prefix(seed: int) -> None:
    base, one, two = (random_model(drawn(seed + i), 4, 4) for i in range(3))
    skills = {0: one, 1: two}
    machine = switch_between(base, skills, stop=2)
    for t in range(4):
        for prefix in itertools.product(range(4), repeat=t):
            running = running_skill(prefix)
            expected = base if running is None else skills[running]
            np.testing.assert_array_equal(machine.conditionals[t][prefix], expected.conditionals[t][prefix])


def test_a_skill_acts_from_its_start_symbol_to_its_stop_symbol_whatever_else_comes() -> None:
    base, skill = random_model(drawn(1), 3, 4), random_model(drawn(2), 3, 4)
    model = act_between(base, skill, start=0, stop=2)
    for prefix, acts in (((1, 1), False), ((0, 1), True), ((0, 2), False), ((2, 0), True), ((0, 0), True)):
        expected = skill if acts else base
        np.testing.assert_array_equal(model.conditionals[2][prefix], expected.conditionals[2][prefix])


@given(SEEDS, st.integers(2, 4))
@settings(max_examples=15, deadline=None)
def test_interval_skills_and_the_identities_of_the_normalizer(seed: int, experts: int) -> None:
    interval = theorems.interval_skills(drawn(seed), 5, 4)
    assert max(interval["interval_distance"], interval["interval_log_normalizer"]) < ROUNDING
    assert interval["interval_log_normalizer_elsewhere"] > 1e-3
    assert max(theorems.interference_identities(drawn(seed), 3, 3, experts).values()) < ROUNDING
    dependent = theorems.dependent_blocks(drawn(seed), 3, 4)
    assert dependent["dependent_log_normalizer"] < ROUNDING < dependent["dependent_marginal_difference"]


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_the_reweighting_of_the_stepwise_composition_by_hand(seed: int) -> None:
    base, first, second = (random_model(drawn(seed + i), 2, 3) for i in range(3))
    composed, _ = compose_stepwise(base, [first, second])
    sequences = list(itertools.product(range(2), repeat=3))
    raw = {s: probability(first, s) * probability(second, s) / probability(base, s) for s in sequences}
    for sequence in sequences:
        path = 1.0
        for t in range(3):
            steps = [model.conditionals[t][sequence[:t]] for model in (first, second, base)]
            path *= sum(p * q / b for p, q, b in zip(*steps, strict=True))
        assert probability(composed, sequence) * path == pytest.approx(raw[sequence])


@given(SEEDS)
@settings(max_examples=15, deadline=None)
def test_a_random_causal_map_is_a_bijection_whose_features_need_no_later_symbol(seed: int) -> None:
    sequences = np.array(list(itertools.product(range(3), repeat=4)))
    causal = theorems._random_causal(drawn(seed), 3, 4)(sequences)
    anything = theorems._random_bijection(drawn(seed), 3, 4)(sequences)
    for images in (causal, anything):
        assert len({tuple(image) for image in images}) == 81
    for t in range(4):
        seen = {tuple(sequence[: t + 1]): set() for sequence in sequences}
        for sequence, image in zip(sequences, causal, strict=True):
            seen[tuple(sequence[: t + 1])].add(int(image[t]))
        assert all(len(values) == 1 for values in seen.values())


@given(st.floats(1e-6, 0.2), st.floats(1e-4, 1.0), st.integers(2, 5))
@settings(max_examples=60, deadline=None)
def test_the_step_bound_is_attained(error: float, closeness: float, experts: int) -> None:
    bound = guarantees.step_error_bound(error, closeness, experts)
    assert guarantees.sharpest_step(error, closeness, experts) == pytest.approx(bound, rel=1e-8)


@given(SEEDS, st.floats(1e-4, 0.05), st.floats(1e-3, 0.3))
@settings(max_examples=10, deadline=None)
def test_the_length_bound_holds_for_whole_models_whose_experts_take_turns(
    seed: int, error: float, closeness: float
) -> None:
    """Both experts meet the guarantees along the path 0, 0, 0, …, on which they act alternately; anything elsewhere."""
    generator = drawn(seed)
    base, *experts = (random_model(generator, 3, 4) for _ in range(3))
    for t in range(4):
        prefix = (0,) * t
        acting, bystander = experts[t % 2].conditionals[t], experts[1 - t % 2].conditionals[t]
        acting[prefix] = [1 - error, error / 3, 2 * error / 3]
        tilted = base.conditionals[t][prefix] * np.exp(generator.uniform(-closeness, closeness, 3) / 2)
        bystander[prefix] = tilted / tilted.sum()
    composed, _ = compose_stepwise(base, experts)
    failure = 1 - probability(composed, (0, 0, 0, 0))
    assert failure <= 1 - (1 - guarantees.step_error_bound(error, closeness, 2)) ** 4


def test_a_lapsed_guarantee_costs_nothing_before_it_lapses_and_breaks_the_bound_later() -> None:
    found = [guarantees.length_bound(drawn(seed), 5, 3, [4, 16, 64], trusted=16) for seed in range(20)]
    assert all(rows[1]["lapsed_error"] == rows[1]["error"] for rows in found)
    assert np.mean([rows[2]["lapsed_error"] > rows[2]["bound"] for rows in found]) > 0.5


def test_interference_grows_from_nothing_with_the_bystanders_share() -> None:
    rows = theorems.interference_dose(drawn(3), 3, 4, [1e-9, 0.01, 0.1, 1.0])
    distances = [row["distance"] for row in rows]
    assert distances == sorted(distances)
    assert distances[0] < 1e-6
    covariance, surplus = theorems.interference_point(drawn(4), 5)
    assert surplus == pytest.approx(covariance, rel=1e-9)


def test_the_summary_measures_what_every_claim_refers_to() -> None:
    small = TaskArithmeticConfig(models=1, base_steps=2, expert_steps=2)
    metrics = {
        **exact_measurements(measure_exact(ExactConfig(instances=3), 0, lambda done, total: None)),
        **task_arithmetic_measurements(measure_task_arithmetic(small, 0, lambda done, total: None)),
    }
    claims = yaml.safe_load((REPOSITORY / "data/reference/theory.yaml").read_text(encoding="utf-8"))
    wanted = {condition["measurement"] for claim in claims for condition in claim["conditions"]}
    assert wanted <= metrics.keys()
