"""Guarantees for compositions from what is known about single steps, and why divergences give none.

Covers the length-generalization bound (the paper's abstract; dossier 1.6), the margin that decides about the greedy
choice (dossier 1.8), and the counterexample to judging experts by KL (dossier 0.5). The paper's own statements were not
available: the derivations here are ours. Whole distributions: `theorems.py`.
"""

from collections.abc import Sequence

import numpy as np

from compgen.composition.exact import Array, ExactModel, compose_stepwise, random_conditional

Numbers = dict[str, float]
LAPSE = 4.0
"""Nats by which a bystander's log-ratio strays once its guarantee has lapsed; in the toy's tails 4.3 (dossier 6.2)."""


def step_error_bound(error: float, closeness: float, experts: int) -> float:
    """The largest probability of a wrong symbol at one step of the composition.

    Assume that one expert i must act and errs with probability at most ε, and that all other experts are uniformly
    close to the base: |log p_j(v)/p_b(v)| ≤ δ for every symbol v. Then p̂(v) ∝ p_i(v) Π_{j≠i} p_j(v)/p_b(v) gives,
    before normalizing, the wrong symbols together at most ε·e^{(k−1)δ} and the right one at least (1−ε)·e^{−(k−1)δ}.
    Hence a step errs with probability at most ε' = ε·e^{2(k−1)δ} / (1 − ε + ε·e^{2(k−1)δ}). No smaller number will do:
    `sharpest_step` attains it. A bound on KL(p_j‖p_b) instead of δ would not do: see `vanishing_divergence`. The
    greedy choice is right whenever ε' < 1/2.
    """
    factor = np.exp(2 * (experts - 1) * closeness)
    return float(error * factor / (1 - error + error * factor))


def length_bound(
    generator: np.random.Generator, vocabulary: int, experts: int, lengths: Sequence[int], trusted: int
) -> list[Numbers]:
    """The bound on the composition's error at any length, against the error.

    If the guarantees of `step_error_bound` hold at every step of the right path, T steps are all right with
    probability at least (1 − ε')^T: the chain rule along that one path, so it does not matter what the experts do
    elsewhere. The guarantee must hold at the target length: with one that lapses after `trusted` steps, where the
    bystanders' tails stray by up to LAPSE nats, the same bound is exceeded.

    Returns:
        For every length the exact error of the composition (`error`), the bound, their ratio, and the exact error of
        the composition whose guarantee lapses (`lapsed_error`).
    """
    error, closeness = 10 ** generator.uniform(-5, -2), 10 ** generator.uniform(-3, -0.5)
    longest = max(lengths)
    kept = [_step_success(generator, vocabulary, experts, error, closeness) for _ in range(longest)]
    lapsed = [
        kept[t] if t < trusted else _step_success(generator, vocabulary, experts, error, LAPSE) for t in range(longest)
    ]
    step_bound = step_error_bound(error, closeness, experts)
    rows = []
    for length in lengths:
        exact, strayed = (float(-np.expm1(np.log(steps[:length]).sum())) for steps in (kept, lapsed))
        bound = float(-np.expm1(length * np.log1p(-step_bound)))
        rows.append({"error": exact, "bound": bound, "ratio": exact / bound, "lapsed_error": strayed})
    return rows


def _step_success(
    generator: np.random.Generator, vocabulary: int, experts: int, error: float, closeness: float
) -> float:
    """The composition's probability of the right symbol (number 0) at a random step that meets the assumptions."""
    base = random_conditional(generator, (vocabulary,))
    wrong = error * generator.uniform(0.5, 1) * random_conditional(generator, (vocabulary - 1,))
    acting = np.concatenate([[1 - wrong.sum()], wrong])
    bystanders = []
    for _ in range(experts - 1):
        bystander = base * np.exp(generator.uniform(-closeness, closeness, vocabulary) / 2)
        bystanders.append(bystander / bystander.sum())  # normalizing moves a ratio by closeness / 2 at most
    return _right_symbol(base, acting, bystanders)


def sharpest_step(error: float, closeness: float, experts: int) -> float:
    """The error of the step at which `step_error_bound` is attained, by composing its distributions.

    Two symbols. The base gives the right one e^δ/(1 + e^δ), so that a bystander with the log-ratios −δ on the right
    symbol and +δ on the wrong one is normalized; all bystanders are that one.
    """
    right = 1 / (1 + np.exp(-closeness))
    base = np.array([right, 1 - right])
    bystander = base * np.exp([-closeness, closeness])
    return 1 - _right_symbol(base, np.array([1 - error, error]), [bystander] * (experts - 1))


def _right_symbol(base: Array, acting: Array, bystanders: Sequence[Array]) -> float:
    """The paper's rule at one step: the probability of symbol 0."""
    product = acting * np.prod([bystander / base for bystander in bystanders], axis=0)
    return float(product[0] / product.sum())


def margin_criterion(generator: np.random.Generator, vocabulary: int, experts: int) -> Numbers:
    """The acting expert's greedy choice survives exactly when its margin exceeds the bystanders' push (dossier 1.8).

    margin_i(v) = log p_i(v*) − log p_i(v) > Σ_{j≠i} [δ_j(v) − δ_j(v*)] for all v ≠ v*, with δ_j = log p_j/p_b.

    Returns:
        Whether the criterion and the composition's choice disagree, and whether the choice survives.
    """
    base, acting, *bystanders = (
        ExactModel((random_conditional(generator, (vocabulary,)),)) for _ in range(experts + 1)
    )
    composed, _ = compose_stepwise(base, [acting, *bystanders])
    leader, start = np.log(acting.conditionals[0]), np.log(base.conditionals[0])
    chosen = int(leader.argmax())
    push = np.sum([np.log(bystander.conditionals[0]) - start for bystander in bystanders], axis=0)
    holds = bool(np.all(np.delete(leader[chosen] - leader > push - push[chosen], chosen)))
    survives = int(composed.conditionals[0].argmax()) == chosen
    return {"margin_disagreements": float(holds != survives), "margin_survivals": float(survives)}


def vanishing_divergence(tail: float, experts: int) -> Numbers:
    """Divergences that vanish with the tail while the composition's greedy choice is wrong.

    The base gives a tail symbol the probability `tail`, and every one of k experts raises it to tail^(1 − 1.2/k): far
    too little to show in KL(p_j‖p_b), or in any expert's own choice, but the log-ratios add up to 1.2·log(1/tail), more
    than the tail lacks.
    """
    base = np.array([1 - tail, tail])
    raised = tail ** (1 - 1.2 / experts)
    expert = np.array([1 - raised, raised])
    divergence = float((expert * np.log(expert / base)).sum())
    scores = np.log(base) + experts * np.log(expert / base)
    return {
        "tail": tail,
        "divergence": divergence,
        "expert_is_wrong": float(expert[1] > expert[0]),
        "choice_is_wrong": float(scores[1] > scores[0]),
    }
