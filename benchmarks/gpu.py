"""One GPU: the kernels checked and timed, a fit with 32 million ratings, and the reference values.

    python benchmarks/gpu.py [check] [repeat] [pass] [sums] [fit] [reference] [--out DIR]

check      every kernel against numpy's float64: every map in every precision, sums over observed cells; no times
repeat     the same product many times without a pause: the same bits
pass       f(UVᵀ)·B and its transpose at 200,948×84,432, the shape of MovieLens-32M, beside plain products of the card
sums       A·B and Aᵀ·C for the sparse matrix of 32 million ratings, beside the vendor's product and a copy in memory
fit        100 iterations there with 32 million synthetic ratings, alphabet 0.5..5 by 0.5, in mixed precision and in
           float32, and what the planner expects of two CPU cores
reference  MovieLens-100k: the errors after 1 to 150 iterations that `tests/test_reference_table.py` asks for

Times are medians of several runs, measured by events of the device, of fits by the clock. Operations are counted as
2mn(r + k), whatever the precision computes inside. Parts may be run one by one: each is added to gpu.json, with where
and when it was measured, after every row. A part that fails keeps no other from being measured. ``check``
compiles many kernels, which takes minutes; it fails where an error is above its limit.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("SNAPIMPUTE_NUM_THREADS", "2")  # for the planner

import torch
import triton

import snapimpute as si
from gpu_parts import Parts, Rows, measure
from snapimpute.backends import backend_named
from snapimpute.backends.torch import _forms as forms
from snapimpute.backends.torch import _fused as fused
from snapimpute.backends.torch import _gathers as gathers

DEVICE = "cuda"
SHAPE, RATINGS = (200_948, 84_432), 32_000_000
RANK = WIDTH = 64
FITS = 3
"""Of each precision, after the first."""

PENALTIES: dict[str, Any] = {
    "L1": si.L1("0.5:5:0.5", xi=0.01),
    "L1 with weights": si.L1("0.5:5:0.5", xi=0.01, weights=np.linspace(0.5, 1.5, 10)),
    "composed L1": si.ComposedL1("0.5:5:0.5", xi=0.01),
    "L0": si.L0("0.5:5:0.5", xi=0.01),
    "fractional L0": si.FractionalL0("0.5:5:0.5", xi=0.01, alpha=0.02),
}
UNEVEN = [0.25 * k + 0.01 * k * k for k in range(20)]
MORE: dict[str, Any] = {
    "L1 with weights, 20 symbols": si.L1(UNEVEN, xi=0.01, weights=np.linspace(0.5, 1.5, 20)),
    "composed L1, 20 uneven symbols": si.ComposedL1(UNEVEN, xi=0.01),
    "L0 with weights, 20 symbols": si.L0(UNEVEN, xi=0.005, weights=np.linspace(0.5, 1.5, 20)),
    "fractional L0 that jumps": si.FractionalL0("1:5", xi=0.3, alpha=0.01),
    "Lp": si.Lp("1:5", xi=0.05, p=0.5),
}
"""What is checked, and not timed."""
SHAPES = ((3000, 2000, 64, 64), (2500, 1111, 37, 76), (1500, 1700, 140, 200), (700, 900, 256, 256), (300, 260, 5, 3))
LIMITS = {"bf16": 5e-4, "fp16": 2e-4, "tf32": 2e-4, "float32": 5e-6, "float64": 1e-13, "objective": 1e-6}
JUMPING = {"L0", "L0 with weights, 20 symbols", "fractional L0 that jumps", "Lp"}
JUMP = 3e-2
"""A cell that rounding carries over an edge is off by as much as the map jumps; in float32 fewer are."""


def factors(m: int, n: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix with entries about 3.3 ± 0.8."""
    draw = torch.Generator(DEVICE).manual_seed(0)
    left = torch.randn(m, rank, device=DEVICE, generator=draw) * 0.8 / rank**0.5
    right = torch.randn(n, rank, device=DEVICE, generator=draw)
    left[:, 0], right[:, 0] = 3.3, 1.0
    return left, right


