"""One view of the heads of any supported model: a head is a layer and a query head, whatever the architecture.

Covers addressing, per-head weights, W_QK at a distance, W_OV, and which heads an edit of shared keys and values
reaches. It reads the model as it is at the time of the call and changes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from compgen import measures
from compgen.errors import require
from compgen.heads.families import family_of
from compgen.heads.parts import Attention, Norm, NormGain
from compgen.measures import Factored


@dataclass(frozen=True, order=True)
class Head:
    """The address of a head."""

    layer: int
    index: int
    """Of the query head within its layer, also where several query heads share keys and values."""

    def __str__(self) -> str:
        """As papers write it: layer.head."""
        return f"{self.layer}.{self.index}"


@dataclass(frozen=True)
class HeadWeights:
    """The weights of one head; biases are None where the model has none."""

    query: Tensor
    """(head, model)"""
    key: Tensor
    """(head, model), shared by the query heads of its group."""
    value: Tensor
    """(head, model), shared likewise."""
    output: Tensor
    """(model, head)"""
    query_bias: Tensor | None
    """(head,)"""
    key_bias: Tensor | None
    """(head,)"""
    value_bias: Tensor | None
    """(head,)"""


@dataclass(frozen=True)
class QueryGroup:
    """The query heads behind one key and value head."""

    layer: int
    key_value_head: int
    chosen: tuple[Head, ...]
    """Those that were asked for."""
    reached: tuple[Head, ...]
    """All that an edit of this W_K or W_V changes."""


class HeadView:
    """The heads of a model of transformers with a language-model head, or of its decoder."""

    def __init__(self, model: Any) -> None:
        """Look at a model.

        Raises:
            UserError: no adapter is known for its architecture.
        """
        self.model = model
        self.decoder = model.base_model
        self.family = family_of(model.config.model_type)
        self.layers: int = model.config.num_hidden_layers
        first = self.attention(0)
        self.query_heads: int = first.query.weight.shape[0]
        self.key_value_heads: int = first.key.weight.shape[0]
        self.head_width: int = first.query.weight.shape[1]
        self.width: int = first.query.weight.shape[2]

    def attention(self, layer: int) -> Attention:
        """The parts of one layer."""
        return self.family.attention(self.decoder, layer)

    def mixer(self, layer: int) -> nn.Module:
        """The output projection of a layer; its input is (batch, position, query heads · head width)."""
        return self.attention(layer).mixer

    def final_norm(self) -> Norm:
        """The norm before the language-model head."""
        return self.family.final_norm(self.decoder)

    def heads(self) -> list[Head]:
        """All heads, by layer and then by query head."""
        return [Head(layer, index) for layer in range(self.layers) for index in range(self.query_heads)]

    def check(self, heads: Iterable[Head]) -> None:
        """Raise ConfigError unless the model has all these heads."""
        for head in heads:
            exists = 0 <= head.layer < self.layers and 0 <= head.index < self.query_heads
            remedy = f"the model has layers 0…{self.layers - 1} with query heads 0…{self.query_heads - 1}"
            require(exists, "head", str(head), remedy)

    def key_value_head(self, head: Head) -> int:
        """The key and value head that serves a query head."""
        return head.index // (self.query_heads // self.key_value_heads)

    def weights(self, head: Head, gain: NormGain = NormGain.apart) -> HeadWeights:
        """The four matrices of a head and its biases, with the norms' linear parts apart or folded in."""
        self.check([head])
        parts = self.attention(head.layer)
        shared = self.key_value_head(head)
        rows = ((parts.query, head.index), (parts.key, shared), (parts.value, shared))
        weights = [role.weight[index] for role, index in rows]
        biases = [None if role.bias is None else role.bias[index] for role, index in rows]
        output = parts.output.weight[head.index]
        if gain is NormGain.folded:
            biases = [parts.norm.fold_bias(weight, bias) for weight, bias in zip(weights, biases, strict=True)]
            weights = [parts.norm.fold(weight) for weight in weights]
            output = output if parts.writing_gain is None else parts.writing_gain[:, None] * output
        query, key, value = weights
        return HeadWeights(query, key, value, output, *biases)

    def rotation(self, layer: int, distance: float) -> Tensor:
        """R with qᵀ R k = the score of a query `distance` positions after its key: (head, head), float64.

        The identity for models with learned positions.
        """
        rotary = self.attention(layer).rotary
        if rotary is None:
            return torch.eye(self.head_width, dtype=torch.float64)
        return rotary.between(distance, self.head_width)

    def query_key(self, head: Head, distance: float = 0, gain: NormGain = NormGain.apart) -> Factored:
        """W_Qᵀ R W_K (model, model) for a query `distance` positions after its key, not scaled, without biases."""
        weights = self.weights(head, gain)
        turn = self.rotation(head.layer, distance).to(weights.key)
        return measures.query_key(weights.query, turn @ weights.key)

    def output_value(self, head: Head, gain: NormGain = NormGain.apart) -> Factored:
        """W_O W_V (model, model), without biases."""
        weights = self.weights(head, gain)
        return measures.output_value(weights.output, weights.value)

    def query_groups(self, heads: Iterable[Head]) -> list[QueryGroup]:
        """The groups behind these heads, each once: what an edit of their W_K or W_V really reaches."""
        chosen = sorted(set(heads))
        self.check(chosen)
        size = self.query_heads // self.key_value_heads
        groups = []
        for layer, shared in sorted({(head.layer, self.key_value_head(head)) for head in chosen}):
            reached = tuple(Head(layer, index) for index in range(shared * size, (shared + 1) * size))
            groups.append(QueryGroup(layer, shared, tuple(head for head in reached if head in chosen), reached))
        return groups
