"""Job `composition_diagnose`: what the components said along the stored answers of some arms; nothing is generated."""

from collections.abc import Sequence
from typing import Any

from compgen.errors import UserError
from compgen.evaluation.arms import available, load_arm, tokenizer_of
from compgen.evaluation.config import ArmConfig, generate_config
from compgen.evaluation.diagnosed import FEATURES, Items, write_items
from compgen.evaluation.diagnosing import Answer, answers_of, item_features
from compgen.evaluation.diagnosing_config import DiagnoseConfig
from compgen.evaluation.posing import Questions
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.results import protocol_from
from compgen.evaluation.samples import read_generations
from compgen.inputs import GENERATE, of_kind
from compgen.run.context import FinishedJob, JobContext

LOWEST_AGREEMENT = 0.9
"""Of the answers' tokens and what the components choose now. Rounding in half precision moves few of them."""


def run(config: DiagnoseConfig, context: JobContext) -> dict[str, Any]:
    """Diagnose every arm on every benchmark; one file of JSON lines for each, the means among the metrics."""
    state = context.checkpoint.load() or {}
    units = [(arm, benchmark) for arm in config.arms for benchmark in config.benchmarks]
    metrics: dict[str, Any] = {}
    loaded: tuple[str, Any, Any] | None = None
    for place, (name, benchmark) in enumerate(units):
        unit = f"{name}/{benchmark}"
        job = _answered(name, benchmark, config.seed, list(context.inputs.values()))
        protocol = protocol_from(job.metrics["units"][unit]["protocol"])
        if unit not in state:
            if loaded is None or loaded[0] != name:
                loaded = (name, *_load(arm_of(job, name), protocol, config, context))
            state[unit] = _diagnose(job, unit, protocol, loaded[1:], config, context)
            if context.checkpoint.due():
                context.checkpoint.save(state)
        _require_agreement(arm_of(job, name), unit, state[unit])
        file = f"items/{unit}.jsonl"
        write_items(context.directory / file, state[unit])
        facts = {"arm": name, "benchmark": benchmark, "file": file, "protocol_name": job.config["protocol"]["name"]}
        metrics[unit] = {**facts, "protocol_digest": protocol.digest, **_means(state[unit])}
        context.progress(place + 1, len(units), unit)
    _show(metrics, context)
    return {"seed": config.seed, "units": metrics}


def _answered(arm: str, benchmark: str, seed: int, inputs: Sequence[FinishedJob]) -> FinishedJob:
    """The one generation job that has the arm's answers."""
    unit = f"{arm}/{benchmark}"
    found = [job for job in of_kind(inputs, GENERATE) if unit in job.metrics["units"]]
    if len(found) != 1:
        names = ", ".join(job.name for job in found) or "none"
        raise UserError(f"inputs: {unit} needs one job of kind {GENERATE} that answered it, there are: {names}")
    if int(found[0].metrics["seed"]) != seed:
        raise UserError(f"inputs: {found[0].name} has seed {found[0].metrics['seed']}, this job seed={seed}")
    return found[0]


def arm_of(job: FinishedJob, name: str) -> ArmConfig:
    """An arm as it was when a generation job answered with it.

    Raises:
        UserError: it has no experts.
    """
    arm = generate_config(job.config).arms[name]
    if not arm.experts:
        raise UserError(f"arms={name}: a single model has nothing to diagnose, name arms with experts")
    return arm


def _load(arm: ArmConfig, protocol: TaskProtocol, config: DiagnoseConfig, context: JobContext) -> tuple[Any, Any]:
    specs = available(list(context.inputs.values()), config.models)
    return load_arm(arm, specs, protocol.dtype, protocol.attention), tokenizer_of(specs, arm)


def _diagnose(
    job: FinishedJob,
    unit: str,
    protocol: TaskProtocol,
    loaded: tuple[Any, Any],
    config: DiagnoseConfig,
    context: JobContext,
) -> Items:
    inputs = list(context.inputs.values())
    posed = Questions.of(inputs, config).pose(protocol)
    model, tokenizer = loaded
    stored = read_generations(job.directory / "generations" / f"{unit}.jsonl")
    answers: list[Answer] = answers_of(tokenizer, posed.samples, stored)
    padding = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else model.end_tokens[0]
    return item_features(model, answers, padding, protocol.batch_size)


def _require_agreement(arm: ArmConfig, unit: str, items: Items) -> None:
    """Refuse components that would not have written the answers; an oracle's answers go on where they would end."""
    agreement = _agreement(items)
    if agreement is not None and agreement < LOWEST_AGREEMENT and not arm.oracle_stop:
        raise UserError(
            f"{unit}: the components choose only {agreement:.0%} of the stored tokens: "
            "name the base and the experts that the arm answered with"
        )


def _agreement(items: Items) -> float | None:
    """Over tokens, not over answers."""
    tokens = sum(item["length"] for item in items.values())
    return sum(item["agreement"] * item["length"] for item in items.values()) / tokens if tokens else None


def _means(items: Items) -> dict[str, Any]:
    means = {name: sum(item[name] for item in items.values()) / len(items) if items else None for name in FEATURES}
    return {"n": len(items), "agreement": _agreement(items), "means": means}


def _show(metrics: dict[str, Any], context: JobContext) -> None:
    columns = ["arm", "benchmark", "n", "agreement", *FEATURES]
    rows = []
    for step, facts in enumerate(metrics.values(), start=1):
        if facts["n"]:
            shown = {f"diagnosis/{name}": value for name, value in facts["means"].items()}
            context.log({"diagnosis/step": step, **shown})
        rows.append([*(facts[name] for name in columns[:4]), *facts["means"].values()])
    context.table("units", columns, rows)
