"""The rows of the benchmarks that a job asks about, posed under its protocol.

Covers where rows come from (a corpus job, a local mirror or the hub) and which fingerprints go with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compgen.errors import UserError
from compgen.evaluation.benchmarks import TEXT
from compgen.evaluation.code import posed as code
from compgen.evaluation.config import BenchmarkConfig, DataConfig
from compgen.evaluation.data import load_rows
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Sample
from compgen.run.context import FinishedJob

CORPUS = "composition_corpus"
FAMILIES = {"humaneval_plus": "HumanEval", "mbpp_plus": "Mbpp"}
"""What the ids of evalplus's rows begin with. How code is run is not looked at here: asking does not depend on it."""


@dataclass(frozen=True)
class Posed:
    """A benchmark's samples, and what they were made from."""

    samples: list[Sample]
    fingerprint: str
    rows: int
    """Of the whole benchmark."""


def source_of(inputs: Sequence[FinishedJob], data: DataConfig) -> Path | None:
    """The directory of the benchmarks; None is the hub.

    Raises:
        UserError: there are two corpus jobs among the inputs.
    """
    corpora = [job for job in inputs if job.kind == CORPUS]
    if len(corpora) > 1:
        raise UserError(f"inputs={[job.name for job in inputs]}: name one job of kind {CORPUS} only")
    if corpora:
        return corpora[0].directory / "benchmarks"
    return Path(data.directory) if data.directory else None


def pose(
    directory: Path | None, source: BenchmarkConfig, protocol: TaskProtocol, limit: int | None, generated: bool
) -> Posed:
    """The samples of one benchmark under a protocol.

    Args:
        directory: of the benchmarks, or None for the hub.
        source: the benchmark's record.
        protocol: names the benchmark and how it is posed.
        limit: only the first so many samples.
        generated: whether the rows are of our own making and have no recorded fingerprint.

    Raises:
        UserError: the rows cannot be had, or are not the recorded ones.
    """
    test = load_rows(directory, source, protocol.benchmark, "test", recorded=not generated)
    train: list[dict[str, Any]] = []
    if protocol.shots:
        train = load_rows(directory, source, protocol.benchmark, "train", recorded=not generated).rows
    if protocol.benchmark in FAMILIES:
        samples = code.as_samples(test.rows, FAMILIES[protocol.benchmark], protocol, limit)
    else:
        samples = TEXT[protocol.benchmark].samples(test.rows, train, protocol, limit)
    return Posed(samples, test.fingerprint, len(test.rows))
