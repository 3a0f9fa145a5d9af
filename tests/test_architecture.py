"""The shape of the package: imports point one way, heavy parts wait until they are used, nothing grows too long."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

import snapimpute
from tools.storeys import (
    MODULES,
    ROOT,
    STOREYS,
    circle,
    graph,
    imports,
    inner_imports,
    room,
    storey,
    tree,
)

DOORS = {"snapimpute": set(), "snapimpute.__main__": {"app"}}
"""Modules at the top, and what they may load when they are imported themselves."""

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 50


def outer_users(library: str) -> dict[str, list[int]]:
    """The modules that import a library anywhere, and where."""
    found: dict[str, list[int]] = {}
    for module in MODULES:
        for line, name in imports(module):
            if name.split(".")[0] == library:
                found.setdefault(module, []).append(line)
    return found


# ---------------------------------------------------------------- direction
@pytest.mark.parametrize("module", sorted(MODULES.keys() - DOORS.keys()))
def test_imports_point_down(module):
    """A module imports its own package and storeys below, never one above or beside it."""
    here = room(module)
    for line, name in inner_imports(module):
        there = room(name)
        where = f"{module}:{line} imports {name}"
        if there == "snapimpute":
            assert here == "app", f"{where}: only the command line may import the root; name the module"
        elif there != here:
            assert storey(there) < storey(here), f"{where}: {there} does not stand below {here} in {STOREYS}"


@pytest.mark.parametrize("module", DOORS)
def test_doors_load_little(module):
    """`import snapimpute` loads no storey, and never the command line; `python -m snapimpute` loads that alone."""
    assert {room(name) for _, name in inner_imports(module, only_on_import=True)} <= DOORS[module]
    if module == "snapimpute":
        assert "app" not in {room(name) for _, name in inner_imports(module)}


def test_the_storeys_are_the_packages():
    """Each package is in one storey, and the top holds two modules."""
    rooms = [name for rooms in STOREYS for name in rooms]
    assert sorted(rooms) == sorted(path.name for path in ROOT.iterdir() if (path / "__init__.py").exists())
    assert {path.name for path in ROOT.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_private_modules_stay_in_their_package():
    """A module whose name begins with an underscore is imported by its own package only."""
    strangers = [
        f"{module}:{line} imports {name}"
        for module in MODULES
        for line, name in inner_imports(module)
        if name.rpartition(".")[2].startswith("_")
        and not name.endswith("__")
        and not f"{module}.".startswith(f"{name.rpartition('.')[0]}.")
    ]
    assert strangers == []


def test_the_product_does_not_know_its_research():
    """Nothing in the package imports `reproduction`, which is not shipped with it."""
    assert outer_users("reproduction") == {}


def test_imports_run_in_no_circle():
    """Following the imports of modules never leads back to the start."""
    assert " → ".join(circle(graph())) == ""


def test_a_circle_is_found():
    """A path that leads back to its start is returned from there on, and none where there is none."""
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"d", "b"}}) == ["b", "c", "b"]
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []


# ---------------------------------------------------------------- other libraries
@pytest.mark.parametrize("library", ["rich", "typer"])
def test_terminal_libraries_stay_in_the_command_line(library):
    """The core is quiet: libraries that draw on terminals are imported by the command line only."""
    others = {
        module: lines for module, lines in outer_users(library).items() if not module.startswith("snapimpute.app.cli")
    }
    assert others == {}, f"{library} belongs under snapimpute.app.cli"


def test_pictures_are_drawn_in_two_modules():
    """matplotlib is known to what draws into axes, which loads it when it draws, and to what writes figures."""
    assert set(outer_users("matplotlib")) == {"snapimpute.views.plots", "snapimpute.app.report.figures"}
    assert "matplotlib" not in {
        name.split(".")[0] for _, name in imports("snapimpute.views.plots", only_on_import=True)
    }


@pytest.mark.parametrize("library", ["plotly", "jinja2"])
def test_pages_are_made_in_one_module(library):
    """plotly and jinja2 are each known to one module, of the report."""
    users = outer_users(library)
    assert [module.rpartition(".")[0] for module in users] == ["snapimpute.app.report"], sorted(users)


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


BEHIND = {
    module for module in MODULES if module.startswith(("snapimpute.backends.torch.", "snapimpute.backends.dask."))
}
"""Modules that need torch or Dask as a whole; they are imported when their backend is asked for."""


def test_the_modules_of_a_backend_wait_until_it_is_asked_for():
    """What needs torch is imported by name inside a function."""
    early = [
        f"{module}:{line}"
        for module in MODULES
        for line, name in imports(module, only_on_import=True)
        if name in BEHIND and module not in BEHIND
    ]
    assert early == []
    assert {module.rpartition(".")[0] for module in outer_users("torch")} == {"snapimpute.backends.torch"}


HEAVY = [
    "numpy",
    "narwhals",
    "safetensors",
    "pooch",
    "numba",
    "scipy",
    "sklearn",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
]
HEAVY += ["torch", "dask", "cvxpy", "rich", "typer", "plotly", "jinja2"]


def test_import_of_the_package_is_light():
    """`import snapimpute` loads no compiler, estimator, plotting, table, terminal or deep-learning library."""
    code = f"import sys, snapimpute; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    assert _printed(code).split() == []


def test_a_help_page_loads_nothing_that_computes():
    """`snapimpute --help`, and that of each command, needs the command's own modules, typer and rich only."""
    code = (
        "import sys; from snapimpute.app.cli.app import app; from typer.testing import CliRunner\n"
        "from typer.main import get_command\n"
        "pages = [[], *([name] for name in get_command(app).commands)]\n"
        "assert len(pages) > 9 and not any(CliRunner().invoke(app, [*one, '--help']).exit_code for one in pages)\n"
        "print(*(name for name in sys.modules))"
    )
    loaded = _printed(code).split()
    heavy = {*HEAVY} - {"rich", "typer"}
    assert sorted(heavy & {*loaded}) == []
    ours = {".".join(name.split(".")[1:3]) for name in loaded if name.startswith("snapimpute.")}
    assert ours <= {"app", "app.cli", "base", "base.machine"}


