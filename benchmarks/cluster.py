"""A cluster on this machine: two workers of 2 GiB each read 20 million ratings from Parquet files and fit them.

    python benchmarks/cluster.py [--small]

Peak memory is what the system says of each process (VmHWM). Bytes are what all processes wrote to each other in an
iteration, beside what `snapimpute.solvers.cluster_forecast` counts for the ranks of its iterates and the
rounds of its partial SVD,
and for the rank alone, as a plan does. MovieLens-100k is fitted on the cluster and in one process.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import snapimpute as si
from common import save
from snapimpute.experts.proximal.offsets import offsets
from snapimpute.solvers.cluster_forecast import bytes_sent, cluster_forecast
from snapimpute.solvers.proximal import gradient as proximal

WORKERS, LIMIT, ITERATIONS = 2, "2GiB", 16


def files(folder: Path, shape: tuple[int, int], ratings: int, parts: int) -> int:
    """Ratings 1 to 5 of a table of rank 5, popular rows and columns with more of them; how many there are."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    m, n = shape
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((m, 5)) * 0.5, rng.standard_normal((n, 5))
    weight = (np.arange(n) + 20.0) ** -0.7
    weight /= weight.sum()
    written, edges = 0, np.linspace(0, m, parts + 1).astype(int)
    for part in range(parts):
        low, high = edges[part], edges[part + 1]
        count = ratings // parts
        rows = low + ((high - low) * rng.random(count) ** 1.5).astype(np.int64)
        cols = rng.choice(n, count, p=weight)
        cells = np.unique(rows * n + cols)
        rng.shuffle(cells)
        rows, cols = cells // n, cells % n
        values = 3.2 + (left[rows] * right[cols]).sum(axis=1) + 0.7 * rng.standard_normal(cells.size)
        table = {"row": rows, "column": cols, "value": np.clip(np.round(values), 1, 5)}
        pq.write_table(pa.table(table), folder / f"{part:03}.parquet", row_group_size=1 << 20)
        written += cells.size
    return written


