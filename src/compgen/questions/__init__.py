"""Rows of published benchmarks: where they come from, and what they must be."""
