"""The fused kernels without a GPU: compiled for an H200, and their instructions computed one by one (`tools/ptx`).

    python benchmarks/gpu_instructions.py [--quick] [--out DIR]

Every map in every precision against float64, as `benchmarks/gpu.py check` does on a GPU, on shapes that such a
computation can bear; twice, with copies and products in the two orders that are the worst for a kernel. Then the sums
over observed cells. An address outside of the memory that a kernel was given ends it. ``--quick`` takes a few maps
and one shape.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "0"
sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

import numpy as np
import torch
import triton
from ptx.launch import Kernel, OnNumpy

from gpu import MORE, PENALTIES, show
from snapimpute.backends import forms, fused, gathers, place_named
from snapimpute.files import write_atomically

CHECKED = PENALTIES | MORE
SHAPES = {
    (200, 150, 64, 64): list(CHECKED),
    (130, 200, 37, 76): ["L1", "fractional L0 that jumps"],
    (140, 100, 140, 200): ["L1", "fractional L0 that jumps"],
    (70, 130, 256, 256): ["L1", "fractional L0 that jumps"],
    (300, 260, 5, 3): ["L1", "fractional L0 that jumps"],
}
"""Rows, columns, rank and width, and the maps that are tried on them."""

QUICK = {"L1": ("bf16", "float32"), "L1 with weights": ("tf32",), "fractional L0 that jumps": ("fp16",)}
KERNELS = fused.mapped_product, fused.mapped_total


class Ways:
    """The kernels of `fused` in one order of copies and products, then in the other."""

    def __init__(self) -> None:
        self.made: list[Kernel] = []
        self.both = [[OnNumpy(kernel, hasty, self.made.append) for kernel in KERNELS] for hasty in (True, False)]
        for one, other in zip(*self.both, strict=True):
            other.kernels = one.kernels

    def each(self, work: Any) -> list[Any]:
        """What work() gives in either order."""
        found = []
        for way in self.both:
            fused.mapped_product, fused.mapped_total = way  # type: ignore[assignment]
            found.append(work())
        return found


def given(m: int, n: int, rank: int, width: int) -> list[torch.Tensor]:
    """Factors of a matrix with entries about 3.3 ± 0.8, and a block."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((m, rank)) * 0.8 / np.sqrt(rank), rng.standard_normal((n, rank))
    left[:, 0], right[:, 0] = 3.3, 1.0
    return [torch.tensor(one, dtype=torch.float32) for one in (left, right, rng.standard_normal((n, width)))]


def errors(
    ways: Ways, shape: tuple[int, int, int, int], name: str, precisions: Any, objective: bool
) -> dict[str, Any]:
    """A row of the table: errors relative to the whole product, the objective's relative to itself."""
    left, right, block = given(*shape)
    rest, line, cost = (
        getattr(CHECKED[name], one)(1.0) for one in ("compiled_remainder", "line", "compiled_envelope")
    )
    cells = left.double().numpy() @ right.double().numpy().T
    mapped, costs = (np.ascontiguousarray(cells).reshape(-1).copy() for _ in range(2))
    rest(mapped)
    mapped = mapped.reshape(cells.shape)
    exact = mapped @ block.double().numpy()
    whole = float(np.linalg.norm((line.slope * cells + line.shift + mapped) @ block.double().numpy()))
    m, n, rank, width = shape
    form: Any = forms.form_of(rest)
    row: dict[str, Any] = {"shape": f"{m}×{n}, {rank} + {width}", "map": name}
    same = True
    for precision in precisions:
        one, other = ways.each(partial(fused.product, left, right, form, block, precision))
        row[precision] = float(np.linalg.norm(one.numpy() - exact) / whole)
        same = same and torch.equal(one, other)
    if objective and (form := forms.form_of(cost)) is not None:
        cost(costs)
        one, other = ways.each(partial(fused.total, left, right, form))
        row["objective"] = abs(one / float(costs.sum()) - 1)
        same = same and one == other
    row["same in both orders"] = same
    return row


def sums(made: Any, quick: bool) -> list[dict[str, Any]]:
    """Sums over the entries of lanes (empty, short, of one piece, of several), and entries of a low-rank matrix."""
    gathers.summed_lanes = OnNumpy(gathers.summed_lanes, made=made)  # type: ignore[assignment]
    gathers.sampled_product = OnNumpy(gathers.sampled_product, made=made)  # type: ignore[assignment]
    rng, rows = np.random.default_rng(0), []
    pointers = np.cumsum([0, 5, 1300, 0, gathers.LONGEST, 1, gathers.LONGEST + 1])
    indices, values = rng.integers(0, 40, pointers[-1]).astype(np.int32), rng.standard_normal(pointers[-1])
    at = rng.integers(0, 40, (2, 150)).astype(np.int32)
    for kind in (torch.float32,) if quick else (torch.float32, torch.float64):
        where, weights = torch.tensor(indices), torch.tensor(values, dtype=kind)
        lanes = gathers.Lanes(place_named("torch:cpu").array(torch.tensor(pointers)), where, None)  # type: ignore[union-attr]
        for width in (20,) if quick else (1, 20, 150):
            block = torch.tensor(rng.standard_normal((40, width)), dtype=kind)
            found = gathers.lane_sums(lanes.pieces, where, weights, block).double().numpy()
            each = itertools.pairwise(pointers)
            wanted = np.array([weights[a:z].double().numpy() @ block.double().numpy()[indices[a:z]] for a, z in each])
            got = gathers.entries(block, block, *torch.tensor(at)).double().numpy()
            there = (block.double().numpy()[at[0]] * block.double().numpy()[at[1]]).sum(axis=1)
            row: dict[str, Any] = {"columns": width, "type": str(kind).removeprefix("torch.")}
            row["sums off"] = float(np.linalg.norm(found - wanted) / np.linalg.norm(wanted))
            row["entries off"] = float(np.linalg.norm(got - there) / np.linalg.norm(there))
            rows.append(row)
    return rows


def main() -> None:
    """Compute, print, and write the rows."""
    quick = "--quick" in sys.argv
    out = Path(sys.argv[sys.argv.index("--out") + 1]) if "--out" in sys.argv else Path(__file__).parent / "results"
    fused.LARGE = 0  # pieces as large products have them
    fused._parts = lambda tiles, device: 2  # and parts, as a GPU has them
    fused.SUMMED = fused.BLOCK  # of a sum, too
    ways = Ways()
    rows = []
    if quick:
        rows = [
            errors(ways, (130, 130, 37, 20), name, precisions, name == "L1") for name, precisions in QUICK.items()
        ]
    else:
        for shape, names in SHAPES.items():
            rows += [errors(ways, shape, name, fused.PRECISIONS, True) for name in names]
    fused_ones = len(ways.made)
    found = {
        "command": " ".join(["python benchmarks/gpu_instructions.py", *sys.argv[1:]]),
        "target": "an H200 (sm_90a)",
        "triton": triton.__version__,
        "kernels": fused_ones,
        "most shared memory": max(kernel.shared for kernel in ways.made),
        "kernels with products of the tensor cores": sum("wgmma.mma_async" in kernel.text for kernel in ways.made),
        "rows": rows,
        "sums": sums(ways.made.append, quick),
        "kernels of sums": len(ways.made) - fused_ones,
    }
    show(f"errors of {found['kernels']} kernels against float64, relative to the whole product", rows)
    show(f"sums over observed cells, {found['kernels of sums']} kernels", found["sums"])
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "gpu_instructions.json", json.dumps(found, indent=1).encode())


if __name__ == "__main__":
    main()
