"""The named choices of how distributions are combined. Free of torch, so that configurations can be checked first."""

import math
from dataclasses import dataclass
from enum import StrEnum

from compgen.errors import require


class Combination(StrEnum):
    """How the experts' distributions become one."""

    product = "product"
    """p ∝ p_b · Π_i (p_i / p_b)^w_i: the paper's rule, with weights 1 unless coefficients are given."""
    mixture = "mixture"
    """The mean of the experts' probabilities."""
    mean_log_probability = "mean_log_probability"
    """p ∝ (Π_i p_i)^(1/k)."""
    product_without_base = "product_without_base"
    """p ∝ Π_i p_i."""
    uniform = "uniform"
    """The product with every weight 1/k."""


class Remedy(StrEnum):
    """What keeps the product from failing when many experts are combined."""

    none = "none"
    plausibility_mask = "plausibility_mask"
    """Only tokens to which some component gives at least `plausibility` of its own largest probability; an end token
    too, unless its probability is the gate's."""
    kl_gate = "kl_gate"
    """An expert's log-ratio counts only where KL(p_i‖p_b) exceeds `kl_threshold` nats."""
    tail_clip = "tail_clip"
    """An expert's log-ratio counts only on tokens to which it or the base gives at least `tail_probability`."""
    largest_delta = "largest_delta"
    """Per token only the one log-ratio of largest magnitude counts."""
    base_nucleus = "base_nucleus"
    """Only tokens of the base's nucleus: the fewest whose probabilities reach `nucleus` (the filter of DExperts)."""


class Weighting(StrEnum):
    """How an expert's weight follows what it says at a token."""

    fixed = "fixed"
    """The coefficient alone."""
    sigmoid = "sigmoid"
    """The coefficient times σ((KL(p_i‖p_b) − `kl_threshold`) / `kl_scale`): a soft gate."""
    softmax = "softmax"
    """The coefficient times softmax_i(KL(p_i‖p_b) / `kl_scale`): the experts share one unit of weight."""


class EndOfSequence(StrEnum):
    """What decides about stopping: the log-ratio that end tokens get."""

    sum = "sum"
    """The sum of all experts' log-ratios, as for every other token: the paper's rule."""
    base = "base"
    """None: the base's logit."""
    mean = "mean"
    """The mean of the experts' log-ratios."""
    max = "max"
    """The largest of the experts' log-ratios."""
    gate = "gate"
    """The end tokens have the probability that the dominant expert, argmax_i KL(p_i‖p_b), gives them; the others share
    the rest in the proportions of the composition."""


@dataclass(frozen=True)
class CompositionRule:
    """One way of combining a base and some experts."""

    combination: Combination = Combination.product
    remedy: Remedy = Remedy.none
    end_of_sequence: EndOfSequence = EndOfSequence.sum
    coefficients: tuple[float, ...] | None = None
    """One weight for every expert; None is 1 for each, the paper's rule."""
    plausibility: float = 0.01
    kl_threshold: float = 0.1
    tail_probability: float = 1e-3
    nucleus: float = 0.9
    weighting: Weighting = Weighting.fixed
    kl_scale: float = 0.05
    """Nats over which an adaptive weight changes."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: a threshold is out of range, or an option does not belong to the combination.
        """
        for name in ("plausibility", "tail_probability", "nucleus"):
            value = getattr(self, name)
            require(0 < value < 1, f"composition.{name}", value, "must lie between 0 and 1")
        require(self.kl_threshold >= 0, "composition.kl_threshold", self.kl_threshold, "must not be negative")
        require(self.kl_scale > 0, "composition.kl_scale", self.kl_scale, "must be positive")
        weights = self.coefficients or ()
        finite = all(math.isfinite(weight) for weight in weights)
        require(finite, "composition.coefficients", self.coefficients, "must be finite")
        product = self.combination is Combination.product
        require(
            product or self.coefficients is None,
            "composition.coefficients",
            self.coefficients,
            "weights belong to combination=product only",
        )
        ratios = self.combination in (Combination.product, Combination.uniform)
        neutrals = {"remedy": Remedy.none, "end_of_sequence": EndOfSequence.sum, "weighting": Weighting.fixed}
        for name, neutral in neutrals.items():
            value = getattr(self, name)
            require(ratios or value is neutral, f"composition.{name}", value.value, "needs combination=product")
