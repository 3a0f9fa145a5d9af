"""The kernels of `backends.gathers`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def summed_lanes(
    STARTS, STOPS, INDICES, VALUES, BLOCK, OUT, width,
    WEIGHTED: tl.constexpr, ENTRIES: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """OUT[l] ← Σ_p values[p] block[indices[p]] from starts[l] to stops[l]; without values, of block[p] itself."""
    lane = tl.program_id(0).to(tl.int64)
    k = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    stop = tl.load(STOPS + lane)
    total = tl.zeros([ENTRIES, COLUMNS], BLOCK.dtype.element_ty)
    for start in range(tl.load(STARTS + lane), stop, ENTRIES):
        p = start + tl.arange(0, ENTRIES)
        inside = p < stop
        there = inside[:, None] & (k < width)[None, :]
        if WEIGHTED:
            row = tl.load(INDICES + p, mask=inside, other=0).to(tl.int64)
            value = tl.load(VALUES + p, mask=inside, other=0.0)
            total += value[:, None] * tl.load(BLOCK + row[:, None] * width + k[None, :], mask=there, other=0.0)
        else:
            total += tl.load(BLOCK + p[:, None] * width + k[None, :], mask=there, other=0.0)
    tl.store(OUT + lane * width + k, tl.sum(total, axis=0), mask=k < width)


@triton.jit
def sampled_product(LEFT, RIGHT, ROWS, COLS, OUT, count, rank, PIECE: tl.constexpr, CELLS: tl.constexpr):
    """OUT[p] ← Σ_k left[rows[p], k] right[cols[p], k] for a block of cells p."""
    p = tl.program_id(0).to(tl.int64) * CELLS + tl.arange(0, CELLS)
    inside = p < count
    rows = tl.load(ROWS + p, mask=inside, other=0).to(tl.int64)
    cols = tl.load(COLS + p, mask=inside, other=0).to(tl.int64)
    total = tl.zeros([CELLS, PIECE], LEFT.dtype.element_ty)
    for start in range(0, rank, PIECE):
        k = start + tl.arange(0, PIECE)
        there = inside[:, None] & (k < rank)[None, :]
        left = tl.load(LEFT + rows[:, None] * rank + k[None, :], mask=there, other=0.0)
        right = tl.load(RIGHT + cols[:, None] * rank + k[None, :], mask=there, other=0.0)
        total += left * right
    tl.store(OUT + p, tl.sum(total, axis=1), mask=inside)
