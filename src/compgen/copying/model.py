"""The small decoder of the copying study: pre-LayerNorm attention with rotary positions, by default without MLP.

Covers the paper's synthetic model (dossier 1.2) with its variants, and `Hooks`, through which measurements and causal
checks read or change what happens inside without a second implementation.

Rotary positions turn adjacent pairs of channels, so a pair is a complex number and the turn is a product. The plain
path is written for speed, with its derivative by hand; the hooked path is written for access. Each tests the other.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from compgen.copying.config import ModelConfig

DROPOUT_BITS = 16


class Hooks:
    """What may be read or replaced inside a forward pass. The methods here change nothing."""

    def normalized(self, layer: int, role: str, values: Tensor) -> Tensor:
        """The normalized residual stream as seen by `role` (query, key or value): (sequence, position, width)."""
        del layer, role
        return values

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        """The attention pattern after the softmax: (sequence, head, query, key)."""
        del layer
        return pattern

    def head_output(self, layer: int, output: Tensor) -> Tensor:
        """Each head's mixed values before W_O: (sequence, position, head, head width)."""
        del layer
        return output

    def residual(self, layer: int, residual: Tensor) -> Tensor:
        """The residual stream after a layer: (sequence, position, width)."""
        del layer
        return residual


def turn_table(length: int, config: ModelConfig) -> Tensor:
    """exp(i · position · base^(−2j/d_head)) for pair j, repeated for every head: (position, pair), complex64.

    The angles are computed in double precision.
    """
    width = config.width // config.heads
    frequency = config.rotary_base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * frequency  # (position, pair of one head)
    return torch.polar(torch.ones_like(angle), angle).to(torch.complex64).repeat(1, config.heads)


def turn_pairs(values: Tensor, turns: Tensor) -> Tensor:
    """Turn adjacent pairs of channels, (sequence, position, width), by complex numbers (position, pair)."""
    pairs = torch.view_as_complex(values.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(-2)


def split_heads(values: Tensor, heads: int) -> Tensor:
    """(sequence, position, width) to (sequence · head, position, head width)."""
    apart: Tensor = values.unflatten(-1, (heads, -1))
    return apart.transpose(1, 2).flatten(0, 1)


def merge_heads(values: Tensor, heads: int) -> Tensor:
    """(sequence · head, position, head width) to (sequence, position, width)."""
    apart: Tensor = values.unflatten(0, (-1, heads))
    return apart.transpose(1, 2).flatten(2)


class RotaryAttention(torch.autograd.Function):
    """Causal softmax attention of turned queries and keys.

    At 64 tokens three plain matrix products with a derivative by hand are faster on a CPU than PyTorch's fused
    attention, whose blocks are made for long sequences, and than its automatic derivative of the turns.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, turns: Tensor, heads: int) -> Tensor:
        """The mixed values, (sequence, position, width), from three tensors of that shape."""
        scale = (query.shape[-1] // heads) ** -0.5
        query, key = turn_pairs(query, turns * scale), turn_pairs(key, turns)
        query, key, value = (split_heads(x, heads) for x in (query, key, value))
        future = torch.full((query.shape[1],) * 2, -torch.inf).triu(1)
        pattern = torch.bmm(query, key.mT).add_(future).softmax(-1)  # (sequence · head, query, key)
        ctx.save_for_backward(query, key, value, pattern, turns)
        ctx.heads = heads
        return merge_heads(torch.bmm(pattern, value), heads)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of query, key and value."""
        query, key, value, pattern, turns = ctx.saved_tensors
        heads, scale, back = ctx.heads, query.shape[-1] ** -0.5, turns.conj_physical()
        gradient = split_heads(gradient, heads)
        of_pattern = torch.bmm(gradient, value.mT)
        of_scores = torch.ops.aten._softmax_backward_data(of_pattern, pattern, -1, pattern.dtype)
        of_query, of_key = torch.bmm(of_scores, key), torch.bmm(of_scores.mT, query)
        return (
            turn_pairs(merge_heads(of_query, heads), back * scale),
            turn_pairs(merge_heads(of_key, heads), back),
            merge_heads(torch.bmm(pattern.mT, gradient), heads),
            None,
            None,
        )


class AttentionLayer(nn.Module):
    """One attention block: queries, keys, values and output, all with biases."""

    def __init__(self, config: ModelConfig) -> None:
        """Initialize as PyTorch initializes linear layers."""
        super().__init__()
        self.heads = config.heads
        self.norm = nn.LayerNorm(config.width)
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def forward(self, residual: Tensor, turns: Tensor) -> Tensor:
        """The block's addition to the residual stream (sequence, position, width), before dropout."""
        normalized = self.norm(residual)
        roles = (project(normalized) for project in (self.query, self.key, self.value))
        mixed = RotaryAttention.apply(*roles, turns, self.heads)  # type: ignore[no-untyped-call]
        added: Tensor = self.output(mixed)
        return added

    def forward_hooked(self, residual: Tensor, turns: Tensor, layer: int, hooks: Hooks) -> Tensor:
        """The same with every intermediate value offered to `hooks`."""
        normalized = self.norm(residual)
        query, key, value = (
            project(hooks.normalized(layer, role, normalized))
            for role, project in (("query", self.query), ("key", self.key), ("value", self.value))
        )
        query, key = turn_pairs(query, turns), turn_pairs(key, turns)
        query, key, value = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (query, key, value))
        scores = query @ key.mT / query.shape[-1] ** 0.5  # (sequence, head, query, key)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        pattern = hooks.pattern(layer, scores.masked_fill(future, -torch.inf).softmax(-1))
        mixed = hooks.head_output(layer, (pattern @ value).transpose(1, 2))
        added: Tensor = self.output(mixed.flatten(2))
        return added


