"""Memory left on this machine, time of a piece of work, and both as people read them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

VARIABLE = "SNAPIMPUTE_MAX_MEMORY"

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")

UNITS = {"": 1, "b": 1}
UNITS |= {f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)}
UNITS |= {f"{letter}{end}": 1024**power for power, letter in enumerate("kmgt", 1) for end in ("", "ib")}
"""kB, MB, GB, TB are powers of 1000; KiB, MiB, GiB, TiB, and K, M, G, T, powers of 1024."""

# The two versions of control groups: mount point, files of limit and usage, names of reclaimable memory.
_V2 = ("", "memory.max", "memory.current", ("inactive_file", "active_file"))
_V1 = ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))


def available_memory() -> int | None:
    """Return the bytes that this process may still take without swapping or being killed; None if unknown.

    The environment variable SNAPIMPUTE_MAX_MEMORY comes first, if it is set
    ("4GiB", "500MB", or plain bytes). Else the smaller of two numbers counts: the
    memory that the system has available, and the rest below the limits of the
    control groups (containers, batch systems). Cached files count as free. Where
    neither is known, POSIX gives the free pages or, as a bound, all pages.

    Examples
    --------
    >>> free = available_memory()
    >>> free is None or free >= 0
    True
    """
    asked = os.environ.get(VARIABLE)
    if asked is not None:
        return parse_size(asked, VARIABLE)
    known = [size for size in (_system(), *_left_by_groups()) if size is not None]
    return min(known) if known else _pages()


def parse_size(text: str, name: str = "a size") -> int:
    """Read a size such as "4GiB" as bytes.

    Examples
    --------
    >>> parse_size("1.5 GiB"), parse_size("500MB"), parse_size("4096")
    (1610612736, 500000000, 4096)
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower(), flags=re.ASCII)
    size = int(float(found[1]) * UNITS[found[2]]) if found and found[2] in UNITS else 0
    if size < 1:
        raise ValueError(
            f'{name} must be a size in bytes, at least 1, such as "4GiB", "500MB" or 4000000, got {text!r}'
        )
    return size


def clock(work: Callable[[], object], runs: int = 2) -> float:
    """Time the fastest of some runs, in seconds; never 0."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return max(min(times), 1e-7)


def in_words(size: float) -> str:
    """Write a number of bytes as people read it.

    Examples
    --------
    >>> in_words(1.3 * 2**30), in_words(700 * 2**20), in_words(2000)
    ('1.3 GiB', '700 MiB', '2.0 KiB')
    """
    return _scaled(size, 1024, ("bytes", "KiB", "MiB", "GiB", "TiB"))


def operations_in_words(count: float) -> str:
    """Write a number of operations as people read it.

    Examples
    --------
    >>> operations_in_words(3.1e11), operations_in_words(4e6)
    ('310 Gflop', '4.0 Mflop')
    """
    return _scaled(count, 1000, ("flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"))


def seconds_in_words(seconds: float) -> str:
    """Write a time as people read it.

    Examples
    --------
    >>> seconds_in_words(0.0421), seconds_in_words(4.2), seconds_in_words(600)
    ('42 ms', '4.2 s', '10 min')
    """
    for limit, factor, unit in ((0.95, 1000, "ms"), (120, 1, "s"), (7200, 1 / 60, "min")):
        if seconds < limit:
            return f"{_short(seconds * factor)} {unit}"
    return f"{_short(seconds / 3600)} hours"


def _scaled(amount: float, base: int, units: tuple[str, ...]) -> str:
    """Write an amount in the largest unit that leaves about one or more."""
    power = max((p for p in range(1, len(units)) if amount >= 0.95 * base**p), default=0)
    return f"{_short(amount / base**power) if power else round(amount)} {units[power]}"


def _short(number: float) -> str:
    return f"{number:.1f}" if number < 9.95 else f"{number:,.0f}"


# psutil would replace `_system` and `_pages`: a dozen lines for one more compiled dependency. It does not read the
# limits of control groups, which decide in a container.
def _system() -> int | None:
    """Read MemAvailable of Linux."""
    for line in _lines(PROC / "meminfo"):
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            return 1024 * int(rest.split()[0])
    return None


def _left_by_groups() -> Iterator[int]:
    """Yield the memory left below the limit of each control group of this process."""
    for line in _lines(PROC / "self" / "cgroup"):
        number, controllers, path = line.split(":", 2)
        if number == "0" or "memory" in controllers.split(","):
            version = _V2 if number == "0" else _V1
            # In a container the path may be the host's. The root is always checked, and is then the container's own.
            group = path.strip("/").split("/")
            for depth in range(len(group), -1, -1):
                left = _left(CGROUPS.joinpath(version[0], *group[:depth]), version)
                if left is not None:
                    yield left


def _left(folder: Path, version: tuple[str, str, str, tuple[str, ...]]) -> int | None:
    """Return the limit less the memory in use that cannot be reclaimed; None without a limit."""
    _, limit_name, usage_name, reclaimable = version
    limit, usage = _number(folder / limit_name), _number(folder / usage_name)
    if limit is None or usage is None:
        return None
    pairs = (line.split() for line in _lines(folder / "memory.stat"))
    cached = sum(int(pair[1]) for pair in pairs if pair[0] in reclaimable)
    return max(limit - max(usage - cached, 0), 0)


def _pages() -> int | None:
    """Return the memory of the free pages, or else of all pages, as POSIX counts them."""
    for name in ("SC_AVPHYS_PAGES", "SC_PHYS_PAGES"):
        try:
            pages, size = os.sysconf(name), os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):  # not this system
            continue
        if pages > 0 and size > 0:
            return pages * size
    return None


def _number(path: Path) -> int | None:
    """Read a whole number from a file; None for "max" or a missing file."""
    text = "".join(_lines(path)).strip()
    return int(text) if text.isdecimal() else None


def _lines(path: Path) -> list[str]:
    """Read the lines of a small file; none if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
