"""f(UVᵀ)·B in one kernel, for a map f of one real variable: the m×n part never touches memory.

Two matrix products with a cheap map between, the shape of attention without
its softmax. A program keeps a block of rows of U, walks over blocks of V and B,
and adds f(U V_jᵀ)·B_j up; the transposed product is the same with U and V
exchanged. f is what a line leaves of a prox (`CellPenalty.line`): it is small,
so that it may be computed in low precision, and the line keeps the low rank.

Precisions
----------
"bf16", "fp16"
    Factors, f and B in that type, added up in float32. Columns are scaled by
    powers of two first, so that fp16 has the digits of tf32 at the speed of bf16.
"tf32"
    Factors in float32, of which the tensor cores read 11 binary digits; f and B in fp16, which has as many.
"float32"
    Each factor is split into two of fp16, high and low, and likewise f and B:
    UVᵀ = U_h V_hᵀ + U_h V_lᵀ + U_l V_hᵀ, which is a product of three times the rank.

The map of an even staircase takes seven instructions for a cell, however many
symbols there are: with w = (y − c)/p, where c is the middle of the first flat
spot and p the period, k = w rounded to a whole number from 0 to K − 1, and
ρ = w − k, f = (1 − slope)·ρ − clamp(ρ, ±ξ/p), in units of p.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from snapimpute.backends.torch._forms import GAINS, Form
from snapimpute.backends.torch._fused_kernels import mapped_product, mapped_total

PRECISIONS = ("bf16", "fp16", "tf32", "float32")
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "tf32": torch.float32, "float32": torch.float16}
"""Types of the factors; B is of fp16, but for "bf16"."""

MOST_COLUMNS = 256
"""Most columns of the factors, and of B; in "float32" the factors have three times as many inside."""

LARGEST = 32_000
"""In units of a form, of what cells can add up to: fp16 ends at 65504, and scaling makes it up to twice as much."""

MOST_LOST = 10
"""Largest ratio of the kernel's part to its sum: digits that both have in common are lost."""

BLOCK = 128
"""Factors are padded to a multiple of so many rows."""

SUMMED = 15 * BLOCK
"""Columns that a sum adds up in float32: costs may all be equal, and then rounding goes one way."""

LARGE = 1 << 27
"""Cells from which on columns are cut into several pieces, not to compute with zeros; each sum of pieces is one more
kernel to compile, about a second, which a smaller product never gives back."""


# ---------------------------------------------------------------- factors, as kernels want them
@dataclass(frozen=True)
class Side:
    """One factor in pieces of a power of two columns each, padded with rows of zeros."""

    pieces: tuple[Tensor, ...]
    rows: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns of the pieces."""
        return tuple(piece.shape[1] for piece in self.pieces)

    def rows_of(self, start: int, stop: int) -> Side:
        """Some whole blocks of the rows."""
        return Side(tuple(piece[start:stop] for piece in self.pieces), stop - start)

    def at(self, index: Tensor) -> Side:
        """Some of the rows, padded again."""
        some = [piece[index] for piece in self.pieces]
        padded = [torch.nn.functional.pad(piece, (0, 0, 0, -len(index) % BLOCK)).contiguous() for piece in some]
        return Side(tuple(padded), padded[0].shape[0])


def on_device_of(tensor: Tensor) -> AbstractContextManager[Any]:
    """Launch kernels where a tensor is: Triton takes the current device, which need not be that of its arguments."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def pieces_of(columns: int, most: int = 3) -> tuple[int, ...]:
    """Powers of two, from 16 to 256 and descending, that are together just as many or little more; none if too many.

    Examples
    --------
    >>> pieces_of(64), pieces_of(76), pieces_of(130), pieces_of(300)
    ((64,), (64, 16), (128, 16), (256, 32, 16))
    """
    sizes = (16, 32, 64, 128, 256)
    found: list[tuple[int, ...]] = []
    found += [(size,) for size in sizes if size >= columns][:1]
    for size in sizes if most > 1 else ():
        rest = pieces_of(columns - size, most - 1) if size < columns else ()
        if rest and rest[0] <= size:
            found.append((size, *rest))
    return min(found, key=lambda one: (sum(one), len(one)), default=())


def sides(left: Tensor, right: Tensor, precision: str, unit: float = 1.0) -> tuple[Side, Side]:
    """U/unit and V for the kernels: scaled column by column, such that the largest of V is about 1."""
    _check_width("factors", left)
    scale = _powers(right)
    u, v = left * (scale / unit), right / scale
    if precision == "float32":
        (uh, ul), (vh, vl) = _split(u), _split(v)
        u, v = torch.cat([uh, uh, ul], 1), torch.cat([vh, vl, vh], 1)
    elif precision == "tf32":
        u, v = _rounded(u), _rounded(v)
    kind, most = TYPES[precision], 3 if len(left) * len(right) >= LARGE else 1
    return _side(u.to(kind), most), _side(v.to(kind), most)


