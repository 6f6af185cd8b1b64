# Paper 1, theory: enumerate small distributions, compare weights with distributions, gather both.

$(call job,theory/exact,theory_exact,,)
$(call job,theory/task-arithmetic,theory_task_arithmetic,,)
$(call job,theory/summary,theory_summary,theory/exact theory/task-arithmetic,)