def peak(pid: int) -> int:
    """Largest memory of a process so far, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return 0


def written(*, begin: bool = False) -> int:
    """Bytes that this process has written to others since it was first told to begin to count."""
    import builtins

    from distributed.comm.tcp import TCP

    counter: Any = builtins  # all that a worker has in common with what it is sent
    if begin and not hasattr(counter, "bytes_written"):
        counter.bytes_written, write = 0, TCP.write

        async def counted(self: Any, *arguments: Any, **options: Any) -> int:
            size: int = await write(self, *arguments, **options)
            counter.bytes_written += size
            return size

        TCP.write = counted
    return int(counter.bytes_written)


class Watch:
    """Record of each iteration: when it ended, bytes written by then, rank, rounds of its partial SVD, copies."""

    def __init__(self, client: Any, known: Any) -> None:
        self.client, self.known, self.marks, self.passes = client, known, [], 0
        self.total(begin=True)

    def total(self, *, begin: bool = False) -> int:
        return written(begin=begin) + sum(self.client.run(written, begin=begin).values())

    def __enter__(self) -> Watch:
        self.partial_svd = proximal.partial_svd

        def counted(*arguments: Any, **options: Any) -> Any:
            found = self.partial_svd(*arguments, **options)
            self.passes += found.passes
            return found

        proximal.partial_svd = counted
        return self

    def __exit__(self, *_: object) -> None:
        proximal.partial_svd = self.partial_svd

    def __call__(self, info: Any) -> None:
        rounds = (self.passes - 1) // 2
        self.marks.append((time.perf_counter(), self.total(), info.x.rank, rounds, self.known.backend.secured))
        self.passes = 0

    def iterations(self, first: int) -> list[dict[str, Any]]:
        """Those that put all on two workers, from the given one on, but for the last, which is evaluated."""
        out = []
        for i in range(first, len(self.marks) - 1):
            (before, had, *_, copies), (now, has, rank, rounds, copied) = self.marks[i - 1], self.marks[i]
            ranks = [mark[2] for mark in self.marks[i : i - 3 : -1]]
            one = {"seconds": now - before, "sent": has - had, "rank": rank, "ranks": ranks, "rounds": rounds}
            out += [one] if copied > copies else []
        return out


def large(client: Any, *, small: bool) -> dict[str, Any]:
    shape, ratings, parts = ((20_000, 4_000), 1_000_000, 4) if small else ((200_000, 20_000), 20_000_000, 20)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        count = files(folder, shape, ratings, parts)
        begin = time.perf_counter()
        known = si.cluster(client).read_parquet(folder, alphabet="1:5")
        read = time.perf_counter() - begin
        watch = Watch(client, known)
        problem = si.Problem(known, si.Nuclear(60.0), si.L1("1:5", xi=0.02), offsets(known, "mean"))
        options: dict[str, Any] = {"max_rank": 16, "alphabet_term": "sampled", "evaluate_every": ITERATIONS}
        with watch:
            result = si.solve(problem, "ais-impute", max_iter=ITERATIONS, tol=0, callback=watch, **options)
    done = watch.iterations(4)
    given: dict[str, Any] = {"workers": WORKERS, "solver": "ais-impute", "offsets": 1, "bytes_per_second": 1e9}
    plans = [cluster_forecast(shape, count, one["rank"], **given) for one in done]
    sent = np.array([one["sent"] for one in done])
    counted = [
        bytes_sent(plan.case, WORKERS, one["ranks"], one["rounds"]) for plan, one in zip(plans, done, strict=True)
    ]
    planned = [plan.sent for plan in plans]
    workers = client.run(os.getpid)
    return {
        "shape": shape,
        "ratings": count,
        "seconds to read": read,
        "rank": result.x.rank,
        "ranks": [one["rank"] for one in done],
        "rounds": [one["rounds"] for one in done],
        "seconds of an iteration": float(np.median([one["seconds"] for one in done])),
        "seconds expected": float(np.median([plan.seconds for plan in plans])),
        "bytes of an iteration": float(np.median(sent)),
        "bytes expected": float(np.median(planned)),
        "measured beside counted": [round(float(one), 3) for one in sent / np.array(counted)],
        "measured beside planned": [round(float(one), 3) for one in sent / np.array(planned)],
        "peak of workers": [peak(pid) for pid in workers.values()],
        "expected of a worker": plans[-1].memory_per_worker,
        "peak here": peak(os.getpid()),
    }


def movielens() -> dict[str, Any]:
    known = si.datasets.movielens_100k()
    problem = si.Problem(known.observations, si.Nuclear(30.0), si.L1("1:5", xi=0.01))
    found = {}
    for backend in ("cpu", "dask"):
        begin = time.perf_counter()
        found[backend] = si.solve(problem, "apg", max_iter=30, tol=0, backend=backend, evaluate_every=30)
        found[f"{backend} seconds"] = time.perf_counter() - begin
    here, there = found["cpu"], found["dask"]
    return {
        "objective off": abs(there.objective / here.objective - 1),
        "distance": there.x.distance(here.x) / here.x.norm(),
        "seconds here": found["cpu seconds"],
        "seconds on the cluster": found["dask seconds"],
    }


def main() -> None:
    options = {"n_workers": WORKERS, "threads_per_worker": 1, "memory_limit": LIMIT, "dashboard_address": ":0"}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        found = {"large": large(client, small="--small" in sys.argv), "MovieLens-100k": movielens()}
    plan = cluster_forecast((100_000_000, 1_000_000), 1_000_000_000, 64, workers=100)
    print(plan)
    for name, row in found.items():
        print(name, *(f"  {what}: {value}" for what, value in row.items()), sep="\n")
    if "--small" not in sys.argv:
        save("cluster", found)


if __name__ == "__main__":
    main()
