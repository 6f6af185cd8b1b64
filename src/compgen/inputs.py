"""Finding finished jobs among a job's inputs."""

from collections.abc import Iterable

from compgen.errors import UserError
from compgen.run.context import FinishedJob

CORPUS = "composition_corpus"
PRETRAIN = "composition_pretrain"
FINETUNE = "composition_finetune"
MERGE = "composition_merge"
GENERATE = "composition_generate"
SCORE = "composition_score"
DIAGNOSE = "composition_diagnose"
FETCH = "model_fetch"
HEADS_SCORES = "heads_scores"
HEADS_REMOVAL = "heads_removal"
HEADS_BRIDGE = "heads_bridge"


def of_kind(inputs: Iterable[FinishedJob], kind: str) -> list[FinishedJob]:
    """The jobs of one kind, in order."""
    return [job for job in inputs if job.kind == kind]


def only(inputs: Iterable[FinishedJob], kind: str) -> FinishedJob:
    """The one job of a kind.

    Raises:
        UserError: there is none, or more than one.
    """
    jobs = list(inputs)
    found = of_kind(jobs, kind)
    if len(found) != 1:
        raise UserError(f"inputs={[job.name for job in jobs]}: name exactly one finished job of kind {kind}")
    return found[0]