@pytest.mark.slow
def test_every_public_name_is_found_when_it_is_asked_for():
    """Each name of __all__ is in dir(), imports, and is kept; a name that is not there is an AttributeError."""
    assert set(dir(snapimpute)) == {*snapimpute.__all__, "__version__"}
    # in a process of its own: here most of them have been imported already
    found = "[type(getattr(si, name)).__name__ == 'module' for name in si.__all__]"
    code = f"import snapimpute as si; print(*{found}, set(si.__all__) <= set(vars(si)))"
    modules = [name in snapimpute._MODULES for name in snapimpute.__all__]
    assert _printed(code).split() == [str(one) for one in (*modules, True)]
    assert _printed("from snapimpute import *; print(solve.__module__)").strip() == "snapimpute.solvers.loop"
    assert not hasattr(snapimpute, "SnapImputator")


def test_type_checkers_see_the_names_where_they_are_found():
    """What the root imports for type checkers is __all__, from the modules that the names are taken from."""
    seen = {
        alias.name: (node.module or "").removeprefix("snapimpute").removeprefix(".")
        for node in ast.walk(tree("snapimpute"))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("snapimpute")
        for alias in node.names
    }
    assert seen == snapimpute._MODULES | snapimpute._NAMES
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
    """The list of modules holds every storey, and imports of every kind are found."""
    assert {name for rooms in STOREYS for name in rooms} <= {room(module) for module in MODULES}
    assert any(name == "numpy" for _, name in imports("snapimpute.problem.problem"))
    assert any(name == "snapimpute.data.observations" for _, name in imports("snapimpute.problem.problem"))
    named = {name for _, name in imports("snapimpute.app.report.page")}
    assert "snapimpute.app.report" in named  # by a string
