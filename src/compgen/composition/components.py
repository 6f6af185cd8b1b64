"""What a composed model is made of: checkpoints, adapters on a shared base, prompts. How they are loaded and saved.

Covers single components and which of them share weights. What must agree between components is in `checks.py`, running
them together in `causal_lm.py`. Torch is imported only when weights are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compgen.errors import ConfigError, UserError, require

COMMIT = re.compile(r"[0-9a-f]{40}")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
ADAPTER_WEIGHTS = "adapter_model.safetensors"
FOLDER = "components"


@dataclass(frozen=True)
class ComponentSpec:
    """One component, as a user names it."""

    source: str | None = None
    """A checkpoint directory or hub id. An expert without one uses the base's weights."""
    revision: str | None = None
    """The commit of a hub id, 40 hexadecimal digits."""
    adapter: str | None = None
    """The directory of a PEFT adapter on the source. On the base's source it shares the base's weights."""
    prompt: str | None = None
    """Text that stands before every row of this component only: an expert by context."""
    name: str = ""
    """Used in messages and as a directory; empty is `base` or `expert-N`."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigError: nothing is named, a directory does not exist, or a hub id has no commit.
        """
        given = self.source or self.adapter or self.prompt
        require(bool(given), "component", self.name, "needs a source, an adapter or a prompt")
        require(
            not self.name or bool(NAME.fullmatch(self.name)), "component.name", self.name, "use letters, digits, ._-"
        )
        if self.source and not self.is_local:
            pinned = self.revision is not None and bool(COMMIT.fullmatch(self.revision))
            remedy = (
                f"no directory {self.source} exists, so it is a hub id: pin it to a commit of 40 hexadecimal digits"
            )
            require(pinned, "component.revision", self.revision, remedy)
        if self.adapter is not None:
            found = (Path(self.adapter) / ADAPTER_WEIGHTS).is_file()
            require(found, "component.adapter", self.adapter, f"must be a directory with {ADAPTER_WEIGHTS}")

    @property
    def is_local(self) -> bool:
        """Whether the source is a directory of this machine."""
        return bool(self.source) and Path(str(self.source)).is_dir()

    @property
    def weights(self) -> tuple[str | None, str | None, str | None]:
        """Components with equal values share one module."""
        source = str(Path(str(self.source)).resolve()) if self.is_local else self.source
        return (source, self.revision, self.adapter)


def resolve(base: str | ComponentSpec, experts: Sequence[str | ComponentSpec]) -> list[ComponentSpec]:
    """The base and its experts with every name and source filled in, the base first.

    Raises:
        ConfigError: the base has no source, or two components have the same name.
    """
    given = [item if isinstance(item, ComponentSpec) else ComponentSpec(source=item) for item in (base, *experts)]
    source, revision = given[0].source, given[0].revision
    require(bool(source), "base.source", source, "the base needs a checkpoint of its own")
    names = [spec.name or (f"expert-{number}" if number else "base") for number, spec in enumerate(given)]
    require(len(set(names)) == len(names), "component.name", names, "every component needs a name of its own")
    return [
        ComponentSpec(
            source=spec.source or source,
            revision=spec.revision if spec.source else revision,
            adapter=spec.adapter,
            prompt=spec.prompt,
            name=name,
        )
        for spec, name in zip(given, names, strict=True)
    ]


@dataclass
class Component:
    """One component at work: a module, which others may share, with what makes it this component."""

    name: str
    module: Any
    """A transformers causal language model, or the PeftModel around it."""
    prefix: tuple[int, ...] = ()
    """The tokens of its prompt, without the one that begins a sequence."""
    adapter: str | None = None
    """The adapter of the PeftModel; None is the base below all adapters."""
    spec: ComponentSpec | None = None

    @property
    def network(self) -> Any:
        """The language model itself."""
        return self.module.get_base_model() if _has_adapters(self.module) else self.module

    @property
    def positions(self) -> int | None:
        """How many tokens of a row it can see, its prompt taken off; None where the architecture sets no limit."""
        longest = getattr(self.network.config.get_text_config(), "max_position_embeddings", None)
        return None if longest is None else int(longest) - len(self.prefix)

    @property
    def end_tokens(self) -> set[int]:
        """The end tokens of its configuration and of its generation configuration."""
        found: set[int] = set()
        for config in (self.network.config, self.network.config.get_text_config(), self.network.generation_config):
            tokens = getattr(config, "eos_token_id", None)
            found |= set() if tokens is None else {tokens} if isinstance(tokens, int) else set(tokens)
        return found

    @contextmanager
    def active(self) -> Iterator[Any]:
        """The network with exactly this component's adapter switched on."""
        if not _has_adapters(self.module):
            yield self.module
        elif self.adapter is None:
            with self.module.disable_adapter():
                yield self.network
        else:
            self.module.set_adapter(self.adapter, inference_mode=True)
            yield self.network


def _has_adapters(module: Any) -> bool:
    return hasattr(module, "peft_config") and hasattr(module, "get_base_model")


@dataclass(frozen=True)
class Loading:
    """How weights are loaded; the same for every component."""

    dtype: Any
    """A torch.dtype."""
    attention: str = "eager"
    device_map: Any = None
    """A device, `auto` or a map, as in transformers; None is the CPU."""
    trust_remote_code: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of transformers' `from_pretrained`."""


