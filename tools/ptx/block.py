"""A block of threads that goes through a kernel."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ptx.numbers import COMPARED, FLOATS, WHOLE, WIDTHS, halves, joined, of_bits, to_bits
from ptx.units import BASE, UNITS, WARP, Barrier, PTXError, Table

KNOWN = {*FLOATS, *WHOLE, "mov", "cvt", "cvta", "bfe", "shl", "shr", "selp", "setp"}
"""Instructions for registers."""


class Block:
    """One block of threads of a kernel, with registers and shared memory of its own.

    Parameters
    ----------
    program : tuple
        As `parsed` gives it.
    arguments : list
        One for each parameter: a `Table`, an array of the device's memory, or a number.
    place : tuple of int
        Of the block in the grid.
    threads, shared : int
        How many threads, and bytes of shared memory.
    hasty : bool
        Whether copies arrive at once, and products read at the last moment; else the other way round.
    """

    def __init__(
        self, program: Any, arguments: Sequence[Any], place: Sequence[int], threads: int, shared: int, hasty: bool
    ) -> None:
        self.lines, self.labels, parameters = program
        self.threads, self.hasty = threads, hasty
        self.lane, self.everybody = np.arange(threads) % WARP, np.ones(threads, bool)
        self.shared = np.zeros(shared, np.uint8)
        self.registers: dict[str, Any] = {}
        self.special = {"%tid.x": np.arange(threads), "global_smem": BASE}
        self.special |= {f"%ctaid.{axis}": at for axis, at in zip("xyz", place, strict=False)}
        self.given: dict[str, Any] = {}
        self.tables: dict[int, Table] = {}
        self.memory: dict[int, Any] = {}
        for i, ((kind, name), one) in enumerate(zip(parameters, arguments, strict=True)):
            address = (i + 1) << 40
            if isinstance(one, Table):  # its descriptor lies among the parameters
                self.tables[i + 1], self.special[name] = one, i + 1
            elif isinstance(one, np.ndarray):
                self.memory[address], self.given[name] = one.reshape(-1).view(np.uint8), address
            else:
                self.given[name] = int(to_bits(np.float64(one), "f32")) if kind == "f32" else one
        self.barriers: dict[int, Barrier] = {}
        self.arriving: list[tuple[int, Callable[[], None]]] = []
        self.begun: list[Callable[[], None]] = []
        self.products: list[list[Callable[[], None]]] = []
        self.leaving: list[Callable[[], None]] = []

    def run(self) -> None:
        """To the end of the kernel."""
        at = 0
        with np.errstate(all="ignore"):
            while at < len(self.lines):
                predicate, negated, name, operands = self.lines[at]
                at += 1
                active = self.everybody if predicate is None else self.registers[predicate] ^ negated
                if name == "ret":
                    break
                if name in ("bra", "bra.uni"):
                    if active.any() != active.all():
                        raise PTXError("threads part at a branch")
                    at = self.labels[operands[0]] if active.all() else at
                elif active.any():
                    self._take(name, operands, active)
        if self.begun or self.products or self.arriving or self.leaving:
            raise PTXError("the kernel ends while something is under way")

    def _take(self, name: str, operands: list[str], active: Any) -> None:
        parts = name.split(".")
        for beginning, work in UNITS.items():
            if name.startswith(beginning):
                work(self, parts, operands, active)
                return
        if parts[0] not in KNOWN:
            raise PTXError(f"{name} is not known")
        kind = parts[-1]
        if operands[0].startswith("{"):
            self._parted(operands, kind[1:], active)
            return
        if parts[0] == "cvt":
            out = self._converted(parts, operands)
        elif kind == "pred":
            out = self._of_predicates(parts[0], operands[1:])
        elif parts[0] == "selp":
            one, other = (self.bits(name, kind[1:]) for name in operands[1:3])
            out = np.where(self.registers[operands[3]], one, other)
        elif parts[0] == "setp":
            one, other = (self._numbers(name, kind) for name in operands[1:])
            out = COMPARED[parts[1]](one, other)
        elif kind in ("f16x2", "bf16x2"):
            each = [halves(self.bits(one, "32")) for one in operands[1:]]
            low, high = (self._floating(parts[0], [pair[i] for pair in each], kind[:-2]) for i in (0, 1))
            out = joined(low, high)
        elif kind[0] == "f" or kind == "bf16":
            given = [self.bits(one, kind.lstrip("bf")) for one in operands[1:]]
            out = self._floating(parts[0], given, kind, saturated="sat" in parts)
        else:
            out = self._whole(parts, operands[1:])
        self.set(operands[0], out, active)

    # ------------------------------------------------------------ registers
    def bits(self, name: str, width: str) -> Any:
        """What an operand holds, as numbers without a sign of so many bits."""
        if name in self.registers:
            return self.registers[name].astype(WIDTHS[width], copy=False)
        if name[:2] in ("0f", "0d"):
            value: Any = int(name[2:], 16)
        else:
            value = self.special.get(name, name)
        if isinstance(value, str):
            if not re.match(r"^-?\d", value):
                raise PTXError(f"nothing was put into {value}")
            value = int(value, 0)
        mask = (1 << int(width)) - 1
        whole = value & mask if isinstance(value, int) else value
        return np.broadcast_to(np.asarray(whole).astype(WIDTHS[width]), self.threads)

    def _numbers(self, name: str, kind: str) -> Any:
        """What an operand holds, of a type with a sign or without, or of floating point."""
        bits = self.bits(name, kind[1:])
        if kind[0] == "f":
            return of_bits(bits, kind)
        return bits.view(bits.dtype.str.replace("u", "i")) if kind[0] == "s" else bits

    def set(self, name: str, value: Any, active: Any = None) -> None:
        """Let a register hold something, for some threads or all."""
        if active is not None and not active.all():
            before = self.registers.get(name, np.zeros(self.threads, value.dtype))
            value = np.where(active, value, before)
        self.registers[name] = np.broadcast_to(value, self.threads)

    def same(self, name: str, width: str, threads: slice) -> int:
        """What an operand holds that is the same for some threads."""
        value = self.bits(name, width)[threads]
        if (value != value[0]).any():
            raise PTXError(f"{name} differs between threads")
        return int(value[0])

    def same_predicate(self, name: str, threads: slice) -> bool:
        """A predicate, or a number that stands for one, that is the same for some threads."""
        known = self.registers[name][threads] if name in self.registers else np.array([name != "0"])
        if known.any() != known.all():
            raise PTXError(f"{name} differs between threads")
        return bool(known.all())

    def address(self, operand: str, width: str) -> Any:
        """What an operand in brackets points to."""
        base, _, offset = operand.strip("[] ").partition("+")
        return self.bits(base.strip(), width).astype(np.int64) + int(offset or 0)

    # ------------------------------------------------------------ arithmetic
    @staticmethod
    def _floating(what: str, given: list[Any], kind: str, saturated: bool = False) -> Any:
        found = FLOATS[what](*(of_bits(one, kind) for one in given))
        if saturated:
            found = np.where(np.isnan(found), 0.0, np.clip(found, 0.0, 1.0))
        return to_bits(found, kind)

    def _whole(self, parts: list[str], operands: list[str]) -> Any:
        what, kind = parts[0], parts[-1]
        width = kind[1:]
        if what in ("mov", "cvta"):
            return self._moved(operands[0], width)
        if what == "bfe":
            value, start, length = (self.bits(one, width) for one in operands)
            field, sign = (
                (value >> start) & ((np.ones_like(value) << length) - 1),
                np.ones_like(value) << (length - 1),
            )
            return (field ^ sign) - sign if kind[0] == "s" else field
        if what in ("shl", "shr"):
            value, by = self._numbers(operands[0], kind), self.bits(operands[1], "32")
            if (by >= int(width)).any():
                raise PTXError(f"a shift by {by.max()} of {width} bits")
            by = by.astype(value.dtype)
            return (value << by if what == "shl" else value >> by).view(WIDTHS[width])
        if "wide" in parts:
            factors = [self._numbers(one, kind).astype(np.int64) for one in operands[:2]]
            more = self.bits(operands[2], "64").view(np.int64) if what == "mad" else 0
            return (factors[0] * factors[1] + more).view(np.uint64)
        found = WHOLE[what](*(self._numbers(one, kind) for one in operands))
        return found.astype(WIDTHS[width], copy=False)

    def _moved(self, operand: str, width: str) -> Any:
        if not operand.startswith("{"):
            return self.bits(operand, width)
        half = str(int(width) // 2)
        low, high = (self.bits(one.strip(), half).astype(WIDTHS[width]) for one in operand.strip("{} ").split(","))
        return low | (high << WIDTHS[width](int(half)))

    def _parted(self, operands: list[str], width: str, active: Any) -> None:
        """mov of a register to two that are half as wide."""
        half, value = int(width) // 2, self.bits(operands[1], width)
        for i, name in enumerate(operands[0].strip("{} ").split(",")):
            self.set(name.strip(), (value >> WIDTHS[width](i * half)).astype(WIDTHS[str(half)]), active)

    def _of_predicates(self, what: str, operands: list[str]) -> Any:
        known = [
            self.registers[one] if one.startswith("%") else np.full(self.threads, one != "0") for one in operands
        ]
        return known[0] if what == "mov" else WHOLE[what](*known)

    def _converted(self, parts: list[str], operands: list[str]) -> Any:
        to, source = parts[-2], parts[-1]
        if to.endswith("x2"):
            high, low = (to_bits(of_bits(self.bits(one, "32"), "f32"), to[:-2]) for one in operands[1:])
            return joined(low, high)
        values = self._numbers(operands[1], source)
        if "f" in to:
            return to_bits(values, to)
        if source[0] == "f":
            values = np.clip(np.trunc(np.nan_to_num(values, nan=0.0)), -(2.0**31), 2.0**31 - 1).astype(np.int64)
        return values.astype(np.int64).astype(WIDTHS[to[1:]])
