"""What the components said along an arm's own stored answers, and how well that predicts which answers fail.

Covers reading the tokens of an answer up to its cut, feeding them to the components again, one number per answer and
diagnostic, and areas under the curve over the judged answers. Nothing is generated; the diagnostics of one token are
in composition/diagnostics.py, judging is elsewhere.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compgen.composition.diagnostics import diagnose
from compgen.composition.rule import compose
from compgen.errors import UserError
from compgen.evaluation.decoding import Reader, Row
from compgen.evaluation.generation import in_order
from compgen.evaluation.prefix import SharedPrefix, shared_length
from compgen.evaluation.results import Results, Vector
from compgen.evaluation.samples import Generation, Outcome, Sample, StopReason
from compgen.run.context import FinishedJob
from compgen.statistics import area_under_curve, bootstrap_mean

LENGTH = "length"
FEATURES = (
    "log_normalizer_high",
    "log_normalizer_low",
    "log_normalizer_size",
    "co_activity",
    "divergence",
    "new_top",
    "end_surplus",
    "tail_leakage",
    "uncertainty",
    LENGTH,
)
"""Per-answer diagnostics, larger where failure is expected; `length`, the number of new tokens, is the trivial
baseline: the largest of many values grows with their number, and long answers have more places to fail."""
FEWEST = 5
"""Answers of either outcome that a cell needs for an area under the curve."""
VALUES_AT_ONCE = 2**26
"""So many float32 values of one component are held at once: 256 MiB each."""
Items = dict[str, dict[str, float]]
"""Features by the sample's id."""


@dataclass(frozen=True)
class Answer:
    """The tokens of one stored answer that count, at least one of them new."""

    id: str
    prompt_ids: tuple[int, ...]
    new_ids: tuple[int, ...]


def answers_of(tokenizer: Any, samples: Sequence[Sample], generations: Sequence[Generation]) -> list[Answer]:
    """The stored answers to some samples, each up to its cut; those that the infrastructure failed on are left out.

    Raises:
        UserError: a sample was not answered, or the tokenizer is not the one that it was answered with.
    """
    try:
        ordered = in_order(samples, generations)
    except ValueError as error:
        raise UserError(f"{error}: set limit and data as they were when the arm answered") from error
    reader = Reader(tokenizer)
    pairs = zip(samples, ordered, strict=True)
    return [_answer(tokenizer, reader, *pair) for pair in pairs if pair[1].stop_reason is not StopReason.error]


def _answer(tokenizer: Any, reader: Reader, sample: Sample, generation: Generation) -> Answer:
    prompt: list[int] = tokenizer(sample.prompt)["input_ids"]
    if len(prompt) != generation.prompt_tokens:
        raise UserError(
            f"sample {sample.id}: its prompt has {len(prompt)} tokens, it was answered with "
            f"{generation.prompt_tokens}: name the base that the arm answered with"
        )
    kept = kept_tokens(reader, Row(sample, prompt), generation)
    return Answer(sample.id, tuple(prompt), generation.token_ids[:kept])


def kept_tokens(reader: Reader, row: Row, generation: Generation) -> int:
    """How many of the new tokens lie before the cut, the end token included where it ended the answer; at least one.

    An answer that begins with its stop string keeps its first token: choosing it was a decision all the same.
    """
    if generation.stop_reason is not StopReason.stop_string:
        return len(generation.token_ids)

    def reach(count: int) -> int:
        return len(reader.text(Row(row.sample, row.prompt_ids, list(generation.token_ids[:count]))))

    counts = range(1, len(generation.token_ids) + 1)
    return max(1, bisect_right(counts, len(generation.text), key=reach))


