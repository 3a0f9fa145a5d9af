"""The tiled pass at the shape of MovieLens-10M: how much of its speed the map between the products costs.

71,567×10,681, rank 32 and 32 columns, the remainder of the exact L1 prox. The
same two products without the map are timed beside it, each with the tile that
suits it best, and both are set against a plain square product of the same type.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import snapimpute as si
from common import best_of, blas_speed, picture, save, show
from snapimpute.linalg import LowRank, MappedLowRank, tiled

SHAPE, RANK, COLUMNS = (71_567, 10_681), 32, 32
WANTED = 0.75
TILES = ((512, 1 << 19), (256, 1 << 19), (512, 1 << 20), (1024, 1 << 20))
MAPS = {
    "L1, 5 symbols": si.L1("1:5", xi=0.01),
    "L1, 20 symbols": si.L1("0.5:10:0.5", xi=0.01),
    "L1, 5, weighted": si.L1("1:5", xi=0.01, weights=[0.3, 0.6, 1.3, 1.7, 1.1]),
    "L1, 20, uneven": si.L1(np.cumsum(1 + 0.1 * np.arange(20)), xi=0.01),
    "L0, 5 symbols": si.L0("1:5", xi=0.01),
}


def factors(shape: tuple[int, int], dtype: str) -> tuple[LowRank, Any, Any]:
    """Values like ratings, and two blocks."""
    rng = np.random.default_rng(0)
    (m, n), rank = shape, RANK
    left, right = rng.normal(0.3, 0.12, (m, rank)), rng.normal(0.3, 0.12, (n, rank))
    x = LowRank(left.astype(dtype), np.ones(rank, dtype), right.astype(dtype))
    blocks = [rng.standard_normal((side, COLUMNS)).astype(dtype) for side in (n, m)]
    return x, *blocks


def seconds(operator: MappedLowRank, B: Any, C: Any) -> dict[str, float]:
    """Figures of the pass, with the best of the tiles."""
    times: dict[str, list[float]] = {"forward": [], "both": []}
    kept = tiled.TILE_ROWS, tiled.TILE_BYTES
    for tiled.TILE_ROWS, tiled.TILE_BYTES in TILES:
        fresh = MappedLowRank(operator.factors, operator.cell_map)
        times["forward"].append(best_of(lambda f=fresh: f.matmat(B), 2))
        times["both"].append(best_of(lambda f=fresh: f.both(B, C), 1))
    tiled.TILE_ROWS, tiled.TILE_BYTES = kept
    return {name: min(found) for name, found in times.items()}


def rows_of(shape: tuple[int, int], dtype: str) -> list[dict[str, Any]]:
    peak = blas_speed(dtype)
    x, B, C = factors(shape, dtype)
    flops = {k: 2 * shape[0] * shape[1] * (RANK + w) for k, w in (("forward", COLUMNS), ("both", 2 * COLUMNS))}
    bare = seconds(MappedLowRank(x, lambda tile: None), B, C)
    out = []
    for label, penalty in MAPS.items():
        mapped = seconds(MappedLowRank(x, penalty.compiled_remainder(1.0)), B, C)
        out.append(
            {
                "dtype": dtype,
                "shape": f"{shape[0]}x{shape[1]}",
                "map": label,
                "seconds": mapped["forward"],
                "Gflop/s": flops["forward"] / mapped["forward"] / 1e9,
                "of unmapped": bare["forward"] / mapped["forward"],
                "of BLAS": flops["forward"] / mapped["forward"] / peak,
                "unmapped of BLAS": flops["forward"] / bare["forward"] / peak,
                "both, seconds": mapped["both"],
                "both, of unmapped": bare["both"] / mapped["both"],
                "BLAS Gflop/s": peak / 1e9,
            }
        )
    return out


def draw(figure: Any, rows: list[dict[str, Any]]) -> None:
    axes = figure.subplots()
    labels = [f"{row['dtype']}\n{row['map']}" for row in rows]
    axes.bar(labels, [row["of unmapped"] for row in rows], color="#5b7f95", label="with the map / without")
    axes.bar(labels, [row["of BLAS"] for row in rows], width=0.4, color="#c0392b", label="with the map / plain BLAS")
    axes.axhline(WANTED, color="black", lw=0.8, ls="--")
    axes.tick_params(axis="x", labelsize=7, rotation=60)
    axes.set_ylabel("share of the speed")
    axes.set_title(f"One tiled pass, {SHAPE[0]:,}×{SHAPE[1]:,}, rank {RANK} + {COLUMNS} columns")
    axes.legend()


def main() -> None:
    rows = rows_of(SHAPE, "float32") + rows_of((20_000, SHAPE[1]), "float64")
    show(f"one tiled pass, rank {RANK} + {COLUMNS} columns: remainder(U Vᵀ) times a block", rows)
    save("tiled_pass", rows)
    picture("tiled_pass", lambda figure: draw(figure, rows))
    share = rows[0]["of unmapped"]
    print(f"\n{rows[0]['map']}, float32: {share:.2f} of the speed without the map, at least {WANTED} wanted")
    if share < WANTED:
        sys.exit(1)


if __name__ == "__main__":
    main()