def exact(penalty: Any, left: torch.Tensor, right: torch.Tensor, block: torch.Tensor) -> tuple[Any, Any]:
    """The product of what the line leaves, and the whole, in float64."""
    rest, line = penalty.compiled_remainder(1.0), penalty.line(1.0)
    cells = (left.double() @ right.double().T).cpu().numpy()
    flat = np.ascontiguousarray(cells).reshape(-1)
    rest(flat)
    part = torch.tensor(flat.reshape(cells.shape), device=DEVICE) @ block.double()
    straight = line.slope * (left.double() @ (right.double().T @ block.double()))
    return part, part + straight + line.shift * block.double().sum(0)


def milliseconds(work: Callable[..., object], *given: Any, repeats: int = 7) -> float:
    """Median of work(given), after two runs to warm up."""
    work(*given)
    work(*given)
    found = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work(*given)
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end))
    return float(np.median(found))


# ---------------------------------------------------------------- parts
def check() -> Iterator[Rows]:
    """Errors relative to the whole product; of an objective, to itself."""
    rows: Rows = []
    for m, n, rank, width in SHAPES:
        for name in PENALTIES | MORE if width == 64 else PENALTIES:
            rows.append(checked_map(name, m, n, rank, width))
            yield rows
    for width in (1, 20, 150):
        rows += checked_sums(width)
        yield rows
    show("error against float64", rows)
    far = [f"{row['map']} on {row['shape']} in {kind}" for row in rows for kind in LIMITS if not within(row, kind)]
    if far:
        raise ValueError(f"errors above their limits: {'; '.join(far)}")


def within(row: dict[str, Any], kind: str) -> bool:
    jump = 0.0 if row["map"] not in JUMPING or kind == "objective" else JUMP / 100 if kind == "float32" else JUMP
    return bool(row.get(kind, 0.0) <= LIMITS[kind] + jump)  # not where it is NaN


def checked_map(name: str, m: int, n: int, rank: int, width: int) -> dict[str, Any]:
    penalty = (PENALTIES | MORE)[name]
    left, right = factors(m, n, rank)
    block = torch.randn(n, width, device=DEVICE) / n**0.5
    part, whole = exact(penalty, left, right, block)
    form: Any = forms.form_of(penalty.compiled_remainder(1.0))
    row: dict[str, Any] = {"shape": f"{m}×{n}, {rank} + {width}", "map": name}
    for precision in fused.PRECISIONS:
        found = fused.product(left, right, form, block, precision)
        row[precision] = float((found - part).norm() / whole.norm())
    cost = penalty.compiled_envelope(1.0)
    cells = np.ascontiguousarray((left.double() @ right.double().T).cpu().numpy()).reshape(-1)
    cost(cells)
    wanted: Any = forms.form_of(cost)
    return row | {"objective": abs(fused.total(left, right, wanted) / float(cells.sum()) - 1)}


def checked_sums(width: int) -> Rows:
    """Lanes that are empty, short, of one piece and of several; then entries of a low-rank matrix."""
    draw = np.random.default_rng(0)
    ends = np.cumsum([0, 5, 1300, 0, gathers.LONGEST, 1, gathers.LONGEST + 1])
    indices, values = draw.integers(0, 40, ends[-1]).astype(np.int32), draw.standard_normal(ends[-1])
    block, at = draw.standard_normal((40, width)), draw.integers(0, 40, (2, 150)).astype(np.int32)
    backend: Any = backend_named("torch:cuda")
    sums: dict[str, Any] = {"shape": f"{len(ends) - 1} lanes, {width} columns", "map": "sums over observed cells"}
    entries: dict[str, Any] = {"shape": f"150 cells, rank {width}", "map": "entries"}
    for name, kind in (("float32", torch.float32), ("float64", torch.float64)):
        on = {"device": DEVICE, "dtype": kind}
        where, weights, there = (
            torch.tensor(indices, device=DEVICE),
            torch.tensor(values, **on),
            torch.tensor(block, **on),
        )
        lanes = gathers.Lanes(backend.array(torch.tensor(ends, device=DEVICE)), where, None)
        found = gathers.lane_sums(lanes.pieces, where, weights, there)
        wanted = [values[a:z] @ block[indices[a:z]] for a, z in itertools.pairwise(ends)]
        sums[name] = relative(found, np.array(wanted))
        cells = gathers.entries(there, there, *torch.tensor(at, device=DEVICE))
        entries[name] = relative(cells, (block[at[0]] * block[at[1]]).sum(axis=1))
    return [sums, entries]


