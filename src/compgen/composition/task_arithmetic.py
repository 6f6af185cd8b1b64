"""Adding weight differences against multiplying distributions (dossier 1.7), in float64.

Where logits are linear in the parameters the two are one: in a log-linear model, and in a transformer whose experts
trained its output layer only. For whole transformers they part with the strength λ: the gap in logits is made of second
derivatives, so it shrinks as λ², and the divergence of the two distributions as λ⁴.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from compgen.composition.options import CompositionRule
from compgen.composition.rule import compose
from compgen.composition.theory_config import TaskArithmeticConfig
from compgen.randomness import torch_stream

Weights = dict[str, Tensor]
Logits = Callable[[Mapping[str, Tensor]], Tensor]
OUTPUT_LAYER = ("output.weight", "output.bias")


class CausalTransformer(nn.Module):
    """A one-layer decoder out of torch's own encoder layer, in float64, without dropout."""

    def __init__(self, config: TaskArithmeticConfig) -> None:
        """Build the layers; weights come from `initial_weights`."""
        super().__init__()
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.length, config.width)
        self.layer = nn.TransformerEncoderLayer(
            config.width, 4, 2 * config.width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.output = nn.Linear(config.width, config.vocabulary)
        self.double()

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits (sequence, position, vocabulary) for tokens (sequence, position)."""
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], dtype=torch.float64)
        hidden = self.token(tokens) + self.position.weight
        logits: Tensor = self.output(self.layer(hidden, src_mask=mask, is_causal=True))
        return logits


def initial_weights(model: nn.Module, generator: torch.Generator) -> Weights:
    """Normal weights scaled by the square root of their inputs; gains 1, biases 0."""
    return {
        name: torch.randn(value.shape, generator=generator, dtype=torch.float64) / math.sqrt(value.shape[-1])
        if value.dim() > 1
        else torch.ones_like(value) * (1.0 if name.endswith("norm1.weight") or name.endswith("norm2.weight") else 0.0)
        for name, value in model.state_dict().items()
    }


def substitution(vocabulary: int, source: int, target: int) -> Tensor:
    """(vocabulary,), the symbol that each symbol becomes."""
    table = torch.arange(vocabulary)
    table[source] = target
    return table


def train(
    model: nn.Module,
    start: Weights,
    table: Tensor,
    steps: int,
    config: TaskArithmeticConfig,
    generator: torch.Generator,
    trained: Collection[str] | None = None,
) -> Weights:
    """Fit the per-position mapping `table` with Adam on fresh random strings: all weights, or those that are named."""
    moving = start.keys() if trained is None else trained
    weights = {name: value.clone().requires_grad_(name in moving) for name, value in start.items()}
    optimizer = torch.optim.Adam([weights[name] for name in moving], lr=config.learning_rate)
    for _ in range(steps):
        tokens = torch.randint(config.vocabulary, (config.batch, config.length), generator=generator)
        logits = functional_call(model, weights, (tokens,))
        loss = F.cross_entropy(logits.flatten(0, 1), table[tokens].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {name: value.detach() for name, value in weights.items()}


def compare(logits: Logits, base: Weights, tasks: Sequence[Weights], strength: float) -> dict[str, float]:
    """Task arithmetic θ0 + λ Σ τ_i against the composition of the experts θ0 + λ τ_i, on the same inputs.

    Returns:
        `gap`: root mean square difference of the two changes of logits (centred over the vocabulary);
        `relative_gap`: the same as a share of the composition's change; `divergence`: mean KL(added‖composed) in nats.
    """
    moved = [_add(base, [task], strength) for task in tasks]
    start = logits(base)
    experts = torch.stack([logits(weights) for weights in moved])
    added = logits(_add(base, tasks, strength))
    product = start + (experts - start).sum(0)
    difference, change = _centre(added - product), _centre(product - start)
    composed = compose(start, experts, CompositionRule())
    own = added.log_softmax(-1)
    return {
        "strength": strength,
        "gap": float(difference.square().mean().sqrt()),
        "relative_gap": float(difference.square().mean().sqrt() / change.square().mean().sqrt()),
        "divergence": float((own.exp() * (own - composed)).sum(-1).mean()),
        "distance": float((own.exp() - composed.exp()).abs().sum(-1).max() / 2),
    }


def _add(base: Weights, tasks: Sequence[Weights], strength: float) -> Weights:
    return {name: value + strength * sum(task[name] for task in tasks) for name, value in base.items()}


def _centre(values: Tensor) -> Tensor:
    return values - values.mean(-1, keepdim=True)


def log_linear(config: TaskArithmeticConfig, seed: int) -> dict[str, float]:
    """A model whose logits are linear in its parameters, at strength 1: the control that must be exact."""
    generator = torch_stream(seed, "log-linear")
    features = torch.randn(config.batch, config.width, generator=generator, dtype=torch.float64)
    base, *tasks = (
        {"weight": torch.randn(config.width, config.vocabulary, generator=generator, dtype=torch.float64)}
        for _ in range(4)
    )
    return compare(lambda weights: features @ weights["weight"], base, tasks, 1.0)


def transformer(config: TaskArithmeticConfig, seed: int) -> dict[str, Any]:
    """A base and two experts that each learned one substitution, compared at every strength.

    Returns:
        `rows` of `compare`, the exponents of λ, accuracies at strength 1, and under `output_layer` the comparison at
        strength 1 of experts that trained the output layer only.
    """
    generator = torch_stream(seed, "transformer")
    model = CausalTransformer(config)
    identity = torch.arange(config.vocabulary)
    tables = [substitution(config.vocabulary, 0, 4), substitution(config.vocabulary, 1, 5)]
    base = train(model, initial_weights(model, generator), identity, config.base_steps, config, generator)

    def task_vectors(trained: Collection[str] | None) -> list[Weights]:
        experts = [train(model, base, table, config.expert_steps, config, generator, trained) for table in tables]
        return [{name: expert[name] - value for name, value in base.items()} for expert in experts]

    whole, output = task_vectors(None), task_vectors(OUTPUT_LAYER)
    tokens = torch.randint(config.vocabulary, (256, config.length), generator=generator)

    def logits(weights: Mapping[str, Tensor]) -> Tensor:
        with torch.no_grad():
            found: Tensor = functional_call(model, dict(weights), (tokens,))
            return found

    rows = [compare(logits, base, whole, strength) for strength in config.strengths]
    control = {**compare(logits, base, output, 1.0), **_accuracies(logits, base, output, tokens, tables)}
    return {"rows": rows, "output_layer": control, **_slopes(rows), **_accuracies(logits, base, whole, tokens, tables)}


def _slopes(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Exponents of λ between the two smallest strengths."""
    first, second = rows[0], rows[1]
    span = math.log(second["strength"] / first["strength"])
    return {f"{key}_slope": math.log(second[key] / first[key]) / span for key in ("gap", "relative_gap", "divergence")}


def _accuracies(
    logits: Logits, base: Weights, tasks: Sequence[Weights], tokens: Tensor, tables: Sequence[Tensor]
) -> dict[str, float]:
    """Symbol accuracy at strength 1 on the joint task and of each expert on its own."""
    joint = tokens.clone()
    for table in tables:
        joint = torch.where(table[tokens] != tokens, table[tokens], joint)
    experts = [logits(_add(base, [task], 1.0)) for task in tasks]
    return {
        "added_accuracy": _accuracy(logits(_add(base, tasks, 1.0)), joint),
        "composed_accuracy": _accuracy(compose(logits(base), torch.stack(experts), CompositionRule()), joint),
        "expert_accuracy": min(_accuracy(e, table[tokens]) for e, table in zip(experts, tables, strict=True)),
    }


def _accuracy(distribution: Tensor, expected: Tensor) -> float:
    return float((distribution.argmax(-1) == expected).double().mean())
