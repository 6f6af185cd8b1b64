"""Every answer follows from its prompt, and variants differ only where they must: solvers that know no generator."""

from itertools import pairwise

import pytest

from compgen.heads.prompts.label_mapping import CLASS_OF
from compgen.heads.prompts.prompt import Prompt, Protocol
from compgen.heads.prompts.registry import prompts
from compgen.heads.prompts.vocabulary import CLASS_NAMES, FIRST_NAMES, OBJECTS, PAST_TENSES, PLACES, THINGS

N = 60


def both(task: str, first: str, second: str) -> list[tuple[Prompt, Prompt]]:
    return list(zip(prompts(task, first, N, 1), prompts(task, second, N, 1), strict=True))


def copied(text: str) -> list[str]:
    """The last two of the ten words, which no copy follows yet."""
    words = text.split(" ")
    assert len(words) == 18
    return words[8:10]


def test_the_end_of_a_copy_follows_from_its_beginning() -> None:
    past = dict(PAST_TENSES)
    for lower, upper in both("fuzzy_copying", "lower", "upper"):
        assert lower.answer.split() == copied(lower.text)
        assert upper.answer.split() == [word.upper() for word in copied(upper.text)]
    for prompt in prompts("fuzzy_copying", "past", N, 1):
        words = prompt.text.split(" ")
        assert words[10:] == [past[verb] for verb in words[:8]]
        assert prompt.answer.split() == [past[verb] for verb in copied(prompt.text)]


def test_copies_in_upper_case_are_the_same_words() -> None:
    for lower, upper in both("fuzzy_copying", "lower", "upper"):
        words, shouted = lower.text.split(" "), upper.text.split(" ")
        assert words[:10] == shouted[:10]
        assert [word.upper() for word in words[10:]] == shouted[10:]


def repeated(protocol: Protocol) -> int:
    found = prompts("fuzzy_copying", "upper", N, 1, protocol=protocol)
    return sum(len(set(prompt.text.split(" ")[:10])) < 10 for prompt in found)


def test_no_word_has_two_successors_except_with_the_authors() -> None:
    """Words drawn with replacement make the next word ambiguous."""
    assert repeated(Protocol.controlled) == 0
    assert repeated(Protocol.authors) > 0


def receiver(prompt: Prompt) -> str:
    """The one of the two that stands in the sentence once."""
    words = [word.rstrip(",") for word in prompt.text.split(" ")]
    counts = {choice: words.count(choice) for choice in prompt.choices}
    assert sorted(counts.values()) == [1, 2]
    return min(counts, key=lambda choice: counts[choice])


def test_the_receiver_is_the_one_who_is_named_once() -> None:
    for names, symbols in both("indirect_objects", "names", "symbols"):
        assert (receiver(names), receiver(symbols)) == (names.answer, symbols.answer)
        assert len(set(names.choices)) == 2


def test_sentences_with_symbols_are_those_with_names() -> None:
    for names, symbols in both("indirect_objects", "names", "symbols"):
        called = dict(zip(names.choices, symbols.choices, strict=True))
        words = names.text.split(" ")
        assert " ".join(called.get(word, word) for word in words) == symbols.text
        assert names.choices.index(names.answer) == symbols.choices.index(symbols.answer)


def read(prompt: Prompt) -> tuple[dict[str, str], str]:
    """The labels shown and the item asked."""
    *lines, last = prompt.text.split(", ")
    shown = dict(line.split(" is ") for line in lines)
    assert len(lines) == 20
    return shown, last.removesuffix(" is")


@pytest.mark.parametrize("variant", ["original", "permuted", "symbols"])
def test_the_label_is_that_of_the_shown_items_of_the_class(variant: str) -> None:
    for prompt in prompts("label_mapping", variant, N, 1):
        shown, query = read(prompt)
        assert query not in shown
        assert {label for item, label in shown.items() if CLASS_OF[item] == CLASS_OF[query]} == {prompt.answer}
        assert set(prompt.choices) == set(shown.values())
        assert len(shown) == 20  # all distinct


def test_only_the_labels_differ() -> None:
    for original, permuted in both("label_mapping", "original", "permuted"):
        assert [list(read(original)[0]), read(original)[1]] == [list(read(permuted)[0]), read(permuted)[1]]
    for permuted, symbols in both("label_mapping", "permuted", "symbols"):
        called = {"animal": "$#", "sport": "!%", "plant": "&*"}
        words = [called.get(word.rstrip(","), word.rstrip(",")) for word in permuted.text.split(" ")]
        assert words == [word.rstrip(",") for word in symbols.text.split(" ")]
        assert symbols.answer == called[permuted.answer]


def test_the_rotation_is_the_one_of_the_authors() -> None:
    rotated = {"animal": "plant", "plant": "sport", "sport": "animal"}
    for prompt in prompts("label_mapping", "permuted", 5, 1):
        assert all(rotated[CLASS_OF[item]] == label for item, label in read(prompt)[0].items())
        assert [CLASS_OF[item] for item in list(read(prompt)[0])[:3]] == ["sport", "plant", "animal"]


def test_the_authors_repeat_items_and_ask_for_the_comma() -> None:
    found = prompts("label_mapping", "symbols", N, 1, protocol=Protocol.authors)
    assert {prompt.answer for prompt in found} == {"$#,", "!%,", "&*,"}
    items = [[line.split(" is ")[0] for line in prompt.text.split(", ")] for prompt in found]
    assert any(len(set(shown)) < 21 for shown in items)
    assert all(shown[-1] not in shown[:-1] for shown in items)


def test_the_lists_hold_what_they_promise() -> None:
    assert [len(set(words)) for words in (CLASS_NAMES, FIRST_NAMES, THINGS, PLACES, OBJECTS)] == [100, 100, 40, 8, 9]
    assert len({form for pair in PAST_TENSES for form in pair}) == 2 * len(PAST_TENSES)
    assert not any(second.startswith(first) for first, second in pairwise(sorted(FIRST_NAMES)))
    assert not [thing for thing in OBJECTS if thing[0] in "aeiou"]
