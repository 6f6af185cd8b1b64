"""What the paper says about whole distributions, checked on explicit ones: what holds exactly, and where it stops.

Every function draws one random instance and returns named numbers: distances that a theorem says are zero, and sizes of
effects where its assumptions are violated on purpose. The paper's body was not available; assumptions are reconstructed
from its abstract, its code and secondary sources (dossier 1.1-1.5). Guarantees from single steps: `guarantees.py`.
"""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from compgen.composition.exact import (
    Array,
    ExactModel,
    Symbols,
    act_between,
    block_model,
    change_variables,
    compose_globally,
    compose_stepwise,
    largest_log,
    marginal,
    mix,
    path_normalizer,
    pull_back,
    random_conditional,
    random_model,
    reachable_prefixes,
    replace_steps,
    switch_after,
    switch_between,
    total_variation,
    without_symbols,
)

Numbers = dict[str, float]
Bijection = Callable[[Symbols], Symbols]
"""From sequences (sequence, T) to sequences of the same shape."""


def factorized_conditionals(generator: np.random.Generator, vocabulary: int, length: int) -> Numbers:
    """Skills on disjoint blocks of positions that are independent under the base: composition is projective.

    The marginal of the composition on each expert's block is that expert's, on the remaining block the base's, and
    Z_t = 1 (dossier 1.2).
    """
    blocks = _blocks(length)
    base = block_model(generator, vocabulary, blocks)
    experts = [replace_steps(base, block_model(generator, vocabulary, blocks), block) for block in blocks[:2]]
    composed, normalizers = compose_stepwise(base, experts)
    joint = composed.joint()
    pairs = zip([*experts, base], blocks, strict=False)
    distances = [total_variation(marginal(joint, b), marginal(model.joint(), b)) for model, b in pairs]
    return {"factorized_marginal_distance": max(distances), "factorized_log_normalizer": largest_log(normalizers)}


def dependent_blocks(generator: np.random.Generator, vocabulary: int, length: int) -> Numbers:
    """The same disjoint blocks, but every symbol depends on the whole prefix: Z_t = 1 still, marginals are lost.

    At a position of expert i all others equal the base, so the rule is p_i there and needs no normalizer. What p_i
    sees, however, is a prefix that the other expert wrote: disjointness without independence keeps conditionals only.
    """
    blocks = _blocks(length)
    base = random_model(generator, vocabulary, length)
    experts = [replace_steps(base, random_model(generator, vocabulary, length), block) for block in blocks[:2]]
    composed, normalizers = compose_stepwise(base, experts)
    joint = composed.joint()
    pairs = zip(experts, blocks, strict=False)
    distances = [total_variation(marginal(joint, b), marginal(model.joint(), b)) for model, b in pairs]
    return {"dependent_marginal_difference": max(distances), "dependent_log_normalizer": largest_log(normalizers)}


def _blocks(length: int) -> list[list[int]]:
    """Interleaved positions for two skills and the background; the background's are missing at length 2."""
    return [list(range(first, length, 3)) for first in range(3)]


def switching_skills(generator: np.random.Generator, vocabulary: int, length: int) -> Numbers:
    """Skills triggered by history, never both: composition equals the ideal model that switches between them.

    One skill acts after symbol 0, the other after symbol 1 (dossier 1.3). The marginal of a *position* is nevertheless
    not the expert's own: the other skill changed the prefixes.
    """
    base, first, second = (random_model(generator, vocabulary, length) for _ in range(3))
    experts = [switch_after(base, {0: first}), switch_after(base, {1: second})]
    ideal = switch_after(base, {0: first, 1: second}).joint()
    composed, normalizers = compose_stepwise(base, experts)
    joint, last = composed.joint(), [length - 1]
    return {
        "switching_distance": total_variation(joint, ideal),
        "switching_log_normalizer": largest_log(normalizers),
        "switching_marginal_difference": total_variation(marginal(joint, last), marginal(experts[0].joint(), last)),
    }


