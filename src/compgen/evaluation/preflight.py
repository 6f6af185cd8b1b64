"""What a study of published models will need, and whether it is there: disk, GPU memory, GPU hours, access.

Reads the hub's records and this machine's; fetches no weights. All that is missing is said at once.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from compgen.evaluation.config import ArmConfig
from compgen.evaluation.preflight_config import PreflightConfig
from compgen.weights.hub import Published

MERGED = "merge/"
WORKING_SHARE = 1.2
"""GPU memory over that of the weights: keys and values, and logits of a vocabulary of 256,000 in float32."""
SECONDS_AN_HOUR = 3600


@dataclass(frozen=True)
class Machine:
    """What there is to use."""

    free_disk: int
    gpu_memory: int
    """Bytes over all GPUs; 0 without one."""

    @classmethod
    def here(cls, directory: Path) -> "Machine":
        """This machine, its disk measured where a directory is."""
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        memory = sum(torch.cuda.get_device_properties(index).total_memory for index in range(count))
        return cls(shutil.disk_usage(directory).free, memory)


@dataclass(frozen=True)
class Needs:
    """What all runs together take."""

    disk: int
    """Bytes to fetch, and of the merged models."""
    gpu_memory: int
    """Bytes of the largest arm."""
    gpu_hours: float
    """An upper bound: every answer as long as the protocol lets it be."""
    hours_by_arm: dict[str, float]

    def sentences(self) -> list[str]:
        """For people."""
        return [
            f"disk {self.disk / 1e9:.1f} GB",
            f"GPU memory {self.gpu_memory / 1e9:.1f} GB",
            f"at most {self.gpu_hours:.1f} GPU hours",
        ]


def needs(config: PreflightConfig, published: Mapping[str, Published]) -> Needs:
    """Disk, memory and time.

    Args:
        config: the runs.
        published: every model that can be had. Merged models are written to the disk, each as large as the base.
    """
    fetched = sum(model.bytes for model in published.values() if not model.is_local)
    arms = [config.arms[name] for names in config.runs.values() for name in names]
    merges = len({arm.base for arm in arms if arm.base.startswith(MERGED)})
    hours: dict[str, float] = {}
    largest = 0
    for protocol, names in config.runs.items():
        for name in names:
            weights = arm_bytes(config.arms[name], published)
            largest = max(largest, weights)
            hours[f"{protocol}/{name}"] = _hours(config, protocol, config.arms[name], weights)
    return Needs(fetched + merges * published["base"].bytes, int(WORKING_SHARE * largest), sum(hours.values()), hours)


def arm_bytes(arm: ArmConfig, published: Mapping[str, Published]) -> int:
    """Bytes of an arm's weights; a merged model is as large as the base."""
    return sum(
        published["base" if name.startswith(MERGED) else name].bytes for name in dict.fromkeys([arm.base, *arm.experts])
    )


def _hours(config: PreflightConfig, protocol: str, arm: ArmConfig, weights: int) -> float:
    """Steps of decoding times the time to read the weights once; rows of a batch share a step."""
    seconds = weights / (config.bandwidth * config.bandwidth_share)
    steps = 0.0
    for benchmark in config.benchmarks:
        task = config.protocols[protocol].task(benchmark, bool(arm.experts))
        rows = config.sources[benchmark].splits["test"].rows or 0
        rows = min(rows, config.limit) if config.limit is not None else rows
        steps += rows / task.batch_size * task.max_new_tokens
    return steps * seconds / SECONDS_AN_HOUR


def missing(needed: Needs, machine: Machine) -> list[str]:
    """One sentence for everything that is not there."""
    problems = []
    if machine.free_disk < needed.disk:
        problems.append(f"{needed.disk / 1e9:.1f} GB of disk are needed and {machine.free_disk / 1e9:.1f} GB are free")
    if machine.gpu_memory == 0:
        problems.append("there is no GPU that torch can use: run on a machine with one, or PROFILE=laptop")
    elif machine.gpu_memory < needed.gpu_memory:
        have = machine.gpu_memory / 1e9
        problems.append(f"{needed.gpu_memory / 1e9:.1f} GB of GPU memory are needed and {have:.1f} GB are there")
    return problems
