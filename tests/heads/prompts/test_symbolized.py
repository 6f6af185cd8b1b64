"""Word problems: solved again from the words of the question, by rules that know nothing of how they were made."""

import re
from collections.abc import Callable

import pytest

from compgen.heads.prompts.problems import FORMS
from compgen.heads.prompts.prompt import Prompt, Protocol
from compgen.heads.prompts.registry import prompts
from compgen.heads.prompts.symbolized import VARIANTS

N = 150
SOLVED: dict[str, Callable[..., float]] = {
    "bags of": lambda bags, each, gone: bags * each - gone,
    "coins a week": lambda coins, weeks, paid: coins * weeks - paid,
    "equally among": lambda whole, friends, had: whole / friends + had,
    "times as many": lambda few, times: few + few * times,
    "dollars each. ": lambda a, b, c, d: a * b + c * d,
    "boxes of each kind": lambda first, second, boxes: (first + second) * boxes,
    "an hour and works": lambda hour, hours, days: hour * hours * days,
    "arranges": lambda rows, each, gone, new: rows * each - gone + new,
    "get back": lambda count, price, paid: paid - count * price,
    "How many more": lambda day, days, other: day * days - other,
    "into boxes of": lambda whole, each, price: whole / each * price,
    "gives half": lambda whole, more, others: whole / 2 + more + others,
    "years longer": lambda years, longer, later: years + longer + later,
}


def solve(question: str) -> float:
    [rule] = [rule for phrase, rule in SOLVED.items() if phrase in question]
    return rule(*map(int, re.findall(r"\d+", question)))


def asked(prompt: Prompt) -> str:
    return prompt.text.rsplit("Question: ", 1)[1].removesuffix("\nAnswer:")


@pytest.mark.parametrize("variant", ["names", "symbols"])
@pytest.mark.parametrize("protocol", Protocol)
def test_the_answer_follows_from_the_question(variant: str, protocol: Protocol) -> None:
    found = prompts("symbolized", variant, N, 2, protocol=protocol)
    assert [solve(asked(prompt)) for prompt in found] == [int(prompt.answer) for prompt in found]


@pytest.mark.parametrize("variant", ["names", "symbols"])
def test_every_example_is_right_in_every_step(variant: str) -> None:
    """Part of the authors' defects: one of their annotations says 24*3=8."""
    for prompt in prompts("symbolized", variant, 20, 2):
        *examples, _ = prompt.text.split("\n\n")
        assert len(examples) == 10
        for example in examples:
            question, solution = example.removeprefix("Question: ").split("\nAnswer: ")
            assert int(solution.rsplit("#### ", 1)[1]) == solve(question)
            for left, operator, right, result in re.findall(r"<<(\d+)([-+*/])(\d+)=(\d+)>>", solution):
                a, b = int(left), int(right)
                assert int(result) == {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[operator]


def test_symbols_stand_for_names_and_things_everywhere_and_nothing_else_differs() -> None:
    """The authors leave some words of the worked solutions literal."""
    kinds = ("persons", "things")
    known = {kind: (getattr(VARIANTS["names"], kind), getattr(VARIANTS["symbols"], kind)) for kind in kinds}
    called = {name: symbol for names, symbols in known.values() for name, symbol in zip(names, symbols, strict=True)}
    word = re.compile(r"\b(?:" + "|".join(called) + r")\b")
    pairs = zip(prompts("symbolized", "names", 40, 2), prompts("symbolized", "symbols", 40, 2), strict=True)
    for names, symbols in pairs:
        replaced = word.sub(lambda found: called[found.group()], names.text)
        # "boxes" and "bags" are also a form's own words
        assert replaced.replace(called["boxes"], "boxes") == symbols.text.replace(called["boxes"], "boxes")
        assert names.answer == symbols.answer


def test_the_target_is_of_another_form_than_the_examples_and_every_form_is_asked() -> None:
    found = prompts("symbolized", "names", N, 2)
    skeletons = [[re.sub(r"\d+", "0", part.split("\n")[0]) for part in prompt.text.split("\n\n")] for prompt in found]
    assert len(FORMS) == len(SOLVED) == 13
    phrases = [[next(p for p in SOLVED if p in question) for question in prompt] for prompt in skeletons]
    assert {prompt[-1] for prompt in phrases} == set(SOLVED)
    assert all(len(set(prompt)) == 11 for prompt in phrases)


def test_words_of_a_problem_are_distinct_except_with_the_authors() -> None:
    def repeats(protocol: Protocol) -> int:
        found = prompts("symbolized", "symbols", N, 2, protocol=protocol)
        return sum(re.search(r"do (\S+) and \1 have together", prompt.text) is not None for prompt in found)

    assert repeats(Protocol.controlled) == 0
    assert repeats(Protocol.authors) > 0


def test_only_ours_ends_where_the_answer_is_due() -> None:
    for protocol, end in ((Protocol.controlled, "\nAnswer:"), (Protocol.authors, "?")):
        assert all(prompt.text.endswith(end) for prompt in prompts("symbolized", "symbols", 10, 2, protocol=protocol))


def test_no_place_is_left_open_and_symbols_mean_nothing_in_a_sum() -> None:
    for prompt in prompts("symbolized", "names", 40, 2):
        assert not re.search(r"[{}]", prompt.text)
    symbols = [*VARIANTS["symbols"].persons, *VARIANTS["symbols"].things]
    assert len(set(symbols)) == 80
    assert not [symbol for symbol in symbols if set(symbol) & set("0123456789+-*/=<>#$%.,") or len(symbol) != 2]
