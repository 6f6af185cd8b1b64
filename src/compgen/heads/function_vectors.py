"""Function-vector heads, the rival explanation of in-context learning: heads whose output at the last position carries
the task from informative prompts into prompts whose demonstrations say nothing.

A head's score is the gain in log probability of the right answer on an uninformative prompt when the head's output at
the last position is replaced by its mean over informative prompts. Two versions: `exact_scores` patches one head at a
time; `first_order_scores` takes the gradient at the unpatched output times the change, for all heads at once.
A change at the last position reaches no earlier one, so the positions before it are run once and kept in a cache, and
only the last is run again: this is exact, and a patched pass costs one token.
Covers answers of one token (or the first token of longer ones). How prompts are made is not covered here.
Sources: Todd et al. 2024 (who take the gain in probability); Yin and Steinhardt 2025 (these heads against induction
heads); the first order is attribution patching, Nanda 2023.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import Cache, DynamicCache

from compgen.errors import UserError, require
from compgen.heads.scores import Progress, no_progress
from compgen.heads.views import Head, HeadView

Change = Callable[[int, Tensor], Tensor]
"""From a layer and its head outputs at the last position (row, head, head width) to what is used instead."""


@dataclass(frozen=True)
class PromptPair:
    """One question with demonstrations that show the task and with demonstrations that do not, without padding."""

    informative: Tensor
    """(position,): token ids."""
    uninformative: Tensor
    """(position,): the same with shuffled answers; it may be of another length."""
    answer: int
    """The token that the task asks for."""

    def __post_init__(self) -> None:
        """Refuse what is not two sequences."""
        for name in ("informative", "uninformative"):
            tokens: Tensor = getattr(self, name)
            require(tokens.ndim == 1 and len(tokens) > 0, name, tuple(tokens.shape), "give one sequence of token ids")


@dataclass(frozen=True)
class _Prompt:
    """A sequence whose positions before the last have been run."""

    cache: Cache | None
    """None for a sequence of one token."""
    last: Tensor
    """(1, 1)"""


# ---- scores --------------------------------------------------------------------------------------------------------
def mean_last_outputs(view: HeadView, sequences: Sequence[Tensor]) -> Tensor:
    """The mean output of every head at the last position of informative prompts.

    Args:
        view: of the model.
        sequences: token ids, each (position,), of any lengths.

    Returns:
        (layer, head, head width), before the output projection, float64 on the CPU.

    Raises:
        ConfigError: there are no sequences.
        UserError: the model is in training mode.
    """
    _require_evaluation(view)
    require(len(sequences) > 0, "sequences", 0, "give at least one informative prompt")
    total = torch.zeros(view.layers, view.query_heads, view.head_width, dtype=torch.float64)

    def add(layer: int, outputs: Tensor) -> Tensor:
        total[layer] += outputs[0].double().cpu()
        return outputs

    with torch.no_grad():
        for tokens in sequences:
            prompt = _prepare(view, tokens)
            with _changing(view, add):
                _last_logits(view, prompt, rows=1)
    return total / len(sequences)


@torch.no_grad()
def exact_scores(
    view: HeadView,
    pairs: Sequence[PromptPair],
    mean: Tensor | None = None,
    fraction: float = 1.0,
    batch_size: int = 32,
    progress: Progress = no_progress,
) -> Tensor:
    """The gain in log probability of the answer when one head at a time is patched.

    Args:
        view: of the model.
        pairs: prompts.
        mean: (layer, head, head width), see `mean_last_outputs`; None takes it over the pairs' own informative prompts.
        fraction: how far to move from the head's own output (0) to the mean (1).
        batch_size: patched heads in one pass.
        progress: called after each pair with how many are done and how many there are.

    Returns:
        (pair, layer, head), float64 on the CPU; `compgen.heads.ranking.ranked` ranks heads with intervals over pairs.

    Raises:
        ConfigError: there are no pairs, or the mean has another shape.
        UserError: the model is in training mode.
    """
    target = _checked_mean(view, pairs, mean)
    scores = torch.empty(len(pairs), view.layers * view.query_heads, dtype=torch.float64)
    for row, pair in enumerate(pairs):
        prompt = _prepare(view, pair.uninformative)
        before = _log_probability(_last_logits(view, prompt, rows=1), pair.answer)
        for start in range(0, scores.shape[1], batch_size):
            heads = view.heads()[start : start + batch_size]
            with _changing(view, _one_head_each(heads, target, fraction)):
                after = _log_probability(_last_logits(view, prompt, len(heads)), pair.answer)
            scores[row, start : start + len(heads)] = (after - before).cpu()
        progress(row + 1, len(pairs))
    by_head: Tensor = scores.unflatten(1, (view.layers, view.query_heads))
    return by_head


def first_order_scores(
    view: HeadView, pairs: Sequence[PromptPair], mean: Tensor | None = None, progress: Progress = no_progress
) -> Tensor:
    """The same to first order in the change: one forward and one backward pass for each pair, for all heads.

    Arguments, result and errors are those of `exact_scores`. Close where a patch moves the answer little; the norm of
    a whole patch may be too large for that, so heads that matter are to be confirmed with `exact_scores`.
    """
    target = _checked_mean(view, pairs, mean)
    rows = []
    for row, pair in enumerate(pairs):
        rows.append(_first_order(view, _prepare(view, pair.uninformative), pair.answer, target))
        progress(row + 1, len(pairs))
    return torch.stack(rows)


def _first_order(view: HeadView, prompt: _Prompt, answer: int, target: Tensor) -> Tensor:
    """The scores of one prompt: (layer, head)."""
    own: dict[int, Tensor] = {}
    shifts: dict[int, Tensor] = {}

    def shift(layer: int, outputs: Tensor) -> Tensor:
        own[layer] = outputs.detach()
        # a leaf of zeros has the gradient of the outputs, also where the model's parameters are frozen
        shifts[layer] = torch.zeros_like(outputs, requires_grad=True)
        return outputs + shifts[layer]

    with torch.enable_grad(), _changing(view, shift):
        value = _log_probability(_last_logits(view, prompt, rows=1), answer).sum()
        order = range(view.layers)
        gradients = torch.autograd.grad(value, [shifts[layer] for layer in order])
    changes = [target[layer] - own[layer][0].double().cpu() for layer in order]
    products = [gradient[0].double().cpu() * change for gradient, change in zip(gradients, changes, strict=True)]
    return torch.stack(products).sum(-1)


def _checked_mean(view: HeadView, pairs: Sequence[PromptPair], mean: Tensor | None) -> Tensor:
    _require_evaluation(view)
    require(len(pairs) > 0, "pairs", 0, "give at least one pair of prompts")
    found = mean_last_outputs(view, [pair.informative for pair in pairs]) if mean is None else mean
    expected = (view.layers, view.query_heads, view.head_width)
    require(tuple(found.shape) == expected, "mean", tuple(found.shape), f"layers, heads and head width are {expected}")
    return found.double().cpu()


def _require_evaluation(view: HeadView) -> None:
    if view.model.training:
        raise UserError("the model is in training mode, whose outputs have dropout: call model.eval()")


def _one_head_each(heads: Sequence[Head], target: Tensor, fraction: float) -> Change:
    """In each row another head is moved towards its mean."""

    def change(layer: int, outputs: Tensor) -> Tensor:
        rows = [row for row, head in enumerate(heads) if head.layer == layer]
        indices = [heads[row].index for row in rows]
        changed = outputs.clone()
        own = outputs[rows, indices].double()  # (row, head width)
        changed[rows, indices] = (own + fraction * (target[layer, indices].to(own) - own)).to(outputs)
        return changed

    return change


# ---- running the last position -------------------------------------------------------------------------------------
@torch.no_grad()
def _prepare(view: HeadView, tokens: Tensor) -> _Prompt:
    """Run all positions but the last."""
    row = tokens[None].to(view.model.device)
    if row.shape[1] == 1:
        return _Prompt(None, row)
    cache = DynamicCache(config=view.model.config)
    view.decoder(row[:, :-1], cache=cache, use_cache=True)
    return _Prompt(cache, row[:, -1:])


def _last_logits(view: HeadView, prompt: _Prompt, rows: int) -> Tensor:
    """The logits after the last token, in as many equal rows as asked for: (row, token)."""
    last = prompt.last.expand(rows, -1)
    if prompt.cache is None:
        return view.model(last, use_cache=False).logits[:, -1]  # type: ignore[no-any-return]
    cache = copy.deepcopy(prompt.cache)  # a pass adds its token to the cache
    cache.batch_repeat_interleave(rows)
    return view.model(last, cache=cache, use_cache=True).logits[:, -1]  # type: ignore[no-any-return]


def _log_probability(logits: Tensor, answer: int) -> Tensor:
    """Of the answer: (row,), in at least single precision."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    return logits.to(wide).log_softmax(-1)[:, answer].double()


@contextmanager
def _changing(view: HeadView, change: Change) -> Iterator[None]:
    """Inside the block every layer's head outputs at the last position pass through `change`."""

    def hook(layer: int) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor, ...]]:
        def apply(module: nn.Module, arguments: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            del module
            mixed, *others = arguments  # (row, 1, query heads · head width)
            outputs = mixed[:, -1].unflatten(-1, (view.query_heads, -1))
            return (change(layer, outputs).flatten(-2)[:, None], *others)

        return apply

    with ExitStack() as hooks:
        for layer in range(view.layers):
            hooks.callback(view.mixer(layer).register_forward_pre_hook(hook(layer)).remove)
        yield
