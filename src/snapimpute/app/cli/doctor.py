"""`snapimpute doctor`: what this machine has, and whether all of it works."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import typer

import snapimpute
from snapimpute.app.cli._options import Manner
from snapimpute.app.cli._sharing import shared
from snapimpute.app.cli._terminal import Terminal, new_table
from snapimpute.base.machine import available_memory, in_words

SIGNS = {"ok": "✓", "note": "–", "wrong": "✗"}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: how it is ("ok", "note", "wrong"), and what to do if it is wrong."""

    name: str
    state: str
    text: str
    advice: str = ""


@shared(Manner)
def doctor(*, manner: Manner) -> None:
    """Look at the installation: versions, extras, memory, caches, and a small fit with a known answer."""
    terminal = Terminal(manner)
    found = [finding for look in LOOKS for finding in look()]
    table = new_table(show_header=False)
    table.add_column("", no_wrap=True)
    table.add_column("", style="bold", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in found:
        table.add_row(SIGNS[one.state], one.name, f"{one.text} {one.advice}".strip())
    terminal.say(table)
    wrong = [one for one in found if one.state == "wrong"]
    terminal.say(f"{len(wrong)} problem(s)" if wrong else "all is well")
    terminal.note(findings=[vars(one) for one in found], problems=len(wrong))
    terminal.print_facts()
    if wrong:
        raise typer.Exit(1)


def _versions() -> Iterator[Finding]:
    yield Finding("snapimpute", "ok", snapimpute.__version__)
    yield Finding("Python", "ok", f"{platform.python_version()}, {platform.system()} {platform.machine()}")
    packages = ("numpy", "scipy", "numba", "scikit-learn", "narwhals", "safetensors", "polars", "typer", "rich")
    yield Finding("packages", "ok", ", ".join(f"{name} {version(name)}" for name in packages))


def _machine() -> Iterator[Finding]:
    from threadpoolctl import threadpool_info

    from snapimpute.base.threads import thread_count

    blas = {f"{one['internal_api']} {one['version']}" for one in threadpool_info() if one["user_api"] == "blas"}
    yield Finding(
        "threads", "ok", f"{thread_count()} of {os.cpu_count()} cores; SNAPIMPUTE_NUM_THREADS sets another number"
    )
    yield Finding("BLAS", "ok" if blas else "note", ", ".join(sorted(blas)) or "unknown")
    memory = available_memory()
    low = memory is not None and memory < 1 << 30
    advice = "Close other programs: large tables need more." if low else ""
    yield Finding(
        "memory", "note" if low else "ok", "unknown" if memory is None else f"{in_words(memory)} available", advice
    )


def _extras() -> Iterator[Finding]:
    """List the optional parts that are installed."""
    extras: dict[str, list[str]] = {}
    for line in requires("snapimpute") or []:
        name, _, marker = line.partition(";")
        if "extra ==" in marker:
            extra = marker.split("extra ==")[1].strip().strip("'\"")
            package = name.strip()
            for sign in "<>=!~[ (":
                package = package.partition(sign)[0]
            extras.setdefault(extra, []).append(package)
    for extra, packages in extras.items():
        if extra in ("test", "docs"):
            continue
        lost = [package for package in packages if not _installed(package)]
        advice = f'pip install "snapimpute[{extra}]"' if lost else ""
        text = f"not installed: {', '.join(lost)}." if lost else "installed"
        yield Finding(f"extra {extra}", "note" if lost else "ok", text, advice)


def _installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _device() -> Iterator[Finding]:
    """Device that backend="torch" would compute with."""
    from snapimpute.backends import backend_named

    try:
        yield Finding("torch", "ok", str(backend_named("torch").name))  # type: ignore[union-attr]
    except (ImportError, OSError, RuntimeError) as err:  # not installed, damaged, or for another device than there is
        yield Finding("torch", "note", f"{err}")


def _folders() -> Iterator[Finding]:
    from snapimpute.data.datasets import cache_dir

    kernels = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(snapimpute.__file__).parent)
    places = {"downloads": (cache_dir(), "SNAPIMPUTE_CACHE"), "compiled kernels": (kernels, "NUMBA_CACHE_DIR")}
    for name, (folder, variable) in places.items():
        able = _writable(folder)
        advice = "" if able else f"It cannot be written to: set {variable} to a folder that can."
        yield Finding(name, "ok" if able else "wrong" if name == "downloads" else "note", str(folder), advice)


def _writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _fit() -> Iterator[Finding]:
    """A table whose completion is known."""
    import numpy as np

    begin = time.perf_counter()
    rows, cols = np.arange(8) % 2, np.arange(6) % 2
    expert = snapimpute.Proximal(lam=0.5, xi=0.01)
    truth = 1.0 + 4 * (rows[:, None] ^ cols[None, :])
    table = np.where(np.eye(8, 6, dtype=bool), np.nan, truth)
    right = bool((snapimpute.complete(table, "1:5", method=expert) == truth).all())
    took = f"{time.perf_counter() - begin:.1f} s"
    if right:
        yield Finding("a small fit", "ok", f"right, in {took}")
    else:
        yield Finding(
            "a small fit", "wrong", "gives another table than it should.", "Install snapimpute and numba again."
        )


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (_versions, _machine, _extras, _device, _folders, _fit)
