"""What the components said along an arm's own stored answers.

Covers reading the tokens of an answer up to its cut, feeding them to the components again, and one number per answer
and diagnostic. Nothing is generated; the diagnostics of one token are in composition/diagnostics.py, what the numbers
predict is in `diagnosed.py`.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from compgen.composition.diagnostics import diagnose
from compgen.composition.rule import compose
from compgen.errors import UserError
from compgen.evaluation.decoding import Reader, Row
from compgen.evaluation.diagnosed import LENGTH, Items
from compgen.evaluation.generation import in_order
from compgen.evaluation.prefix import SharedPrefix, shared_length
from compgen.evaluation.samples import Generation, Sample, StopReason

VALUES_AT_ONCE = 2**26
"""So many float32 values of one component are held at once: 256 MiB each."""


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
