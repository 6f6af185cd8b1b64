"""The sweeps on one seed's models: what is composed with what, on which strings, and what is kept of it.

Covers k, the prose's pair, chained rules, the same expert more than once, overlap, and length, as units that run one
after the other and can be resumed between. Statistics over seeds are in summary.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compgen.charsub.autoregressive.arms import (
    COMPOSED,
    REMEDIES,
    TASK_ARITHMETIC,
    all_arms,
    baseline_arms,
    lone_arm,
    merged_name,
)
from compgen.charsub.autoregressive.generation import Arm, Component, Library, generate, transformer
from compgen.charsub.autoregressive.scoring import Score, score
from compgen.charsub.autoregressive.sequences import END, draw_strings, with_end
from compgen.charsub.autoregressive.tasks import BASE, CHAIN, DISJOINT, FIRST_SET, PROSE, RIVAL_SETS, name_of
from compgen.charsub.autoregressive.trajectories import (
    by_region,
    diagnose_trajectory,
    drift,
    project,
    string_features,
    trace,
)
from compgen.charsub.autoregressive.zoo import Regime, load_regime, merge
from compgen.charsub.autoregressive_config import AutoregressiveEvaluateConfig
from compgen.charsub.model import Parameters
from compgen.charsub.rules import SYMBOLS, Rule, decode, together
from compgen.randomness import torch_stream

COPIES = 4
"""How often the same expert is composed at most."""
LENGTH_REMEDY = "kl_gate"


@dataclass
class Findings:
    """What a unit found."""

    cells: list[dict[str, Any]] = field(default_factory=list)
    """One row per regime, sweep, setting and arm."""
    items: dict[str, Tensor] = field(default_factory=dict)
    """Per-string values by `regime/sweep/setting/arm` (exact match) or `.../feature:name`, shape (string,)."""
    samples: list[dict[str, Any]] = field(default_factory=list)
    """Some outputs in full."""
    regions: list[dict[str, Any]] = field(default_factory=list)
    """Diagnostics of the composed model per region."""
    projections: list[dict[str, Any]] = field(default_factory=list)
    """What compositions of two say about larger ones."""


@dataclass
class Models:
    """One regime's components, with merged models made on demand."""

    regime: Regime
    parameters: dict[str, Parameters]
    config: AutoregressiveEvaluateConfig

    @cached_property
    def components(self) -> dict[str, Component]:
        """Every single model as a component."""
        return {name: transformer(weights, self.config.model) for name, weights in self.parameters.items()}

    @property
    def mergeable(self) -> bool:
        """Whether base and experts share their start, without which weights cannot be added."""
        return self.regime is not Regime.scratch

    def library(self, length: int, count: int, merged: Sequence[Sequence[str]] = ()) -> Library:
        """The components, with some merged models, on this seed's strings of a length."""
        generator = torch_stream(self.config.seed, "evaluated strings", length)
        strings = draw_strings(count, length, generator)
        extra = {merged_name(names): self._merged(names) for names in merged if self.mergeable}
        return Library({**self.components, **extra}, strings, self.config.data.overrun)

    def _merged(self, names: Sequence[str]) -> Component:
        experts = [self.parameters[name] for name in names]
        return transformer(merge(self.parameters[BASE], experts), self.config.model)


@dataclass
class Sweep:
    """One sweep on one library: runs arms and writes down what they do."""

    models: Models
    library: Library
    name: str
    findings: Findings = field(default_factory=Findings)

    def answers(self, rule: Rule) -> Tensor:
        """What the strings should become."""
        return torch.from_numpy(rule.table)[self.library.strings]

    def outputs(self, arm: Arm, rule: Rule) -> Tensor:
        """Free-running outputs, drafted with the right answer."""
        return generate(self.library, arm, with_end(self.answers(rule), self.library.steps))

    def run(self, arm: Arm, rule: Rule, setting: int, **more: Any) -> Tensor:
        """Generate with an arm and score it against a rule."""
        outputs = self.outputs(arm, rule)
        self.note(arm, rule, setting, outputs, **more)
        return outputs

    def note(
        self, arm: Arm, rule: Rule, setting: int, outputs: Tensor, accepted: Tensor | None = None, **more: Any
    ) -> None:
        """Keep an arm's score against a rule, its per-string results, and some samples."""
        answers = self.answers(rule)
        found = score(outputs, self.library.strings, answers, accepted)
        place = {"regime": str(self.models.regime), "sweep": self.name, "setting": setting, "arm": arm.name}
        self.findings.cells.append({**place, **found.summary(), **more})
        self.findings.items[_key(place)] = found.exact
        self._sample(place, found, outputs, answers)

    def _sample(self, place: dict[str, Any], found: Score, outputs: Tensor, answers: Tensor) -> None:
        count = self.models.config.evaluate.samples
        kept = torch.cat((torch.nonzero(~found.exact)[:count, 0], torch.nonzero(found.exact)[:count, 0]))[:count]
        reasons = found.reasons()
        for row in kept.tolist():
            self.findings.samples.append(
                {
                    **place,
                    "prompt": decode(self.library.strings[row].tolist()),
                    "expected": decode(answers[row].tolist()),
                    "output": _readable(outputs[row].tolist()),
                    "stop": str(reasons[row]),
                    "right": bool(found.exact[row]),
                }
            )


