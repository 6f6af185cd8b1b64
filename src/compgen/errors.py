"""The errors that a user sees as one line. Everything else is a defect and keeps its traceback."""


class UserError(Exception):
    """Something outside the code is wrong: an input, the machine, a file. Shown as one line, exit status 2."""


class ConfigError(UserError, ValueError):
    """A configuration value is impossible.

    The message names the field, the value and the remedy.
    """


def require(condition: bool, field: str, value: object, remedy: str) -> None:
    """Raise ConfigError unless `condition` holds, naming the field, its value and the remedy."""
    if not condition:
        raise ConfigError(f"{field}={value!r}: {remedy}")
