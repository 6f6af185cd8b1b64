"""Attention heads of real language models: what they are made of, what they attend to, and models without them."""