@torch.no_grad()
def item_features(model: Any, answers: Sequence[Answer], padding: int, batch_size: int) -> Items:
    """Every answer's features, and as `agreement` the share of its tokens that the model would choose again.

    The model is the one that wrote the answers, with at least one expert; `padding` stands where nothing stands, and
    `batch_size` rows are run at once, fewer where the vocabulary is large.
    """
    if not answers:
        return {}
    prompts = [answer.prompt_ids for answer in answers]
    shared = 0 if model.has_contexts else shared_length(prompts)
    prefix = SharedPrefix(model, prompts[0][:shared])
    longest = max(len(answer.new_ids) for answer in answers)
    rows = max(1, min(batch_size, VALUES_AT_ONCE // (longest * model.config.vocab_size)))
    ordered = sorted(answers, key=lambda answer: (-len(answer.prompt_ids), -len(answer.new_ids), answer.id))
    found: Items = {}
    for start in range(0, len(ordered), rows):
        batch = ordered[start : start + rows]
        base, experts = _traced(model, prefix, batch, padding)
        for row, answer in enumerate(batch):
            own = slice(len(answer.new_ids))
            found[answer.id] = _features(model, base[row, own], experts[:, row, own], answer.new_ids)
    return {answer.id: found[answer.id] for answer in answers}


def _traced(model: Any, prefix: SharedPrefix, batch: Sequence[Answer], padding: int) -> tuple[Tensor, Tensor]:
    """Log-probabilities of base, (row, token, vocabulary), and experts, (expert, row, token, vocabulary).

    Prompts end in the same column, as when they were answered; the new tokens follow in a chunk of their own, padded
    behind, because an answer may hold what a prompt may not: two begin tokens in a row.
    """
    cache, chunk, mask = prefix.rows([answer.prompt_ids for answer in batch], padding)
    base, experts = model.component_log_probabilities(chunk, attention_mask=mask, cache=cache, logits_to_keep=1)
    fed = [answer.new_ids[:-1] for answer in batch]  # nothing is chosen behind the last token
    width = max(map(len, fed))
    if not width:
        return base, experts
    ids = torch.tensor([[*tokens, *[padding] * (width - len(tokens))] for tokens in fed], device=model.device)
    stands = torch.tensor([[1] * len(tokens) + [0] * (width - len(tokens)) for tokens in fed], device=model.device)
    later = model.component_log_probabilities(ids, attention_mask=torch.cat((mask, stands), dim=1), cache=cache)
    return torch.cat((base, later[0]), dim=1), torch.cat((experts, later[1]), dim=2)


def _features(model: Any, base: Tensor, experts: Tensor, new_ids: Sequence[int]) -> dict[str, float]:
    """One answer, base (token, vocabulary) and experts (expert, token, vocabulary)."""
    found = diagnose(base, experts, end_of_sequence_tokens=model.end_tokens)
    composed = compose(base, experts, model.rule, model.end_tokens)
    chosen = torch.tensor(list(new_ids), device=base.device)
    largest = {
        "log_normalizer_high": found.log_normalizer,
        "log_normalizer_low": -found.log_normalizer,
        "log_normalizer_size": found.log_normalizer.abs(),
        "divergence": found.divergence.amax(0),
        "end_surplus": found.end_surplus,
        "tail_leakage": found.tail_leakage,
        "uncertainty": -composed.gather(-1, chosen[:, None])[:, 0],
    }
    agreement = composed.argmax(-1) == chosen
    shares = {"co_activity": found.co_active, "new_top": found.new_top, "agreement": agreement}
    return {
        **{name: float(values.max()) for name, values in largest.items()},
        **{name: float(values.double().mean()) for name, values in shares.items()},
        LENGTH: float(len(new_ids)),
    }


def write_items(path: Path, items: Mapping[str, Mapping[str, float]]) -> None:
    """Write features as JSON lines, replacing the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": name, **values}) + "\n" for name, values in items.items()]
    path.write_text("".join(lines), encoding="utf-8")


def read_items(path: Path) -> Items:
    """The features of a file of JSON lines."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row.pop("id"): row for row in rows}


@dataclass(frozen=True)
class Judged:
    """The diagnosed answers of one arm and seed to one benchmark, with what became of them."""

    arm: str
    seed: int
    failed: Vector
    features: dict[str, Vector]
    files: tuple[str, str]

    def area(self, feature: str) -> float:
        """The probability that a failed answer has the larger value than one that is right."""
        return area_under_curve(self.features[feature], self.failed)


def area_measurements(diagnosed: Sequence[FinishedJob], results: Results, resamples: int) -> dict[str, Any]:
    """How well each diagnostic tells failed answers from right ones, by arm, and by how much it beats their length.

    The area under the curve is taken within every cell, a seed and a benchmark, that has at least `FEWEST` answers of
    either outcome, so that benchmarks of different difficulty are never mixed; measured is the mean over cells, with
    a bootstrap over them. `diagnosed` are jobs of kind composition_diagnose. Answers without a judgement are left out.

    Raises:
        UserError: an answer was diagnosed and not judged, or judged under another protocol.
    """
    judged = [_join(job, unit, results) for job in diagnosed for unit in job.metrics["units"].values()]
    found: dict[str, Any] = {}
    for arm in dict.fromkeys(cell.arm for cell in judged):
        own = [cell for cell in judged if cell.arm == arm]
        clear = [cell for cell in own if min(cell.failed.sum(), (1 - cell.failed).sum()) >= FEWEST]
        for feature in FEATURES:
            areas = [cell.area(feature) for cell in clear]
            found[f"auc_{feature}_{arm}"] = _measurement(own, areas, resamples)
            if feature != LENGTH:
                gains = [area - cell.area(LENGTH) for area, cell in zip(areas, clear, strict=True)]
                found[f"auc_{feature}_over_length_{arm}"] = _measurement(own, gains, resamples)
    return found


def _join(job: FinishedJob, unit: Mapping[str, Any], results: Results) -> Judged:
    key = (str(unit["protocol_name"]), str(unit["arm"]), str(unit["benchmark"]))
    seed = int(job.metrics["seed"])
    cell = results.cells(*key).get(seed) if results.has(*key) else None
    if cell is None or cell.protocol.digest != unit["protocol_digest"]:
        raise UserError(f"{job.name}: {'/'.join(key)} of seed {seed} was not judged as it was diagnosed: score again")
    items = read_items(job.directory / unit["file"])
    scores = [score for score in cell.scores if score.id in items and score.outcome is not Outcome.error]
    return Judged(
        arm=key[1],
        seed=seed,
        failed=np.array([score.outcome is not Outcome.correct for score in scores], dtype=np.float64),
        features={name: np.array([items[score.id][name] for score in scores]) for name in FEATURES},
        files=(f"{job.directory.parent.name}/{job.name}/{unit['file']}", cell.file),
    )


def _measurement(cells: Sequence[Judged], values: Sequence[float], resamples: int) -> dict[str, Any]:
    """The mean of one value a cell; `cells` are all that were looked at."""
    about: dict[str, Any] = {
        "n": len(values),
        "seeds": sorted({cell.seed for cell in cells}),
        "files": sorted({file for cell in cells for file in cell.files}),
    }
    if not values:
        note = f"in none of {len(cells)} cells do at least {FEWEST} answers fail and {FEWEST} succeed"
        return {"value": None, "interval": None, **about, "note": note}
    interval = bootstrap_mean(values, resamples=resamples).as_dict() if len(values) > 1 else None
    note = f"mean over {len(values)} of {len(cells)} cells (seed and benchmark) with {FEWEST} answers of either outcome"
    return {"value": float(np.mean(values)), "interval": interval, **about, "note": note}
