"""The table of contents: the report's sections in order.

Imported one by one, so that a changed section makes the report stale.
"""

from compgen.report.sections import (
    charsub_authors,
    charsub_autoregressive,
    composition,
    copying,
    copying_causal,
    heads,
    theory,
)
from compgen.report.view import Section

CONTENTS = (
    Section(
        "theory",
        "Exact theory of logit composition",
        "Theory",
        theory.introduction,
        theory.figures,
    ),
    Section(
        "charsub_authors",
        "Character substitution, the authors' protocol",
        "Substitution: authors",
        charsub_authors.introduction,
        charsub_authors.figures,
    ),
    Section(
        "charsub_autoregressive",
        "Character substitution, autoregressive",
        "Substitution: autoregressive",
        charsub_autoregressive.introduction,
        charsub_autoregressive.figures,
    ),
    Section(
        "composition",
        "Composing language models",
        "Language models",
        composition.introduction,
        composition.figures,
        composition.tables,
    ),
    Section(
        "composition_real",
        "Composing a published model's contexts",
        "SmolLM2 by context",
        composition.real_introduction,
        composition.real_figures,
        composition.real_tables,
    ),
    Section(
        "composition_gemma",
        "Composing Gemma 2 2B",
        "Gemma 2 2B",
        composition.gemma_introduction,
        composition.gemma_figures,
        composition.gemma_tables,
    ),
    Section(
        "copying",
        "Learning to copy: the two-layer transformer",
        "Copying",
        copying.introduction,
        copying.figures,
    ),
    Section(
        "copying_causal",
        "Copying beyond the paper: what shifts, what causes",
        "Copying: causes",
        copying_causal.introduction,
        copying_causal.figures,
    ),
    Section(
        "heads",
        "Induction heads of language models",
        "Heads",
        heads.introduction,
        heads.figures,
        heads.tables,
    ),
)
