"""Other packages' command lines in a process whose Auto classes know composed models.

`python -m compgen tool lm-eval run --model hf --model_args pretrained=DIRECTORY …` is `lm-eval run …`, and likewise
`evalplus.codegen`, `evalplus.evaluate` and `evalplus.sanitize`. evalplus runs model-written code without a sandbox; our
own scoring does not (evaluation/code).
"""

import os
import runpy
import sys
from collections.abc import Sequence

from compgen.errors import UserError

TOOLS = {
    "lm-eval": "lm_eval",
    "evalplus.codegen": "evalplus.codegen",
    "evalplus.evaluate": "evalplus.evaluate",
    "evalplus.sanitize": "evalplus.sanitize",
}
"""The name on the command line and the module that runs."""


def run_tool(arguments: Sequence[str]) -> None:
    """Run a tool with its own arguments.

    Raises:
        UserError: the tool is not known.
        SystemExit: as the tool leaves.
    """
    if not arguments or arguments[0] not in TOOLS:
        raise UserError(f"tool {' '.join(arguments[:1]) or '(none)'}: choose one of {', '.join(TOOLS)}")
    from compgen.composition.registration import register

    register()
    # its memory limit counts this whole process, so that with torch loaded every solution would fail
    os.environ.setdefault("EVALPLUS_MAX_MEMORY_BYTES", "-1")
    before = sys.argv
    sys.argv = list(arguments)
    try:
        runpy.run_module(TOOLS[arguments[0]], run_name="__main__")
    finally:
        sys.argv = before
