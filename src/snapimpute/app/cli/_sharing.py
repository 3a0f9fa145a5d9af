"""Groups of options as parameters of commands, and checks that commands share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer


def said(group: Any, *but: str) -> list[str]:
    """The options of a group that are not as by default, as they are typed; without some fields."""
    words = []
    for one in fields(group):
        value, name = getattr(group, one.name), one.name.replace("_", "-")  # as typer spells it
        if one.name in but or value == one.default:
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
            continue
        for each in value if isinstance(value, list) else [value]:
            words += [f"--{name}", str(each)]
    return words


def written_as(out: str, to: str | None, *, table: bool = False) -> str:
    """The format to write; one for a table of columns, if it is to hold one."""
    from snapimpute.app.io import output_format, table_format

    try:
        return table_format(out, to) if table else output_format(out, to)
    except ValueError as err:
        raise typer.BadParameter(str(err)) from None


def check_outputs(outputs: list[str | Path | None], inputs: list[str | None], *, force: bool | None) -> None:
    """Refuse to write over what is read, two results to one file, or where nothing can be written."""
    from snapimpute.app.io import check_output

    paths = [str(path) for path in outputs if path is not None]
    again = [path for i, path in enumerate(paths) if path in paths[:i]]
    if again:
        raise typer.BadParameter(f"{again[0]} is to hold two different results: name two files")
    for path in paths:
        check_output(path, [one for one in inputs if one is not None], force=force)


def shared(*groups: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of some groups: it gets an object of each, under its name in lower case."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command, eval_str=True)
        names = {group.__name__.lower(): group for group in groups}
        mine = [parameter for name, parameter in own.parameters.items() if name not in names]
        hints = {group: get_type_hints(group, include_extras=True) for group in groups}
        more = [
            inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[group][one.name]
            )
            for group in groups
            for one in fields(group)
        ]

        @wraps(command)
        def run(**given: Any) -> Any:
            made = {
                name: group(**{one.name: given.pop(one.name) for one in fields(group)})
                for name, group in names.items()
            }
            return command(**given, **made)

        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in mine]
        run.__signature__ = own.replace(parameters=[*parameters, *more], return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {
            one.name: get_args(one.annotation)[0] if get_args(one.annotation) else one.annotation for one in more
        }
        return run

    return give
