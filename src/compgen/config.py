"""The root configuration: one typed tree, composed by Hydra from conf/, checked before torch is imported.

Covers composing, checking and resolving. What each value means is documented at its dataclass.
"""

import difflib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException, HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from compgen.charsub.config import JOBS as CHARSUB_JOBS
from compgen.charsub.config import CharsubConfig
from compgen.composition.theory_config import JOBS as THEORY_JOBS
from compgen.composition.theory_config import TheoryConfig
from compgen.copying.experiment_config import JOBS as COPYING_JOBS
from compgen.copying.experiment_config import CopyingConfig
from compgen.errors import ConfigError, UserError
from compgen.report.config import JOBS as REPORT_JOBS
from compgen.run.config import JobSelection, ProfileConfig, ReferenceConfig, RunConfig, TrackerConfig
from compgen.run.paths import project_root
from compgen.run.staleness import flatten

NOISE = re.compile(r" (To append to your config use|Config search path:|full_key:|See https:).*")
"""What Hydra and OmegaConf add to a message and a user has no need of."""
JOBS: dict[str, type] = {**THEORY_JOBS, **CHARSUB_JOBS, **COPYING_JOBS, **REPORT_JOBS}
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
    copying: CopyingConfig = field(default_factory=CopyingConfig)
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
        schema = _schema_of(checked.job.kind)
        config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schema), checked.job.config))
    except OmegaConfBaseException as error:
        raise ConfigError(explain(error)) from error
    assert is_dataclass(config)
    assert not isinstance(config, type)
    values = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    assert isinstance(values, dict)
    return ResolvedJob(checked.job.kind, config, {str(key): value for key, value in values.items()}, checked)


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