class AttentionTransformer(nn.Module):
    """The whole model; untied embedding and output, no final LayerNorm."""

    def __init__(self, config: ModelConfig, vocabulary: int, seed: int) -> None:
        """Initialize from a seed of its own, leaving the global generator as it was."""
        super().__init__()
        self.config = config
        self.vocabulary = vocabulary
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.embedding = nn.Embedding(vocabulary, config.width)
            self.layers = nn.ModuleList(AttentionLayer(config) for _ in range(config.layers))
            self.feedforward = nn.ModuleList(
                _feedforward(config) for _ in range(config.layers if config.feedforward else 0)
            )
            self.unembedding = nn.Linear(config.width, vocabulary)
        self._turns: dict[int, Tensor] = {}

    def forward(self, tokens: Tensor, generator: torch.Generator | None = None, hooks: Hooks | None = None) -> Tensor:
        """Next-token logits.

        Args:
            tokens: (sequence, position).
            generator: source of dropout; None is evaluation, without dropout.
            hooks: read or change values inside; slower.

        Returns:
            (sequence, position, vocabulary).
        """
        turns = self._turns_of(tokens.shape[1])
        residual = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, AttentionLayer)
            addition = layer(residual, turns) if hooks is None else layer.forward_hooked(residual, turns, number, hooks)
            residual = self._add(residual, addition, generator)
            if self.config.feedforward:
                residual = self._add(residual, self.feedforward[number](residual), generator)
            if hooks is not None:
                residual = hooks.residual(number, residual)
        logits: Tensor = self.unembedding(residual)
        return logits

    def query_key(self, layer: int, head: int) -> Tensor:
        """W_QK = W_qᵀ W_k / √d_head of one head, (width, width): scores are x_query W_QK x_keyᵀ without positions."""
        block, rows = self._head(layer, head)
        product: Tensor = block.query.weight[rows].T @ block.key.weight[rows]
        scaled: Tensor = product / math.sqrt(rows.stop - rows.start)
        return scaled

    def output_value(self, layer: int, head: int) -> Tensor:
        """W_OV = W_o W_v of one head, (width, width): the head adds W_OV x for every token x that it attends to."""
        block, rows = self._head(layer, head)
        product: Tensor = block.output.weight[:, rows] @ block.value.weight[rows]
        return product

    def head_factors(self, layer: int, head: int) -> dict[str, Tensor]:
        """The thin factors of one head: query, key and value (head width, width), output (width, head width)."""
        block, rows = self._head(layer, head)
        return {
            "query": block.query.weight[rows],
            "key": block.key.weight[rows],
            "value": block.value.weight[rows],
            "output": block.output.weight[:, rows],
        }

    def _head(self, layer: int, head: int) -> tuple[AttentionLayer, slice]:
        block = self.layers[layer]
        assert isinstance(block, AttentionLayer)
        width = self.config.width // self.config.heads
        return block, slice(head * width, (head + 1) * width)

    def _turns_of(self, length: int) -> Tensor:
        if length not in self._turns:
            self._turns[length] = turn_table(length, self.config)
        return self._turns[length]

    def _add(self, residual: Tensor, addition: Tensor, generator: torch.Generator | None) -> Tensor:
        """Add to the residual stream with inverted dropout, if there is a generator."""
        rate = self.config.dropout
        if generator is None or rate == 0:
            return residual + addition
        return torch.addcmul(residual, addition, kept_share(addition, rate, generator), value=1 / (1 - rate))


def kept_share(values: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """1 where a value is kept and 0 where it is dropped, each from 16 random bits.

    Several times faster than drawing floats one by one; the rate is exact to 2^−17.
    """
    words = torch.empty(-(-values.numel() // 4), dtype=torch.int64)
    words.random_(-(2**63), 2**63 - 1, generator=generator)
    bits = words.view(torch.int16)[: values.numel()].view_as(values)
    threshold = round(rate * 2**DROPOUT_BITS) - 2 ** (DROPOUT_BITS - 1)
    return torch.ge(bits, threshold, out=torch.empty_like(values, requires_grad=False))


def _feedforward(config: ModelConfig) -> nn.Sequential:
    return nn.Sequential(
        nn.LayerNorm(config.width),
        nn.Linear(config.width, config.feedforward),
        nn.ReLU(),
        nn.Linear(config.feedforward, config.width),
    )
