"""`snapimpute solvers`: a table that names every solver and its paper at any width, details, JSON, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import unicodedata
from dataclasses import asdict, fields
from typing import Any

import pytest
from typer.testing import CliRunner

from snapimpute.app.cli.app import app
from snapimpute.solvers import SOLVERS, SolverInfo

every_solver = pytest.mark.parametrize("name", SOLVERS)


def run(*arguments: str, columns: int = 80) -> Any:
    return CliRunner().invoke(app, ["solvers", *arguments], env={"COLUMNS": str(columns), "TERMINAL_WIDTH": "200"})


def squeezed(text: str) -> str:
    """Without any white space: a cell of a table breaks lines, and long words, where it must."""
    return "".join(text.split())


def cells(output: str) -> dict[str, dict[str, str]]:
    """The table read back: for each solver what stands under each heading, squeezed."""
    lines = output.splitlines()
    rule = next(i for i, line in enumerate(lines) if line.strip().startswith("──"))
    heads = ["solver", "minimises", "penalties", "aware", "costs", "paper"]
    title = lines[rule - 1]
    if "iteration" in title:  # all headings in one line
        title = title.replace("discrete aware", "aware         ").replace("an iteration costs", "costs             ")
    starts = [title.index(head) for head in heads]
    ends = [*starts[1:], len(title) + 200]
    rows: dict[str, dict[str, str]] = {}
    for line in lines[rule + 1 :]:
        if not line.strip():
            break
        parts = {head: line[start:end] for head, start, end in zip(heads, starts, ends, strict=True)}
        if parts["solver"].strip():
            current = rows.setdefault(parts["solver"].strip(), dict.fromkeys(heads, ""))
        for head, part in parts.items():
            current[head] += squeezed(part)
    return rows


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_the_table_names_every_solver_and_its_paper(columns):
    """At any width each solver stands there with all that its card says, nothing cut off, no line too long."""
    result = run(columns=columns)
    assert result.exit_code == 0, result.output
    rows = cells(result.output)
    assert list(rows) == list(SOLVERS)
    for name, solver in SOLVERS.items():
        assert rows[name]["paper"] == squeezed(solver.info.paper)
        assert rows[name]["minimises"] == squeezed(solver.info.minimises)
        assert rows[name]["costs"] == squeezed(solver.info.cost)
    assert "…" not in result.output
    assert all(len(line) <= columns for line in result.output.splitlines())


@pytest.mark.parametrize("columns", range(66, 80))
def test_nothing_is_cut_off_in_a_narrow_terminal(columns):
    """Where a word is too long for its column it goes on in the next line."""
    output = run(columns=columns).output
    assert "…" not in output
    assert all(name in output for name in SOLVERS)
    assert all(len(line) <= columns for line in output.splitlines())


def test_the_table_tells_what_a_solver_treats():
    """Penalties and discreteness are those of the cards: all or named, yes, no, or convex ones."""
    rows = cells(run(columns=200).output)
    assert {row["aware"] for row in rows.values()} == {"yes", "no", "convexones"}
    for name, solver in SOLVERS.items():
        assert (rows[name]["aware"] == "no") == (not solver.info.discrete)
        assert rows[name]["penalties"] in ("all", squeezed(", ".join(solver.info.spectral)))
    assert (rows["apg"]["penalties"], rows["svt"]["penalties"], rows["altmin"]["penalties"]) == (
        "all",
        "nuclear",
        "rank",
    )
    assert (rows["apg"]["aware"], rows["admm"]["aware"], rows["svt"]["aware"]) == ("yes", "convexones", "no")
    assert {name for name, row in rows.items() if row["aware"] == "convexones"} == {"davis-yin", "admm"}


@pytest.mark.parametrize("columns", [80, 200])
def test_the_notes_follow_the_table(columns):
    """The letters of the costs are explained, and what "auto" takes."""
    notes = " ".join(run(columns=columns).output.split())
    for words in (
        "r is the rank",
        'solver="auto": fancl if the discrete penalty is not convex',
        "snapimpute solvers NAME",
    ):
        assert words in notes


@every_solver
def test_one_solver_in_full(name):
    """Its name shows the card, every parameter with its default, and the explanation."""
    result = run(name)
    assert result.exit_code == 0, result.output
    solver, info = SOLVERS[name], SOLVERS[name].info
    first, *rest = result.output.splitlines()
    assert first == f"{name}: {info.title}  (si.solvers.{solver.__name__})"
    shown = "\n".join(rest)
    for words in (info.minimises, info.cost, info.paper, solver.measures, ", ".join(info.spectral)):
        assert words in shown
    assert ("(convex terms only)" in shown) == info.convex
    given = [f"{parameter.name}={parameter.default!r}" for parameter in fields(solver)]
    assert f"parameters    {', '.join(given)}" in shown
    assert (solver.__doc__ or "?").splitlines()[0] in rest


def test_json_is_complete():
    """Scripts get every solver with its whole card and its parameters with their defaults."""
    result = run("--json")
    assert result.exit_code == 0, result.output
    listed = json.loads(result.output, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))
    assert [one["name"] for one in listed] == list(SOLVERS)
    for one in listed:
        solver = SOLVERS[one["name"]]
        info = asdict(solver.info) | {"spectral": list(solver.info.spectral)}
        assert {line.name: one[line.name] for line in fields(SolverInfo)} == info
        assert one["parameters"] == {f.name: getattr(solver(), f.name) for f in fields(solver)}


@every_solver
def test_json_of_one_solver(name):
    """With a name the list has that solver only."""
    listed = json.loads(run("--json").output)
    assert json.loads(run(name, "--json").output) == [one for one in listed if one["name"] == name]


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_an_unknown_name_is_refused_with_the_names(more):
    """A misspelt name ends with status 2, and the error lists what there is."""
    result = run("soft-imput", *more, columns=200)
    assert result.exit_code == 2
    assert result.stdout == ""
    shown = squeezed(result.stderr.replace("│", ""))
    assert squeezed(f"there is no solver 'soft-imput'; there are {', '.join(SOLVERS)}") in shown


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["apgl"], ["--json"]])
def test_piped_output_has_no_control_characters(arguments):
    """In a pipe there are neither colours nor other escapes, only text and line breaks."""
    code = f"import sys; sys.argv = ['snapimpute', 'solvers', *{arguments!r}]"
    code += "; from snapimpute.app.cli import main; main()"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-X", "utf8", "-c", code], capture_output=True, check=True, timeout=120
    )
    text = done.stdout.decode("utf-8")
    assert "apgl" in text
    assert {c for c in text if unicodedata.category(c) == "Cc"} == {"\n"}
    assert done.stderr == b""