def _key(place: dict[str, Any]) -> str:
    return "/".join(str(place[name]) for name in ("regime", "sweep", "setting", "arm"))


def _readable(tokens: list[int]) -> str:
    """Symbols up to EOS; the separator, which no answer has, as a bar."""
    content = tokens[: tokens.index(END)] if END in tokens else tokens
    return "".join(SYMBOLS[token] if token < len(SYMBOLS) else "|" for token in content)


def sweep_experts(models: Models) -> Findings:
    """k = 1…most disjoint experts: every arm, every single expert, diagnostics, projections from k = 2."""
    config = models.config.evaluate
    names = [name_of(rule) for rule in DISJOINT[: config.most_experts]]
    merged = [names[:count] for count in range(1, len(names) + 1)]
    sweep = Sweep(models, models.library(config.length, config.strings, merged), "experts")
    alone = {name: sweep.outputs(lone_arm(name), rule) for name, rule in zip(names, DISJOINT, strict=False)}
    for count in range(1, len(names) + 1):
        rule = together(DISJOINT[:count])
        for arm in all_arms(names[:count], models.mergeable):
            outputs = sweep.run(arm, rule, count)
            if arm.name == COMPOSED:
                _diagnose(sweep, arm, rule, count, outputs)
        for name in names[:count]:
            sweep.note(lone_arm(name), rule, count, alone[name])
    _note_alone(sweep, names, alone)
    _project(sweep, names)
    return sweep.findings


def _note_alone(sweep: Sweep, names: Sequence[str], outputs: dict[str, Tensor]) -> None:
    """Every component on its own rule: the guarantees that a composition starts from."""
    sweep.name, before = "alone", sweep.name
    for place, (name, rule) in enumerate(zip(names, DISJOINT, strict=False)):
        sweep.note(lone_arm(name), rule, place, outputs[name])
    sweep.name = before


def _diagnose(sweep: Sweep, arm: Arm, rule: Rule, count: int, outputs: Tensor) -> None:
    trajectory = trace(sweep.library, arm, outputs, sweep.answers(rule))
    found = diagnose_trajectory(trajectory)
    regime = str(sweep.models.regime)
    for region, means in by_region(trajectory, found).items():
        sweep.findings.regions.append({"regime": regime, "experts": count, "region": region, **means})
    features = string_features(trajectory, found)
    features["letters"] = (sweep.answers(rule) != sweep.library.strings).sum(1).float()
    for name, values in features.items():
        sweep.findings.items[f"{regime}/experts/{count}/feature:{name}"] = values


def _project(sweep: Sweep, names: Sequence[str]) -> None:
    """Project from every disjoint pair of experts to all k."""
    counts = list(range(1, len(names) + 1))
    for start in range(0, len(names) - 1, 2):
        pair, rule = names[start : start + 2], together(DISJOINT[start : start + 2])
        arm = Arm(COMPOSED, BASE, tuple(pair))
        trajectory = trace(sweep.library, arm, sweep.outputs(arm, rule), sweep.answers(rule))
        row = {"regime": str(sweep.models.regime), "pair": "+".join(pair), "counts": counts}
        sweep.findings.projections.append({**row, "holds": project(trajectory, counts), "drift": drift(trajectory)})


def sweep_prose(models: Models) -> Findings:
    """A→B with C→D, the pair of the paper's prose."""
    return _sweep_pair(models, "prose", PROSE)


def _sweep_pair(models: Models, name: str, rules: Sequence[Rule]) -> Findings:
    config = models.config.evaluate
    names = [name_of(rule) for rule in rules]
    sweep = Sweep(models, models.library(config.length, config.strings, [names]), name)
    for arm in all_arms(names, models.mergeable):
        sweep.run(arm, together(rules), len(rules))
    for expert, rule in zip(names, rules, strict=True):
        outputs = sweep.outputs(lone_arm(expert), rule)
        sweep.note(lone_arm(expert), together(rules), len(rules), outputs)
    return sweep.findings


def sweep_chain(models: Models) -> Findings:
    """A→K with K→R: rules on the letters of x (setting 0), or one after the other, so that A ends as R (setting 1)."""
    config = models.config.evaluate
    names = [name_of(rule) for rule in CHAIN]
    sweep = Sweep(models, models.library(config.length, config.strings, [names]), "chain")
    at_once = together(CHAIN)
    one_after_the_other = Rule(tuple((source, "R") for source, _ in at_once.pairs))
    for arm in baseline_arms(names, models.mergeable):
        outputs = sweep.outputs(arm, at_once)
        written = _written(sweep.library.strings, outputs, "A", ("K", "R", "A"))
        sweep.note(arm, at_once, 0, outputs, written=written)
        sweep.note(arm, one_after_the_other, 1, outputs)
    return sweep.findings