def in_range(left: Tensor, right: Tensor, unit: float) -> bool:
    """Tell whether all numbers that kernels make of factors are numbers of fp16; not if one is NaN."""
    if not left.numel() or not right.numel():
        return True
    bound = (left.abs().amax(dim=0) * right.abs().amax(dim=0)).sum()
    return bool(bound <= LARGEST * unit)


def _check_width(name: str, block: Tensor) -> None:
    if block.shape[1] > MOST_COLUMNS:
        raise ValueError(f"a fused product takes {name} of up to {MOST_COLUMNS} columns, got {block.shape[1]}")


def _powers(block: Tensor) -> Tensor:
    """Power of two next above the largest entry of each column; 1 for a column of zeros."""
    largest = block.abs().amax(dim=0) if block.shape[0] else torch.zeros(block.shape[1], device=block.device)
    return torch.where(largest > 0, torch.exp2(torch.ceil(torch.log2(largest))), 1.0).to(block.dtype)


def _rounded(block: Tensor) -> Tensor:
    """Round to the ten bits that tf32 keeps of 23; the device would cut off the others, which is twice as far off."""
    bits = block.contiguous().view(torch.int32)
    return torch.bitwise_and(bits + 0x1000, ~0x1FFF).view(torch.float32)


def _split(block: Tensor) -> tuple[Tensor, Tensor]:
    high = block.to(torch.float16)
    return high, (block - high.to(block.dtype)).to(torch.float16)


def _side(block: Tensor, most: int) -> Side:
    widths = pieces_of(block.shape[1], most) or pieces_of(block.shape[1])
    padded = torch.nn.functional.pad(block, (0, sum(widths) - block.shape[1], 0, -block.shape[0] % BLOCK))
    starts = np.cumsum((0, *widths)).tolist()
    pieces = [padded[:, a : a + width].contiguous() for a, width in zip(starts, widths, strict=False)]
    return Side(tuple(pieces), padded.shape[0])


def _described(side: Side, block: int) -> list[Any]:
    """Three descriptors for three pieces, the first again for those that are not there."""
    found = [TensorDescriptor.from_tensor(piece, [block, piece.shape[1]]) for piece in side.pieces]
    return found + [found[0]] * (3 - len(found))


# ---------------------------------------------------------------- sizes of blocks
class BlockSizes(NamedTuple):
    """Rows of U and of V at a time, warps, and how many loads are under way."""

    rows: int
    cols: int
    warps: int
    stages: int


SHARED, SPARE = 190_000, 42_000
"""Bytes of fast memory that a program may take, and of what a card has those that it must leave to the compiler."""


@cache
def shared_of(device: torch.device) -> int:
    """Bytes of fast memory that a program may take on a device; cards smaller than an H200 have less."""
    if device.type != "cuda":
        return SHARED
    card = torch.cuda.get_device_properties(device)
    return min(SHARED, int(getattr(card, "shared_memory_per_block_optin", SHARED + SPARE)) - SPARE)


def blocks_for(rank: int, width: int, itemsize: int, pieces_of_b: int = 1, shared: int = SHARED) -> BlockSizes:
    """The first that fits the fast memory and the registers; the best on an H200 for 64 and 64 columns come first."""
    large = [BlockSizes(128, 64, 4, 3), BlockSizes(128, 64, 4, 2)] if rank <= 256 and width <= 128 else []
    small = [BlockSizes(128, 64, 8, 2), BlockSizes(64, 64, 4, 2), BlockSizes(64, 32, 4, 2), BlockSizes(64, 32, 4, 1)]
    for one in large + small:
        factors = one.rows * rank + one.stages * one.cols * rank
        others = one.stages * one.cols * width * pieces_of_b + one.rows * one.cols
        held = itemsize * factors + 2 * others + 4 * one.rows * width
        if held <= shared and one.rows * width <= 4096 * one.warps:
            return one
    return small[-1]


def _parts(tiles: int, device: torch.device) -> int:
    """Into how many parts to cut the walk over V, such that the last programs do not run alone."""
    if device.type != "cuda":
        return 1
    slots = 2 * torch.cuda.get_device_properties(device).multi_processor_count
    waste = {parts: math.ceil(tiles * parts / slots) / (tiles * parts / slots) for parts in (1, 2, 3, 4, 6, 8)}
    return next(parts for parts in waste if waste[parts] <= 1.03 * min(waste.values()))


# ---------------------------------------------------------------- products
def product(left: Tensor, right: Tensor, form: Form, block: Tensor, precision: str, *, plain: bool = False) -> Tensor:
    """f(left·rightᵀ)·block in float32; ``plain`` does without instructions of the device, for the interpreter."""
    u, v = sides(left, right, precision, form.unit)
    return product_of_sides(u, v, left.shape[0], form, block, precision, plain=plain)


