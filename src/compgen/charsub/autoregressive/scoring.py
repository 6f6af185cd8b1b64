"""How good free-running outputs are: exact match, regions, and where they stop.

Covers one arm on one set of strings. Sweeps are in evaluation.py.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from torch import Tensor

from compgen.charsub.autoregressive.sequences import END


class StopReason(StrEnum):
    """How an output ends."""

    right = "right"
    """EOS after as many symbols as x has."""
    premature = "premature"
    late = "late"
    none = "none"
    """No EOS within the overrun."""


@dataclass(frozen=True)
class Score:
    """One arm's outputs against what was asked for."""

    exact: Tensor
    """(string,), y and the stop both right."""
    symbol_right: Tensor
    """(string, length); symbols that were never written are wrong."""
    active: Tensor
    """(string, length), where the task changes the symbol."""
    stop_error: Tensor
    """(string,), symbols written minus symbols asked for; the whole overrun where there was no EOS."""
    stopped: Tensor
    """(string,), whether there was an EOS."""

    def reasons(self) -> list[StopReason]:
        """How each output ended."""
        pairs = zip(self.stop_error.tolist(), self.stopped.tolist(), strict=True)
        return [_reason(error, stopped) for error, stopped in pairs]

    def summary(self) -> dict[str, Any]:
        """Plain numbers: rates, and accuracies per region (None where the region is empty)."""
        early, over = self.stop_error < 0, self.stop_error > 0
        return {
            "n": len(self.exact),
            "exact": _rate(self.exact),
            "active_accuracy": _rate(self.symbol_right[self.active]),
            "inactive_accuracy": _rate(self.symbol_right[~self.active]),
            "premature": _rate(early),
            "late": _rate(over & self.stopped),
            "no_stop": _rate(~self.stopped),
            "stop_error": float(self.stop_error.double().mean()),
            "absolute_stop_error": float(self.stop_error.abs().double().mean()),
        }


def score(outputs: Tensor, strings: Tensor, answers: Tensor, accepted: Tensor | None = None) -> Score:
    """Score outputs.

    Args:
        outputs: (string, step), filled up with EOS after the first.
        strings: (string, length), x.
        answers: (string, length), y.
        accepted: (string, length), a second answer that counts as well; None for no other than `answers`.
    """
    length = strings.shape[1]
    written = outputs[:, :length]
    right = written == answers
    if accepted is not None:
        right |= written == accepted
    symbols = (outputs == END).long().cumsum(1).eq(0).sum(1)
    exact = right.all(1) & (symbols == length)
    active = answers != strings
    return Score(exact, right, active, symbols - length, symbols < outputs.shape[1])


def _rate(values: Tensor) -> float | None:
    return float(values.double().mean()) if values.numel() else None


def _reason(error: int, stopped: bool) -> StopReason:
    if not stopped:
        return StopReason.none
    if error == 0:
        return StopReason.right
    return StopReason.premature if error < 0 else StopReason.late
