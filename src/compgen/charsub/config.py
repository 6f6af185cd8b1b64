"""Configuration of character substitution (paper 1, toy): both protocols. Free of torch."""

from dataclasses import dataclass, field

from compgen.charsub.authors_config import JOBS as AUTHORS_JOBS
from compgen.charsub.authors_config import AuthorsConfig
from compgen.charsub.autoregressive_config import JOBS as AUTOREGRESSIVE_JOBS
from compgen.charsub.autoregressive_config import AutoregressiveConfig


@dataclass
class CharsubConfig:
    """The node `charsub`."""

    authors: AuthorsConfig = field(default_factory=AuthorsConfig)
    autoregressive: AutoregressiveConfig = field(default_factory=AutoregressiveConfig)


JOBS: dict[str, type] = {**AUTHORS_JOBS, **AUTOREGRESSIVE_JOBS}
"""The kinds of job of the experiment and their schemas."""
