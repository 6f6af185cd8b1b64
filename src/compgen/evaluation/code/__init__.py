"""Scoring programs that a model wrote: HumanEval+ and MBPP+ by evalplus's own tests, inside a sandbox."""
