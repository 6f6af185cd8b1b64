"""Job `composition_preflight`: says what the published models will need, and refuses when something is missing."""

import logging
from typing import Any

from huggingface_hub import HfApi

from compgen.errors import UserError
from compgen.evaluation.preflight import Machine, missing, needs
from compgen.evaluation.preflight_config import PreflightConfig
from compgen.run.context import JobContext
from compgen.weights.hub import Published, survey

logger = logging.getLogger(__name__)


def run(config: PreflightConfig, context: JobContext) -> dict[str, Any]:
    """Ask the hub and the machine; nothing is fetched.

    Raises:
        UserError: with everything that is missing, in one line.
    """
    published, problems = survey(config.models, HfApi())
    expected = {name: Published(model.expected_bytes, False) for name, model in config.models.items()}
    needed = needs(config, {**expected, **published})
    said = "needed: " + ", ".join(needed.sentences())
    logger.info(said)
    problems += missing(needed, Machine.here(context.directory))
    if problems:
        raise UserError("; ".join([said, *problems]))
    rows = [[name, hours] for name, hours in sorted(needed.hours_by_arm.items())]
    context.table("hours", ["protocol and arm", "GPU hours at most"], rows)
    sizes = {name: model.bytes for name, model in sorted(published.items())}
    return {"bytes": sizes, "disk": needed.disk, "gpu_memory": needed.gpu_memory, "gpu_hours": needed.gpu_hours}
