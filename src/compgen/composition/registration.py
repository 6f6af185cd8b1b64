"""How a composed model is written down, and how transformers' Auto classes find it.

Covers the configuration file and the options of loading. The model is in `causal_lm.py`.
"""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig

from compgen.composition.checks import COMPOSED
from compgen.composition.components import Loading
from compgen.composition.options import Combination, CompositionRule, EndOfSequence, Remedy, Weighting
from compgen.errors import ConfigError, require

IGNORED = (
    *("revision", "subfolder", "token", "cache_dir", "local_files_only", "low_cpu_mem_usage", "use_safetensors"),
    "adapter_kwargs",
)
"""Options of `from_pretrained` that mean nothing for a directory whose components are pinned."""


class ComposedConfig(PreTrainedConfig):  # type: ignore[misc]
    """What a composed model consists of, as plain values."""

    model_type = COMPOSED
    components: list[dict[str, Any]] | None = None
    rule: dict[str, Any] | None = None
    truncate_padding: bool = False
    attention: str = "eager"
    vocab_size: int = 1
    max_position_embeddings: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    use_cache: bool = True
    tie_word_embeddings: bool = False


def rule_from(values: Mapping[str, Any] | None) -> CompositionRule:
    """A rule from its plain values.

    Raises:
        ConfigError: a value or a name is not known.
    """
    kinds = {"combination": Combination, "remedy": Remedy, "end_of_sequence": EndOfSequence, "weighting": Weighting}
    found = dict(values or {})
    try:
        found |= {name: kind(found[name]) for name, kind in kinds.items() if name in found}
        if found.get("coefficients") is not None:
            found["coefficients"] = tuple(found["coefficients"])
        return CompositionRule(**found)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"rule={dict(values or {})!r}: {error}") from error


def loading_from(config: ComposedConfig, options: dict[str, Any]) -> Loading:
    """What the options of `from_pretrained` ask for.

    Raises:
        ConfigError: an option does not exist for composed models, or no dtype is known.
    """
    given = {name: value for name, value in options.items() if name not in IGNORED and not name.startswith("_")}
    dtype = given.pop("dtype", None) or given.pop("torch_dtype", None) or "auto"
    given.pop("torch_dtype", None)
    attention = given.pop("attn_implementation", None) or config._attn_implementation or config.attention
    device_map = given.pop("device_map", None)
    trust_remote_code = bool(given.pop("trust_remote_code", None))
    extra = {name: value for name in ("max_memory", "offload_folder") if (value := given.pop(name, None)) is not None}
    unknown = [name for name, value in given.items() if value]
    require(not unknown, "from_pretrained", unknown, "not available for composed models")
    chosen = config.dtype if dtype == "auto" else dtype
    chosen = getattr(torch, chosen) if isinstance(chosen, str) else chosen
    require(isinstance(chosen, torch.dtype), "dtype", chosen, "must be given: the directory names none")
    return Loading(chosen, attention, device_map, trust_remote_code, extra)


def register() -> None:
    """Make AutoConfig and AutoModelForCausalLM know composed models; again is harmless."""
    from compgen.composition.causal_lm import ComposedForCausalLM

    AutoConfig.register(COMPOSED, ComposedConfig, exist_ok=True)
    AutoModelForCausalLM.register(ComposedConfig, ComposedForCausalLM, exist_ok=True)
