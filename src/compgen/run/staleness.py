"""Whether a finished job still stands for its configuration, code and inputs, and if not, why, in words."""

from collections.abc import Iterator, Mapping
from typing import Any

from compgen.run.context import FinishedJob
from compgen.run.manifest import missing_or_resized

SHOWN_REASONS = 3


def stale_reasons(
    job: FinishedJob, kind: str, config: Mapping[str, Any], code: Mapping[str, str], inputs: Mapping[str, str]
) -> list[str]:
    """Why the finished job does not stand for these values; empty when it does.

    Args:
        job: the finished directory.
        kind: the kind of job wanted.
        config: its resolved config.
        code: digests of its transitive source files by path.
        inputs: content digests of its inputs by name, in order.
    """
    manifest = job.manifest
    reasons: list[str] = []
    if manifest["kind"] != kind:
        reasons.append(f"kind {manifest['kind']} -> {kind}")
    reasons.extend(_changed_values(manifest["config"], config))
    reasons.extend(_changed_files(manifest["code"], code))
    reasons.extend(_changed_inputs(manifest["inputs"], inputs))
    wrong = missing_or_resized(job)
    if wrong:
        reasons.append(f"damaged: {wrong}")
    return reasons


def in_words(reasons: list[str]) -> str:
    """The first few reasons and how many more there are."""
    shown = "; ".join(reasons[:SHOWN_REASONS])
    hidden = len(reasons) - SHOWN_REASONS
    return f"{shown}; and {hidden} more" if hidden > 0 else shown


def flatten(value: object, prefix: str = "") -> dict[str, object]:
    """Nested mappings as one mapping with dotted keys; lists stay values."""
    if not isinstance(value, Mapping) or not value:
        return {prefix: value}
    flat: dict[str, object] = {}
    for key, nested in value.items():
        flat.update(flatten(nested, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def _changed_values(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    old, new = flatten(before), flatten(now)
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            yield f"{key} is gone"
        elif key not in old:
            yield f"{key} is new"
        elif old[key] != new[key]:
            yield f"{key} {old[key]} -> {new[key]}"


def _changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for path in sorted(before.keys() | now.keys()):
        if before.get(path) != now.get(path):
            word = "changed" if path in before and path in now else "added" if path in now else "no longer used"
            yield f"{path} {word}"


def _changed_inputs(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    if list(before) != list(now):
        added, gone = [n for n in now if n not in before], [n for n in before if n not in now]
        yield f"inputs changed (added {added or 'none'}, removed {gone or 'none'})"
    for name in now:
        if name in before and before[name] != now[name]:
            yield f"input {name} changed"
