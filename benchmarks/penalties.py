"""Cost of the prox of each discrete penalty a cell, beside a copy of the cell and the products about it."""

from __future__ import annotations

from typing import Any

import numpy as np

import snapimpute as si
from common import best_of, blas_speed, save, show
from snapimpute.base.threads import single_threaded_blas
from snapimpute.linalg import LowRank, MappedLowRank

CELLS = 1 << 17  # a tile
RANK = 32


def penalties() -> dict[str, Any]:
    twenty = 0.5 * np.arange(20)
    return {
        "L1, 5 symbols": si.L1("1:5", 0.01),
        "L1, 20 symbols": si.L1(twenty, 0.01),
        "ComposedL1, 5": si.ComposedL1("1:5", 0.01),
        "L0, 2": si.L0("1,5", 0.01),
        "L0, 5": si.L0("1:5", 0.01),
        "L0, 20": si.L0(twenty, 0.01),
        "FractionalL0, 5": si.FractionalL0("1:5", 0.01, 0.05),
        "FractionalL0, 20": si.FractionalL0(twenty, 0.01, 0.05),
        "Lp, 5": si.Lp("1:5", 0.01, 0.5),
        "Lp, 20": si.Lp(twenty, 0.01, 0.5),
        "Ridge": si.Ridge(3.0, 0.01),
    }


def main() -> None:
    rng = np.random.default_rng(0)
    shape = 2000, 1500
    x = LowRank(
        rng.standard_normal((shape[0], RANK)), np.full(RANK, 1 / RANK**0.5), rng.standard_normal((shape[1], RANK))
    )
    block, tile = rng.standard_normal((shape[1], RANK)), x.to_dense().reshape(-1)[:CELLS] + 3
    copy = np.empty_like(tile)
    with single_threaded_blas():
        speed = blas_speed(side=1024)
        plain = best_of(lambda: MappedLowRank(x, lambda _: None).matmat(block))
    bare = 1e9 * best_of(lambda: np.copyto(copy, tile)) / CELLS
    rows = []
    for name, penalty in penalties().items():
        cost = {}
        for kind in ("prox", "value", "envelope"):
            cell_map = penalty.compiled(kind)

            def work(cell_map: Any = cell_map) -> None:
                np.copyto(copy, tile)
                cell_map(copy)

            cost[kind] = 1e9 * best_of(work) / CELLS - bare
        passed = best_of(lambda p=penalty: MappedLowRank(x, p.compiled("prox")).matmat(block))
        rows.append(
            {"penalty": name}
            | {f"{kind}, ns": value for kind, value in cost.items()}
            | {"prox / copy": cost["prox"] / bare, "speed of the pass, of that without a map": plain / passed}
        )
    show(
        f"One thread; a copy takes {bare:.2f} ns a cell, two products of rank {RANK} at the speed of BLAS "
        f"{1e9 * 4 * RANK / speed:.1f} ns",
        rows,
    )
    save("penalties", {"copy ns": bare, "BLAS operations a second": speed, "penalties": rows})


if __name__ == "__main__":
    main()
