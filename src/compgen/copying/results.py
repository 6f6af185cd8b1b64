"""What a training run leaves of its final evaluation: shares in its metrics, counts of every sequence in a file.

Intervals are computed from the counts where results are put together (`summary.py`), so that a change of statistics
does not ask for training again.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from compgen.copying.errors import DEFINITIONS, Evaluation

COUNTS = "sequence-counts.safetensors"


def final_metrics(evaluations: Mapping[str, Evaluation], steps: int) -> dict[str, Any]:
    """Errors and losses of every test set, and errors by position and token."""
    return {"steps": steps, "final": {name: _metrics(evaluation) for name, evaluation in evaluations.items()}}


def save_counts(evaluations: Mapping[str, Evaluation], directory: Path) -> None:
    """Store wrong and judged predictions of every test sequence."""
    counts = {}
    for name, evaluation in evaluations.items():
        for kind in DEFINITIONS:
            counts[f"{name}_{kind}_wrong"] = evaluation.wrong[kind]
            counts[f"{name}_{kind}_judged"] = evaluation.judged[kind]
    save_file(counts, directory / COUNTS)


def load_counts(directory: Path, test_set: str, definition: str) -> tuple[Tensor, Tensor]:
    """Wrong and judged predictions, each (sequence,), of a finished run."""
    counts = load_file(directory / COUNTS)
    return counts[f"{test_set}_{definition}_wrong"], counts[f"{test_set}_{definition}_judged"]


def _metrics(evaluation: Evaluation) -> dict[str, Any]:
    return {
        **{kind: {"value": evaluation.error(kind), "n": int(evaluation.judged[kind].sum())} for kind in DEFINITIONS},
        "sequences": len(evaluation.loss),
        "loss": float(evaluation.loss.mean()),
        "error_by_offset": _shares(evaluation.offset_wrong, evaluation.offset_judged),
        "error_by_token": _shares(evaluation.token_wrong, evaluation.token_judged),
    }


def _shares(wrong: Tensor, judged: Tensor) -> dict[str, list[Any]]:
    """Share wrong and number judged by index; None where nothing was judged."""
    pairs = zip(wrong.tolist(), judged.tolist(), strict=True)
    return {"error": [w / n if n else None for w, n in pairs], "n": judged.tolist()}