def interval_skills(generator: np.random.Generator, vocabulary: int, length: int) -> Numbers:
    """Skills between stopping times, disjoint on the composition's own trajectories (dossier 1.3).

    Symbol 0 starts one skill, symbol 1 the other, symbol 2 stops whichever runs; a running skill writes no start
    symbol. Each expert watches its own symbols only, so after a prefix like (0, 1) both would act, but the composition
    never writes such a prefix: it is still the ideal machine, and Z_t = 1 wherever it goes. Z_t of the other prefixes
    is of no consequence.
    """
    base, *drawn = (random_model(generator, vocabulary, length) for _ in range(3))
    first, second = (without_symbols(skill, [0, 1]) for skill in drawn)
    experts = [act_between(base, first, start=0, stop=2), act_between(base, second, start=1, stop=2)]
    composed, normalizers = compose_stepwise(base, experts)
    ideal = switch_between(base, {0: first, 1: second}, stop=2)
    reached = reachable_prefixes(composed)
    return {
        "interval_distance": total_variation(composed.joint(), ideal.joint()),
        "interval_log_normalizer": largest_log(normalizers, reached),
        "interval_log_normalizer_elsewhere": largest_log(normalizers, [~mask for mask in reached]),
    }


def overlapping_skills(generator: np.random.Generator, vocabulary: int, length: int) -> Numbers:
    """Both skills act after symbol 0: the assumption is violated (dossier 1.4).

    Z_t leaves 1, and the step-by-step rule is no longer the globally normalized composition. For two experts
    Z_t − 1 = Cov_{p_b}(p_1/p_b, p_2/p_b) at every step, whatever the overlap.
    """
    base, first, second = (random_model(generator, vocabulary, length) for _ in range(3))
    experts = [switch_after(base, {0: first}), switch_after(base, {0: second})]
    composed, normalizers = compose_stepwise(base, experts)
    distance = total_variation(composed.joint(), compose_globally(base, experts))
    covariances = covariances_of_ratios(base, experts)
    gaps = [float(np.abs(z - 1 - c).max()) for z, c in zip(normalizers, covariances, strict=True)]
    return {
        "overlap_log_normalizer": largest_log(normalizers),
        "overlap_stepwise_against_global": distance,
        "covariance_identity_gap": max(gaps),
    }


def covariances_of_ratios(base: ExactModel, experts: Sequence[ExactModel]) -> list[Array]:
    """Cov_{p_b}(p_1/p_b, p_2/p_b) for every prefix, by the definition of a covariance."""
    found = []
    for step, one, two in zip(base.conditionals, *(expert.conditionals for expert in experts), strict=True):
        ratios = one / step, two / step
        means = [(step * ratio).sum(-1) for ratio in ratios]
        found.append((step * ratios[0] * ratios[1]).sum(-1) - means[0] * means[1])
    return found


def interference_identities(generator: np.random.Generator, vocabulary: int, length: int, experts: int) -> Numbers:
    """Two identities for any experts at all, which make Z_t a meter of interference.

    With density ratios r_i = p_i/p_b, Z_t = E_{p_b}[Π r_i] and every r_i − 1 has mean zero, hence
    Z_t − 1 = Σ_{S, |S| ≥ 2} E_{p_b}[Π_{i∈S} (r_i − 1)]: the covariance for two experts, all mixed central moments for
    more. And the globally normalized composition is the step-by-step one weighted by Π_t Z_t(y_<t), so the two are
    equal exactly where that product does not depend on the sequence.

    Returns:
        The first gap relative to the sum of the moments' magnitudes, the second as a total variation.
    """
    base, *others = (random_model(generator, vocabulary, length) for _ in range(experts + 1))
    composed, normalizers = compose_stepwise(base, others)
    gaps = []
    for t, normalizer in enumerate(normalizers):
        step = base.conditionals[t]
        moments = _mixed_moments(step, [other.conditionals[t] / step for other in others])
        scale = 1 + np.abs(moments).sum(0)
        gaps.append(float((np.abs(normalizer - 1 - moments.sum(0)) / scale).max()))
    weighted = composed.joint() * path_normalizer(normalizers, vocabulary)
    reweighted = weighted / weighted.sum()
    return {
        "moment_identity_gap": max(gaps),
        "reweighting_identity_gap": total_variation(reweighted, compose_globally(base, others)),
    }


def _mixed_moments(step: Array, ratios: Sequence[Array]) -> Array:
    """E_{p_b}[Π_{i∈S} (r_i − 1)] for all S of two or more, shape (set, ...)."""
    sets = [chosen for size in range(2, len(ratios) + 1) for chosen in combinations(ratios, size)]
    return np.stack([(step * np.prod([ratio - 1 for ratio in chosen], axis=0)).sum(-1) for chosen in sets])


