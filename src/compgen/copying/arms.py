"""Which training runs belong together: an arm is a set of runs that differ only in the seed."""

import re

from compgen.run.context import FinishedJob


def arm_name(job: FinishedJob) -> str:
    """The arm of a training run: its name without `train-` or `clamp-` and `-seed…`."""
    return re.sub(r"^(train|clamp)-|-seed\d+$", "", job.name)
