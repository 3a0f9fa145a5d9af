"""Sums over observed cells on a GPU, each in an order of its own: the same bits at every run.

The sparse products of the vendor's library add in whatever order threads
arrive. Here a lane (a row, or a column, of observed cells) is cut into pieces of
bounded length, one program adds up a piece, and the same kernel then adds up
the pieces of each lane.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from snapimpute.backends.torch._fused import on_device_of
from snapimpute.backends.torch._gather_kernels import sampled_product, summed_lanes
from snapimpute.data.observations import Compressed

CELLS = 64
"""Entries that one program of `entries` computes."""

LONGEST = 512
"""Entries of a piece: few enough that the largest lanes do not keep one program busy when all others are done."""

WIDEST = 128
"""Columns that one program of `lane_sums` adds up."""


class Pieces(NamedTuple):
    """Borders of the pieces among the entries, and of lanes among the pieces; None if each lane is one piece."""

    starts: Tensor
    stops: Tensor
    lanes: Tensor | None


class Lanes(Compressed):
    """Lanes of observed cells on a device, and the pieces they are cut into."""

    @cached_property
    def pieces(self) -> Pieces:
        """Made once for all products."""
        ends: Any = self.indptr
        pointers: Tensor = ends.tensor
        counts = (torch.diff(pointers) + LONGEST - 1) // LONGEST
        if not bool((counts > 1).any()):
            return Pieces(pointers[:-1], pointers[1:], None)
        lanes = torch.zeros_like(pointers)
        torch.cumsum(counts, 0, out=lanes[1:])
        lane = torch.repeat_interleave(counts)
        starts = pointers[lane] + LONGEST * (torch.arange(lane.numel(), device=lane.device) - lanes[lane])
        return Pieces(starts, torch.minimum(starts + LONGEST, pointers[lane + 1]), lanes)


def lane_sums(pieces: Pieces, indices: Tensor, values: Tensor, block: Tensor) -> Tensor:
    """Σ_p values[p] block[indices[p]] over the entries p of each lane, in the type of the block.

    The block is padded to a multiple of 16 columns: only then are rows read four numbers at a time.
    """
    width = block.shape[1]
    padded = torch.nn.functional.pad(block, (0, -width % 16)).contiguous()
    out = _summed(pieces.starts, pieces.stops, padded, indices, values)
    if pieces.lanes is not None:
        out = _summed(pieces.lanes[:-1], pieces.lanes[1:], out)
    return out[:, :width].contiguous()


def _summed(
    starts: Tensor, stops: Tensor, block: Tensor, indices: Tensor | None = None, values: Tensor | None = None
) -> Tensor:
    width = block.shape[1]
    out = torch.empty((starts.numel(), width), dtype=block.dtype, device=block.device)
    if out.numel():
        columns = min(triton.next_power_of_2(width), WIDEST)
        with on_device_of(block):
            summed_lanes[(starts.numel(), triton.cdiv(width, columns))](
                starts, stops, indices, values, block, out, width,
                WEIGHTED=values is not None, ENTRIES=2048 // columns, COLUMNS=columns, num_warps=4,
                enable_fp_fusion=True,
            )  # fmt: skip
    return out


def entries(left: Tensor, right: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """Σ_k left[rows, k] right[cols, k], without an array of the rows that are read."""
    count, rank = rows.numel(), left.shape[1]
    out = torch.empty(count, dtype=left.dtype, device=left.device)
    if count:
        with on_device_of(left):
            sampled_product[(triton.cdiv(count, CELLS),)](
                left.contiguous(), right.contiguous(), rows, cols, out, count, rank, PIECE=32, CELLS=CELLS,
                enable_fp_fusion=True,
            )  # fmt: skip
    return out
