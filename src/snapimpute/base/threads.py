"""Threads: all parallel work starts here.

Work is cut into parts that do not depend on the number of threads, and each
part writes its own slice, so results are the same bits for any number. Parts
run compiled code or BLAS calls that release the interpreter lock; BLAS itself
is held to one thread meanwhile, or the two kinds of threads would compete.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

WORTH_THREADS = 2e6
"""Arithmetic operations, about a millisecond's worth."""

T = TypeVar("T")
Part = tuple[int, int]

_lock = threading.Lock()
_own = threading.local()
_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def thread_count() -> int:
    """Return the threads to use: SNAPIMPUTE_NUM_THREADS, else the cores that this process may use."""
    if getattr(_own, "single", False):
        return 1
    asked = os.environ.get("SNAPIMPUTE_NUM_THREADS")
    if asked is None:
        affinity = getattr(os, "sched_getaffinity", None)
        return len(affinity(0)) if affinity else os.cpu_count() or 1
    if not asked.isdecimal() or int(asked) < 1:
        raise ValueError(f"SNAPIMPUTE_NUM_THREADS must be a whole number, at least 1, got {asked!r}")
    return int(asked)


def cut(size: int, step: int) -> list[Part]:
    """Cut ``range(size)`` into parts of ``step``, the last one shorter."""
    return [(start, min(start + step, size)) for start in range(0, size, step)]


def run_parts(work: Callable[[int, int], T], parts: Sequence[Part], operations: float) -> list[T]:
    """Call ``work(start, stop)`` for every part, on all threads; results in the order of the parts.

    With few ``operations`` in all, one thread does them: sharing would cost more
    than it saves.
    """
    threads = min(thread_count(), len(parts)) if operations >= WORTH_THREADS else 1
    if threads <= 1:
        return [work(*part) for part in parts]
    results: list[Any] = [None] * len(parts)
    waiting = iter(range(len(parts)))  # taking the next one is atomic, and cheaper than a job for each

    def take() -> None:
        for i in waiting:
            results[i] = work(*parts[i])

    jobs = [_pool(threads).submit(take) for _ in range(threads)]
    for job in jobs:
        job.result()
    return results


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep the work of this thread on it inside the block, that of BLAS too."""
    before = getattr(_own, "single", False)
    _own.single = True
    try:
        with single_threaded_blas():
            yield
    finally:
        _own.single = before


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Hold BLAS to one thread inside the block, also if several threads ask for it at once."""
    with _blas().limit(limits=1, user_api="blas"):
        yield


@cache
def _blas() -> Any:
    return ThreadpoolController()


def _pool(threads: int) -> ThreadPoolExecutor:
    key = (os.getpid(), threads)  # a forked child has none of its parent's threads
    with _lock:
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="snapimpute")
        return _pools[key]
