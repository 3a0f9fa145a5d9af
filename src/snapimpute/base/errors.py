"""Errors about arguments, in sentences that a command can say in its own words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number
from typing import Any, Self, TypeAlias


@dataclass(frozen=True)
class ArgumentName:
    """The name of an argument in a sentence: `lam`, or --lam."""

    argument: str

    def __str__(self) -> str:
        return self.argument


@dataclass(frozen=True)
class Setting:
    """An argument with a value in a sentence: `backend="cpu"`, or --backend cpu."""

    argument: str
    value: Any

    def __str__(self) -> str:
        quoted = isinstance(self.value, str) and '"' not in self.value
        return f'{self.argument}="{self.value}"' if quoted else f"{self.argument}={self.value!r}"


@dataclass(frozen=True)
class Value:
    """A value in a sentence that says by itself which argument it is of: `Alphabet([0, 1])`, or the alphabet 0, 1."""

    argument: str
    value: Any

    def __str__(self) -> str:
        return repr(self.value)


Phrase: TypeAlias = str | ArgumentName | Setting | Value
"""A piece of a sentence; only text reads the same everywhere."""


class AboutArgumentError(Exception):
    """An argument, the value it was given, and the sentence, in parts, that says what is wrong and what to do.

    Its subclasses are the errors to raise: each is the built-in exception that callers expect, too.
    """

    def __init__(self, argument: str, value: Any, *parts: Phrase) -> None:
        super().__init__(argument, value, *parts)  # `args` is all there is: so it can be pickled

    @property
    def argument(self) -> str:
        """Name of the argument."""
        return str(self.args[0])

    @property
    def value(self) -> Any:
        """The value that was given."""
        return self.args[1]

    @property
    def parts(self) -> tuple[Phrase, ...]:
        """The sentence in pieces."""
        return self.args[2:]

    def told(self, spell: Callable[[Phrase], str] = str) -> str:
        """Return the sentence, with its pieces spelled as a caller knows them."""
        return "".join(map(spell, self.parts))

    def __str__(self) -> str:
        return self.told()

    def inside(self, where: str) -> Self:
        """Return the error with a sentence that says first where the value is."""
        return type(self)(self.argument, self.value, f"{where}: ", *self.parts)


class ArgumentError(AboutArgumentError, ValueError):
    """An argument has a value that it cannot take.

    Examples
    --------
    >>> err = ArgumentError.must("k", 0, "be a whole number, at least 1")
    >>> str(err), err.argument, err.value
    ('k must be a whole number, at least 1, got 0', 'k', 0)
    """

    @classmethod
    def must(cls, argument: str, value: Any, rule: str) -> ArgumentError:
        """Return the error for a value that breaks the rule of its argument."""
        got = value if isinstance(value, Number) else repr(value)
        return cls(argument, value, ArgumentName(argument), f" must {rule}, got {got}")


class MissingPackageError(AboutArgumentError, ImportError):
    """An argument asks for a package that is not installed."""


class MissingDeviceError(AboutArgumentError, RuntimeError):
    """An argument asks for a device, or a cluster, that is not there."""


class DeviceMemoryError(MemoryError, AboutArgumentError):  # in this order tblib, which Dask loads, can rebuild it
    """An argument asks for a device whose memory does not suffice."""


def inside(where: str, err: ValueError) -> ValueError:
    """Return an error with a sentence that says first where the value is, with its argument if it has one."""
    return err.inside(where) if isinstance(err, ArgumentError) else ValueError(f"{where}: {err}")
