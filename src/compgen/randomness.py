"""Independent streams of random numbers, named by what they are for."""

import hashlib

import numpy as np
import torch


def stream_seed(seed: int, *purpose: object) -> int:
    """A 63-bit seed for one purpose: equal for equal arguments, unrelated for different ones."""
    text = "/".join(map(str, (seed, *purpose)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def torch_stream(seed: int, *purpose: object) -> torch.Generator:
    """A torch generator for one purpose."""
    return torch.Generator().manual_seed(stream_seed(seed, *purpose))


def numpy_stream(seed: int, *purpose: object) -> np.random.Generator:
    """A numpy generator for one purpose."""
    return np.random.default_rng(stream_seed(seed, *purpose))
