"""HumanEval+: a signature with a docstring is continued; evalplus's base and further tests decide.

Rows, tests and comparisons are evalplus's (version 0.1.10 of the data, 164 rows). Scoring is in `scoring.py`.
"""

from collections.abc import Sequence

from compgen.evaluation.code.posed import Row, as_samples
from compgen.evaluation.code.scoring import CodeScoring, score_code
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, Sample, Score

BENCHMARK, FAMILY = "humaneval_plus", "HumanEval"


def samples(test: Sequence[Row], train: Sequence[Row], protocol: TaskProtocol, limit: int | None) -> list[Sample]:
    """The functions to be written, under a protocol.

    Raises:
        ConfigError: the protocol has shots, or a prompt format that does not exist.
        UserError: a row is not one of HumanEval+.
    """
    assert not train, "code is posed without shots"
    return as_samples(test, FAMILY, protocol, limit)


def score(
    asked: Sequence[Sample], generations: Sequence[Generation], protocol: TaskProtocol, options: CodeScoring
) -> list[Score]:
    """The scores of one arm; see `score_code`, which takes many at once."""
    return score_code(BENCHMARK, [(asked, generations, protocol)], options)[0]
