"""Prompts that tell heads that copy and match apart from the rest: one file per set."""
