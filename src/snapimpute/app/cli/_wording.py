"""Errors of the library in the words of the command: options where a sentence names arguments."""

from snapimpute.base.errors import AboutArgumentError, ArgumentName, Phrase, Setting, Value

NAMES = (
    "alphabet alphabet_term backend center cv decide discrete dtype lam max_iter max_rank method min_confidence "
    "missing solver spectral time_limit tol weights xi"
)
OPTIONS = {name: f"--{name.replace('_', '-')}" for name in NAMES.split()} | {"random_state": "--seed"}
"""Arguments of the library that the command has options for."""


def in_options(err: BaseException) -> str:
    """Return the message of an error, with options of the command for arguments of a function.

    Examples
    --------
    >>> from snapimpute.base.errors import ArgumentError
    >>> in_options(ArgumentError("backend", "gpu", "try ", Setting("backend", "torch:cuda")))
    'try --backend torch:cuda'
    """
    return err.told(_spelled) if isinstance(err, AboutArgumentError) else str(err)


def _spelled(part: Phrase) -> str:
    match part:
        case Value(argument, value):
            return f"the {argument} {value}"
        case ArgumentName(argument) if argument in OPTIONS:
            return OPTIONS[argument]
        case Setting(argument, value) if argument in OPTIONS:
            return f"{OPTIONS[argument]} {_plain(value)}"
    return str(part)


def _plain(value: object) -> str:
    """Write a value as an option takes it."""
    if value is None:
        return "none"
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
