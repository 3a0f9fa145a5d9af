"""How much memory is free: the environment's word, the system's, and what the limits of control groups leave."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from snapimpute.base import machine
from snapimpute.base.machine import (
    available_memory,
    clock,
    in_words,
    operations_in_words,
    parse_size,
    seconds_in_words,
)

GIB = 2**30


@pytest.fixture
def system(tmp_path, monkeypatch):
    """A machine whose files are written by the test: a function of path and text."""
    monkeypatch.delenv(machine.VARIABLE, raising=False)
    monkeypatch.setattr(machine, "PROC", tmp_path / "proc")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path / "cgroup")

    def write(path: str, text: object) -> None:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")

    return write


def meminfo(gib: float) -> str:
    return f"MemTotal: {64 * 2**20} kB\nMemFree: 12 kB\nMemAvailable:   {int(gib * 2**20)} kB\nBuffers: 0 kB"


def group(write, folder: str, limit: object, usage: int, stat: str = "anon 5\ninactive_file 0") -> None:
    write(f"cgroup/{folder}/memory.max", limit)
    write(f"cgroup/{folder}/memory.current", usage)
    write(f"cgroup/{folder}/memory.stat", stat)


# ---------------------------------------------------------------- sizes
@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GiB", 4 * GIB),
        ("500MB", 500_000_000),
        ("4096", 4096),
        ("1.5 GiB", 3 * GIB // 2),
        (" 2g ", 2 * GIB),
        ("1kb", 1000),
        ("1KiB", 1024),
        ("3 TB", 3 * 10**12),
        ("17b", 17),
    ],
)
def test_sizes_are_read(text, size):
    """Decimal and binary units, one letter as in docker, and plain bytes, in any case."""
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "lots", "-1GiB", "0", "0.2", "1e9", "4 GiB free", "GiB", "1.GiB", "٣GiB", "nan"]
)
def test_what_is_no_size_is_refused(text, monkeypatch):
    """The error names the variable, what was given and what is expected."""
    monkeypatch.setenv(machine.VARIABLE, text)
    with pytest.raises(ValueError, match="SNAPIMPUTE_MAX_MEMORY must be a size in bytes, at least 1") as caught:
        available_memory()
    assert repr(text) in str(caught.value)
    assert "4GiB" in str(caught.value)


def test_the_environment_has_the_last_word(system, monkeypatch):
    """SNAPIMPUTE_MAX_MEMORY replaces whatever the system says, upwards and downwards."""
    system("proc/meminfo", meminfo(8))
    for text, size in (("1MiB", 2**20), ("1TiB", 2**40)):
        monkeypatch.setenv(machine.VARIABLE, text)
        assert available_memory() == size


# ---------------------------------------------------------------- the system
def test_without_limits_the_system_is_asked(system):
    """MemAvailable counts, not what is free without the caches."""
    system("proc/meminfo", meminfo(8))
    assert available_memory() == 8 * GIB


def test_a_limit_leaves_what_is_not_used(system):
    """Limit minus usage, where files that are only cached are not used (version 2)."""
    system("proc/meminfo", meminfo(8))
    system("proc/self/cgroup", "0::/job")
    group(system, "job", 4 * GIB, 3 * GIB)
    assert available_memory() == GIB
    group(system, "job", 4 * GIB, 3 * GIB, f"anon 1\nactive_file {GIB // 2}\ninactive_file {GIB // 4}\nshmem 999")
    assert available_memory() == GIB + 3 * GIB // 4


def test_the_tightest_of_nested_limits_counts(system):
    """A group without a limit lies in one with less than the system has."""
    system("proc/meminfo", meminfo(8))
    system("proc/self/cgroup", "0::/slice/job")
    group(system, "slice/job", "max", GIB)
    group(system, "slice", 3 * GIB, GIB)
    assert available_memory() == 2 * GIB
    group(system, "slice/job", 2 * GIB, GIB)
    assert available_memory() == GIB


def test_limits_of_version_1_are_read(system):
    """The memory controller among others, its own names, and no limit written as a huge number."""
    system("proc/meminfo", meminfo(8))
    system("proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/batch/7\n0::/")
    system("cgroup/memory/batch/7/memory.limit_in_bytes", 2 * GIB)
    system("cgroup/memory/batch/7/memory.usage_in_bytes", 2 * GIB - 5)
    system("cgroup/memory/batch/7/memory.stat", "inactive_file 4\ntotal_inactive_file 100\ntotal_active_file 20")
    system("cgroup/memory/memory.limit_in_bytes", 9223372036854771712)
    system("cgroup/memory/memory.usage_in_bytes", GIB)
    assert available_memory() == 125


def test_a_container_sees_its_own_group_at_the_root(system):
    """The path is that of the host and not there; the limit at the root of the mount counts."""
    system("proc/meminfo", meminfo(8))
    system("proc/self/cgroup", "0::/docker/0123abcd")
    group(system, "", GIB, GIB // 4)
    assert available_memory() == GIB - GIB // 4


def test_more_used_than_allowed_leaves_nothing(system):
    """Never a negative number."""
    system("proc/meminfo", meminfo(8))
    system("proc/self/cgroup", "0::/job")
    group(system, "job", GIB, 2 * GIB)
    assert available_memory() == 0


def test_other_systems_are_asked_for_pages(system, monkeypatch):
    """Free pages, else all pages as a bound, else nothing is known."""
    pages = {"SC_AVPHYS_PAGES": 1000, "SC_PHYS_PAGES": 5000, "SC_PAGE_SIZE": 4096}

    def sysconf(name: str) -> int:
        if name not in pages:
            raise ValueError("unrecognized configuration name")
        return pages[name]

    monkeypatch.setattr(os, "sysconf", sysconf)
    assert available_memory() == 1000 * 4096
    del pages["SC_AVPHYS_PAGES"]
    assert available_memory() == 5000 * 4096
    del pages["SC_PHYS_PAGES"]
    assert available_memory() is None
    monkeypatch.delattr(os, "sysconf")
    assert available_memory() is None


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="not Linux")
def test_this_machine_gives_a_sensible_answer(monkeypatch):
    """Something, and no more than there is in all."""
    monkeypatch.delenv(machine.VARIABLE, raising=False)
    free = available_memory()
    assert free is not None
    assert 0 < free <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------- words and time
def test_amounts_are_written_for_people():
    """Two digits or so, in a unit of which there is about one."""
    assert [in_words(x) for x in (0, 999, 1024, 1023 * 2**20, 22.4 * GIB, 3000 * GIB)] == [
        "0 bytes",
        "1.0 KiB",
        "1.0 KiB",
        "1.0 GiB",
        "22 GiB",
        "2.9 TiB",
    ]
    assert [operations_in_words(x) for x in (12, 4.04e9, 3.1e14)] == ["12 flop", "4.0 Gflop", "310 Tflop"]
    assert [seconds_in_words(x) for x in (0.0003, 0.96, 119, 121, 7200)] == [
        "0.3 ms",
        "1.0 s",
        "119 s",
        "2.0 min",
        "2.0 hours",
    ]


def test_the_clock_takes_the_fastest_run(monkeypatch):
    """Of as many runs as asked for, and never 0."""
    ticks = iter([0.0, 5.0, 10.0, 12.0, 20.0, 29.0])
    monkeypatch.setattr(machine.time, "perf_counter", lambda: next(ticks))
    runs: list[int] = []
    assert clock(lambda: runs.append(1), 3) == 2.0
    assert len(runs) == 3
    monkeypatch.setattr(machine.time, "perf_counter", lambda: 7.0)
    assert clock(lambda: None) > 0
