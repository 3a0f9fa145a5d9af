"""The shape of the package: imports point one way, heavy parts wait until they are used, nothing grows too long."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import snapimpute

ROOT = Path(snapimpute.__file__).parent
MODULES = {
    ".".join(("snapimpute", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(ROOT.rglob("*.py"))
}

LAYERS = [
    ["types", "files", "machine", "display"],
    ["alphabet"],
    ["checks"],
    ["observations"],
    ["penalties", "operators", "losses"],
    ["discreteness", "backends"],
    ["sampling"],
    ["problem"],
    ["solvers"],
]
"""From the bottom up; parts of one layer do not know each other. All else but `cli` stands above, `cli` on top."""

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imports(module: str, *, only_on_import: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line, module imported), optionally only what is imported when the module itself is."""
    waiting: list[ast.AST] = [tree(module)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: write the import in full, not relative to the package"
            source = node.module or ""
            # "from snapimpute import metrics" imports the module snapimpute.metrics
            yield from (
                (node.lineno, name if (name := f"{source}.{alias.name}") in MODULES else source)
                for alias in node.names
            )
        lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        )
        if not (lazy and only_on_import):
            waiting.extend(ast.iter_child_nodes(node))


def part(module: str) -> str:
    """The top-level part that a module of the package belongs to."""
    return module.split(".")[1] if "." in module else "snapimpute"


def height(name: str) -> int:
    for level, layer in enumerate(LAYERS):
        if name in layer:
            return level
    return len(LAYERS) + (name == "cli") + 2 * (name == "__main__")


def inner_imports(module: str) -> Iterator[tuple[int, str]]:
    return ((line, name) for line, name in imports(module) if name.split(".")[0] == "snapimpute")


def outer_users(library: str) -> dict[str, list[int]]:
    """The modules that import a library anywhere, and where."""
    found: dict[str, list[int]] = {}
    for module in MODULES:
        for line, name in imports(module):
            if name.split(".")[0] == library:
                found.setdefault(module, []).append(line)
    return found


# ---------------------------------------------------------------- direction
@pytest.mark.parametrize("module", [m for m in MODULES if m != "snapimpute"])
def test_imports_point_down(module):
    """A module imports its own part and parts below it, never one above or beside it in a layer."""
    here = part(module)
    for line, name in inner_imports(module):
        there = part(name)
        if there == here:
            continue
        where = f"{module}:{line} imports {name}"
        if there == "snapimpute":
            assert here == "cli", f"{where}: only the command line may import the root; name the module"
            continue
        free = len(LAYERS)  # the parts above the solvers may use each other
        allowed = height(there) < height(here) or height(there) == height(here) == free
        assert allowed, f"{where}: {there} does not stand below {here} in {LAYERS}"


def test_root_does_not_import_the_command_line():
    """`import snapimpute` is for programs: no command line comes with it."""
    assert [name for _, name in inner_imports("snapimpute") if part(name) == "cli"] == []


def test_imports_run_in_no_circle():
    """Following the imports of modules never leads back to the start."""
    graph = {
        module: {name for _, name in inner_imports(module) if name not in (module, "snapimpute")}
        for module in MODULES
        if module != "snapimpute"
    }
    for package in [m for m, path in MODULES.items() if path.name == "__init__.py"]:
        # What a module takes from its own package comes from a sibling; the package is no step of a circle.
        for module, imported in graph.items():
            if module.startswith(f"{package}."):
                imported.discard(package)
    done: set[str] = set()

    def visit(module: str, above: tuple[str, ...]) -> None:
        assert module not in above, f"imports run in a circle: {' → '.join((*above, module))}"
        if module not in done:
            for name in sorted(graph.get(module, ())):
                visit(name, (*above, module))
            done.add(module)

    for module in graph:
        visit(module, ())


# ---------------------------------------------------------------- other libraries
@pytest.mark.parametrize("library", ["rich", "typer"])
def test_terminal_libraries_stay_in_the_command_line(library):
    """The core is quiet: what draws on terminals is imported under cli only."""
    others = {module: lines for module, lines in outer_users(library).items() if part(module) != "cli"}
    assert others == {}, f"{library} belongs under snapimpute.cli"


def test_pictures_are_drawn_in_four_modules():
    """matplotlib is known to what draws into axes, which loads it when it draws, and to what writes figures."""
    users = set(outer_users("matplotlib"))
    files = {"snapimpute.report.figures", "snapimpute.report.study_figures", "snapimpute.experiments.curves"}
    assert users == {"snapimpute.plots", *files}
    assert "matplotlib" not in {name.split(".")[0] for _, name in imports("snapimpute.plots", only_on_import=True)}


