"""Which rules the study's experts learn. What a rule is stands in compgen.charsub.rules. Free of torch.

Eight disjoint rules for the sweep over k, the prose's pair, a chained rule, and sets of four letters whose overlap
grows from 0 to 100 %.
"""

from compgen.charsub.rules import IDENTITY, Rule, parse_rule

BASE = "base"
"""The name of the identity model among the components."""


def _rule(*pairs: str) -> Rule:
    return parse_rule("+".join(pairs), "rule")


DISJOINT = tuple(_rule(pair) for pair in ("AK", "MB", "CD", "EF", "GH", "IJ", "NO", "PQ"))
"""The first two are Appendix C's; no source or target letter occurs twice."""
PROSE = (_rule("AB"), DISJOINT[2])
"""A→B and C→D: the pair of the paper's prose."""
CHAIN = (DISJOINT[0], _rule("KR"))
"""A→K and K→R: the second rule substitutes what the first one writes."""
FIRST_SET = _rule("AK", "CD", "EF", "GH")
RIVALS = ("AR", "CS", "ET", "GU")
"""Other targets for the first set's letters."""
STRANGERS = ("MB", "NO", "PQ", "VW")
"""Letters outside the first set."""
RIVAL_SETS = tuple(_rule(*RIVALS[:shared], *STRANGERS[shared:]) for shared in range(len(RIVALS) + 1))
"""Four letters each, of which 0…4 are also the first set's."""

SCRATCH_TASKS = (IDENTITY, *DISJOINT, PROSE[0], CHAIN[1])
"""The models trained from a random start; the first is the base."""
FINETUNED_TASKS = (*DISJOINT, PROSE[0], CHAIN[1], FIRST_SET, *RIVAL_SETS)
"""The experts fine-tuned from the base."""
HASTY_TASKS = DISJOINT
"""The experts fine-tuned from the hasty base."""


def name_of(rule: Rule) -> str:
    """A rule's name among the components."""
    return rule.text or BASE
