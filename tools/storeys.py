"""Draw which package of the library imports which, storey by storey, and count the lines of each.

    python tools/storeys.py

writes docs/storeys.svg and the table of docs/design.md, and prints the table. It ends with an error where
imports run in a circle or point up. tests/test_architecture.py reads the imports by the same functions.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[1]
ROOT = PROJECT / "src" / "snapimpute"
PICTURE = PROJECT / "docs" / "storeys.svg"
PAGE = PROJECT / "docs" / "design.md"

STOREYS = [
    ["base"],
    ["data"],
    ["penalties", "linalg"],
    ["backends"],
    ["problem"],
    ["solvers"],
    ["posterior", "mosaic"],
    ["evaluation"],
    ["experts"],
    ["estimator"],
    ["views"],
    ["app"],
]
"""From the bottom up. A module imports its own package and storeys below it, wherever in the file the import stands.

Two packages of one storey do not know each other. `__init__` and `__main__` are the doors: only they may reach up.
"""

ROOMS = [room for rooms in reversed(STOREYS) for room in reversed(rooms)]
"""Packages from the top down."""

BEFORE = {
    "app": 6634,
    "views": 485,
    "estimator": 2830,
    "evaluation": 455,
    "solvers": 4926,
    "problem": 949,
    "backends": 4248,
    "linalg": 1710,
    "penalties": 1960,
    "data": 2968,
    "base": 490,
    "top": 110,
    "reproduction": 5278,
}
"""Lines of version 0.1 (commit 994eae2), each file counted in the package that it has gone to."""

MODULES = {
    ".".join(("snapimpute", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}


# ---------------------------------------------------------------- imports
@cache
def tree(module: str) -> ast.Module:
    """Parse a module of the library."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imports(module: str, *, only_on_import: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line, module imported), optionally only what is imported when the module itself is."""
    waiting: list[ast.AST] = [tree(module)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{module}:{node.lineno}: write the import in full, not relative to the package")
            source = node.module or ""
            # "from snapimpute import metrics" imports the module snapimpute.evaluation.metrics
            yield from (
                (node.lineno, name if (name := f"{source}.{alias.name}") in MODULES else source)
                for alias in node.names
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, name) for name in _named_in(node.value))
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        )
        if not (lazy and only_on_import):
            waiting.extend(ast.iter_child_nodes(node))


def _named_in(text: str) -> Iterator[str]:
    """Modules that a string names in full, as those that `import_module` and `PackageLoader` take."""
    if re.fullmatch(r"snapimpute(\.\w+)*\.?", text):
        name = text.rstrip(".")
        if name in MODULES and name != "snapimpute":
            yield name