@pytest.mark.parametrize("library", ["plotly", "jinja2"])
def test_pages_are_made_in_one_module(library):
    """plotly and jinja2 are each known to one module, of the report."""
    users = outer_users(library)
    assert [part(module) for module in users] == ["report"], f"{library} belongs in one module, not {sorted(users)}"


@pytest.mark.parametrize("library", ["torch", "dask", "distributed", "cvxpy", "pandas", "polars", "plotly", "jinja2"])
def test_optional_libraries_are_imported_when_used(library):
    """What a user may not have is imported inside the function that needs it."""
    early = [
        f"{module}:{line}"
        for module in MODULES
        for line, name in imports(module, only_on_import=True)
        if name.split(".")[0] == library and module not in BEHIND
    ]
    assert early == [], f"move the import of {library} into the function that needs it"


BEHIND = {module for module in MODULES if module.startswith("snapimpute.backends.")}
"""Modules that need torch as a whole; only `snapimpute.backends` leads to them, when one is asked for."""


def test_the_modules_of_a_backend_wait_until_it_is_asked_for():
    """What needs torch is imported by name inside a function."""
    early = [
        f"{module}:{line}"
        for module in MODULES
        for line, name in imports(module, only_on_import=True)
        if name in BEHIND and module not in BEHIND
    ]
    assert early == []
    assert {part(module) for module in outer_users("torch")} == {"backends"}


HEAVY = ["numba", "scipy", "sklearn", "matplotlib", "pandas", "polars", "pyarrow"]
HEAVY += ["torch", "dask", "cvxpy", "rich", "typer", "plotly", "jinja2"]


def test_import_of_the_package_is_light():
    """`import snapimpute` loads no compiler, estimator, plotting, table, terminal or deep-learning library."""
    code = f"import sys, snapimpute; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    assert _printed(code).split() == []


def test_every_public_name_is_found_when_it_is_asked_for():
    """Each name of __all__ is in dir(), imports, and is kept; a name that is not there is an AttributeError."""
    assert set(dir(snapimpute)) == {*snapimpute.__all__, "__version__"}
    # in a process of its own: here most of them have been imported already
    found = "[type(getattr(si, name)).__name__ == 'module' for name in si.__all__]"
    code = f"import snapimpute as si; print(*{found}, set(si.__all__) <= set(vars(si)))"
    modules = [snapimpute._HOMES[name] is None for name in snapimpute.__all__]
    assert _printed(code).split() == [str(one) for one in (*modules, True)]
    assert _printed("from snapimpute import *; print(solve.__module__)").strip() == "snapimpute.solvers.loop"
    assert not hasattr(snapimpute, "SnapImputator")


def test_type_checkers_see_the_names_where_they_are_found():
    """What the root imports for type checkers is __all__, from the modules that the names are taken from."""
    seen = {
        alias.name: (node.module or "").removeprefix("snapimpute").removeprefix(".") or None
        for node in ast.walk(tree("snapimpute"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("snapimpute")
        for alias in node.names
    }
    assert seen == snapimpute._HOMES
    assert sorted(seen) == sorted(snapimpute.__all__)


def _printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---------------------------------------------------------------- length
def lines_without_docstrings(node: ast.AST) -> int:
    """Lines from first to last, less those of the docstrings inside."""
    total = max(getattr(n, "end_lineno", 0) or 0 for n in ast.walk(node))
    total -= node.lineno - 1 if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else 0
    for inner in ast.walk(node):
        documented = isinstance(inner, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(inner) is not None:
            total -= (inner.body[0].end_lineno or 0) - inner.body[0].lineno + 1
    return total


@pytest.mark.parametrize("module", MODULES)
def test_modules_and_functions_stay_short(module):
    """A module has at most 400 lines and a function 50, docstrings not counted."""
    long = lines_without_docstrings(tree(module))
    assert long <= MAX_MODULE_LINES, f"{module} has {long} lines, more than {MAX_MODULE_LINES}: split it"
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = lines_without_docstrings(node)
            advice = (
                f"{module}:{node.lineno} {node.name} has {length} lines, more than {MAX_FUNCTION_LINES}: split it"
            )
            assert length <= MAX_FUNCTION_LINES, advice


def test_the_checks_see_the_package():
    """The list of modules holds the parts that these tests are about, so that none passes for want of files."""
    parts = {part(module) for module in MODULES}
    assert {name for layer in LAYERS for name in layer} | {"cli"} <= parts
    assert any(name == "numpy" for _, name in imports("snapimpute.problem"))
    assert any(name == "snapimpute.observations" for _, name in imports("snapimpute.problem"))
