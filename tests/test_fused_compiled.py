"""The fused kernels as a GPU gets them: compiled for an H200, and their instructions computed one by one.

The interpreter runs other code where a kernel has instructions of the device, knows no bf16, and sees no faults of
copies, barriers and addresses.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

ROOT = Path(__file__).parents[1]
SHARED = 232_448
"""Bytes of fast memory that a program may have on an H200."""

LIMITS = {"bf16": 2e-4, "fp16": 1e-4, "tf32": 1e-4, "float32": 1e-6, "objective": 1e-8}
JUMP = 1e-2  # a cell that rounding carries over an edge is off by as much as the map jumps


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the benchmark says of a few kernels; in a process of its own, where Triton compiles."""
    out = tmp_path_factory.mktemp("instructions")
    environment = {**os.environ, "TRITON_CACHE_DIR": str(out / "cache")}
    command = [sys.executable, "-W", "error", "benchmarks/gpu_instructions.py", "--quick", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 -- our own
    assert done.returncode == 0, done.stderr
    return json.loads((out / "gpu_instructions.json").read_text())


def test_compiled_kernels_give_what_float64_gives(found: Any) -> None:
    assert {row["map"] for row in found["rows"]} == {"L1", "L1 with weights", "fractional L0 that jumps"}
    for row in found["rows"]:
        for precision, limit in LIMITS.items():
            assert row.get(precision, 0.0) <= limit + (JUMP if "jumps" in row["map"] else 0.0)
    assert {precision for row in found["rows"] for precision in row} >= set(LIMITS)


def test_sums_over_observed_cells(found: Any) -> None:
    (row,) = found["sums"]
    assert max(row["sums off"], row["entries off"]) < 1e-6
    assert found["kernels of sums"] == 3  # of entries, of pieces, and of low rank


def test_copies_and_products_may_take_their_time(found: Any) -> None:
    """The same bits whether copies are early and products late, or the other way round."""
    assert all(row["same in both orders"] for row in found["rows"])


def test_kernels_fit_an_h200_and_use_its_tensor_cores(found: Any) -> None:
    assert 0 < found["most shared memory"] <= SHARED
    assert found["kernels with products of the tensor cores"] == found["kernels"] == 5
