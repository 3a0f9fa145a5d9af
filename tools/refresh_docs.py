"""Run the `console` blocks of pages and write what they print into the pages; paste examples in again.

    python tools/refresh_docs.py docs/command.md README.md

Read the difference before it is committed: the tests compare pages with the same commands.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path

COLUMNS = "110"
FENCE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES = Path(__file__).parents[1] / "examples"
TIMES = re.compile(r"\b\d[\d.,]* (?:µs|ms|s|min|h)(?: \d+ (?:s|min))? in all")
PROGRESS = re.compile(r"^(fitting|tuning|comparing): |; at most .* left$")
"""What differs from run to run."""

FITS = re.compile(r"snapimpute (complete|fit|evaluate|tune)\b")
"""Commands that run in a process of their own: what ran before in one may change the last bits of a long chain."""


@dataclass(frozen=True)
class Step:
    """A command of a page, and what the page says that it prints."""

    command: str
    shown: str


def steps(block: str) -> Iterator[Step]:
    """Cut a block: a line that begins with `$ ` is a command, with its here-document; what follows is output."""
    lines = block.splitlines()
    while lines:
        first = lines.pop(0)
        if not first.startswith("$ "):
            raise ValueError(f"a console block begins with '$ ', not with {first!r}")
        command = [first[2:]]
        end = re.search(r"<< '(\w+)'", first)
        while end and command[-1] != end[1]:
            command.append(lines.pop(0))
        shown = []
        while lines and not lines[0].startswith("$ "):
            shown.append(lines.pop(0))
        yield Step("\n".join(command), "\n".join(shown))


def run(command: str, folder: Path) -> str:
    """Run a command as a user would, in a folder, with the environment of this interpreter; return all it prints."""
    plain = command.startswith("snapimpute ") and not set("|<>;&$`") & set(command) and not FITS.match(command)
    printed = _here(shlex.split(command)[1:], folder) if plain else _by_shell(command, folder)
    lines = [line.rstrip() for line in printed.strip("\n").splitlines() if not PROGRESS.search(line)]
    return TIMES.sub("... in all", "\n".join(lines))


def _here(arguments: list[str], folder: Path) -> str:
    """Run our command in this process, which saves the seconds that its imports take."""
    from snapimpute.app.cli import main as command

    buffer = io.BytesIO()
    out = io.TextIOWrapper(buffer, encoding="utf-8", write_through=True)
    before, columns, sys.argv = sys.argv, os.environ.get("COLUMNS"), ["snapimpute", *arguments]
    os.environ["COLUMNS"] = COLUMNS
    try:
        with redirect_stdout(out), redirect_stderr(out), chdir(folder), suppress(SystemExit):
            command()
    finally:
        sys.argv = before
        os.environ.pop("COLUMNS") if columns is None else os.environ.update(COLUMNS=columns)
    return buffer.getvalue().decode()


def _by_shell(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": COLUMNS, "TERM": "dumb", "NO_COLOR": "1"}
    done = subprocess.run(  # noqa: S603  the pages are ours
        ["/bin/bash", "-c", command],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    return done.stdout


def refreshed(text: str, folder: Path) -> str:
    """A page with the outputs of now."""

    def again(found: re.Match[str]) -> str:
        parts = []
        for step in steps(found[1]):
            printed = run(step.command, folder)
            parts += [f"$ {step.command}", *([printed] if printed else [])]
        return "```console\n" + "\n".join(parts) + "\n```"

    return FENCE.sub(again, text)


def pasted(text: str) -> str:
    """A page with the examples of now: a block that begins with the first line of one is that example."""
    examples = [path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("own_*.py"))]
    by_first_line = {example.splitlines()[0]: example for example in examples}

    def again(found: re.Match[str]) -> str:
        body = found[1]
        return f"```python\n{by_first_line.get(body.splitlines()[0], body)}```"

    return PYTHON.sub(again, text)


def main() -> None:
    """Refresh the pages named."""
    for name in sys.argv[1:]:
        page = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            page.write_text(refreshed(pasted(page.read_text(encoding="utf-8")), Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
