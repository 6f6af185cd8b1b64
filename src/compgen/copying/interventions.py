"""Reading and changing what happens inside a trained two-layer model: the hooks of measurements and causal checks.

Covers the hooks alone; which of them are applied to what is in `progress.py` and `causality.py`. Layers count from 0.
"""

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from compgen.copying.model import AttentionLayer, AttentionTransformer, Hooks
from compgen.copying.sequences import CopyBatch

FIRST, SECOND = 0, 1
ROLES = ("query", "key", "value")
DIRECT = "direct"
"""The path from a layer past all later ones to the logits."""


class Recorder(Hooks):
    """Keeps attention patterns, head outputs and the residual stream of one forward pass."""

    def __init__(self) -> None:
        """Start empty."""
        self.patterns: list[Tensor] = []
        """By layer: (sequence, head, query, key)."""
        self.outputs: list[Tensor] = []
        """By layer: (sequence, position, head, head width)."""
        self.residuals: list[Tensor] = []
        """After each layer: (sequence, position, width)."""

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        """Keep it."""
        del layer
        self.patterns.append(pattern)
        return pattern

    def head_output(self, layer: int, output: Tensor) -> Tensor:
        """Keep it."""
        del layer
        self.outputs.append(output)
        return output

    def residual(self, layer: int, residual: Tensor) -> Tensor:
        """Keep it."""
        del layer
        self.residuals.append(residual)
        return residual


@torch.no_grad()
def record(model: AttentionTransformer, tokens: Tensor) -> Recorder:
    """Run the model and keep what happened inside."""
    recorder = Recorder()
    model(tokens, hooks=recorder)
    return recorder


class HoldFirstLayer(Hooks):
    """Hold the first layer's attention: fixed to the previous token, or never on it.

    Training under it shows whether forming a previous-token head is what the transition waits for.
    """

    def __init__(self, mode: str) -> None:
        """Mode `previous` or `forbid`; `free` changes nothing."""
        self._mode = mode

    def pattern(self, layer: int, pattern: Tensor) -> Tensor:
        """The held pattern of the first layer."""
        if layer != FIRST or self._mode == "free":
            return pattern
        previous = torch.diag(torch.ones(pattern.shape[-1] - 1), -1)  # (query, key)
        if self._mode == "previous":
            previous[0, 0] = 1  # the first position has no previous token
            return previous.expand_as(pattern)
        allowed = pattern * (1 - previous)
        return allowed / allowed.sum(-1, keepdim=True).clamp_min(torch.finfo(allowed.dtype).tiny)


class AblateHead(Hooks):
    """Replace one head's mixed values at every position."""

    def __init__(self, layer: int, head: int, replacement: Tensor) -> None:
        """Put `replacement`, (head width,), in place of the head's output."""
        self._layer, self._head, self._replacement = layer, head, replacement

    def head_output(self, layer: int, output: Tensor) -> Tensor:
        """The output with the head replaced."""
        if layer != self._layer:
            return output
        changed = output.clone()
        changed[:, :, self._head] = self._replacement
        return changed


class CutPaths(Hooks):
    """Cut paths from the first layer: where cut, the second layer sees the first one's mean instead of its output.

    A path leads to the second layer's queries, keys or values, or directly to the logits.
    """

    def __init__(self, model: AttentionTransformer, paths: Collection[str], mean: Tensor) -> None:
        """Cut `paths` of a model whose first layer adds `mean`, (width,), on average."""
        self._model, self._paths, self._mean = model, frozenset(paths), mean
        self._embedded: Tensor | None = None
        self._added: Tensor | None = None

    def embed(self, tokens: Tensor) -> None:
        """Tell which tokens the next pass reads."""
        self._embedded = self._model.embedding(tokens)

    def normalized(self, layer: int, role: str, values: Tensor) -> Tensor:
        """What a role of the second layer sees."""
        if layer != SECOND or role not in self._paths:
            return values
        assert self._embedded is not None
        block = self._model.layers[SECOND]
        assert isinstance(block, AttentionLayer)
        cut: Tensor = block.norm(self._embedded + self._mean)
        return cut

    def residual(self, layer: int, residual: Tensor) -> Tensor:
        """The stream without the first layer's addition, where the direct path is cut."""
        assert self._embedded is not None
        if layer == FIRST:
            self._added = residual - self._embedded
        elif DIRECT in self._paths:
            assert self._added is not None
            return residual - self._added + self._mean
        return residual


class ProjectKeys(Hooks):
    """Let the second layer's keys read a subspace only: the same as projecting W_K from the right."""

    def __init__(self, projector: Tensor) -> None:
        """Project by a symmetric matrix, (width, width)."""
        self._projector = projector

    def normalized(self, layer: int, role: str, values: Tensor) -> Tensor:
        """The projected input of the keys."""
        return values @ self._projector if (layer, role) == (SECOND, "key") else values


def predictor(model: AttentionTransformer, hooks: Hooks | None = None) -> Callable[[Tensor], Tensor]:
    """The model under some hooks as a function from tokens to logits, without dropout."""

    def predict(tokens: Tensor) -> Tensor:
        if isinstance(hooks, CutPaths):
            hooks.embed(tokens)
        logits: Tensor = model(tokens, hooks=hooks)
        return logits

    return predict


@torch.no_grad()
def mean_head_output(model: AttentionTransformer, batch: CopyBatch, layer: int, head: int) -> Tensor:
    """A head's mean output over sequences and positions, (head width,)."""
    mean: Tensor = record(model, batch.tokens).outputs[layer][:, :, head].mean((0, 1))
    return mean


@torch.no_grad()
def mean_first_addition(model: AttentionTransformer, batch: CopyBatch) -> Tensor:
    """What the first layer adds to the residual stream on average, (width,)."""
    added = record(model, batch.tokens).residuals[FIRST] - model.embedding(batch.tokens)
    mean: Tensor = added.mean((0, 1))
    return mean


def projector(basis: Tensor, keep: bool) -> Tensor:
    """Onto the span of orthonormal columns (width, rank), or onto its complement, as float32."""
    onto = basis @ basis.mT
    chosen: Tensor = onto if keep else torch.eye(basis.shape[0], dtype=basis.dtype) - onto
    return chosen.float()
