"""Which training runs belong together: an arm is a set of runs that differ only in the seed."""

import re
from collections.abc import Sequence

from compgen.run.context import FinishedJob


def common_step(kept: Sequence[Sequence[int]]) -> int:
    """The last step at which every run has something: seeds are compared there, however long some go on.

    Args:
        kept: by run, the steps at which it has weights or errors.

    Raises:
        ValueError: the runs have no step in common.
    """
    return max(set(kept[0]).intersection(*kept[1:]))


def arm_name(job: FinishedJob) -> str:
    """The arm of a training run: its name without `train-` or `clamp-` and `-seed…`."""
    return re.sub(r"^(train|clamp)-|-seed\d+$", "", job.name)
