"""Threads: parts cover the work once, results keep their order, BLAS gets its threads back."""

from __future__ import annotations

import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapimpute.base import threads
from snapimpute.base.threads import cut, run_parts, single_threaded_blas, thread_count

MUCH = 1e12  # operations, enough for any number of threads


def blas_threads() -> int:
    """The most that any BLAS has; some, loaded by other packages, never have more than one."""
    return max(pool["num_threads"] for pool in threads._blas().info() if pool["user_api"] == "blas")


# ---------------------------------------------------------------- how many
def test_environment_decides_the_number_of_threads(monkeypatch):
    """SNAPIMPUTE_NUM_THREADS is taken at its word, at the time of the call."""
    for count in (1, 2, 17):
        monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", str(count))
        assert thread_count() == count


def test_without_the_variable_all_cores_of_the_process_are_used(monkeypatch):
    """By default there are as many threads as cores that this process may use, or that the machine has."""
    monkeypatch.delenv("SNAPIMPUTE_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
    assert thread_count() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert thread_count() == 7
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert thread_count() == 1


@pytest.mark.parametrize("bad", ["0", "-1", "two", "1.5", "", "²"])
def test_bad_number_of_threads_is_refused(bad, monkeypatch):
    """Anything but a whole number of at least 1 is refused, and shown."""
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", bad)
    with pytest.raises(ValueError, match=f"SNAPIMPUTE_NUM_THREADS must be a whole number, at least 1, got '{bad}'"):
        thread_count()


# ---------------------------------------------------------------- parts
@given(st.integers(0, 500), st.integers(1, 60))
def test_parts_cover_the_range_once(size, step):
    """The parts, one after the other, are the range; all but the last are full."""
    parts = cut(size, step)
    assert [i for start, stop in parts for i in range(start, stop)] == list(range(size))
    assert all(stop - start == step for start, stop in parts[:-1])


@pytest.mark.parametrize("count", ["1", "2", "3"])
def test_results_come_in_the_order_of_the_parts(count, monkeypatch):
    """Results keep the order of the parts also where the first ones take longest."""
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)

    def work(start: int, stop: int) -> tuple[int, int]:
        time.sleep(0.002 * (start == 0))
        return start, stop

    parts = cut(50, 7)
    assert run_parts(work, parts, MUCH) == parts
    assert run_parts(work, [], MUCH) == []


def test_work_is_spread_only_where_it_is_worth_it(monkeypatch):
    """Two parts of much work meet in two threads; little work, or one part, stays in the caller's thread."""
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "2")
    both = threading.Barrier(2, timeout=20)

    def meet(start: int, stop: int) -> str:
        both.wait()
        return threading.current_thread().name

    def where(start: int, stop: int) -> str:
        return threading.current_thread().name

    here = threading.current_thread().name
    assert len({*run_parts(meet, cut(2, 1), MUCH), here}) == 3
    assert set(run_parts(where, cut(8, 1), threads.WORTH_THREADS / 2)) == {here}
    assert set(run_parts(where, cut(1, 1), MUCH)) == {here}
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "1")
    assert set(run_parts(where, cut(8, 1), MUCH)) == {here}


@pytest.mark.parametrize("count", ["1", "2"])
def test_error_in_a_part_reaches_the_caller(count, monkeypatch):
    """An exception in one part is raised by the call, and the next call works."""
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", count)

    def work(start: int, stop: int) -> int:
        if start == 3:
            raise FloatingPointError("part 3")
        return start

    with pytest.raises(FloatingPointError, match="part 3"):
        run_parts(work, cut(5, 1), MUCH)
    assert run_parts(work, cut(3, 1), MUCH) == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_child_makes_its_own_threads(monkeypatch):
    """A child process, which inherits no thread, does not wait for those of its parent."""
    monkeypatch.setenv("SNAPIMPUTE_NUM_THREADS", "2")
    run_parts(lambda start, stop: start, cut(4, 1), MUCH)  # the parent has its threads now
    child = os.fork()
    if child == 0:
        done = run_parts(lambda start, stop: start, cut(4, 1), MUCH) == [0, 1, 2, 3]
        os._exit(0 if done else 1)
    for _ in range(500):
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            break
        time.sleep(0.02)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert finished
    assert os.waitstatus_to_exitcode(status) == 0


# ---------------------------------------------------------------- BLAS
@pytest.fixture
def two_blas_threads():
    """BLAS set to two threads for the test, as far as it can be set here."""
    with threads._blas().limit(limits=2, user_api="blas"):
        if blas_threads() != 2:
            pytest.skip("BLAS cannot be set to two threads here")
        yield


def test_blas_is_held_to_one_thread_and_set_back(two_blas_threads):
    """Inside the block BLAS has one thread, after it what it had before, also after an error and when nested."""
    with single_threaded_blas():
        assert blas_threads() == 1
        with single_threaded_blas():
            assert blas_threads() == 1
        assert blas_threads() == 1
    assert blas_threads() == 2
    with pytest.raises(KeyError), single_threaded_blas():
        raise KeyError
    assert blas_threads() == 2
