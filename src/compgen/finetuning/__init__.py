"""The laptop study's own language models: text, tokenizer, base, experts."""
