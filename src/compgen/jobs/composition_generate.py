"""Job `composition_generate`: the answers of some arms to some benchmarks under one protocol."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from compgen.evaluation.arms import available, load_arm, tokenizer_of
from compgen.evaluation.config import ArmConfig, GenerateConfig
from compgen.evaluation.decoding import DecodingOptions
from compgen.evaluation.generation import Answerer, in_order
from compgen.evaluation.posing import Posed, Questions
from compgen.evaluation.protocol import TaskProtocol
from compgen.evaluation.samples import Generation, generation_from, write_lines
from compgen.run.context import JobContext


@dataclass
class State:
    """What a killed job goes on from: finished units, and the finished batches of the current one."""

    done: dict[str, list[dict[str, Any]]]
    batches: int
    partial: list[dict[str, Any]]


def run(config: GenerateConfig, context: JobContext) -> dict[str, Any]:
    """Answer every sample with every arm; one file of JSON lines for each arm and benchmark."""
    inputs = list(context.inputs.values())
    specs = available(inputs, config.models)
    questions = Questions.of(inputs, config)
    saved = context.checkpoint.load()
    state = State(**saved) if saved else State({}, 0, [])
    metrics: dict[str, Any] = {}
    units = [(name, benchmark) for name in config.chosen for benchmark in config.benchmarks]
    loaded: tuple[str, Any, Any] | None = None
    for place, (name, benchmark) in enumerate(units):
        arm = config.arms[name]
        protocol = config.protocol.task(benchmark, bool(arm.experts))
        posed = questions.pose(protocol)
        unit = f"{name}/{benchmark}"
        if unit not in state.done:
            if loaded is None or loaded[0] != name:
                loaded = (name, load_arm(arm, specs, protocol.dtype, protocol.attention), tokenizer_of(specs, arm))
            answerer = Answerer(loaded[1], loaded[2], protocol.batch_size, _options(arm, protocol, config))
            _answer(unit, answerer, posed, state, context)
        generations = in_order(posed.samples, [generation_from(row) for row in state.done[unit]])
        _write(unit, generations, context)
        metrics[unit] = _counts(generations, posed, protocol)
        context.progress(place + 1, len(units), unit)
    _show(metrics, context)
    return {"seed": config.seed, "units": metrics}


def _options(arm: ArmConfig, protocol: TaskProtocol, config: GenerateConfig) -> DecodingOptions:
    return DecodingOptions(protocol.max_new_tokens, runs_on=config.runs_on, oracle_stop=arm.oracle_stop)


def _answer(unit: str, answerer: Answerer, posed: Posed, state: State, context: JobContext) -> None:
    """Answer the samples that a killed job has left."""
    for batch in answerer.answer(posed.samples, state.batches):
        state.partial += [asdict(generation) | {"token_ids": list(generation.token_ids)} for generation in batch]
        state.batches += 1
        if context.checkpoint.due():
            context.checkpoint.save(asdict(state))
    state.done[unit], state.batches, state.partial = state.partial, 0, []


def _write(unit: str, generations: list[Generation], context: JobContext) -> None:
    path = context.directory / "generations" / f"{unit}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_lines(path, generations)


def _counts(generations: list[Generation], posed: Posed, protocol: TaskProtocol) -> dict[str, Any]:
    lengths = [len(generation.token_ids) for generation in generations]
    return {
        "n": len(generations),
        "of": posed.rows,
        "stop_reasons": dict(sorted(Counter(generation.stop_reason.value for generation in generations).items())),
        "mean_new_tokens": sum(lengths) / len(lengths),
        "protocol": protocol.as_dict(),
        "protocol_digest": protocol.digest,
        "data_fingerprint": posed.fingerprint,
    }


def _show(metrics: dict[str, Any], context: JobContext) -> None:
    """A curve of answered samples, and the units as a table."""
    columns = ["arm", "benchmark", "n", "mean new tokens", *("end_token", "stop_string", "length")]
    rows = []
    for step, (unit, counts) in enumerate(metrics.items(), start=1):
        context.log({"generation/step": step, "generation/mean_new_tokens": counts["mean_new_tokens"]})
        arm, benchmark = unit.rsplit("/", 1)
        stops = [counts["stop_reasons"].get(reason, 0) for reason in columns[-3:]]
        rows.append([arm, benchmark, counts["n"], counts["mean_new_tokens"], *stops])
    context.table("units", columns, rows)
