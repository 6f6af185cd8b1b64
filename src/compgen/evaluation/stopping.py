"""How an answer stopped: before it had an answer, in time, or never.

Covers one answer at a time. What ended a generation was recorded while decoding; what a complete answer looks like is a
property of the benchmark.
"""

import re
from collections.abc import Mapping

from compgen.evaluation.samples import Generation, StopReason

COMPLETE: Mapping[str, re.Pattern[str]] = {
    "gsm8k": re.compile(r"####\s*-?\$?\d"),
    "sequences": re.compile(r"####\s*-?\d"),
    "math": re.compile(r"\\boxed\s*\{"),
    "records": re.compile(r"\}"),
    "humaneval_plus": re.compile(r"\breturn\b.*\S"),
    "mbpp_plus": re.compile(r"\breturn\b.*\S"),
}
"""What an answer holds once it is one."""


def stopping(benchmark: str, generation: Generation) -> dict[str, float]:
    """Whether the answer stopped too early or not at all, and how many characters follow on its first stop string.

    Returns:
        `premature`: an end token came before there was an answer; `no_stop`: the limit ended it; `end_token`: an end
        token ended it; each 0 or 1. `run_on`: the characters behind the cut.
    """
    complete = COMPLETE[benchmark].search(generation.text) is not None
    ended = generation.stop_reason is StopReason.end_token
    return {
        "premature": float(ended and not complete),
        "no_stop": float(generation.stop_reason is StopReason.length),
        "end_token": float(ended),
        "run_on": float(len(generation.raw_text) - len(generation.text)),
    }
