"""Model weights from outside: out of Python packages, from the hub."""
