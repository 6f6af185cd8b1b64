"""The root configuration: one typed tree, composed by Hydra from conf/, checked before torch is imported.

Covers composing, checking and resolving. What each value means is documented at its dataclass.
"""

import copy
import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from compgen.charsub.config import JOBS as CHARSUB_JOBS
from compgen.charsub.config import CharsubConfig
from compgen.composition.theory_config import JOBS as THEORY_JOBS
from compgen.composition.theory_config import TheoryConfig
from compgen.copying.experiment_config import JOBS as COPYING_JOBS
from compgen.copying.experiment_config import CopyingConfig
from compgen.errors import ConfigError, UserError
from compgen.evaluation.config import ProtocolConfig
from compgen.evaluation.experiment_config import JOBS as COMPOSITION_JOBS
from compgen.evaluation.experiment_config import CompositionConfig
from compgen.heads.config import JOBS as HEADS_JOBS
from compgen.heads.config import HeadsConfig
from compgen.questions.config import BenchmarkConfig
from compgen.report.config import JOBS as REPORT_JOBS
from compgen.run.config import JobSelection, ProfileConfig, ReferenceConfig, RunConfig, TrackerConfig
from compgen.run.paths import project_root
from compgen.run.staleness import flatten

NOISE = re.compile(r" (To append to your config use|Config search path:|full_key:|See https:).*")
"""What Hydra and OmegaConf add to a message and a user has no need of."""
ROOT_VALUES = ("seed", "out", "inputs", "force")
"""Keys without a dot that are values and not groups."""
JOBS: dict[str, type] = {
    **THEORY_JOBS,
    **CHARSUB_JOBS,
    **COMPOSITION_JOBS,
    **COPYING_JOBS,
    **HEADS_JOBS,
    **REPORT_JOBS,
}
"""The kinds of job and the schema of each one's configuration."""


@dataclass
class RootConfig:
    """All that can be set from the command line."""

    seed: int = 0
    out: str | None = None
    inputs: list[str] = field(default_factory=list)
    force: bool = False
    profile: ProfileConfig = field(default_factory=ProfileConfig)
    run: RunConfig = field(default_factory=RunConfig)
    tracker: TrackerConfig = field(default_factory=TrackerConfig)
    reference: ReferenceConfig = field(default_factory=ReferenceConfig)
    theory: TheoryConfig = field(default_factory=TheoryConfig)
    charsub: CharsubConfig = field(default_factory=CharsubConfig)
    composition: CompositionConfig = field(default_factory=CompositionConfig)
    benchmark: dict[str, BenchmarkConfig] = field(default_factory=dict)
    protocol: dict[str, ProtocolConfig] = field(default_factory=dict)
    copying: CopyingConfig = field(default_factory=CopyingConfig)
    heads: HeadsConfig = field(default_factory=HeadsConfig)
    job: JobSelection = field(default_factory=JobSelection)


@dataclass(frozen=True)
class ResolvedJob:
    """A job whose configuration has passed every check."""

    kind: str
    config: Any
    """The kind's own dataclass."""
    values: dict[str, Any]
    """The same as plain values: what is recorded, hashed and compared."""
    root: RootConfig


@cache
def register_schema() -> None:
    """Make the typed root known to Hydra, so that a misspelt key or a wrong type fails while composing."""
    ConfigStore.instance().store(name="root_schema", node=RootConfig)


def configuration_directory() -> Path:
    """The directory of the Hydra configs."""
    return project_root() / "conf"


