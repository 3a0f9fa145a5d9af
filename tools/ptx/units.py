"""What is not arithmetic of registers: memory, barriers, copies of tables, and matrix products of four warps."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ptx.numbers import CHUNK, of_bits, swizzled, to_bits

WARP, GROUP = 32, 128
"""Threads of a warp, and of the four that make a matrix product together."""

BASE = 1024
"""Where shared memory begins: addresses count, as a swizzle goes by them."""

SWIZZLES = {3: 128, 2: 64, 1: 32}
"""Bytes of a row of a swizzled table, by the number that the descriptor of a copy has for it."""

ROW_WIDTHS = {1: 128, 2: 64, 3: 32}
"""The same by the number that the descriptor of a matrix product has."""


class PTXError(Exception):
    """Something that a GPU would not survive, or that is not known here."""


@dataclass(frozen=True)
class Table:
    """An array of two dimensions in the memory of the device, and the piece of it that one copy moves."""

    array: Any
    box: tuple[int, int]
    swizzle: int


@dataclass
class Barrier:
    """Arrivals and bytes that are awaited, and the phase that is not complete yet."""

    count: int
    arrivals: int
    awaited: int = 0
    phase: int = 0

    def settle(self) -> None:
        """Begin the next phase if all is there."""
        if self.arrivals == 0 and self.awaited == 0:
            self.phase ^= 1
            self.arrivals = self.count


# ---------------------------------------------------------------- memory
def shared_bytes(block: Any, addresses: Any) -> Any:
    """Places in the array of shared memory; all addresses must be its own."""
    places = addresses - BASE
    if places.size and not (places.min() >= 0 and places.max() < block.shared.size):
        raise PTXError(
            f"shared memory of {block.shared.size} bytes, read or written at {places.min()}..{places.max()}"
        )
    return places


def _registers_of(operand: str) -> list[str]:
    return [one.strip() for one in operand.strip("{} ").split(",")]


def _global(block: Any, addresses: Any) -> tuple[Any, Any]:
    region = int(addresses[0]) >> 40 << 40
    memory = block.memory.get(region)
    places = addresses - region
    if memory is None or not (places.min() >= 0 and places.max() < memory.size):
        raise PTXError(f"no such memory of the device: {places.min()}..{places.max()}")
    return memory, places


def _transfer(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    """ld and st, of one number or several in a row."""
    load, width = parts[0] == "ld", parts[-1][1:]
    where, names = (operands[1], operands[0]) if load else (operands[0], operands[1])
    size = int(width) // 8
    base = block.address(where, "32" if parts[1] == "shared" else "64")[active]
    if base.size and (base % (size * len(_registers_of(names)))).any():
        raise PTXError(f"{'.'.join(parts)} {where} is not aligned")
    for i, name in enumerate(_registers_of(names)):
        every = (base + i * size)[:, None] + np.arange(size)
        if parts[1] == "shared":
            memory, places = block.shared, shared_bytes(block, every)
        else:
            memory, places = _global(block, every.reshape(-1))
            places = places.reshape(every.shape)
        if load:
            found = np.zeros(block.threads, f"u{size}")
            found[active] = memory[places].view(f"u{size}")[:, 0]
            block.set(name, found, active)
        else:
            memory[places] = np.ascontiguousarray(block.bits(name, width)[active]).view(np.uint8).reshape(every.shape)


def _parameter(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    value = block.given[operands[1].strip("[] ")]
    block.set(operands[0], block.bits(str(value), parts[-1][1:]), active)


# ---------------------------------------------------------------- threads among each other
def _elect(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    lane, chosen = operands[0].split("|")
    block.set(lane, np.zeros(block.threads, np.uint32), active)
    block.set(chosen, block.lane == 0, active)


def _shuffle(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    value, by = block.bits(operands[1], "32"), block.bits(operands[2], "32").astype(np.int64)
    source = block.lane ^ by if "bfly" in parts else by % WARP
    block.set(operands[0], value[np.arange(block.threads) - block.lane + source], active)


def _nothing(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    """Threads that never part need not wait for each other, and memory is seen by all at once."""


# ---------------------------------------------------------------- barriers
def _barrier(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    where = operands[-2 if "try_wait" in parts or "init" in parts or "arrive" in parts else -1]
    address = int(block.address(where, "32")[active][0])
    if "init" in parts:
        count = int(operands[-1])
        block.barriers[address] = Barrier(count, count)
        return
    if address not in block.barriers:
        raise PTXError(f"no barrier was made at {address - BASE}")
    one = block.barriers[address]
    if "inval" in parts:
        del block.barriers[address]
    elif "arrive" in parts:
        one.arrivals -= int(active.sum())
        one.awaited += int(operands[-1])
        one.settle()
    else:
        _wait(block, address, int(block.bits(operands[-1], "32")[0]))


def _wait(block: Any, address: int, phase: int) -> None:
    one = block.barriers[address]
    for where, copy in [each for each in block.arriving if each[0] == address]:
        block.arriving.remove((where, copy))
        copy()
    if one.phase == phase:
        raise PTXError(f"a barrier is waited for that nothing will complete: {one}")


# ---------------------------------------------------------------- copies of tables
def _places(block: Any, address: int, table: Table) -> Any:
    """Where the bytes of a piece are in shared memory, row by row."""
    rows, cols = table.box
    width = cols * table.array.itemsize
    if table.swizzle and width != SWIZZLES[table.swizzle]:
        raise PTXError(f"rows of {width} bytes with the swizzle of {SWIZZLES[table.swizzle]}")
    linear = address + np.arange(rows)[:, None] * width + np.arange(width)
    if address % (8 * width if table.swizzle else CHUNK):
        raise PTXError(f"a table is copied to {address - BASE}, which is not aligned")
    return shared_bytes(block, swizzled(linear, width) if table.swizzle else linear)


def _window(table: Table, col: int, row: int) -> Any:
    """The piece of an array that a copy moves, as bytes; all of it must be there."""
    rows, cols = table.box
    m, n = table.array.shape
    if not (0 <= row <= m - rows and 0 <= col <= n - cols):
        raise PTXError(f"a piece of {rows}×{cols} is copied from {row}, {col} of a table of {m}×{n}")
    return table.array.view(np.uint8)[
        row : row + rows, col * table.array.itemsize : (col + cols) * table.array.itemsize
    ]


def _copy(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    """cp.async.bulk.tensor, to shared memory or from there."""
    store = parts[5] == "global"
    there, here = (operands[0], operands[1]) if store else (operands[1], operands[0])
    base, coordinates = re.match(r"\[ ?(%\w+), ?\{(.*)\} ?\]", there).groups()  # type: ignore[union-attr]
    for thread in np.flatnonzero(active):
        table = block.tables[int(block.bits(base, "64")[thread])]
        col, row = (int(block.bits(one.strip(), "32").view(np.int32)[thread]) for one in coordinates.split(","))
        places = _places(block, int(block.address(here, "32")[thread]), table)
        window = _window(table, col, row)
        if store:
            block.leaving.append(partial(_move, window, slice(None), block.shared, places))
            continue
        barrier = int(block.address(operands[2], "32")[thread])
        copy = partial(_arrive, block, barrier, places, window)
        if block.hasty:
            copy()
        else:
            block.arriving.append((barrier, copy))


def _move(target: Any, at: Any, source: Any, places: Any) -> None:
    target[at] = source[places]


def _arrive(block: Any, address: int, places: Any, window: Any) -> None:
    block.shared[places] = window
    block.barriers[address].awaited -= places.size
    block.barriers[address].settle()


def _leave(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    for copy in block.leaving:
        copy()
    block.leaving.clear()


# ---------------------------------------------------------------- matrix products
def _operand(block: Any, descriptor: int, lanes: int, depth: int, kind: str, across: bool) -> Any:
    """One operand in shared memory, of so many rows (columns, of the second) and of the depth of one instruction.

    ``across`` says that neighbours in memory are those of the rows, not those along the depth.
    """
    start, leading, stride = (((descriptor >> shift) & 0x3FFF) * 16 for shift in (0, 16, 32))
    width, size = ROW_WIDTHS[(descriptor >> 62) & 3], 4 if kind == "tf32" else 2
    lane, k = np.arange(lanes)[:, None], np.arange(depth)
    if across:
        byte = lane * size
        linear = start + byte // width * leading + k // 8 * stride + k % 8 * width + byte % width
    else:
        linear = start + lane // 8 * stride + lane % 8 * width + k * size
    places = shared_bytes(block, swizzled(linear, width)[..., None] + np.arange(size))
    bits = np.ascontiguousarray(block.shared[places]).view(f"u{size}")[..., 0]
    return of_bits(bits, kind)


def _in_registers(block: Any, names: list[str], threads: slice, kind: str) -> Any:
    """The first operand, 64 rows, from four registers of each thread."""
    held = np.stack([block.bits(name, "32")[threads] for name in names])  # register, thread
    thread = np.arange(GROUP)
    row, lane = thread // WARP * 16 + thread % WARP // 4, thread % 4
    out = np.empty((64, 8 if kind == "tf32" else 16))
    for i, register in enumerate(held):
        below, right = i % 2 * 8, i // 2
        if kind == "tf32":
            out[row + below, lane + 4 * right] = of_bits(register, kind)
        else:
            pair = of_bits(np.ascontiguousarray(register).view(np.uint16), kind).reshape(GROUP, 2)
            for side in (0, 1):
                out[row + below, 2 * lane + side + 8 * right] = pair[:, side]
    return out


def _product(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    """wgmma.mma_async: D ← A·B or D + A·B, for each four warps."""
    shape, kind = re.match(r"m64n(\d+)k(\d+)", parts[4]), parts[6]
    columns, depth = (int(one) for one in shape.groups())  # type: ignore[union-attr]
    names, first, second, adds = _registers_of(operands[0]), operands[1], operands[2], operands[3]
    flags = [int(one) for one in operands[4:]]  # signs, then whether operands lie across
    lies = flags[2:] if kind != "tf32" else [0, 0]
    if flags[:2] != [1, 1]:
        raise PTXError("a product with a sign")
    for start in range(0, block.threads, GROUP):
        threads = slice(start, start + GROUP)
        kept = block.same_predicate(adds, threads)
        right = partial(_operand, block, block.same(second, "64", threads), columns, depth, kind, bool(lies[-1]))
        if first.startswith("{"):
            left = partial(np.copy, _in_registers(block, _registers_of(first), threads, kind))
        else:
            left = partial(_operand, block, block.same(first, "64", threads), 64, depth, kind, bool(lies[0]))
        work = partial(_add_up, block, names, threads, left, right, kept)
        if block.hasty:
            block.begun.append(work)
        else:
            work()


def _add_up(
    block: Any, names: list[str], threads: slice, left: Callable[[], Any], right: Callable[[], Any], kept: bool
) -> None:
    product, thread = left() @ right().T, np.arange(GROUP)
    row, col = thread // WARP * 16 + thread % WARP // 4, 2 * (thread % 4)
    for i, name in enumerate(names):  # eight columns are four registers: two beside each other, two below
        part = product[row + i // 2 % 2 * 8, col + i // 4 * 8 + i % 2]
        held = np.array(block.registers.get(name, np.zeros(block.threads, np.uint32)))
        held[threads] = to_bits(part + of_bits(held[threads].copy(), "f32") if kept else part, "f32")
        block.set(name, held)


def _commit(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    block.products.append(list(block.begun))
    block.begun.clear()


def _finish(block: Any, parts: list[str], operands: list[str], active: Any) -> None:
    while len(block.products) > int(operands[0]):
        for work in block.products.pop(0):
            work()


UNITS: dict[str, Callable[[Any, list[str], list[str], Any], None]] = {
    "ld.param": _parameter,
    "ld.": _transfer,
    "st.": _transfer,
    "elect.sync": _elect,
    "shfl.sync": _shuffle,
    "bar.sync": _nothing,
    "fence.": _nothing,
    "wgmma.fence": _nothing,
    "cp.async.bulk.commit_group": _nothing,
    "mbarrier.": _barrier,
    "cp.async.bulk.tensor": _copy,
    "cp.async.bulk.wait_group": _leave,
    "wgmma.mma_async": _product,
    "wgmma.commit_group": _commit,
    "wgmma.wait_group": _finish,
}
"""By how the names of their instructions begin; the first that fits."""
