"""What must hold between components before any weights are loaded: tokens, positions, memory.

Reads configurations and tokenizers only. Weights are loaded in `components.py`.
"""

import json
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from compgen.composition.components import ADAPTER_WEIGHTS, ComponentSpec
from compgen.errors import ConfigError, UserError, require

logger = logging.getLogger(__name__)

NAMED = 5
"""How many differing tokens a message names."""
NEED_BEGIN = ("gemma",)
"""Prefixes of model types that collapse without the token that begins a sequence (lm-eval pull request 1465)."""
PROBE = "One two three."
TOKENIZER_FILES = ("tokenizer.json", "*.model", "vocab.*", "tekken.json")
COMPOSED = "compgen_composed"


@dataclass(frozen=True)
class Description:
    """All that is known about a component before its weights are."""

    name: str
    config: Any
    tokenizer: Any

    @property
    def width(self) -> int:
        """How many rows its unembedding has."""
        return int(self.config.get_text_config().vocab_size)


def describe(spec: ComponentSpec, trust_remote_code: bool = False) -> Description:
    """Read a resolved component's configuration and tokenizer.

    Raises:
        UserError: they cannot be read.
    """
    from transformers import AutoConfig, AutoTokenizer

    if spec.is_local:
        _check_directory(spec)
    options = {"trust_remote_code": trust_remote_code, "revision": None if spec.is_local else spec.revision}
    try:
        config = AutoConfig.from_pretrained(spec.source, **options)
        return Description(spec.name, config, AutoTokenizer.from_pretrained(spec.source, **options))
    except OSError as error:
        raise UserError(f"component {spec.name}: configuration or tokenizer of {spec.source}: {error}") from error


def _check_directory(spec: ComponentSpec) -> None:
    """Refuse what transformers would read otherwise than meant; without tokenizer files it makes an empty tokenizer."""
    place = Path(str(spec.source))
    if not (place / "config.json").is_file() or not any(next(place.glob(name), None) for name in TOKENIZER_FILES):
        raise UserError(f"component {spec.name}: {place} needs config.json and a tokenizer beside the weights")
    kind = json.loads((place / "config.json").read_text(encoding="utf-8")).get("model_type")
    require(kind != COMPOSED, "component.source", spec.source, "is a composition itself: name its components")


def describe_all(specs: Sequence[ComponentSpec], trust_remote_code: bool = False) -> list[Description]:
    """Describe every component; what has the same source is read once."""
    read: dict[Any, Description] = {}
    for spec in specs:
        source = spec.weights[:2]
        read[source] = read.get(source) or describe(spec, trust_remote_code)
    return [replace(read[spec.weights[:2]], name=spec.name) for spec in specs]


def check_tokens(descriptions: Sequence[Description], truncate_padding: bool = False) -> int:
    """Check that all components speak of the same tokens.

    Args:
        descriptions: the base first.
        truncate_padding: whether rows of a wider vocabulary may be left out that no token of the tokenizer has.

    Returns:
        The width of the common vocabulary.

    Raises:
        ConfigError: token maps, special tokens or widths of vocabularies differ; begin tokens are doubled or missing.
    """
    base, *experts = descriptions
    for description in descriptions:
        check_begin(description)
    for expert in experts:
        _check_map(base, expert)
        _check_special(base, expert)
    highest = max(base.tokenizer.get_vocab().values())
    return common_width({item.name: item.width for item in descriptions}, highest, truncate_padding)


def common_width(widths: Mapping[str, int], highest: int | None, truncate_padding: bool) -> int:
    """The width of the vocabulary that all components have.

    Args:
        widths: by component.
        highest: the highest id of the tokenizer, None where it is not known.
        truncate_padding: whether wider ones may be cut.

    Raises:
        ConfigError: they differ and may not be cut, or the cut would take a token away.
    """
    narrow, wide = min(widths.values()), max(widths.values())
    listed = ", ".join(f"{name} {width}" for name, width in widths.items())
    if narrow != wide:
        remedy = f"vocabularies have different widths ({listed}): set it if the extra rows are padding"
        require(truncate_padding, "truncate_padding", truncate_padding, remedy)
    if highest is not None:
        require(narrow > highest, "truncate_padding", narrow, f"the tokenizer has token {highest} ({listed})")
    if narrow != wide:
        logger.warning("vocabularies are cut to %d rows; the rest is padding (%s)", narrow, listed)
    return narrow


def _check_map(base: Description, expert: Description) -> None:
    ours, theirs = base.tokenizer.get_vocab(), expert.tokenizer.get_vocab()
    if ours == theirs:
        return
    differing = sorted(
        (token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token)),
        key=lambda token: min(ours.get(token, theirs.get(token)), theirs.get(token, ours.get(token))),
    )
    named = ", ".join(f"{token!r} {ours.get(token)}/{theirs.get(token)}" for token in islice(differing, NAMED))
    raise ConfigError(
        f"component {expert.name}: {len(differing)} tokens have other ids than in {base.name} "
        f"(token {base.name}/{expert.name}: {named}): only models with the same tokenizer can be composed"
    )


