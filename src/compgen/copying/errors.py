"""What counts as an error of copying, in the authors' definition and in an aligned one.

Both look at the second copy after its first four tokens, which a copier needs to recognize the segment. The authors'
mask (dossier 1.4) marks those tokens' positions as *inputs*, so that the last prediction judged is the token after the
segment, which is background and cannot be copied: even a perfect copier errs on about 1/21 of the targets out of
distribution and 1/10 in distribution. The aligned mask marks them as *targets*: a perfect copier scores 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from compgen.copying.sequences import CopyBatch

SKIPPED = 4
"""Tokens at the start of a copy that are not judged (the authors' ignore_burning)."""
DEFINITIONS = ("aligned", "authors")
CHUNK = 250

Predict = Callable[[Tensor], Tensor]
"""Logits (sequence, position, vocabulary) for tokens (sequence, position)."""


@dataclass(frozen=True)
class Evaluation:
    """Counts for every sequence of a test set."""

    wrong: dict[str, Tensor]
    """By definition: (sequence,), wrong predictions."""
    judged: dict[str, Tensor]
    """By definition: (sequence,), judged predictions."""
    loss: Tensor
    """(sequence,), mean next-token cross-entropy over all positions, in nats."""
    offset_wrong: Tensor
    """(offset,), wrong predictions of the second copy's tokens by their position in the segment, all of them."""
    offset_judged: Tensor
    token_wrong: Tensor
    """(vocabulary,), wrong predictions by the token to be copied, aligned definition."""
    token_judged: Tensor

    def error(self, definition: str) -> float:
        """Share of wrong predictions over the whole set."""
        return float(self.wrong[definition].sum() / self.judged[definition].sum())

    def sequence_errors(self, definition: str) -> Tensor:
        """(sequence,), each sequence's own share of wrong predictions."""
        return self.wrong[definition] / self.judged[definition]


def judged_inputs(batch: CopyBatch, definition: str, copy: int = 1) -> Tensor:
    """The input positions whose prediction is judged, (sequence, position), for one copy counted from 0.

    Position t is judged by comparing the prediction made there with the token at t + 1.
    """
    first = batch.starts[:, copy, None] + SKIPPED
    stop = batch.starts[:, copy, None] + batch.lengths[:, None]
    if definition == "aligned":
        first, stop = first - 1, stop - 1
    elif definition != "authors":
        raise ValueError(f"no error definition {definition!r}")
    positions = torch.arange(batch.tokens.shape[1])
    return (positions >= first) & (positions < stop)


def evaluate(predict: Predict, batch: CopyBatch, vocabulary: int, copy: int = 1) -> Evaluation:
    """Judge the predictions on a test set, in chunks.

    Args:
        predict: the model, without dropout.
        batch: the test set.
        vocabulary: number of tokens.
        copy: which copy is judged, counted from 0.
    """
    parts = [_evaluate(predict, batch.rows(i, i + CHUNK), vocabulary, copy) for i in range(0, len(batch), CHUNK)]
    return Evaluation(
        wrong={name: torch.cat([part.wrong[name] for part in parts]) for name in DEFINITIONS},
        judged={name: torch.cat([part.judged[name] for part in parts]) for name in DEFINITIONS},
        loss=torch.cat([part.loss for part in parts]),
        offset_wrong=torch.stack([part.offset_wrong for part in parts]).sum(0),
        offset_judged=torch.stack([part.offset_judged for part in parts]).sum(0),
        token_wrong=torch.stack([part.token_wrong for part in parts]).sum(0),
        token_judged=torch.stack([part.token_judged for part in parts]).sum(0),
    )


@torch.no_grad()
def _evaluate(predict: Predict, batch: CopyBatch, vocabulary: int, copy: int) -> Evaluation:
    logits = predict(batch.tokens)[:, :-1]  # (sequence, position, vocabulary)
    targets = batch.tokens[:, 1:]
    wrong = logits.argmax(-1) != targets  # (sequence, position)
    masks = {name: judged_inputs(batch, name, copy)[:, :-1] for name in DEFINITIONS}
    loss = F.cross_entropy(logits.transpose(1, 2), targets, reduction="none").mean(1)
    offset = torch.arange(1, targets.shape[1] + 1) - batch.starts[:, copy, None]  # of the target in its segment
    inside = (offset >= 0) & (offset < batch.lengths[:, None])
    length = batch.tokens.shape[1]
    return Evaluation(
        wrong={name: (wrong & mask).sum(1).double() for name, mask in masks.items()},
        judged={name: mask.sum(1).double() for name, mask in masks.items()},
        loss=loss.double(),
        offset_wrong=torch.bincount(offset[inside & wrong], minlength=length),
        offset_judged=torch.bincount(offset[inside], minlength=length),
        token_wrong=torch.bincount(targets[masks["aligned"] & wrong], minlength=vocabulary),
        token_judged=torch.bincount(targets[masks["aligned"]], minlength=vocabulary),
    )