def product_of_sides(
    u: Side, v: Side, m: int, form: Form, block: Tensor, precision: str, *, plain: bool = False
) -> Tensor:
    """The same with factors that were made ready once for several products."""
    _check_width("a block", block)
    scale = _powers(block)
    scaled, width, split = block / scale, block.shape[1], precision == "float32"
    kind = torch.bfloat16 if precision == "bf16" else torch.float16
    high = scaled.to(kind)
    low = (scaled - high.to(scaled.dtype)).to(kind) if split else high
    most = 2 if u.rows * v.rows >= LARGE else 1
    b, b_low = _b_side(high, v.rows, most), _b_side(low, v.rows, most)
    held = shared_of(block.device)
    size = blocks_for(sum(u.widths), sum(b.widths), TYPES[precision].itemsize, 2 if split else 1, held)
    blocks, tiles = v.rows // size.cols, u.rows // size.rows
    parts = next(p for p in range(_parts(tiles, block.device), 0, -1) if blocks % p == 0)
    outs = [torch.empty((parts * u.rows, w), dtype=torch.float32, device=block.device) for w in b.widths]
    described = [TensorDescriptor.from_tensor(out, [size.rows, out.shape[1]]) for out in outs]
    widths = (*b.widths, 0)
    with on_device_of(block):
        mapped_product[(tiles, parts)](
            *_described(u, size.rows),
            *_described(v, size.cols),
            *_described(b, size.cols)[:2],
            *_described(b_low, size.cols)[:2],
            *(described * 2)[:2],
            _numbers(form, block.device),
            *(*form.numbers, *[0.0] * 8)[:8],
            blocks // parts,
            u.rows,
            KA=widths[0],
            KB=widths[1],
            SPLIT=split,
            **_known(u, form, size, plain),
        )
    out = torch.cat(outs, 1) if len(outs) > 1 else outs[0]
    if parts > 1:
        out = out.reshape(parts, u.rows, -1).sum(0)
    return out[:m, :width] * (form.unit * scale)


def _known(u: Side, form: Form, size: BlockSizes, plain: bool) -> dict[str, Any]:
    """Constants that both kernels know when they are compiled."""
    _, second, third = (*u.widths, 0, 0)[:3]
    return {
        "RB": second,
        "RC": third,
        "BM": size.rows,
        "BN": size.cols,
        "KIND": form.kind,
        "COUNT": form.symbols,
        "BREAKS": form.breaks,
        "PLAIN": plain,
        "STAGES": size.stages,
        "num_warps": size.warps,
        "enable_fp_fusion": True,  # said, as Triton 3.10 has another default: a product and a sum in one instruction
    }


def _b_side(block: Tensor, rows: int, most: int) -> Side:
    widths = pieces_of(block.shape[1], most)
    padded = torch.nn.functional.pad(block, (0, sum(widths) - block.shape[1], 0, rows - block.shape[0]))
    return Side(tuple(piece.contiguous() for piece in torch.split(padded, list(widths), dim=1)), rows)


def _numbers(form: Form, device: torch.device) -> Tensor:
    table = np.zeros(1) if form.table is None else form.table
    return torch.tensor(table, dtype=torch.float32, device=device)


def total(left: Tensor, right: Tensor, form: Form, *, plain: bool = False) -> float:
    """Σ f over all cells, in arithmetic as exact as float32's and added up in float64.

    NaN where that cannot be had: of numbers that are out of range, or where the
    kernel's part is so large beside the sum that few digits would be left.
    """
    if not in_range(left, right, form.unit):
        return math.nan
    u, v = sides(left, right, "float32", form.unit)
    size = blocks_for(sum(u.widths), 16, 2, shared=shared_of(left.device))
    starts, lefts, numbers = range(0, v.rows, SUMMED), _described(u, size.rows), _numbers(form, left.device)
    out = torch.empty((len(starts), u.rows), dtype=torch.float64, device=left.device)
    for start, sums in zip(starts, out, strict=True):
        some = v.rows_of(start, min(start + SUMMED, v.rows))
        with on_device_of(left):
            mapped_total[(u.rows // size.rows,)](
                *lefts,
                *_described(some, size.cols),
                sums,
                numbers,
                *(*form.numbers, *[0.0] * 8)[:8],
                some.rows // size.cols,
                left.shape[0],
                right.shape[0] - start,
                **_known(u, form, size, plain),
            )
    found = form.unit**2 * float(out.sum())
    if form.kind not in GAINS:
        return found
    whole = _parabola(left, right, form) - found
    return whole if abs(found) <= MOST_LOST * abs(whole) else math.nan


def _parabola(left: Tensor, right: Tensor, form: Form) -> float:
    wide, high = left.double(), right.double()
    squares = float(((wide.T @ wide) * (high.T @ high)).sum())
    cells = left.shape[0] * right.shape[0]
    return 0.5 * form.bend * squares + form.tilt * float(wide.sum(0) @ high.sum(0)) + form.constant * cells
