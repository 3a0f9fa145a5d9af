"""The lines of a kernel in PTX."""

from __future__ import annotations

import re

from ptx.units import PTXError

TOKEN = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,{}\[\]]+")

Line = tuple[str | None, bool, str, list[str]]
"""The predicate and whether it is negated, the instruction, and its operands."""


def parsed(text: str) -> tuple[list[Line], dict[str, int], list[tuple[str, str]]]:
    """Lines of the one function in a text, its labels, and the kinds and names of its parameters."""
    head, _, rest = text.partition("$L__func_begin0:")
    parameters = re.findall(
        r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)\s+(?:\.ptr\s+\.global\s+\.align\s+\d+\s+)?(\w+)", head
    )
    lines: list[Line] = []
    labels: dict[str, int] = {}
    for raw in rest.partition("$L__func_end0")[0].splitlines():
        line = raw.partition("//")[0].strip()
        if label := re.match(r"^([$\w]+):$", line):
            labels[label[1]] = len(lines)
        elif not line.startswith(".") and line not in ("", "{", "}"):
            lines += [one for part in line.split(";") if (one := _line(part)) is not None]
    return lines, labels, parameters


def _line(part: str) -> Line | None:
    part = " ".join(part.split())
    if part.startswith("{ .reg") or part in ("", "}") or "bra.uni waitLoop" in part:  # a wait that is over when asked
        return None
    found = re.match(r"^(?:@(!?)(%\w+) )?([\w.:]+) ?(.*)$", part)
    if found is None:
        raise PTXError(f"cannot read {part!r}")
    negated, predicate, name, rest = found.groups()
    return predicate, bool(negated), name, [one.strip() for one in TOKEN.findall(rest) if one.strip()]
