"""Everything that is measured on the models of one seed, and the outcome of every test string for later statistics."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from compgen.charsub.authors.components import Components, expected, log_probabilities, right_symbols
from compgen.charsub.authors.interactions import chained, overlapping, twice, two_for_one
from compgen.charsub.authors.prediction import SEEN, observe, predict
from compgen.charsub.authors.stacks import draw_strings, load_models, model_shape
from compgen.charsub.authors.sweep import diagnose_paper_rule, merged_answers, off_task, right_by_arm
from compgen.charsub.authors_config import TRAINED_PAIR, CharsubEvaluateConfig, Start, stack_rules
from compgen.charsub.model import Parameters, select
from compgen.charsub.rules import IDENTITY, Rule, decode, encode, parse_rule, together
from compgen.composition.options import CompositionRule
from compgen.composition.rule import compose
from compgen.run.context import JobContext

NOTEBOOK_COMPOSED = ("AMMA", "HELLO", "MAP", "GAMMA", "AAA MMM", "TEST AM")
NOTEBOOK_SINGLE = "AMMA TEST"
TRAINING_LENGTH = 16
"""The authors' training length, at which errors, diagnostics and the break are measured."""

Outcomes = dict[str, NDArray[np.int8]]
"""Right symbols before the first wrong one by name, (string,) or (k, string): see `right_symbols`."""


@dataclass(frozen=True)
class Evaluated:
    """What one seed gives."""

    metrics: dict[str, Any]
    outcomes: Outcomes


def evaluate_seed(config: CharsubEvaluateConfig, seed: int, context: JobContext) -> Evaluated:
    """Measure the models of one seed, scratch and fine-tuned."""
    strings = draw_strings(config.evaluation.strings, config.evaluation.length, seed, "test strings")
    metrics: dict[str, Any] = {"notebook": _notebook(config, seed, context)}
    outcomes: Outcomes = {}
    for start in Start:
        found = _evaluate_start(config, seed, start, strings, context)
        metrics[start.value] = found.metrics
        outcomes |= {f"{start.value}/{name}": value for name, value in found.outcomes.items()}
    return Evaluated(metrics, outcomes)


def _evaluate_start(
    config: CharsubEvaluateConfig, seed: int, start: Start, strings: Tensor, context: JobContext
) -> Evaluated:
    shape, chosen = model_shape(config.model), config.evaluation
    rules = [rule for rule in stack_rules(_stack(config, start)) if rule != IDENTITY]
    base = load_models(context.inputs, Start.scratch, seed, [IDENTITY])
    experts = load_models(context.inputs, start, seed, rules)
    components = Components(
        strings,
        log_probabilities(base, shape, strings)[0],
        log_probabilities(experts, shape, strings),
        tuple(rules),
    )
    order = [parse_rule(text, "experts") for text in chosen.experts]
    swept = components.named(order).beginnings(strings.shape[1], chosen.sweep_strings)
    merged = merged_answers(base, _pick(experts, rules, order), shape, swept.strings)
    outcomes = _single_outcomes(components) | {
        f"arm/{arm}": _small(value) for arm, value in right_by_arm(swept, merged).items()
    }
    outcomes["pair"] = _small(_compose_right(components.named(order[:TRAINED_PAIR])))
    short = components.beginnings(min(TRAINING_LENGTH, strings.shape[1]))
    ordered = short.named(order)
    metrics = {
        "diagnostics": [diagnose_paper_rule(ordered.choose(range(k))) for k in range(1, len(order) + 1)],
        "off_task": off_task(ordered),
        "breaks": _breaks(ordered, chosen.orders, seed),
        "interactions": _interactions(config, short, order[0]),
    }
    if start is Start.finetuned:
        first = parse_rule(chosen.overlap_first, "overlap_first")
        seconds = [parse_rule(text, "overlap_second") for text in chosen.overlap_second]
        metrics["overlap"] = [overlapping(short, first, second) for second in seconds]
    return Evaluated(metrics, outcomes)


def _stack(config: CharsubEvaluateConfig, start: Start) -> Any:
    return config.stacks.scratch if start is Start.scratch else config.stacks.finetuned


def _pick(experts: Parameters, rules: Sequence[Rule], chosen: Sequence[Rule]) -> Parameters:
    return select(experts, [rules.index(rule) for rule in chosen])


def _small(values: Tensor) -> NDArray[np.int8]:
    return values.numpy().astype(np.int8)


def _single_outcomes(components: Components) -> Outcomes:
    """Every model alone on its own task; the base's is the identity."""
    found = {"single/identity": _small(right_symbols(components.base.argmax(-1), components.strings))}
    for expert, rule in zip(components.experts, components.rules, strict=True):
        found[f"single/{rule.text}"] = _small(right_symbols(expert.argmax(-1), expected(components.strings, [rule])))
    return found


def _compose_right(components: Components) -> Tensor:
    answer = compose(components.base, components.experts, CompositionRule()).argmax(-1)
    return right_symbols(answer, components.expected)


def _breaks(components: Components, orders: int, seed: int) -> list[dict[str, Any]]:
    """Observed and predicted breaks, with the experts added in several cyclic orders."""
    count = len(components.rules)
    rows = []
    for number in range(orders):
        shift = number * count // orders
        turned = components.choose([(index + shift) % count for index in range(count)])
        rows.append(
            {
                "first": [rule.text for rule in turned.rules[:SEEN]],
                "observed": observe(turned),
                "predicted": predict(turned.choose(range(SEEN)), count, seed),
            }
        )
    return rows


def _interactions(config: CharsubEvaluateConfig, components: Components, first: Rule) -> dict[str, Any]:
    rival = parse_rule(config.evaluation.rival, "rival")
    follower = parse_rule(config.evaluation.chained, "chained")
    return {
        "rival": two_for_one(components, first, rival),
        "chained": chained(components, first, follower),
        "twice": twice(components, first),
    }


def _notebook(config: CharsubEvaluateConfig, seed: int, context: JobContext) -> list[dict[str, str]]:
    """The notebook's own strings: six for the composition, one for every single model."""
    pair = [parse_rule(text, "experts") for text in config.evaluation.experts[:TRAINED_PAIR]]
    shape = model_shape(config.model)
    models = load_models(context.inputs, Start.scratch, seed, [IDENTITY, *pair])
    rows = []
    for text in NOTEBOOK_COMPOSED:
        said = _say(models, shape, text)
        answer = compose(said[0], said[1:], CompositionRule()).argmax(-1)
        rows.append(_row("composed", text, together(pair), answer))
    said = _say(models, shape, NOTEBOOK_SINGLE)
    for index, rule in enumerate([IDENTITY, *pair]):
        rows.append(_row(rule.text or "identity", NOTEBOOK_SINGLE, rule, said[index].argmax(-1)))
    return rows


def _say(models: Parameters, shape: Any, text: str) -> Tensor:
    """(model, position, symbol) for one string."""
    return log_probabilities(models, shape, torch.from_numpy(encode(text))[None])[:, 0]


def _row(model: str, text: str, rule: Rule, answer: Tensor) -> dict[str, str]:
    wanted = decode(rule.table[encode(text)])
    return {"model": model, "string": text, "expected": wanted, "answer": decode(answer.tolist())}
