"""Every benchmark by name: how it is posed, and how answers to it are judged. One file each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compgen.evaluation.benchmarks import gsm8k, math, records
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Sample, Score

Row = dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """Two functions that know the same rows."""

    samples: Callable[[Sequence[Row], Sequence[Row], TaskProtocol, int | None], list[Sample]]
    """From test rows, train rows, a protocol and a limit."""
    score: Callable[[Sequence[Sample], Sequence[Generation], TaskProtocol], list[Score]]


TEXT: Mapping[str, Benchmark] = {
    "gsm8k": Benchmark(gsm8k.samples, gsm8k.score),
    "sequences": Benchmark(gsm8k.samples, gsm8k.score),
    "math": Benchmark(math.samples, math.score),
    "records": Benchmark(records.samples, records.score),
}
"""Those whose answers are read as text. Code is judged in a sandbox: see evaluation/code/."""
