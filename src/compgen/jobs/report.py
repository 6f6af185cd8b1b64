"""The report of a run: claims, verdicts, figures, page. It must also be written where jobs are missing."""

from pathlib import Path
from typing import Any

from compgen.report.claims import load_claims
from compgen.report.config import ReportJobConfig
from compgen.report.contents import CONTENTS
from compgen.report.figure import RunTree
from compgen.report.page import write_report
from compgen.run.context import JobContext


def run(config: ReportJobConfig, context: JobContext) -> dict[str, Any]:
    """Write the report from the inputs, which are the jobs whose results stand; returns the counts of verdicts."""
    standing = frozenset(f"{job.directory.parent.name}/{job.directory.name}" for job in context.inputs.values())
    tree = RunTree(Path(config.run_directory).absolute(), config.profile, standing, config.run_name)
    claims = load_claims(Path(config.reference_directory))
    counts = write_report(tree, claims, CONTENTS, context.directory)
    context.progress(len(CONTENTS), len(CONTENTS), "sections")
    return {"verdicts": counts, "claims": len(claims), "jobs": len(tree.finished)}
