"""What a model says to prompts, against one pass for every prompt and choice, and against its own greedy writing."""

from typing import Any

import pytest
import torch

from compgen.heads.asking import as_asked, read_answers, read_copies, write_answers
from compgen.heads.loading import Subject
from compgen.heads.prompts.encoding import encode_answer, encode_choices, token_limit
from compgen.heads.prompts.exact_copying import token_prompts
from compgen.heads.prompts.judging import judge, new_text
from compgen.heads.prompts.registry import prompts


@torch.no_grad()
def said_of(subject: Subject, prefix: tuple[int, ...], tail: tuple[int, ...]) -> tuple[float, bool]:
    """Log-probability of a continuation and whether each of its tokens is the likeliest, in one pass of its own."""
    logits = subject.model(torch.tensor([[*prefix, *tail]])).logits[0].log_softmax(-1)
    places = range(len(prefix) - 1, len(prefix) + len(tail) - 1)
    total = sum(float(logits[place, token]) for place, token in zip(places, tail, strict=True))
    return total, all(int(logits[place].argmax()) == token for place, token in zip(places, tail, strict=True))


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize(("task", "variant"), [("indirect_objects", "symbols"), ("label_mapping", "original")])
def test_choices_are_what_one_pass_for_each_of_them_says(
    subject: Subject, task: str, variant: str, batch_size: int
) -> None:
    made = prompts(task, variant, 4, 0)
    rows = read_answers(subject, [as_asked(subject.tokenizer, prompt) for prompt in made], batch_size)
    for prompt, row in zip(made, rows, strict=True):
        encoded = encode_choices(subject.tokenizer, prompt)
        said = [said_of(subject, encoded.prefix, tail) for tail in encoded.continuations]
        answer = prompt.choices.index(prompt.answer)
        assert row["log_probability"] == pytest.approx(said[answer][0], rel=1e-4)
        assert row["greedy"] == said[answer][1]
        assert row["choice"] == (max(said, key=lambda one: one[0]) == said[answer])


def test_an_answer_without_choices_is_read_token_by_token(subject: Subject) -> None:
    made = prompts("fuzzy_copying", "upper", 3, 0)
    rows = read_answers(subject, [as_asked(subject.tokenizer, prompt) for prompt in made], 2)
    for prompt, row in zip(made, rows, strict=True):
        encoded = encode_answer(subject.tokenizer, prompt)
        assert row["log_probability"] == pytest.approx(
            said_of(subject, encoded.prefix, encoded.continuations[0])[0], rel=1e-4
        )
        assert row["choice"] is None


def test_writing_in_a_batch_is_greedy_decoding_of_each_prompt_alone(subject: Subject) -> None:
    made = prompts("indirect_objects", "names", 3, 0)
    limit = token_limit(subject.tokenizer, made)
    for prompt, row in zip(made, write_answers(subject, made, 3), strict=True):
        ids = list(subject.tokenizer(prompt.text)["input_ids"])
        new: list[int] = []
        with torch.no_grad():
            while len(new) < limit and subject.tokenizer.eos_token_id not in new:
                new.append(int(subject.model(torch.tensor([ids + new])).logits[0, -1].argmax()))
        judged = judge(prompt, new_text(subject.tokenizer, new))
        assert row == {"strict": float(judged.strict), "lenient": float(judged.lenient)}


@torch.no_grad()
def test_copies_are_scored_on_the_third_behind_four_given_tokens_and_hold_no_special_token(subject: Subject) -> None:
    made = token_prompts(3, 5)
    known = [place for place in range(subject.model.config.vocab_size - 3) if place > 1]
    for prompt, row in zip(made, read_copies(subject, made, 2), strict=True):
        segment = prompt.segment(known)
        assert not set(segment) & subject.special_tokens
        ids = torch.tensor([[0, *segment, *segment, *segment]])
        said = subject.model(ids).logits[0].log_softmax(-1)
        right = [int(said[place - 1].argmax()) == int(ids[0, place]) for place in range(1 + 54, 1 + 75)]
        values = [float(said[place - 1, ids[0, place]]) for place in range(1 + 54, 1 + 75)]
        assert row["accuracy"] == pytest.approx(sum(right) / 21)
        assert row["log_probability"] == pytest.approx(sum(values) / 21, rel=1e-4)


def test_ids_that_the_tokenizer_does_not_know_are_never_drawn(subject: Subject) -> None:
    unknown: Any = range(subject.model.config.vocab_size - 3, subject.model.config.vocab_size)
    assert subject.special_tokens >= {0, 1, *unknown}
