"""Documentation that is wrong fails here."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from snapimpute import datasets
from tests.helpers import ROOT
from tools.storeys import PICTURE, arrows

pytestmark = pytest.mark.slow

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
DIRECTIVES = ("{toctree}", "{eval-rst}", "{literalinclude}", "{include}")
TOPS = ("src", "reproduction", "tests", "benchmarks", "examples", "tools")
TO_COPY = sorted((ROOT / "examples").glob("own_*.py"))
"""Examples that pages show in full, for readers to begin from; they end with what they print, as a comment."""

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS

_spec = importlib.util.spec_from_file_location("refresh_docs", ROOT / "tools" / "refresh_docs.py")
assert _spec is not None
assert _spec.loader is not None
refresh = importlib.util.module_from_spec(_spec)
sys.modules["refresh_docs"] = refresh
_spec.loader.exec_module(refresh)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_give_the_output_they_show(page):
    """Every >>> example of a page prints what the page says."""
    if page.name == "gpu.md":
        pytest.importorskip("torch", reason="torch is not installed")
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS)
    assert failed == 0


@pytest.mark.parametrize("page", [p for p in PAGES if refresh.FENCE.search(text(p))], ids=name)
def test_commands_print_what_the_page_shows(page, tmp_path):
    """Every command of a console block, run in the order of the page in one folder, prints what stands below it."""
    if not Path("/bin/bash").exists():
        pytest.skip("the commands of the pages are run by bash, which is not here")
    checker = doctest.OutputChecker()
    for block in refresh.FENCE.findall(text(page)):
        for step in refresh.steps(block):
            printed = refresh.run(step.command, tmp_path)
            same = checker.check_output(step.shown + "\n", printed + "\n", FLAGS)
            assert same, f"{step.command}\n--- the page\n{step.shown}\n--- now\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_of_code_is_run(page):
    """Blocks of Python are examples with >>>, and other blocks are of a kind that is run or none that could be."""
    for kind, body in re.findall(r"^```(\S+)[^\n]*\n(.*?)^```$", text(page), re.MULTILINE | re.DOTALL):
        shown = ("text",) if page.parent.name == "results" else ()  # what a study has printed
        assert kind in ("python", "console", *DIRECTIVES, *shown), f"who runs a block of {kind or 'nothing'}?"
        if kind == "python" and body not in map(text, TO_COPY):
            assert body.startswith(">>> "), f"begin with >>>, or copy a file of examples as it is:\n{body[:80]}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_that_are_listed_exist(page):
    """A command that an indented block lists is one of ours, and a target of make is there."""
    from snapimpute.app.cli.app import app

    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    commands |= {group.name for group in app.registered_groups}
    for word, rest in re.findall(r"^    (snapimpute|make) ([a-z]+(?: / [a-z]+)*)", text(page), re.MULTILINE):
        known = targets if word == "make" else commands
        assert set(rest.split(" / ")) <= known, f"{word} {rest}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    """Every relative link of a page points to a file that exists."""
    links = re.findall(r"\]\(([^)#]+)", text(page))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_the_picture_of_the_storeys_is_current():
    """docs/storeys.svg has an arrow for each package that another imports, and no other arrow."""
    drawn = set(re.findall(r'<g id="(\w+)-(\w+)"', PICTURE.read_text(encoding="utf-8")))
    assert drawn == set(arrows()), "draw it again: python tools/storeys.py"


@pytest.mark.parametrize("engine", ["posterior", "mosaic", "blend"])
def test_the_page_of_an_engine_is_made_of_its_results(engine, monkeypatch):
    """Every figure on docs/results/posterior.md, and on those of the others, is in the results that lie here."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    made = runpy.run_path(str(ROOT / "benchmarks" / f"{engine}_page.py"))["page"]()
    assert text(ROOT / "docs" / "results" / f"{engine}.md") == made, f"make it again: benchmarks/{engine}_page.py"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_modules_that_pages_name_exist(page):
    """A Python file that a page names by its last folders and its name is in the repository."""
    there = [f"/{path.relative_to(ROOT)}" for top in TOPS for path in (ROOT / top).rglob("*.py")]
    named = set(re.findall(r"`([\w/]+\.py)`", text(page)))
    assert [one for one in sorted(named) if not any(path.endswith(f"/{one}") for path in there)] == []


OPENERS = {"What", "How", "Whether", "That", "Those", "As", "Of", "Where", "Which", "With"}


@pytest.mark.parametrize("top", ["src/snapimpute", "reproduction"])
def test_docstrings_begin_with_a_verb_or_a_noun(top):
    """No docstring opens with a clause, as What is done: a verb or a plain noun tells more."""
    clauses = [
        f"{path.relative_to(ROOT)}: {words}"
        for path in sorted((ROOT / top).rglob("*.py"))
        for node in ast.walk(ast.parse(text(path)))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if (words := ast.get_docstring(node) or "-").split()[0] in OPENERS
    ]
    assert clauses == []


def test_formula_table_names_tests_that_exist():
    """docs/formulas.md refers only to test files that are there."""
    named = re.findall(r"`(test_\w+\.py)`", text(ROOT / "docs" / "formulas.md"))
    assert named
    there = {path.name for folder in ("tests", "reproduction") for path in (ROOT / folder).rglob("test_*.py")}
    assert [one for one in named if one not in there] == []


def test_the_site_builds_without_a_warning(tmp_path):
    """Sphinx makes the site of docs/ with warnings as errors, and every page of it is there."""
    pytest.importorskip("sphinx", reason="the site is built by Sphinx: pip install '.[docs]'")
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", str(ROOT / "docs"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for page in (ROOT / "docs").rglob("*.md"):
        assert (tmp_path / page.relative_to(ROOT / "docs").with_suffix(".html")).exists()
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("example", TO_COPY, ids=lambda path: path.stem)
def test_examples_to_copy_print_what_they_say(example, capsys, monkeypatch):
    """An example to begin from runs, prints what its last lines say, and stands on a page."""
    monkeypatch.setattr(datasets, "REGISTRY", datasets.REGISTRY.copy())  # an example adds to it
    runpy.run_path(str(example), run_name="__main__")
    printed = "".join(f"# {line}\n" for line in capsys.readouterr().out.splitlines())
    assert text(example).endswith(f"# It prints:\n{printed}"), printed
    shown = [page for page in PAGES if text(example).partition("\n")[0] in text(page)]
    assert shown, "show it on a page"
    assert all(refresh.pasted(text(page)) == text(page) for page in shown), "python tools/refresh_docs.py PAGE"


EXAMPLES = sorted({*(ROOT / "examples").glob("*.py")} - {*TO_COPY})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_gallery_examples_run(example, tmp_path, monkeypatch):
    """Every example of the gallery runs, and leaves the picture that the gallery shows."""
    plt = pytest.importorskip("matplotlib.pyplot", reason="the examples draw: pip install '.[app]'")
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path)])
    runpy.run_path(str(example), run_name="__main__")
    plt.close("all")
    assert f"gallery/{example.stem}.png" in text(ROOT / "docs" / "gallery.md")
    assert (tmp_path / f"{example.stem}.png").read_bytes()[:4] == b"\x89PNG"