def load(specs: Sequence[ComponentSpec], prefixes: Sequence[Sequence[int]], loading: Loading) -> list[Component]:
    """Load the resolved components, weights that several use once.

    Raises:
        UserError: a checkpoint has no safetensors weights, or an adapter is of a kind that cannot share its base.
    """
    base = specs[0]
    modules: dict[tuple[str | None, str | None, str | None], Any] = {}
    adapted = [spec.weights for spec in specs[1:] if spec.adapter is not None and spec.weights[:2] == base.weights[:2]]
    shared = {weights: f"adapter{number}" for number, weights in enumerate(dict.fromkeys(adapted))}
    require(
        not (base.adapter and shared), "base.adapter", base.adapter, "merge it first: experts' adapters share the base"
    )
    for spec in specs:
        if spec.weights not in modules and spec.weights not in shared:
            modules[spec.weights] = _load_module(spec, loading)
    if shared:
        modules[base.weights] = _with_adapters(modules[base.weights], shared)
    return [
        Component(
            name=spec.name,
            module=modules[base.weights if spec.weights in shared else spec.weights],
            prefix=tuple(prefix),
            adapter=shared.get(spec.weights),
            spec=spec,
        )
        for spec, prefix in zip(specs, prefixes, strict=True)
    ]


def _load_module(spec: ComponentSpec, loading: Loading) -> Any:
    from transformers import AutoModelForCausalLM

    try:
        module = AutoModelForCausalLM.from_pretrained(
            spec.source,
            revision=None if spec.is_local else spec.revision,
            dtype=loading.dtype,
            attn_implementation=loading.attention,
            device_map=loading.device_map,
            trust_remote_code=loading.trust_remote_code,
            use_safetensors=True,
            **loading.extra,
        )
    except OSError as error:
        raise UserError(f"component {spec.name}: {spec.source} cannot be loaded from safetensors: {error}") from error
    return module if spec.adapter is None else _merged(module, spec.adapter)


def _merged(module: Any, directory: str) -> Any:
    from peft import PeftModel

    return PeftModel.from_pretrained(module, directory, autocast_adapter_dtype=False).merge_and_unload()


def _with_adapters(module: Any, shared: Mapping[tuple[str | None, str | None, str | None], str]) -> Any:
    from peft import PeftModel

    for (_, _, directory), name in shared.items():
        if _has_adapters(module):
            module.load_adapter(directory, adapter_name=name, autocast_adapter_dtype=False)
        else:
            module = PeftModel.from_pretrained(module, directory, adapter_name=name, autocast_adapter_dtype=False)
        config = module.peft_config[name]
        if config.is_prompt_learning or getattr(config, "modules_to_save", None):
            raise ConfigError(
                f"component.adapter={directory!r}: holds more than weight deltas: merge it into a checkpoint"
            )
    return module


def save(components: Sequence[Component], tokenizer: Any, folder: Path) -> list[dict[str, Any]]:
    """Write every module once, as a checkpoint with the common tokenizer; hub components stay references.

    Returns:
        The components as plain values, from which `ComponentSpec` and the prefixes can be read back.
    """
    written: dict[int, tuple[str, str | None]] = {}
    for component in components:
        if id(component.module) not in written:
            written[id(component.module)] = _save_module(component, tokenizer, folder)
    return [_as_entry(component, *written[id(component.module)], folder) for component in components]


def _save_module(component: Component, tokenizer: Any, folder: Path) -> tuple[str, str | None]:
    """The source and revision under which it can be loaded again."""
    spec = component.spec
    is_merged = spec is not None and spec.adapter is not None and component.adapter is None
    if spec is not None and spec.source is not None and not spec.is_local and not is_merged:
        return spec.source, spec.revision
    place = f"{FOLDER}/{component.name}"
    state = None
    if _has_adapters(component.module):
        mark = component.module.base_model.prefix  # of the tuner's own parameters
        parameters = component.network.state_dict()
        state = {key.replace(".base_layer.", "."): value for key, value in parameters.items() if mark not in key}
    component.network.save_pretrained(folder / place, state_dict=state)
    tokenizer.save_pretrained(folder / place)
    return place, None


def _as_entry(component: Component, source: str, revision: str | None, folder: Path) -> dict[str, Any]:
    adapter = None
    if component.adapter is not None:
        adapter = f"{FOLDER}/{component.name}"
        component.module.save_pretrained(folder / adapter, selected_adapters=[component.adapter])
        adapter = f"{adapter}/{component.adapter}"
    return {
        "name": component.name,
        "source": source,
        "revision": revision,
        "adapter": adapter,
        "prompt": component.spec.prompt if component.spec else None,
        "prefix": list(component.prefix),
    }


def read_entry(entry: Mapping[str, Any], folder: Path) -> ComponentSpec:
    """The component that `save` wrote.

    Raises:
        ConfigError: what it refers to is not there.
    """
    inside = (folder / entry["source"]).is_dir()
    return ComponentSpec(
        source=str(folder / entry["source"]) if inside else entry["source"],
        revision=entry["revision"],
        adapter=str(folder / entry["adapter"]) if entry["adapter"] else None,
        prompt=entry["prompt"],
        name=entry["name"],
    )
