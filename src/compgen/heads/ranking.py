"""Ranked lists of heads as plain JSON values, with intervals over sequences, and the authors' published lists.

A list is ordered by score, highest first; ties go to the lower layer and then the lower head.
"""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from compgen.errors import UserError
from compgen.heads.repeated import Repeated
from compgen.heads.scores import Definition, Scores
from compgen.heads.views import Head
from compgen.statistics import RESAMPLES, FloatArray, bootstrap_mean

HEADS_AT_ONCE = 256
"""How many heads are resampled together, which bounds memory."""


def ranked(scores: Tensor, seed: int = 0, resamples: int = RESAMPLES) -> list[dict[str, Any]]:
    """Heads by their mean score over sequences.

    Args:
        scores: (sequence, layer, head) with intervals over sequences, or (layer, head) for scores without any.
        seed: of the bootstrap.
        resamples: of the bootstrap.

    Returns:
        One dict for each head: `layer`, `head`, `score`, and `interval` (`low`, `high`, `method`) or None.
    """
    values = np.asarray(scores.numpy(), dtype=np.float64)
    layers, heads = values.shape[-2:]
    means = values.reshape(-1, layers * heads).mean(axis=0)
    intervals = mean_intervals(values.reshape(-1, layers * heads), seed, resamples) if values.ndim == 3 else None
    order = np.argsort(-means, kind="stable")  # stable: ties keep the order of layers and heads
    return [
        {
            "layer": int(place) // heads,
            "head": int(place) % heads,
            "score": float(means[place]),
            "interval": None if intervals is None else intervals[place],
        }
        for place in order
    ]


def head_lists(scores: Scores, repeated: Repeated, definition: Definition, seed: int = 0) -> dict[str, Any]:
    """The ranked lists of one measurement with what they were measured on.

    Args:
        scores: from `attention_scores` on `repeated`.
        seed: of the bootstrap.
    """
    return {
        "definition": definition.value,
        "sequences": len(repeated.tokens),
        "segment": repeated.segment,
        "beginning": repeated.beginning,
        "lists": {kind: ranked(values, seed) for kind, values in scores.items()},
    }


def top_heads(ranking: Sequence[dict[str, Any]], count: int | None = None) -> list[Head]:
    """The first heads of a ranked list; None gives all."""
    return [Head(row["layer"], row["head"]) for row in ranking[:count]]


def mean_intervals(values: FloatArray, seed: int = 0, resamples: int = RESAMPLES) -> list[dict[str, Any]]:
    """Percentile bootstrap of the mean of every column, the same resamples of rows for all.

    What `compgen.statistics.bootstrap_mean` gives for each column, in one product of matrices.

    Args:
        values: (unit, column).
    """
    units, columns = values.shape
    if units == 1:
        return [bootstrap_mean(values[:, column]).as_dict() for column in range(columns)]
    picks = np.random.default_rng(seed).integers(0, units, (resamples, units))
    rows = np.arange(resamples)[:, None]
    counts = np.bincount((rows * units + picks).ravel(), minlength=resamples * units).reshape(resamples, units)
    shares = counts / units  # (resample, unit)
    bounds = [
        np.quantile(shares @ values[:, start : start + HEADS_AT_ONCE], [0.025, 0.975], axis=0)
        for start in range(0, columns, HEADS_AT_ONCE)
    ]
    method = f"percentile bootstrap over {units} values, 95 %"
    pairs = np.concatenate(bounds, axis=1).T  # (column, 2)
    return [{"low": float(low), "high": float(high), "method": method} for low, high in pairs]


def read_authors_list(path: Path) -> list[dict[str, Any]]:
    """A list that the authors published, as a ranked list without intervals.

    Args:
        path: gzipped JSON, a list of one-entry objects {"rank": [layer, head, score]}.

    Raises:
        UserError: the file is missing or is something else.
    """
    try:
        rows = [next(iter(row.values())) for row in json.loads(gzip.decompress(path.read_bytes()))]
        return [{"layer": int(layer), "head": int(head), "score": float(score)} for layer, head, score in rows]
    except (OSError, ValueError, AttributeError, TypeError, StopIteration) as error:
        raise UserError(f"{path}: not a published list of heads ({error})") from error
