"""What a program asks of torch for its own work neither changes a fit, nor is changed by one."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import snapimpute as si

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="torch is not installed")

torch.set_num_threads(1)  # tests run side by side, and its threads wait for each other by turning in circles
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def problem(shape: tuple[int, int] = (90, 70), observed: float = 0.3) -> si.Problem:
    known = si.datasets.low_rank_alphabet(shape, rank=3, alphabet="1:5", observed=observed).observations
    return si.Problem(known, si.Nuclear(4.0), si.FractionalL0("1:5", xi=0.02, alpha=0.05))


def digits() -> tuple[str, bool]:
    return torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32


def test_fits_in_two_threads_leave_torch_as_it_was() -> None:
    """What a program asked for comes back when the last of them leaves, not when the first one does."""
    from snapimpute.backends.torch._settings import undisturbed

    torch.set_float32_matmul_precision("medium")
    before = digits()
    first, second = undisturbed(DEVICE), undisturbed(DEVICE)
    try:
        with contextlib.ExitStack() as stack:
            first.__enter__()
            stack.enter_context(second)
            first.__exit__(None, None, None)
            assert digits()[0] == "highest"
        assert digits() == before
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="torch has one switch for all")
def test_what_is_asked_for_all_devices_can_be_taken_back_after_a_fit() -> None:
    """A fit must not turn what a switch of a single device takes over into a setting of its own."""
    switches: Any = [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul]
    kept = [torch.backends.fp32_precision, *(one.fp32_precision for one in switches)]
    try:
        for one in switches:
            one.fp32_precision = "none"
        torch.backends.fp32_precision = "tf32"
        si.solve(problem(), "apg", max_iter=1, dtype="float32", backend=f"torch:{DEVICE}")
        assert [one.fp32_precision for one in switches] == ["tf32", "tf32"]
        torch.backends.fp32_precision = "ieee"
        assert [one.fp32_precision for one in switches] == ["ieee", "ieee"]
    finally:
        torch.backends.fp32_precision = kept[0]
        for one, before in zip(switches, kept[1:], strict=True):
            one.fp32_precision = before


@contextlib.contextmanager
def all_warnings() -> Iterator[None]:
    """As a program does that wants each of torch's warnings every time."""
    torch.set_warn_always(True)
    try:
        yield
        assert torch.is_warn_always_enabled()
    finally:
        torch.set_warn_always(False)


ASKED = {
    "autocast": lambda: torch.autocast(DEVICE, dtype=torch.bfloat16),
    "another device": lambda: torch.device("meta"),
    "inference": torch.inference_mode,
    "all warnings": all_warnings,
}


@pytest.mark.parametrize(("dtype", "term"), [("float64", "sampled"), ("float32", "tiled")])
@pytest.mark.parametrize("asked", ASKED)
def test_what_a_program_asks_of_torch_changes_nothing(asked: str, dtype: Any, term: Any) -> None:
    """Nor does it come to an end in the callback of a fit, or after it; tiles of a sample are of float32."""
    seen: list[Any] = []
    options: Any = {"max_iter": 2, "tol": 0, "dtype": dtype, "alphabet_term": term, "max_rank": 2}
    options |= {"callback": lambda info: seen.append(info.x.entries([0, 59], [0, 49]))}
    given = problem((200, 160), 0.05) if term == "sampled" else problem()
    plain = si.solve(given, "apg", backend=f"torch:{DEVICE}", **options)
    assert term == "tiled" or plain.history["share"].min() < 1
    with ASKED[asked]():
        result = si.solve(given, "apg", backend=f"torch:{DEVICE}", **options)
    np.testing.assert_array_equal(result.x.U, plain.x.U)
    np.testing.assert_array_equal(result.history["objective"], plain.history["objective"])
    np.testing.assert_array_equal(seen[2:], seen[:2])


ALL_ASKED = """
import torch
torch.set_warn_always(True)
torch.set_default_device("meta")
import snapimpute as si
problem = si.Problem(si.Observations.from_dense([[1, None], [2, 3]]), si.Nuclear(0.1))
print(si.solve(problem, "apg", max_iter=1, backend="torch:cpu").n_iter, torch.is_warn_always_enabled())
"""


def test_what_was_asked_before_the_backend_is_loaded() -> None:
    """The one warning that is kept back then, that sparse tensors are young, does not come later."""
    command = [sys.executable, "-W", "error", "-c", ALL_ASKED]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.stdout == "1 True\n", done.stderr
