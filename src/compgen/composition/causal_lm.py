"""The composed model: a base and its experts as one transformers causal language model.

Covers running all components on the same rows and combining their logits in float32, so that `generate`, lm-eval and
evalplus take it for any other model. The combination itself is in `rule.py`; loading and its checks are in
`components.py` and `checks.py`; the cache in `cache.py`. How it is known to the Auto classes is in `registration.py`.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

from compgen.composition import checks, components, rule
from compgen.composition.cache import ComposedCache, Inputs, behind_prefix, own_positions
from compgen.composition.components import Component, ComponentSpec, Loading
from compgen.composition.options import CompositionRule
from compgen.composition.registration import ComposedConfig, loading_from, rule_from
from compgen.errors import ConfigError, UserError, require

CHUNK_VALUES = 2**26
"""So many float32 values of one component are combined at once: 256 MiB each."""


class NonFiniteError(UserError, ValueError):
    """A component's logits are NaN or infinite."""

    def __init__(self, component: str, row: int, column: int) -> None:
        """Name the component, the row of the batch and the column among those asked for."""
        super().__init__(f"component {component} has NaN or infinite logits in row {row} of the batch, column {column}")
        self.component, self.row, self.column = component, row, column


class ComposedForCausalLM(PreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """A base and experts; its logits are the normalized log-probabilities of the rule."""

    config: ComposedConfig
    _supports_sdpa = _supports_flash_attn = _supports_flex_attn = True

    def __init__(
        self,
        config: ComposedConfig,
        parts: Sequence[Component] | None = None,
        tokenizer: Any = None,
        end_tokens: Sequence[int] | None = None,
    ) -> None:
        """Put loaded components together; `compose`, `from_modules` and `from_pretrained` do the loading.

        Raises:
            ConfigError: there are no components, or an end token is outside the common vocabulary.
        """
        require(parts is not None, "components", None, "use compose, from_modules or from_pretrained")
        config._attn_implementation = config.attention
        super().__init__(config)
        self.parts = list(parts or ())
        self.tokenizer = tokenizer
        unique = {id(part.module): part.module for part in self.parts}
        self.component_modules = nn.ModuleList(unique.values())
        united = set().union(*(part.end_tokens for part in self.parts))
        self.end_tokens = tuple(sorted(united if end_tokens is None else end_tokens))
        outside = [token for token in self.end_tokens if token >= config.vocab_size]
        require(not outside, "end_tokens", outside, f"outside the common vocabulary of {config.vocab_size}")
        self._describe()
        self.rule = rule_from(config.rule)
        self.eval()

    def _describe(self) -> None:
        """Fill in what `generate` and evaluation tools read from configurations."""
        base = self.parts[0].network.config.get_text_config()
        self.config.architectures = [type(self).__name__]
        self.config.eos_token_id = list(self.end_tokens) or None
        self.config.bos_token_id = getattr(base, "bos_token_id", None)
        pad = getattr(base, "pad_token_id", None)
        self.config.pad_token_id = pad if pad is not None else next(iter(self.end_tokens), None)
        self.config.max_position_embeddings = self.longest if self.longest < sys.maxsize else None
        self.config.dtype = self.parts[0].network.dtype
        names = ("bos_token_id", "eos_token_id", "pad_token_id")
        self.generation_config = GenerationConfig(**{name: getattr(self.config, name) for name in names})

    @classmethod
    def compose(
        cls,
        base: str | ComponentSpec,
        experts: Sequence[str | ComponentSpec] = (),
        rule: CompositionRule | None = None,
        *,
        dtype: torch.dtype = torch.float32,
        attn_implementation: str = "eager",
        device_map: Any = None,
        trust_remote_code: bool = False,
        truncate_padding: bool = False,
    ) -> Self:
        """Load and compose checkpoints, adapters and prompts, after checking that they fit together.

        Args:
            base: a checkpoint directory, or the specification of one or of a hub id with its commit.
            experts: the same, or adapters and prompts on the base; none gives the base itself.
            rule: how they are combined; None is the paper's rule.
            dtype: of the weights. Logits are combined in float32.
            attn_implementation: as in transformers; eager is right for every architecture.
            device_map: as in transformers: a device, `auto` or a map. None is the CPU.
            trust_remote_code: whether code in the checkpoints may run.
            truncate_padding: whether a wider vocabulary may be cut to the narrowest, if the rest is padding.

        Raises:
            ConfigError: the components do not fit together.
            UserError: a component cannot be read, or the memory does not suffice.
        """
        specs = components.resolve(base, experts)
        loading = Loading(dtype, attn_implementation, device_map, trust_remote_code)
        return cls._load(specs, None, loading, rule or CompositionRule(), truncate_padding)

    @classmethod
    def _load(
        cls,
        specs: Sequence[ComponentSpec],
        prefixes: Sequence[Sequence[int]] | None,
        loading: Loading,
        rule: CompositionRule,
        truncate_padding: bool,
    ) -> Self:
        descriptions = checks.describe_all(specs, loading.trust_remote_code)
        width = checks.check_tokens(descriptions, truncate_padding)
        checks.check_memory(
            checks.needed_memory(specs, descriptions, loading.dtype), checks.free_memory(loading.device_map)
        )
        tokenizer = descriptions[0].tokenizer
        if prefixes is None:
            prefixes = [checks.prompt_tokens(spec, tokenizer) for spec in specs]
        parts = components.load(specs, prefixes, loading)
        ends = set().union(*(part.end_tokens for part in parts))
        ends |= {item.tokenizer.eos_token_id for item in descriptions} - {None}
        config = ComposedConfig(
            rule=asdict(rule), truncate_padding=truncate_padding, attention=loading.attention, vocab_size=width
        )
        return cls(config, parts, tokenizer, sorted(ends))

    @classmethod
    def from_modules(
        cls,
        base_module: Any,
        expert_modules: Sequence[Any] = (),
        rule: CompositionRule | None = None,
        end_tokens: Sequence[int] | None = None,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        names: Sequence[str] | None = None,
        tokenizer: Any = None,
        truncate_padding: bool = False,
    ) -> Self:
        """Compose models in memory; one that is given twice is held once.

        Args:
            base_module: a transformers causal language model.
            expert_modules: the same.
            rule: how they are combined; None is the paper's rule.
            end_tokens: None is the union of what the models' configurations name.
            prefixes: token ids that stand before the rows of each component, the base's first; None is none.
            names: of the components, the base's first.
            tokenizer: saved beside the model.
            truncate_padding: as in `compose`.

        Raises:
            ConfigError: vocabularies have different widths.
        """
        modules = [base_module, *expert_modules]
        names = names or ["base", *(f"expert-{number}" for number in range(1, len(modules)))]
        prefixes = prefixes or [()] * len(modules)
        parts = [
            Component(name, module, tuple(prefix))
            for name, module, prefix in zip(names, modules, prefixes, strict=True)
        ]
        widths = {part.name: int(part.network.config.get_text_config().vocab_size) for part in parts}
        highest = None if tokenizer is None else max(tokenizer.get_vocab().values())
        config = ComposedConfig(
            rule=asdict(rule or CompositionRule()),
            truncate_padding=truncate_padding,
            attention=base_module.config._attn_implementation or "eager",
            vocab_size=checks.common_width(widths, highest, truncate_padding),
        )
        return cls(config, parts, tokenizer, end_tokens)

    @classmethod
    def from_pretrained(cls, folder: str | Path, *arguments: Any, config: Any = None, **options: Any) -> Self:
        """Load what `save_pretrained` wrote.

        Args:
            folder: the directory.
            arguments: none.
            config: read from the directory where it is None.
            options: dtype, attn_implementation, device_map, max_memory, offload_folder, trust_remote_code, as in
                transformers.

        Raises:
            UserError: the directory is none, or an option does not exist for composed models.
        """
        require(
            Path(folder).is_dir() and not arguments, "folder", str(folder), "must be a directory of a composed model"
        )
        config = config or ComposedConfig.from_pretrained(folder)
        loading = loading_from(config, options)
        entries = config.components or []
        specs = [components.read_entry(entry, Path(folder)) for entry in entries]
        prefixes = [entry["prefix"] for entry in entries]
        model = cls._load(specs, prefixes, loading, rule_from(config.rule), config.truncate_padding)
        model.name_or_path = model.config.name_or_path = str(folder)
        return model

    def save_pretrained(self, save_directory: str | Path, **_: Any) -> None:
        """Write a directory that `from_pretrained` reads: every module once, hub components as references.

        Raises:
            ConfigError: the model was made without a tokenizer.
        """
        folder = Path(save_directory)
        require(
            self.tokenizer is not None, "tokenizer", None, "a composition is saved with one: give it to from_modules"
        )
        folder.mkdir(parents=True, exist_ok=True)
        self.config.components = components.save(self.parts, self.tokenizer, folder)
        self.config.save_pretrained(folder)
        self.generation_config.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    @property
    def rule(self) -> CompositionRule:
        """How the components are combined; may be set."""
        return self._rule

    @rule.setter
    def rule(self, value: CompositionRule) -> None:
        experts = len(self.parts) - 1
        weights = value.coefficients
        fits = weights is None or len(weights) == experts
        require(fits, "composition.coefficients", weights, f"needs one for each of {experts} experts")
        self._rule = value
        self.config.rule = asdict(value)

    @property
    def longest(self) -> int:
        """How many positions every component has for a row; sys.maxsize where no architecture limits them."""
        return min((part.positions for part in self.parts if part.positions is not None), default=sys.maxsize)

    @property
    def has_contexts(self) -> bool:
        """Whether some component has a prompt of its own."""
        return any(part.prefix for part in self.parts)

    def new_cache(self, keep_all: bool = False) -> ComposedCache:
        """An empty cache; `keep_all` as in ComposedCache."""
        configs = [part.network.config for part in self.parts]
        return ComposedCache(configs, [len(part.prefix) for part in self.parts], keep_all)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: ComposedCache | None = None,
        use_cache: bool | None = None,
        labels: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        return_dict: bool = True,
    ) -> CausalLMOutputWithPast:
        """The distribution over the next token of every row.

        Args:
            input_ids: (row, column), what follows the cached columns.
            attention_mask: (row, cached + column), 0 where nothing stands; None is full rows.
            position_ids: (row, column); None counts the mask.
            cache: of `new_cache`, extended in place.
            use_cache: whether to return a new one where none is given.
            labels: (row, column), for the loss, −100 where there is none.
            logits_to_keep: how many last columns, or which; 0 is all.
            return_dict: always true.

        Returns:
            Logits (row, column, vocabulary): normalized log-probabilities, float32; uniform where nothing stands.

        Raises:
            NonFiniteError: a component's are not finite where a token stands.
            ConfigError: a row begins with two begin tokens, or is longer than some component's positions.
        """
        assert return_dict
        if use_cache and cache is None:
            cache = self.new_cache()
        logits = self._run(input_ids, attention_mask, position_ids, cache, logits_to_keep)
        combined = self._combine(logits, _stands(attention_mask, input_ids.shape[1], logits_to_keep))
        loss = None if labels is None else self.loss_function(combined, labels, self.config.vocab_size)
        return CausalLMOutputWithPast(loss=loss, logits=combined, cache=cache)

    def component_log_probabilities(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        cache: ComposedCache | None = None,
        logits_to_keep: int | Tensor = 0,
    ) -> tuple[Tensor, Tensor]:
        """What the components say on their own, for diagnostics; arguments as in `forward`.

        Returns:
            Normalized float32 log-probabilities of the base, (row, column, vocabulary), and of the experts, (expert,
            row, column, vocabulary).
        """
        logits = self._run(input_ids, attention_mask, position_ids, cache, logits_to_keep)
        return rule.normalize(logits[0]), rule.normalize(_stacked(logits))

    def _run(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None,
        position_ids: Tensor | None,
        cache: ComposedCache | None,
        logits_to_keep: int | Tensor,
    ) -> list[Tensor]:
        """Every component's logits over the common vocabulary, each (row, column, vocabulary)."""
        past = cache.get_seq_length() if cache is not None else 0
        checks.check_positions({part.name: part.positions for part in self.parts}, past + input_ids.shape[1])
        if not past:
            self._check_begin(input_ids, attention_mask)
        if position_ids is None:
            position_ids = own_positions(attention_mask, past, input_ids.shape[1], input_ids.device)
        rows = Inputs(input_ids, attention_mask, position_ids)
        found: list[Tensor] = []
        for number, part in enumerate(self.parts):
            own = None if cache is None else cache.parts[number]
            logits = self._run_one(part, rows, own, past, logits_to_keep)
            found.append(logits[..., : self.config.vocab_size].to(found[0].device if found else logits.device))
        return found

    def _run_one(self, part: Component, rows: Inputs, cache: Any, past: int, keep: int | Tensor) -> Tensor:
        fed = behind_prefix(rows, part.prefix, past, self.config.bos_token_id)
        added = fed.ids.shape[1] - rows.ids.shape[1]
        if added:
            keep = keep + added if isinstance(keep, Tensor) else keep or rows.ids.shape[1]
        with part.active() as network:
            place = network.device
            output = network(
                input_ids=fed.ids.to(place),
                attention_mask=None if fed.mask is None else fed.mask.to(place),
                position_ids=fed.positions.to(place),
                cache=cache,
                use_cache=cache is not None,
                logits_to_keep=keep,
            )
        return cast(Tensor, output.logits)

    def _check_begin(self, ids: Tensor, mask: Tensor | None) -> None:
        """Refuse rows that begin with two begin tokens."""
        begin = self.config.bos_token_id
        padding_like = mask is None and begin == 0  # lm-eval pads with zeros and gives no mask
        if begin is None or begin in self.end_tokens or padding_like or ids.shape[1] < 2:
            return
        doubled = (ids[:, 1:] == begin) & (ids[:, :-1] == begin)
        if mask is not None:
            doubled &= mask[:, :-1].bool() & mask[:, 1:].bool()
        if bool(doubled.any()):
            row = int(doubled.any(-1).nonzero()[0])
            raise ConfigError(
                f"row {row}: begin token {begin} stands twice: encode texts once, without a begin token in them"
            )

    def _combine(self, logits: Sequence[Tensor], stands: Tensor | None) -> Tensor:
        base, experts = logits[0], _stacked(logits)
        width, chunk = base.shape[-1], max(1, CHUNK_VALUES // base.shape[-1])
        full = stands is None or bool(stands.all())
        if full and base.shape[:-1].numel() <= chunk:
            return self._combine_rows(base, experts, logits, stands)
        flat, flat_experts = base.reshape(-1, width), experts.reshape(experts.shape[0], -1, width)
        places = torch.arange(len(flat), device=base.device) if stands is None else stands.flatten().nonzero()[:, 0]
        pieces = [self._combine_rows(flat[some], flat_experts[:, some], logits, stands) for some in places.split(chunk)]
        found = torch.cat(pieces)
        uniform = found.new_full(flat.shape, -float(torch.tensor(width).log()))
        return uniform.index_copy(0, places, found).view(base.shape)

    def _combine_rows(self, base: Tensor, experts: Tensor, logits: Sequence[Tensor], stands: Tensor | None) -> Tensor:
        try:
            return rule.compose(base, experts, self._rule, self.end_tokens)
        except ValueError as error:
            self._name_wrong(logits, stands)
            raise error

    def _name_wrong(self, logits: Sequence[Tensor], stands: Tensor | None) -> None:
        for part, values in zip(self.parts, logits, strict=True):
            wrong = ~torch.isfinite(values).all(-1)
            if stands is not None:
                wrong &= stands
            if bool(wrong.any()):
                row, column = wrong.nonzero()[0].tolist()
                raise NonFiniteError(part.name, row, column)

    def prepare_inputs_for_generation(self, input_ids: Tensor, **kwargs: Any) -> dict[str, Any]:
        """As in transformers, without the tokenizer of stop strings, which it passes on to the model."""
        found = super().prepare_inputs_for_generation(input_ids, **kwargs)
        return {name: value for name, value in found.items() if name != "tokenizer"}

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *_: Any, **__: Any
    ) -> None:
        """Give `generate` a cache of ours."""
        kind = generation_config.cache_implementation
        require(
            kind in (None, "dynamic"), "cache_implementation", kind, "a composed model has its own cache, leave it out"
        )
        given = model_kwargs.get("cache")
        fits = given is None or isinstance(given, ComposedCache)
        require(fits, "cache", type(given).__name__, "use the model's new_cache()")
        if given is not None:
            given._is_user_defined = True
        elif generation_config.use_cache is not False:
            model_kwargs["cache"] = self.new_cache()

    def get_input_embeddings(self) -> Any:
        """The base's."""
        return self.parts[0].network.get_input_embeddings()

    def tie_weights(self, *_: Any, **__: Any) -> None:
        """Nothing: the components have tied their own."""


def _stacked(logits: Sequence[Tensor]) -> Tensor:
    base, *experts = logits
    return torch.stack(experts) if experts else base.new_empty(0, *base.shape)


def _stands(mask: Tensor | None, columns: int, keep: int | Tensor) -> Tensor | None:
    """Where tokens stand among the columns that are kept, (row, column); None is everywhere."""
    if mask is None:
        return None
    own = mask[:, -columns:].bool()
    return own[:, keep] if isinstance(keep, Tensor) else own[:, -keep:]
