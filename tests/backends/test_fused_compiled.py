"""The fused kernels as a GPU gets them: compiled for an H200, without running them.

The interpreter runs other code where a kernel has instructions of the device.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

from tests.helpers import ROOT

pytestmark = pytest.mark.slow

SHARED = 232_448
"""Bytes of fast memory that a program may have on an H200."""


def test_kernels_fit_an_h200_and_use_its_tensor_cores(tmp_path: Path) -> None:
    """In a process of its own, where Triton compiles: whole maps, tables with jumps, and sums over observed cells."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-W", "error", "benchmarks/gpu_compile.py", "--quick"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 -- our own
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["kernels"] == {"mapped_product": 4, "mapped_total": 3, "summed_lanes": 2, "sampled_product": 1}
    assert found["kernels with products of the tensor cores"] == 7
    assert 0 < found["most shared memory"] <= SHARED
