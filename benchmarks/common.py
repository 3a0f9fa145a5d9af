"""Tools of every benchmark: facts of the machine, the clock, the hardware's own speed, a place for results."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy
from matplotlib.figure import Figure

import snapimpute
from snapimpute.base.files import write_atomically
from snapimpute.base.threads import thread_count

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "threads": thread_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "snapimpute": snapimpute.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }


def best_of(work: Callable[[], object], repeats: int = 5) -> float:
    """Least seconds of several runs after one to warm up: on a shared machine the least is the truest."""
    work()
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def blas_speed(dtype: str = "float64", side: int = 4096) -> float:
    """Operations a second of a plain square matrix product, on all threads."""
    rng = np.random.default_rng(0)
    A, B = (rng.standard_normal((side, side)).astype(dtype) for _ in range(2))
    out = np.empty_like(A)
    return 2 * side**3 / best_of(lambda: np.matmul(A, B, out=out), repeats=3)


def picture(name: str, draw: Callable[[Any], None], size: tuple[float, float] = (7.5, 4.5)) -> None:
    """Draw on a figure and write it beside the results."""
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    RESULTS.mkdir(parents=True, exist_ok=True)
    figure.savefig(RESULTS / f"{name}.png", dpi=100)


def in_process(script: str, *arguments: str) -> Any:
    """JSON that a script prints on its last line, run in a process of its own: for its peak memory."""
    command = [sys.executable, str(Path(__file__).parent / script), *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def peak_mib() -> float:
    """Largest resident memory of this program so far; `getrusage` would count what ran before it in the process."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def compile_everything() -> None:
    """Run all compiled code once on a toy, so that neither time nor memory of the compiler counts."""
    data = snapimpute.data.datasets.low_rank_alphabet((300, 300), rank=2, alphabet="1:5", observed=0.2)
    problem = snapimpute.Problem(data.observations, snapimpute.Nuclear(5.0), snapimpute.L1("1:5", xi=0.001))
    for dtype in ("float64", "float32"):
        for term in ("tiled", "sampled"):
            snapimpute.solve(problem, "ais-impute", max_iter=4, tol=0, dtype=dtype, alphabet_term=term)


def movielens(share: float) -> tuple[snapimpute.Observations, Any]:
    """The observed share of MovieLens-100k, as in the reference table, and (rows, cols, values) of the rest."""
    data = snapimpute.data.datasets.movielens_100k()
    order = np.random.default_rng(0).permutation(len(data))
    cells, hidden = np.split(order, [int(share * order.size)])
    observed = snapimpute.Observations.from_coo(data.rows[cells], data.cols[cells], data.values[cells], data.shape)
    return observed, (data.rows[hidden], data.cols[hidden], data.values[hidden])


def save(name: str, rows: list[dict[str, Any]]) -> None:
    text = json.dumps({"machine": machine(), "rows": rows}, indent=1)
    write_atomically(RESULTS / f"{name}.json", (text + "\n").encode())


def show(title: str, rows: list[dict[str, Any]]) -> None:
    keys = list(rows[0])
    cells = [[f"{row[k]:.4g}" if isinstance(row[k], float) else str(row[k]) for k in keys] for row in rows]
    widths = [max(len(k), *(len(c[i]) for c in cells)) for i, k in enumerate(keys)]
    print(f"\n{title}")
    print("  ".join(k.rjust(w) for k, w in zip(keys, widths, strict=True)))
    for cell in cells:
        print("  ".join(c.rjust(w) for c, w in zip(cell, widths, strict=True)))