def inner_imports(module: str, *, only_on_import: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the imports of a module that lead to the library itself."""
    found = imports(module, only_on_import=only_on_import)
    return ((line, name) for line, name in found if name.split(".")[0] == "snapimpute")


def room(module: str) -> str:
    """Return the package of the first level that a module of the library belongs to."""
    return module.split(".")[1] if "." in module else "snapimpute"


def storey(name: str) -> int:
    """Return the storey of a package, counted from the bottom."""
    return next(level for level, rooms in enumerate(STOREYS) if name in rooms)


def graph() -> dict[str, set[str]]:
    """Return the modules that each module imports.

    A module's own package is left out: what it takes from there comes from a sibling.
    """
    packages = {module for module, path in MODULES.items() if path.name == "__init__.py"}
    return {
        module: {
            name
            for _, name in inner_imports(module)
            if name not in (module, "snapimpute") and not (name in packages and module.startswith(f"{name}."))
        }
        for module in MODULES
        if module != "snapimpute"
    }


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return a path of imports that leads back to its start; none if there is no such path."""
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> list[str]:
        if module in above:
            return [*above[above.index(module) :], module]
        found: list[str] = []
        if module not in done:
            found = next(filter(None, (visit(name, (*above, module)) for name in sorted(graph.get(module, ())))), [])
            done.add(module)
        return found

    return next(filter(None, (visit(module, ()) for module in graph)), [])


def arrows() -> Counter[tuple[str, str]]:
    """Count the pairs of modules behind each arrow: one in the first package imports one in the second."""
    pairs = {(module, name) for module, names in graph().items() for name in names}
    found = Counter((room(module), room(name)) for module, name in pairs)
    return Counter({(a, b): n for (a, b), n in found.items() if a != b and {a, b} <= set(ROOMS)})


def lines() -> Counter[str]:
    """Count the lines of each package, and of the two modules at the top."""
    found: Counter[str] = Counter()
    for module, path in MODULES.items():
        name = room(module) if room(module) in ROOMS else "top"
        found[name] += len(path.read_text(encoding="utf-8").splitlines())
    return found


# ---------------------------------------------------------------- the picture
ACROSS, DOWN = 78, 50
"""Steps of the stairs, in pixels."""
WIDE, HIGH = 108, 38
"""Size of a box."""
LEFT, TOP = 20, 16


def picture() -> str:
    """Draw the packages as stairs: arrows leave a box to the right and fall on the boxes that it imports."""
    size = LEFT + ACROSS * (len(ROOMS) - 1) + WIDE + 20, TOP + DOWN * len(ROOMS) + 4
    counted, found = lines(), sorted(arrows().items())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
        f'height="{size[1]}" font-family="Helvetica, Arial, sans-serif">',
        "<title>Imports of snapimpute, storey by storey</title>",
        f'<rect width="{size[0]}" height="{size[1]}" fill="#ffffff"/>',
        *_bands(size[0]),
        *(_line(one, other) for (one, other), _ in found),
        *(_number(one, other, count) for (one, other), count in found),
        *(_box(name, counted[name]) for name in ROOMS),
        *_legend(size[1]),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _centre(name: str) -> tuple[int, int]:
    place = ROOMS.index(name)
    return LEFT + WIDE // 2 + ACROSS * place, TOP + DOWN * place + DOWN // 2


def _bands(width: int) -> Iterator[str]:
    """Shade every second storey."""
    for level, rooms in enumerate(STOREYS):
        if level % 2 == 0:
            top = min(_centre(name)[1] for name in rooms) - DOWN // 2
            yield f'<rect x="0" y="{top}" width="{width}" height="{DOWN * len(rooms)}" fill="#f3f5f8"/>'


def _box(name: str, count: int) -> str:
    x, y = _centre(name)
    return (
        f'<rect x="{x - WIDE // 2}" y="{y - HIGH // 2}" width="{WIDE}" height="{HIGH}" rx="5" fill="#dbe7f6" '
        f'stroke="#33558b"/><text x="{x}" y="{y - 2}" text-anchor="middle" font-size="14" font-weight="bold" '
        f'fill="#1b2f52">{name}</text><text x="{x}" y="{y + 13}" text-anchor="middle" font-size="11" '
        f'fill="#42526b">{count:,} lines</text>'
    )


def _line(one: str, other: str) -> str:
    """Draw the way of an import: out of one box at its side, into the other from above, or red from below."""
    (x, y), (x_end, y_end) = _centre(one), _centre(other)
    down = storey(other) < storey(one)
    way = 1 if y_end > y else -1
    tip = y_end - way * (HIGH // 2)
    colour = "#7b8798" if down else "#c62828"
    return (
        f'<g id="{one}-{other}" fill="none" stroke="{colour}" stroke-width="1.2">'
        f'<path d="M{x + way * WIDE // 2} {y}H{x_end}V{tip}"/>'
        f'<path d="M{x_end - 4} {tip - way * 7}L{x_end} {tip}L{x_end + 4} {tip - way * 7}z" fill="{colour}"/></g>'
    )


def _number(one: str, other: str, count: int) -> str:
    x, y = _centre(other)[0], _centre(one)[1]
    return (
        f'<circle cx="{x}" cy="{y}" r="12" fill="#ffffff" stroke="#7b8798"/>'
        f'<text x="{x}" y="{y + 4}" text-anchor="middle" font-size="12" fill="#222222">{count}</text>'
    )


def _legend(height: int) -> Iterator[str]:
    words = [
        "Each row is a package; bands are storeys.",
        "A row's arrows fall on the packages that it imports.",
        "Numbers count imports from module to module.",
        "Imports run in a circle!" if circle(graph()) else "Arrows point down, and no import runs in a circle.",
    ]
    for i, text in enumerate(words):
        yield f'<text x="{LEFT}" y="{height - 100 + 20 * i}" font-size="13" fill="#333333">{text}</text>'


# ---------------------------------------------------------------- the table
def table() -> str:
    """Compare the lines of each storey with those of version 0.1."""
    now = lines()
    rows = [f"| {storey(name) + 1} | `{name}` | {BEFORE.get(name, 0):,} | {now[name]:,} |" for name in ROOMS]
    after = sum(now.values())
    return "\n".join(
        [
            "| storey | package | lines in 0.1 | lines now |",
            "|---|---|---:|---:|",
            *rows,
            f"| | `__init__`, `__main__` | {BEFORE['top']:,} | {now['top']:,} |",
            f"| | research: within the package in 0.1, in `reproduction/` now | {BEFORE['reproduction']:,} | |",
            f"| | **the package** | {sum(BEFORE.values()):,} | {after:,} |",
        ]
    )


def main() -> int:
    """Write picture and table; return 1 if an import points up or runs in a circle."""
    PICTURE.write_text(picture(), encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"^\| storey \|.*?(?=\n\n)", table(), text, flags=re.M | re.S), encoding="utf-8")
    print(table())
    wrong = [f"{one} imports {other}" for one, other in arrows() if storey(other) >= storey(one)]
    round_trip = " → ".join(circle(graph()))
    if wrong or round_trip:
        print(f"imports must point down: {'; '.join([*wrong, round_trip])}", file=sys.stderr)
        return 1
    print(f"{sum(arrows().values())} imports between packages, all of them down; none runs in a circle")
    return 0


if __name__ == "__main__":
    sys.exit(main())
