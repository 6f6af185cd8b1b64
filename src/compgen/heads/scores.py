"""What heads attend to and copy: induction, previous-token, duplicate-token and copying scores of every head.

Covers two definitions of the attention scores, on sequences of `compgen.heads.repeated`:

- `authors`: as the paper's code has it. The first column and row are dropped and the rest renormalized, which takes out
  attention to a begin token or first token; then the mean of a whole diagonal. The last query of the induction
  diagonal has nothing left to copy, and with a begin token the first stands before the second copy: an off-by-one,
  kept. The paper has no duplicate-token score; it is formed alike.
- `controlled`: no renormalization, means over the queries where the score means something (`compgen.measures`).

The copying score is read from weights. Removal, not scores, says whether a head matters.
Sources: Song, Xu, Zhong 2025 (authors' definition); Olsson et al. 2022 (controlled); Elhage et al. 2021 (copying).
"""

from collections.abc import Callable
from contextlib import ExitStack
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn

from compgen.errors import UserError
from compgen.heads.families import matrix
from compgen.heads.parts import NormGain
from compgen.heads.repeated import Repeated
from compgen.heads.views import HeadView
from compgen.measures import attention_at_offset

EPSILON = 1e-6
ROWS_AT_ONCE = 8192
Scores = dict[str, Tensor]
Progress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Say nothing."""
    del done, total


class Definition(Enum):
    """How attention scores are formed, see the module's text."""

    authors = "authors"
    controlled = "controlled"


def attention_scores(
    view: HeadView,
    repeated: Repeated,
    definition: Definition,
    batch_size: int = 8,
    progress: Progress = no_progress,
) -> Scores:
    """The attention scores of every head on every sequence.

    Patterns are reduced to scores layer by layer while the model runs, so that one layer's patterns of one batch are in
    memory at a time, and no logits.

    Args:
        progress: called after each batch with how many sequences are done and how many there are.

    Returns:
        By "induction", "previous" and "duplicate": (sequence, layer, head), float64 on the CPU.

    Raises:
        UserError: the model does not compute its patterns, or is in training mode.
    """
    _require_patterns(view)
    collected: list[dict[int, Scores]] = []
    for start in range(0, len(repeated.tokens), batch_size):
        rows = repeated.tokens[start : start + batch_size]
        collected.append(_scores_of_batch(view, rows, repeated, definition))
        progress(start + len(rows), len(repeated.tokens))
    return {
        kind: torch.cat([torch.stack([batch[layer][kind] for layer in range(view.layers)], 1) for batch in collected])
        for kind in collected[0][0]
    }


def _require_patterns(view: HeadView) -> None:
    implementation = view.model.config._attn_implementation
    if implementation != "eager":
        raise UserError(f"attn_implementation={implementation!r} keeps no attention patterns: load with 'eager'")
    if view.model.training:
        raise UserError("the model is in training mode, whose patterns have dropout: call model.eval()")


@torch.no_grad()
def _scores_of_batch(view: HeadView, rows: Tensor, repeated: Repeated, definition: Definition) -> dict[int, Scores]:
    found: dict[int, Scores] = {}

    def hook(layer: int) -> Callable[[nn.Module, Any, tuple[Tensor, Tensor]], None]:
        def reduce(module: nn.Module, arguments: Any, output: tuple[Tensor, Tensor]) -> None:
            del module, arguments
            found[layer] = pattern_scores(output[1], repeated, definition)

        return reduce

    with ExitStack() as hooks:
        for layer in range(view.layers):
            hooks.callback(view.attention(layer).module.register_forward_hook(hook(layer)).remove)
        view.decoder(rows.to(view.model.device), use_cache=False)
    return found


def pattern_scores(pattern: Tensor, repeated: Repeated, definition: Definition) -> Scores:
    """The attention scores of one layer.

    Args:
        pattern: (sequence, head, query, key), rows sum to 1.

    Returns:
        By kind: (sequence, head), float64 on the CPU.
    """
    offsets = {"induction": repeated.segment - 1, "previous": 1, "duplicate": repeated.segment}
    if definition is Definition.authors:
        return {kind: authors_score(pattern, offset).cpu() for kind, offset in offsets.items()}
    single = pattern[:, :, None]  # (sequence, head, 1, query, key): the mean over sequences is taken later
    queries = {"induction": repeated.copied(), "previous": repeated.preceded(), "duplicate": repeated.copied()}
    return {
        kind: attention_at_offset(single, offset, queries[kind].to(pattern.device)).cpu()
        for kind, offset in offsets.items()
    }


def authors_score(pattern: Tensor, offset: int) -> Tensor:
    """The mean of a diagonal of the renormalized pattern without its first row and column.

    Args:
        pattern: (..., query, key).
        offset: keys lie this far before their query.

    Returns:
        (...), float64.
    """
    kept = pattern[..., 1:, 1:].double()
    renormalized = kept / (kept + EPSILON).sum(-1, keepdim=True)
    return renormalized.diagonal(-offset, -2, -1).mean(-1)


# ---- copying -------------------------------------------------------------------------------------------------------
@torch.no_grad()
def copying_scores(view: HeadView, gain: NormGain = NormGain.folded) -> Tensor:
    """Σ λ / Σ |λ| over the eigenvalues of W_U W_OV W_E, from tokens to logits: 1 copies, −1 suppresses what is read.

    The (vocabulary, vocabulary) matrix W_U W_O W_V W_E has the nonzero eigenvalues of the (head, head) matrix
    W_V (W_E W_U) W_O, so only W_E W_U (model, model) and one small matrix per head are ever formed. This is the direct
    path: what later layers do to the output, and earlier ones to the input, is left out.

    Args:
        gain: whether the norms before attention and before the logits belong to the weights.

    Returns:
        (layer, head), float64.
    """
    through = _tokens_to_logits(view, gain)
    scores = torch.empty(view.layers, view.query_heads, dtype=torch.float64)
    for head in view.heads():
        weights = view.weights(head, gain)
        value, output = weights.value.double().cpu(), weights.output.double().cpu()
        eigenvalues = torch.linalg.eigvals(value @ through @ output)
        scores[head.layer, head.index] = eigenvalues.real.sum() / eigenvalues.abs().sum()
    return scores


def _tokens_to_logits(view: HeadView, gain: NormGain) -> Tensor:
    """W_Eᵀ W_U summed over the vocabulary: (model, model), rows read embeddings, float64 on the CPU."""
    embedding = matrix(view.model.get_input_embeddings())  # (token, model)
    unembedding = matrix(view.model.get_output_embeddings())
    norm = view.final_norm()
    total = torch.zeros(view.width, view.width, dtype=torch.float64)
    for start in range(0, len(embedding), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        read = unembedding[rows].to(embedding.device)
        read = norm.fold(read.to(norm.gain.device)).to(embedding) if gain is NormGain.folded else read
        wide = torch.promote_types(read.dtype, torch.float32)
        total += (embedding[rows].to(wide).T @ read.to(wide)).double().cpu()
    return total