def _written(strings: Tensor, outputs: Tensor, source: str, letters: Sequence[str]) -> dict[str, int]:
    """How often each letter, or any other token, stands where x has `source`."""
    written = outputs[:, : strings.shape[1]][strings == SYMBOLS.index(source)]
    counts = {letter: int((written == SYMBOLS.index(letter)).sum()) for letter in letters}
    return {**counts, "other": len(written) - sum(counts.values())}


def sweep_copies(models: Models) -> Findings:
    """The same expert once to four times."""
    config = models.config.evaluate
    rule, copies = DISJOINT[0], [[name_of(DISJOINT[0])] * count for count in range(1, COPIES + 1)]
    sweep = Sweep(models, models.library(config.length, config.strings, copies), "copies")
    for names in copies:
        for arm in all_arms(names, models.mergeable):
            sweep.run(arm, rule, len(names))
    return sweep.findings


def sweep_overlap(models: Models) -> Findings:
    """Two experts for four letters each, 0…4 of them in common, with different targets.

    On a contested letter either target is accepted; how often each is written is counted.
    """
    config = models.config.evaluate
    pairs = [[name_of(FIRST_SET), name_of(rival)] for rival in RIVAL_SETS]
    sweep = Sweep(models, models.library(config.length, config.strings, pairs), "overlap")
    for shared, (rival, names) in enumerate(zip(RIVAL_SETS, pairs, strict=True)):
        percent = round(100 * shared / len(FIRST_SET.pairs))
        arms = [*all_arms(names, models.mergeable), *map(lone_arm, names)]
        for arm in arms:
            draft = FIRST_SET if arm.name == f"alone:{names[0]}" else together([FIRST_SET, rival])
            outputs = sweep.outputs(arm, draft)
            accepted = sweep.answers(together([rival, FIRST_SET]))
            more = _contest(sweep, outputs, rival)
            sweep.note(arm, together([FIRST_SET, rival]), percent, outputs, accepted, **more)
    return sweep.findings


def _contest(sweep: Sweep, outputs: Tensor, rival: Rule) -> dict[str, Any]:
    """At contested letters: how often the first set's target, the rival's, the letter itself, or another is written."""
    strings = sweep.library.strings
    first, other = sweep.answers(FIRST_SET), sweep.answers(rival)
    contested = (first != strings) & (other != strings)
    written = outputs[:, : strings.shape[1]]
    names = {"first": first, "rival": other, "unchanged": strings}
    counts = {name: int((written == target)[contested].sum()) for name, target in names.items()}
    total = int(contested.sum())
    counts["other"] = total - sum(counts.values())
    calm = ((written == sweep.answers(together([FIRST_SET, rival]))) | contested).all(1)
    return {"contested": counts, "exact_elsewhere": float(calm.double().mean())}


def sweep_length(models: Models, length: int) -> Findings:
    """One length: the components on their own rules, and compositions of some of them."""
    config = models.config.evaluate
    names = [name_of(rule) for rule in DISJOINT[: max(config.length_experts)]]
    merged = [names[:count] for count in config.length_experts]
    sweep = Sweep(models, models.library(length, config.length_strings, merged), "length-alone")
    sweep.run(lone_arm(BASE), Rule(), length)
    for name, rule in zip(names, DISJOINT, strict=False):
        sweep.run(lone_arm(name), rule, length)
    for count in config.length_experts:
        sweep.name = f"length-{count}"
        for arm in all_arms(names[:count], models.mergeable):
            if arm.name in (COMPOSED, LENGTH_REMEDY, TASK_ARITHMETIC):
                sweep.run(arm, together(DISJOINT[:count]), length)
    return sweep.findings


assert LENGTH_REMEDY in REMEDIES


def units(config: AutoregressiveEvaluateConfig) -> list[tuple[Regime, str, Callable[[Models], Findings]]]:
    """All units in order: the regime, a name, and what to run on the regime's models."""
    plan: list[tuple[Regime, str, Callable[[Models], Findings]]] = []
    for regime in Regime:
        plan.append((regime, "experts", sweep_experts))
        if regime is Regime.hasty:
            continue
        plan += [(regime, "prose", sweep_prose), (regime, "chain", sweep_chain), (regime, "copies", sweep_copies)]
        for length in config.evaluate.lengths:
            plan.append((regime, f"length {length}", partial(sweep_length, length=length)))
    plan.append((Regime.finetuned, "overlap", sweep_overlap))
    return plan


def load_models(directory: Path, regime: Regime, config: AutoregressiveEvaluateConfig) -> Models:
    """A regime's models as the training job stored them."""
    return Models(regime, load_regime(directory, regime), config)
