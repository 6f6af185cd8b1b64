"""Prompts with labels in disorder: the same items, labels and query, and another pairing."""

from collections import Counter

from compgen.heads.function_vectors import exact_scores
from compgen.heads.loading import Subject
from compgen.heads.prompts.registry import prompts
from compgen.heads.rivals import in_disorder, label_pairs


def test_disorder_keeps_items_labels_and_query() -> None:
    [prompt] = prompts("label_mapping", "original", 1, 3)
    other = in_disorder(prompt.text, 0, 0)
    before, after = prompt.text.split(", "), other.split(", ")
    assert after[-1] == before[-1]
    assert [line.split(" is ")[0] for line in after] == [line.split(" is ")[0] for line in before]
    assert Counter(line.split(" is ")[1] for line in after[:-1]) == Counter(
        line.split(" is ")[1] for line in before[:-1]
    )
    assert other != prompt.text


def test_pairs_are_whole_prompts_that_do_not_meet_the_prompts_of_removal(subject: Subject) -> None:
    pairs = label_pairs(subject, 2, 0)
    removal = {prompt.text for prompt in prompts("label_mapping", "original", 2, 0)}
    for pair in pairs:
        text = subject.tokenizer.decode(pair.informative, skip_special_tokens=True)
        assert text not in removal
        assert int(pair.informative[0]) == int(pair.uninformative[0]) == subject.tokenizer.bos_token_id
    assert exact_scores(subject.view, pairs).shape == (2, 2, 4)
