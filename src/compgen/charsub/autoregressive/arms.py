"""The arms of a sweep: the composed model, its remedies and end-of-sequence policies, and the baselines."""

from collections.abc import Sequence

from compgen.charsub.autoregressive.generation import Arm
from compgen.charsub.autoregressive.tasks import BASE
from compgen.composition.options import Combination, CompositionRule, EndOfSequence, Remedy

COMPOSED = "composed"
TOLD_TO_STOP = "told_to_stop"
TASK_ARITHMETIC = "task_arithmetic"
BASELINES = {
    combination.value: CompositionRule(combination)
    for combination in (
        Combination.mixture,
        Combination.mean_log_probability,
        Combination.product_without_base,
        Combination.uniform,
    )
}
REMEDIES = {remedy.value: CompositionRule(remedy=remedy) for remedy in Remedy if remedy is not Remedy.none}
END_POLICIES = {
    f"end_{policy.value}": CompositionRule(end_of_sequence=policy)
    for policy in EndOfSequence
    if policy is not EndOfSequence.sum
}


def merged_name(experts: Sequence[str]) -> str:
    """The name of the model that task arithmetic makes of some experts."""
    return "merged:" + ",".join(experts)


def baseline_arms(experts: Sequence[str], merged: bool) -> list[Arm]:
    """The composed model and what it is compared with; task arithmetic only where a merged model exists."""
    arms = [Arm(COMPOSED, BASE, tuple(experts))]
    arms += [Arm(name, BASE, tuple(experts), rule) for name, rule in BASELINES.items()]
    return arms + ([Arm(TASK_ARITHMETIC, merged_name(experts))] if merged else [])


def all_arms(experts: Sequence[str], merged: bool) -> list[Arm]:
    """Also the remedies, the end-of-sequence policies, and the composed model with an oracle for the end."""
    variants = [Arm(name, BASE, tuple(experts), rule) for name, rule in {**REMEDIES, **END_POLICIES}.items()]
    oracle = Arm(TOLD_TO_STOP, BASE, tuple(experts), told_to_stop=True)
    return [*baseline_arms(experts, merged), *variants, oracle]


def lone_arm(component: str) -> Arm:
    """One component alone."""
    return Arm(f"alone:{component}", component)