def interference_dose(
    generator: np.random.Generator, vocabulary: int, length: int, shares: Sequence[float]
) -> list[Numbers]:
    """How much a bystander costs that follows its own skill for a share of the time where another skill must act.

    The first expert acts after symbol 0, the second after symbol 1 and, for that share, after symbol 0 as well. The
    ideal machine leaves symbol 0 to the first.
    """
    base, first, second = (random_model(generator, vocabulary, length) for _ in range(3))
    ideal = switch_after(base, {0: first, 1: second}).joint()
    rows = []
    for share in shares:
        bystander = switch_after(base, {0: mix(base, second, share), 1: second})
        composed, normalizers = compose_stepwise(base, [switch_after(base, {0: first}), bystander])
        distance = total_variation(composed.joint(), ideal)
        rows.append({"share": share, "distance": distance, "log_normalizer": largest_log(normalizers)})
    return rows


def interference_point(generator: np.random.Generator, vocabulary: int) -> tuple[float, float]:
    """One step with two random experts: the covariance of their density ratios, and Z − 1."""
    base, first, second = (ExactModel((random_conditional(generator, (vocabulary,)),)) for _ in range(3))
    _, (normalizer,) = compose_stepwise(base, [first, second])
    (covariance,) = covariances_of_ratios(base, [first, second])
    return float(covariance), float(normalizer) - 1


def feature_maps(generator: np.random.Generator, vocabulary: int, length: int) -> Numbers:
    """Factorized in features z = D(y) instead of symbols (dossier 1.5), for causal and non-causal bijections D.

    The globally normalized composition is projective in feature space for all of them. The step-by-step rule, which is
    what the paper decodes with, is for causal maps only: there the features' conditionals are the symbols' conditionals
    in another order, so Z_t = 1.
    """
    half = length // 2
    blocks = [list(range(half)), list(range(half, length))]
    base = block_model(generator, vocabulary, blocks)
    experts = [replace_steps(base, block_model(generator, vocabulary, blocks), block) for block in blocks]
    maps = {
        "causal": _differences(vocabulary),
        "noncausal": _mirror(vocabulary),
        "random_causal": _random_causal(generator, vocabulary, length),
        "random_noncausal": _random_bijection(generator, vocabulary, length),
    }
    found: Numbers = {}
    for name, forward in maps.items():
        symbols = [ExactModel.of_joint(pull_back(model.joint(), forward)) for model in (base, *experts)]
        composed, _ = compose_stepwise(symbols[0], symbols[1:])
        for kind, joint in (("stepwise", composed.joint()), ("global", compose_globally(symbols[0], symbols[1:]))):
            features = change_variables(joint, forward)
            distances = [
                total_variation(marginal(features, block), marginal(expert.joint(), block))
                for expert, block in zip(experts, blocks, strict=True)
            ]
            found[f"feature_{name}_{kind}"] = max(distances)
    return found


def _differences(vocabulary: int) -> Bijection:
    """z_t = y_t − y_{t−1}: triangular, hence causal."""

    def forward(symbols: Symbols) -> Symbols:
        return np.concatenate([symbols[:, :1], np.diff(symbols, axis=1)], axis=1) % vocabulary

    return forward


def _mirror(vocabulary: int) -> Bijection:
    """z_t = y_t + y_{T−1−t} in the first half, z_t = y_t in the second: a first feature needs the last symbol."""

    def forward(symbols: Symbols) -> Symbols:
        half = symbols.shape[1] // 2
        return np.concatenate([symbols[:, :half] + symbols[:, ::-1][:, :half], symbols[:, half:]], axis=1) % vocabulary

    return forward


def _random_causal(generator: np.random.Generator, vocabulary: int, length: int) -> Bijection:
    """z_t = π(y_t) with a permutation π of its own for every prefix y_<t: every causal bijection is of this kind."""
    rows = [generator.random((vocabulary,) * (t + 1)).argsort(-1) for t in range(length)]

    def forward(symbols: Symbols) -> Symbols:
        return np.stack([rows[t][tuple(symbols[:, : t + 1].T)] for t in range(length)], axis=1)

    return forward


def _random_bijection(generator: np.random.Generator, vocabulary: int, length: int) -> Bijection:
    """Any permutation of all sequences, hence almost surely not causal."""
    shape = (vocabulary,) * length
    order = generator.permutation(vocabulary**length)

    def forward(symbols: Symbols) -> Symbols:
        return np.stack(np.unravel_index(order[np.ravel_multi_index(tuple(symbols.T), shape)], shape), axis=1)

    return forward
