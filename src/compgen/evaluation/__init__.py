"""Posing benchmarks to language models, decoding, and scoring, all under a named protocol."""
