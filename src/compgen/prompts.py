"""The forms in which questions are put to a language model: one place for what experts learn and what is asked."""

QUESTION = "Question: {question}\nAnswer:"
"""lm-eval's form of GSM8K."""
PROBLEM = "Problem: {question}\nSolution:"
"""The authors' form of MATH (dossier 3.3)."""
ZERO_SHOT = (
    "Solve the following grade-school math word problem step by step. "
    "End your response with '#### <final numeric answer>'.\n"
)
"""What the authors put before a question of GSM8K without examples (dossier 3.3)."""
SEPARATOR = "\n\n"
"""What lm-eval puts between examples."""
