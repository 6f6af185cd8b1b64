"""The one place that decides about determinism."""

import os
import sys


def make_deterministic() -> None:
    """Make equal jobs give equal bits on the same machine; does nothing where torch is not in use.

    - Deterministic algorithms, so that scatter and index operations do not depend on the order of threads; an
      operation without such an algorithm raises instead of varying.
    - As many threads as OMP_NUM_THREADS says (one by default): sums over threads depend on their number, and two
      jobs that share two cores slow each other down by orders of magnitude when both start two threads.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # every job writes what it reads; filling costs 2 %
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
