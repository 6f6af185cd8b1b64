"""The questions that a job asks: where their rows come from, and how a protocol poses them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compgen.evaluation.benchmarks import TEXT
from compgen.evaluation.code import posed as code
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Sample
from compgen.inputs import CORPUS, of_kind, only
from compgen.questions.config import BenchmarkConfig, DataConfig
from compgen.questions.rows import load_rows
from compgen.run.context import FinishedJob

SAMPLES = {
    **{name: benchmark.samples for name, benchmark in TEXT.items()},
    **dict.fromkeys(code.FAMILIES, code.samples),
}
"""How every benchmark is posed, by name."""


class Asking(Protocol):
    """What the configurations of jobs that ask questions have in common."""

    data: DataConfig
    sources: dict[str, BenchmarkConfig]
    limit: int | None


@dataclass(frozen=True)
class Posed:
    """A benchmark's samples, and what they were made from."""

    samples: list[Sample]
    fingerprint: str
    rows: int
    """Of the whole benchmark."""


@dataclass(frozen=True)
class Questions:
    """The benchmarks of a job: generated ones of a corpus job among its inputs, a local mirror, or the hub."""

    directory: Path | None
    """None is the hub."""
    generated: bool
    """Whether the rows are of our own making and have no recorded fingerprint."""
    sources: Mapping[str, BenchmarkConfig]
    limit: int | None

    @classmethod
    def of(cls, inputs: Sequence[FinishedJob], config: Asking) -> "Questions":
        """Those of a job with these inputs and this configuration.

        Raises:
            UserError: there are two corpus jobs among the inputs.
        """
        if of_kind(inputs, CORPUS):
            return cls(only(inputs, CORPUS).directory / "benchmarks", True, config.sources, config.limit)
        directory = Path(config.data.directory) if config.data.directory else None
        return cls(directory, False, config.sources, config.limit)

    def pose(self, protocol: TaskProtocol) -> Posed:
        """The samples of one benchmark under a protocol.

        Raises:
            UserError: the rows cannot be had, or are not the recorded ones.
        """
        name = protocol.benchmark
        recorded = not self.generated
        test = load_rows(self.directory, self.sources[name], name, "test", recorded)
        train = load_rows(self.directory, self.sources[name], name, "train", recorded).rows if protocol.shots else []
        return Posed(SAMPLES[name](test.rows, train, protocol, self.limit), test.fingerprint, len(test.rows))
