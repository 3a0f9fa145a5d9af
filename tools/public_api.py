"""List the public names of the package and their signatures; `tests/public_api.txt` keeps the list.

Run `python tools/public_api.py > tests/public_api.txt` after a change of the public interface.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

import snapimpute


def main() -> None:
    """Print the list."""
    print("\n".join(listed()))


def listed() -> Iterator[str]:
    """Yield the lines: a block for the package and for each of its public modules."""
    yield from _block("snapimpute", snapimpute)
    for name in snapimpute.__all__:
        found = getattr(snapimpute, name)
        if isinstance(found, ModuleType):
            yield ""
            yield from _block(f"snapimpute.{name}", found)


def _block(title: str, module: ModuleType) -> Iterator[str]:
    """Yield the names of a module; a name that the package has, too, is spelled out there."""
    yield title
    for name in sorted(_names(module)):
        found = getattr(module, name)
        again = module is not snapimpute and getattr(snapimpute, name, None) is found
        yield from ([f"    {name}: as in snapimpute"] if again else _told(name, found))


def _names(module: ModuleType) -> list[str]:
    """Return the public names of a module: those of __all__, or else those that are defined in it."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return list(listed)
    return [
        name
        for name, found in vars(module).items()
        if not name.startswith("_") and getattr(found, "__module__", None) == module.__name__
    ]


def _told(name: str, found: Any) -> Iterator[str]:
    """Yield the line of a name, and for a class those of its public methods and properties."""
    if isinstance(found, ModuleType):
        yield f"    {name}: module"
    elif inspect.isclass(found):
        yield f"    class {name}{_signature(found)}"
        for member, what in sorted(_members(found).items()):
            yield f"        {member}{what}"
    elif inspect.isroutine(found):
        yield f"    {name}{_signature(found)}"
    else:
        yield f"    {name}"


def _members(kind: type) -> dict[str, str]:
    """Return the public methods with their signatures, and the properties, that no base class here has, too."""
    bases = [base for base in kind.__mro__[1:] if base.__module__.startswith("snapimpute")]
    out: dict[str, str] = {}
    for name, found in vars(kind).items():
        inner = getattr(found, "__func__", found)
        if name.startswith("_") or any(hasattr(base, name) for base in bases):
            continue
        if isinstance(inner, FunctionType):
            out[name] = _signature(inner)
        elif isinstance(found, property | cached_property):
            out[name] = ""
    return out


def _signature(found: Any) -> str:
    """Write a signature, without the annotations."""
    if inspect.isclass(found) and issubclass(found, Exception):
        return "(...)"
    signature = inspect.signature(found)
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    named = [one.replace(default=_Shown(one.default)) if one.default is not one.empty else one for one in plain]
    return str(signature.replace(parameters=named, return_annotation=inspect.Signature.empty))


class _Shown:
    """A default value whose text is the same in every process."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        kind = type(self.value)
        if kind.__module__.startswith("snapimpute"):
            return f"{kind.__name__}(...)"
        return getattr(self.value, "__qualname__", None) or repr(self.value)


if __name__ == "__main__":
    main()