def compose_root(overrides: Sequence[str]) -> DictConfig:
    """Compose the root config from conf/ with some overrides.

    Raises:
        ConfigError: an override is misspelt or has an impossible value.
    """
    register_schema()
    try:
        if GlobalHydra.instance().is_initialized():
            return compose("config", overrides=list(overrides))
        with initialize_config_dir(str(configuration_directory()), version_base="1.3"):
            return compose("config", overrides=list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(explain(error)) from error


class Composer:
    """Composes many configurations that differ in values only, as those of a DAG do, several times faster.

    A profile is composed once and the job's own file laid over it; the values are then set by the very function that
    Hydra's compose uses for them. Overrides of other groups than job and profile take the long way.
    """

    def __init__(self) -> None:
        """Start with nothing composed."""
        self._roots: dict[tuple[str, ...], DictConfig] = {}
        self._jobs: dict[tuple[str, ...], Any] = {}
        self._parser = OverridesParser.create()

    def values(self, overrides: Sequence[str]) -> dict[str, Any]:
        """The plain values of the job's configuration, checked against its schema.

        Raises:
            ConfigError: an override is misspelt or has an impossible value.
        """
        groups = tuple(override for override in overrides if override.startswith(("job=", "profile=")))
        values = [override for override in overrides if override not in groups]
        if any("." not in key and key not in ROOT_VALUES for key in (value.partition("=")[0] for value in values)):
            return _plain_values(compose_root(overrides))
        profile = tuple(group for group in groups if not group.startswith("job="))
        if profile not in self._roots:
            self._roots[profile] = compose_root(profile)
        root = self._roots[profile]
        with _put_back(root, ["job", *(value.partition("=")[0] for value in values)]):
            root.__dict__["_content"]["job"] = copy.deepcopy(self._job(groups, root))
            try:
                with flag_override(root, "struct", True):
                    ConfigLoaderImpl._apply_overrides_to_config(self._parser.parse_overrides(values), root)
            except (HydraException, OmegaConfBaseException) as error:
                raise ConfigError(explain(error)) from error
            return _plain_values(root)

    def _job(self, groups: tuple[str, ...], root: DictConfig) -> Any:
        """The node `job` with the job's own file laid over it, as Hydra lays it."""
        if groups not in self._jobs:
            kinds = [group.removeprefix("job=") for group in groups if group.startswith("job=")]
            file = project_root() / "conf" / "job" / f"{kinds[-1] if kinds else ''}.yaml"
            if not file.is_file():
                compose_root(groups)  # says what is wrong
            with flag_override(root, "struct", False):
                laid = OmegaConf.merge(root.job, OmegaConf.load(file))
            laid._set_parent(root)
            self._jobs[groups] = laid
        return self._jobs[groups]


def _plain_values(root: DictConfig) -> dict[str, Any]:
    try:
        return _job_values(str(root.job.kind), OmegaConf.to_container(root.job.config, resolve=True))[1]
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error)) from error


@contextmanager
def _put_back(root: DictConfig, keys: Sequence[str]) -> Iterator[None]:
    """Inside, the nodes of these keys are copies: copying a whole root for each job takes seconds for a DAG."""
    kept = []
    for key in keys:
        place, _, name = key.lstrip("+~").rpartition(".")
        parent = OmegaConf.select(root, place) if place else root
        if isinstance(parent, DictConfig) and name in parent.__dict__["_content"]:
            content = parent.__dict__["_content"]
            kept.append((content, name, content[name]))
            content[name] = copy.deepcopy(content[name])
    try:
        yield
    finally:
        for content, name, node in reversed(kept):
            content[name] = node


def resolve_job(root: DictConfig) -> ResolvedJob:
    """Check a composed root config and the configuration of the job that it selects.

    Raises:
        ConfigError: naming the field, its value and the remedy.
    """
    try:
        plain = OmegaConf.to_container(root, resolve=True, throw_on_missing=False)
        assert isinstance(plain, dict)
        checked = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(RootConfig), _strip(plain)))
        assert isinstance(checked, RootConfig)
        config, values = _job_values(checked.job.kind, checked.job.config)
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error)) from error
    return ResolvedJob(checked.job.kind, config, values, checked)


def _job_values(kind: str, given: Any) -> tuple[Any, dict[str, Any]]:
    """A job's configuration as the dataclass of its kind, checked, and as plain values."""
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(_schema_of(kind)), given))
    assert is_dataclass(config)
    assert not isinstance(config, type)
    return config, {name: _plain(value) for name, value in asdict(config).items()}


def _plain(value: Any) -> Any:
    """A value as YAML has it: enumerations by name."""
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _strip(plain: dict[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in plain.items() if key != "hydra"}


def _schema_of(kind: str) -> type:
    if not kind:
        raise ConfigError(f"job is not set: choose one, for example job=copying_train ({', '.join(sorted(JOBS))})")
    if kind not in JOBS:
        raise ConfigError(f"job={kind}: there is no such kind of job, choose one of {', '.join(sorted(JOBS))}")
    return JOBS[kind]


def explain(error: Exception) -> str:
    """Hydra's and OmegaConf's messages as one line, with the nearest existing key for a misspelt one."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(parts) < 3:
        text = NOISE.sub("", " ".join(str(cause).split())).rstrip(" .")
        if text and not any(text in part for part in parts):
            parts.append(text)
        cause = cause.__cause__
    message = ": ".join(parts)
    key = getattr(error.__cause__ or error, "full_key", None)
    if key and "not in" in message:
        known = list(flatten(asdict(RootConfig())))
        close = difflib.get_close_matches(str(key), known, n=1, cutoff=0.6)
        message += f"; did you mean {close[0]}?" if close else ""
    return message


def as_user_error(error: Exception) -> UserError | None:
    """The one-line form of an error that the user can mend; None for a defect, which keeps its traceback."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, ConfigCompositionException | OmegaConfBaseException | HydraException):
        return ConfigError(explain(error))
    return None