def relative(found: torch.Tensor, wanted: np.ndarray) -> float:
    return float(np.linalg.norm(found.double().cpu().numpy() - wanted) / np.linalg.norm(wanted))


def repeat() -> Iterator[Rows]:
    """Many launches without a pause between them, on shapes with few blocks: all must give the same bits."""
    rows = []
    (m, n), draw = (943, 1682), np.random.default_rng(0)
    form: Any = forms.form_of(PENALTIES["L1"].compiled_remainder(1.0))
    for precision in fused.PRECISIONS:
        kinds = []
        for rank, width in draw.integers(1, 257, size=(12, 2)):
            left, right = factors(m, n, int(rank))
            block = torch.randn(n, int(width), device=DEVICE)
            found = [fused.product(left, right, form, block, precision) for _ in range(200)]
            kinds.append(all(torch.equal(one, found[0]) for one in found))
        rows.append({"precision": precision, "shapes": len(kinds), "launches": 200, "same bits": all(kinds)})
        yield rows
    show("launched again and again", rows)


def plain_speed(kind: torch.dtype, *, tf32: bool = False) -> float:
    torch.backends.cuda.matmul.allow_tf32 = tf32
    a = torch.randn(8192, 8192, device=DEVICE).to(kind)
    speed = 2 * 8192**3 / milliseconds(torch.matmul, a, a) / 1e9
    torch.backends.cuda.matmul.allow_tf32 = False
    return speed