def _check_special(base: Description, expert: Description) -> None:
    for role in ("bos_token", "unk_token"):
        ours, theirs = getattr(base.tokenizer, role, None), getattr(expert.tokenizer, role, None)
        require(ours == theirs, f"component {expert.name}, {role}", theirs, f"{base.name} has {ours!r}")
    ours, theirs = _special(base), _special(expert)
    named = ", ".join(repr(token) for token in sorted(ours ^ theirs)[:NAMED])
    require(ours == theirs, f"component {expert.name}, special tokens", named, f"special in it or in {base.name} only")
    for role in ("eos_token", "pad_token"):  # end tokens are united, padding is masked
        mine, other = getattr(base.tokenizer, role, None), getattr(expert.tokenizer, role, None)
        if mine != other:
            logger.warning("%s is %r in %s and %r in %s", role, mine, base.name, other, expert.name)


def _special(description: Description) -> set[str]:
    added = description.tokenizer.added_tokens_decoder
    return {str(token.content) for token in added.values() if token.special}


def check_begin(description: Description) -> None:
    """Check that texts begin with exactly one begin token, where the tokenizer has one and the model needs it.

    Raises:
        ConfigError: there are two, or none in a model that needs one.
    """
    tokenizer, name = description.tokenizer, description.name
    begin = tokenizer.bos_token_id
    found = begin_tokens(tokenizer(PROBE)["input_ids"], begin)
    require(found <= 1, f"component {name}, begin tokens", found, f"the tokenizer puts {tokenizer.bos_token!r} twice")
    needed = description.config.model_type.startswith(NEED_BEGIN) or getattr(tokenizer, "add_bos_token", None) is True
    remedy = "the tokenizer must begin every text with its begin token (check its post-processor)"
    require(found == 1 or not needed, f"component {name}, begin tokens", found, remedy)
    if begin is not None and not found:
        logger.info("component %s: texts do not begin with %r", name, tokenizer.bos_token)


def begin_tokens(ids: Sequence[int], begin: int | None) -> int:
    """How many begin tokens stand at the beginning of a row.

    Raises:
        ConfigError: one stands further inside.
    """
    count = next((place for place, token in enumerate(ids) if token != begin), len(ids))
    inside = begin is not None and begin in ids[count:]
    require(not inside, "begin tokens", begin, "one stands inside the text: leave it out of the text")
    return count


def prompt_tokens(spec: ComponentSpec, tokenizer: Any) -> tuple[int, ...]:
    """The tokens of a component's prompt, none where it has none.

    Raises:
        ConfigError: the prompt has a begin token of its own, which would then stand twice.
    """
    if spec.prompt is None:
        return ()
    ids = tuple(int(token) for token in tokenizer(spec.prompt, add_special_tokens=False)["input_ids"])
    begin = tokenizer.bos_token_id
    require(begin is None or begin not in ids, "component.prompt", spec.prompt, "leave the begin token out")
    return ids


def check_positions(positions: Mapping[str, int | None], length: int) -> None:
    """Check that rows of some length fit.

    Raises:
        ConfigError: naming the component that is too short.
    """
    for name, longest in positions.items():
        if longest is not None:
            remedy = f"component {name} has {longest} positions (its prompt taken off): use shorter rows"
            require(length <= longest, "length", length, remedy)


def weight_bytes(config: Any, dtype: Any, trust_remote_code: bool = False) -> int:
    """Bytes of a model's weights, tied ones once, counted on the architecture without memory for it."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        module = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code)
    return sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())


def cache_bytes(config: Any, dtype: Any, rows: int, columns: int) -> int:
    """Bytes of the keys and values of some rows; sliding layers count in full, an upper bound."""
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return int(2 * text.num_hidden_layers * heads * width * rows * columns * dtype.itemsize)


def adapter_bytes(directory: str, dtype: Any) -> int:
    """Bytes of an adapter, from the header of its file."""
    from safetensors import safe_open

    with safe_open(Path(directory) / ADAPTER_WEIGHTS, framework="pt") as file:
        sizes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118, no mapping
    return int(sum(math.prod(size) for size in sizes) * dtype.itemsize)


def free_memory(device_map: Any) -> int:
    """Bytes that are free where the weights will be: on one device, or on all together."""
    from accelerate.utils import get_max_memory  # type: ignore[import-untyped]

    free = get_max_memory()
    if isinstance(device_map, dict):
        return sum(int(free.get(place, 0)) for place in {_place(device) for device in device_map.values()})
    if device_map == "auto":
        return int(sum(free.values()))
    return int(free.get(_place(device_map or "cpu"), 0))


def _place(device: Any) -> Any:
    """A device as accelerate names it: a number for a GPU, else its kind."""
    import torch

    if isinstance(device, int):
        return device
    parsed = torch.device(device)
    return (parsed.index or 0) if parsed.type == "cuda" else parsed.type


def needed_memory(specs: Sequence[ComponentSpec], descriptions: Sequence[Description], dtype: Any) -> int:
    """Bytes of the weights of resolved components, what several share once."""
    base, total, counted = specs[0], 0, set()
    for spec, description in zip(specs, descriptions, strict=True):
        if spec.weights in counted:
            continue
        counted.add(spec.weights)
        shares = spec.adapter is not None and spec.weights[:2] == base.weights[:2]
        total += adapter_bytes(str(spec.adapter), dtype) if shares else weight_bytes(description.config, dtype)
    return total


def check_memory(needed: int, free: int) -> None:
    """Say how much memory is needed, and refuse what cannot fit.

    Raises:
        UserError: it does not fit.
    """
    said = f"the weights need {needed / 2**30:.2f} GiB, {free / 2**30:.2f} GiB are free"
    logger.info(said)
    if needed > free:
        raise UserError(f"{said}: use a narrower dtype, fewer experts, or adapters that share the base")