def passes() -> Iterator[Rows]:
    m, n = SHAPE
    plain = {
        "bf16": plain_speed(torch.bfloat16),
        "fp16": plain_speed(torch.float16),
        "tf32": plain_speed(torch.float32, tf32=True),
        "float32": plain_speed(torch.float32),
    }
    rows = []
    for rank, width, names in ((RANK, WIDTH, PENALTIES), (128, 76, ["L1"])):
        left, right = factors(m, n, rank)
        block, other = (torch.randn(side, width, device=DEVICE) / side**0.5 for side in (n, m))
        some = torch.arange(0, m, m // 200, device=DEVICE)
        for name in names:
            part, whole = exact(PENALTIES[name], left[some], right, block)
            form: Any = forms.form_of(PENALTIES[name].compiled_remainder(1.0))
            for precision in fused.PRECISIONS:
                u, v = fused.sides(left, right, precision, form.unit)
                forward = fused.product_of_sides(u, v, m, form, block, precision)
                off = float((forward[some] - part).norm() / whole.norm())
                there = milliseconds(fused.product_of_sides, u, v, m, form, block, precision)
                back = milliseconds(fused.product_of_sides, v, u, n, form, other, precision)
                speed, speed_back = (2e-9 * m * n * (rank + width) / ms for ms in (there, back))
                rows.append(
                    {
                        "map": name,
                        "columns": f"{rank} + {width}",
                        "precision": precision,
                        "ms": there,
                        "TFLOP/s": speed,
                        "transposed ms": back,
                        "transposed TFLOP/s": speed_back,
                        "plain product TFLOP/s": plain[precision],
                        "ratio": speed / plain[precision],
                        "error": off,
                    }
                )
                yield rows
        cost: Any = forms.form_of(PENALTIES["L1"].compiled_envelope(1.0))
        rows.append(
            {"map": "L1, objective", "columns": f"{rank}", "ms": milliseconds(fused.total, left, right, cost)}
        )
        yield rows
    show(f"one pass at {m:,}×{n:,}", rows)


def ratings() -> si.Observations:
    """Popular rows and columns have more of them; about as unevenly as in MovieLens."""
    (m, n), draw = SHAPE, torch.Generator(DEVICE).manual_seed(0)

    def pareto(count: int, least: float, power: float, most: float) -> torch.Tensor:
        share = least * (1 - torch.rand(count, device=DEVICE, generator=draw, dtype=torch.float64)) ** (-1 / power)
        share = (share / share.sum()).clamp(max=most)
        return torch.cumsum(share / share.sum(), 0)

    by_row, by_col = pareto(m, 0.2, 1.2, 2e-4), pareto(n, 0.02, 0.9, 3e-3)
    cells = torch.empty(0, dtype=torch.int64, device=DEVICE)
    while cells.numel() < RATINGS:
        u, v = (torch.rand(RATINGS // 2, device=DEVICE, generator=draw, dtype=torch.float64) for _ in range(2))
        more = torch.searchsorted(by_row, u).clamp(max=m - 1) * n + torch.searchsorted(by_col, v).clamp(max=n - 1)
        cells = torch.unique(torch.cat([cells, more]))
    cells = cells[torch.randperm(cells.numel(), device=DEVICE, generator=draw)[:RATINGS]].sort().values
    rows, cols = cells // n, cells % n
    left = torch.randn(m, 9, device=DEVICE, generator=draw) * 0.3
    right = torch.randn(n, 9, device=DEVICE, generator=draw)
    left[:, 8] = 0.5
    values = 3.4 + gathers.entries(left, right, rows, cols)
    values += 0.7 * torch.randn(RATINGS, device=DEVICE, generator=draw)
    values = (2 * values).round().div(2).clamp(0.5, 5)
    return si.Observations(rows.int().cpu().numpy(), cols.int().cpu().numpy(), values.double().cpu().numpy(), SHAPE)


def sums() -> Iterator[Rows]:
    known = backend_named("torch:cuda").observations(ratings().astype(np.float32))
    copied = torch.empty(1 << 28, dtype=torch.float32, device=DEVICE)
    bandwidth = 2 * 4 * copied.numel() / milliseconds(copied.clone) / 1e6
    rows = []
    order: Any = known.by_col.order
    for way, lanes, values, other in (
        ("A·B", known.by_row, known.values, SHAPE[1]),
        ("Aᵀ·C", known.by_col, known.values[order], SHAPE[0]),
    ):
        given: Any = (lanes.indptr, lanes.indices, values)
        pointers, indices, weights = (one.tensor for one in given)
        theirs = torch.sparse_csr_tensor(
            pointers.int(), indices, weights, (len(pointers) - 1, other), check_invariants=False
        )
        for width in (8, 17, 32, 64, 76):
            block = torch.randn(other, width, device=DEVICE)
            pieces: Any = lanes
            ours = milliseconds(gathers.lane_sums, pieces.pieces, indices, weights, block)
            read = RATINGS * (8 + 4 * width)
            rows.append(
                {
                    "product": way,
                    "columns": width,
                    "ms": ours,
                    "vendor's ms": milliseconds(torch.matmul, theirs, block),
                    "GB/s asked for": read / ours / 1e6,
                    "copy GB/s": bandwidth,
                    "same bits": same(
                        lambda p=pieces.pieces, i=indices, w=weights, b=block: gathers.lane_sums(p, i, w, b)
                    ),
                    "vendor's same bits": same(torch.matmul, theirs, block),
                }
            )
            yield rows
    show("sparse products", rows)


def same(work: Callable[..., torch.Tensor], *given: Any) -> bool:
    first = work(*given)
    return all(torch.equal(first, work(*given)) for _ in range(5))


def fit() -> Iterator[Rows]:
    """Once to compile kernels, then both precisions in turn, so that what else goes on meets them alike."""
    known = ratings()
    problem = si.Problem(known, si.Nuclear(250.0), PENALTIES["L1"])
    ways = ("mixed precision, kernels compiled on the way", "mixed precision", "float32")
    runs: dict[str, Rows] = {how: [] for how in ways}
    for how in (ways[0], *ways[1:] * FITS):
        runs[how].append(fitted(problem, mixed=how != "float32"))
        yield [{"fit": one, **median(found)} for one, found in runs.items() if found]
    first, mixed, single = ({"fit": how, **median(found)} for how, found in runs.items())
    mixed["objective off"] = abs(mixed["objective"] / single["objective"] - 1)
    mixed["same as the first"] = all(one["objective"] == first["objective"] for one in runs[ways[1]])
    plan = si.forecast(problem, "ais-impute", max_rank=64, dtype="float32", rank=mixed["rank"])
    planned = {"fit": "2 CPU cores, as planned", "iterations": 100, "seconds": 100 * (plan.seconds or float("nan"))}
    yield [first, mixed, single, planned]
    show(f"{known!r}", [first, mixed, single, planned])


def fitted(problem: si.Problem, *, mixed: bool) -> dict[str, Any]:
    backend: Any = backend_named("torch:cuda")
    backend.mixed = mixed
    torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    limits: dict[str, Any] = {"max_iter": 100, "tol": 0, "max_rank": 64, "evaluate_every": 10}
    result = si.solve(problem, "ais-impute", dtype="float32", backend="torch:cuda", **limits)
    seconds = time.perf_counter() - begin
    backend.mixed = True
    return {
        "iterations": result.n_iter,
        "seconds": seconds,
        "of which steps": float(result.history["seconds"][-1]),
        "peak GB": torch.cuda.max_memory_allocated() / 1e9,
        "rank": result.x.rank,
        "objective": result.objective,
        "certificate": float(result.history["certificate"][-1]),
    }


def median(runs: Rows) -> dict[str, Any]:
    """The run of the median time, with the times of all."""
    middle = sorted(runs, key=lambda run: run["seconds"])[(len(runs) - 1) // 2]
    return {**middle, "all runs, s": ", ".join(f"{run['seconds']:.3f}" for run in runs)}


def reference() -> Iterator[Rows]:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    from test_reference_table import TABLE

    source = si.datasets.movielens_100k()
    order = np.random.default_rng(0).permutation(100_000)
    rows = []
    for name, row in TABLE.items():
        seen = order[: row.observed * 1000]
        hidden = order[row.observed * 1000 :]
        known = si.Observations.from_coo(source.rows[seen], source.cols[seen], source.values[seen], source.shape)
        at = {1: 0.0, 10: 0.0, 50: 0.0, 100: 0.0, 150: 0.0}

        def watch(info: Any, at: dict[int, float] = at, hidden: Any = hidden) -> None:
            if info.iteration in at:
                estimate = info.x.entries(source.rows[hidden], source.cols[hidden])
                at[info.iteration] = si.metrics.nmse(source.values[hidden], estimate)

        problem = si.Problem(known, row.spectral, row.discrete(known.values))
        options: dict[str, Any] = {"dtype": "float32", "backend": "torch:cuda", "evaluate_every": 150}
        result = si.solve(problem, "apg", max_iter=150, tol=0, callback=watch, **options)
        off = max(abs(found - wanted) for found, wanted in zip(at.values(), row.nmse, strict=True))
        objective = "" if row.objective is None else abs(result.objective / row.objective - 1)
        rows.append({"row": name, "largest difference": off, "objective off": objective, "rank": result.x.rank})
        yield rows
    show("reference values, float32", rows)


# ---------------------------------------------------------------- output
def show(title: str, rows: Rows) -> None:
    print(f"\n{title}")
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_text(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    for line in [names, *cells]:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)), flush=True)


def _text(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.1e}" if 0 < abs(value) < 1e-2 else f"{value:,.2f}" if abs(value) < 1e5 else f"{value:.9g}"


PARTS: Parts = {
    "check": check,
    "repeat": repeat,
    "pass": passes,
    "sums": sums,
    "fit": fit,
    "reference": reference,
}


def main() -> None:
    arguments = sys.argv[1:]
    out = Path(__file__).parent / "results"
    if "--out" in arguments:
        at = arguments.index("--out")
        out = Path(arguments[at + 1])
        del arguments[at : at + 2]
    strange = [name for name in arguments if name not in PARTS]
    if strange:
        sys.exit(f"no part is called {strange[0]}: there are {', '.join(PARTS)}")
    if not torch.cuda.is_available():
        sys.exit("torch sees no GPU: nothing to measure")
    info = torch.cuda.get_device_properties(0)
    about: dict[str, Any] = {
        "command": " ".join(["python benchmarks/gpu.py", *arguments]),
        "device": info.name,
        "memory GB": info.total_memory / 1e9,
        "torch": torch.__version__,
        "triton": triton.__version__,
        "snapimpute": si.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }
    print(*(f"{name}: {value}" for name, value in about.items()), sep="\n")
    failed = measure(PARTS, arguments or list(PARTS), out / "gpu.json", about)
    if failed:
        sys.exit(f"not measured: {', '.join(failed)}")


if __name__ == "__main__":
    main()
