"""Vector code that compilers do not find by themselves, written in LLVM's language: sixteen floats at a time.

Numba compiles loops over arrays, but keeps no 16×16 matrix in registers: each
step would load and store all of it. The functions here hold what they sum in
vectors. They are called inside of Numba's; tests compare them with numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped
from numba.extending import intrinsic as decorated

LANES = 16
"""Floats of a vector. Where registers are shorter, LLVM takes two or four for each."""

cgutils: Any = untyped
intrinsic: Any = decorated
_FLOAT, _INDEX, _WHERE = ir.FloatType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_FUSED = ("contract",)


class Writer:
    """Writes code at the end of a block; positions are counted in floats."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def index(self, value: Any) -> Any:
        """Give a number of the program, or one known here, as a position."""
        return ir.Constant(_INDEX, value) if isinstance(value, int) else value

    def add(self, *parts: Any) -> Any:
        """Sum of positions."""
        first, *others = (self.index(part) for part in parts)
        for other in others:
            first = self.builder.add(first, other)
        return first

    def times(self, a: Any, b: Any) -> Any:
        """Product of positions."""
        return self.builder.mul(self.index(a), self.index(b))

    def _place(self, pointer: Any, at: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(pointer, [self.index(at)]), _VECTOR.as_pointer())

    def load(self, pointer: Any, at: Any) -> Any:
        """Sixteen floats from a position on."""
        return self.builder.load(self._place(pointer, at), align=4)

    def store(self, value: Any, pointer: Any, at: Any) -> None:
        """Store sixteen floats."""
        self.builder.store(value, self._place(pointer, at), align=4)

    def number(self, pointer: Any, at: Any) -> Any:
        """One element."""
        return self.builder.load(self.builder.gep(pointer, [self.index(at)]))

    def spread(self, value: Any) -> Any:
        """A vector that has one number in every lane."""
        undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
        single = self.builder.insert_element(undefined, value, ir.Constant(_WHERE, 0))
        return self.builder.shuffle_vector(single, undefined, ir.Constant(ir.VectorType(_WHERE, LANES), [0] * LANES))

    def equal(self, pointer: Any, at: Any, value: Any) -> Any:
        """Tell of sixteen bytes from a position on which are equal to those of a vector."""
        kind = ir.VectorType(ir.IntType(8), LANES).as_pointer()
        place = self.builder.bitcast(self.builder.gep(pointer, [self.index(at)]), kind)
        return self.builder.icmp_unsigned("==", self.builder.load(place, align=1), value)

    def bits(self, pointer: Any, at: Any) -> Any:
        """Sixteen bits from a position on, counted in bits, which is a multiple of eight."""
        place = self.builder.gep(pointer, [self.builder.lshr(self.index(at), self.index(3))])
        word = self.builder.load(self.builder.bitcast(place, ir.IntType(LANES).as_pointer()), align=1)
        return self.builder.bitcast(word, ir.VectorType(ir.IntType(1), LANES))

    def same(self, bits: Any, symbol: Any) -> Any:
        """Tell of sixteen bits which are equal to a symbol of 0 or 1."""
        wanted = self.spread(self.builder.trunc(symbol, ir.IntType(1)))
        return self.builder.icmp_unsigned("==", bits, wanted)

    def choose(self, which: Any, a: Any, b: Any) -> Any:
        """Take a where a lane of ``which`` is true, else b."""
        return self.builder.select(which, a, b)

    def put(self, value: Any, pointer: Any, at: Any) -> None:
        """Store one element."""
        self.builder.store(value, self.builder.gep(pointer, [self.index(at)]))

    def pick(self, a: Any, b: Any, lanes: Sequence[int]) -> Any:
        """Sixteen of the lanes of two vectors."""
        return self.builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_WHERE, LANES), list(lanes)))

    def product(self, a: Any, b: Any) -> Any:
        """a·b."""
        return self.builder.fmul(a, b, flags=_FUSED)

    def plus(self, total: Any, a: Any, b: Any) -> Any:
        """Sum total + a·b, rounded once where the machine can."""
        return self.builder.fadd(self.builder.fmul(a, b, flags=_FUSED), total, flags=_FUSED)

    def minus(self, total: Any, a: Any, b: Any) -> Any:
        """Difference total − a·b, rounded once where the machine can."""
        return self.builder.fsub(total, self.builder.fmul(a, b, flags=_FUSED), flags=_FUSED)

    def variable(self, value: Any) -> Variable:
        """Give a register that a loop may change."""
        return Variable(self.builder, cgutils.alloca_once_value(self.builder, value))

    def zeros(self) -> Any:
        """Give a vector of zeros."""
        return ir.Constant(_VECTOR, [0.0] * LANES)

    def ones(self) -> Any:
        """Give a vector of ones."""
        return ir.Constant(_VECTOR, [1.0] * LANES)

    def position(self, value: Any) -> Variable:
        """Give a position that a loop may change."""
        return Variable(self.builder, cgutils.alloca_once_value(self.builder, self.index(value)))

    def zero(self) -> Any:
        """Give the number 0."""
        return ir.Constant(_FLOAT, 0.0)

    def one_over_root(self, value: Any) -> Any:
        """1/√x in each lane."""
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        root = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.sqrt.v{LANES}f32")
        return self.builder.fdiv(self.ones(), self.builder.call(root, [value]))

    def total(self, value: Any) -> Any:
        """Sum of all lanes."""
        kind = ir.FunctionType(_FLOAT, [_FLOAT, _VECTOR])
        add = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32")
        return self.builder.call(add, [self.zero(), value], fastmath=("reassoc",))

    def over(self, a: Any, b: Any) -> Any:
        """Quotient in each lane."""
        return self.builder.fdiv(a, b)

    def sum(self, a: Any, b: Any) -> Any:
        """Sum in each lane."""
        return self.builder.fadd(a, b)

    def difference(self, a: Any, b: Any) -> Any:
        """Difference in each lane."""
        return self.builder.fsub(a, b)

    def add_number(self, value: Any, pointer: Any, at: Any) -> None:
        """Add to one element."""
        place = self.builder.gep(pointer, [self.index(at)])
        self.builder.store(self.builder.fadd(self.builder.load(place), value), place)

    def smaller(self, a: Any, b: Any) -> Any:
        """Smaller of two positions."""
        return self.builder.select(self.builder.icmp_signed("<", a, b), a, b)

    @contextmanager
    def loop(self, start: Any, stop: Any, step: int = 1) -> Iterator[Any]:
        """Write the body of a loop over positions."""
        given = self.index(start), self.index(stop), self.index(step)
        with cgutils.for_range_slice(self.builder, *given) as (at, _):
            yield at

    def turned(self, rows: list[Any]) -> list[Any]:
        """Transpose sixteen vectors."""
        for step in (8, 4, 2, 1):
            low = [lane if not lane & step else lane - step + LANES for lane in range(LANES)]
            high = [lane + step if not lane & step else lane + LANES for lane in range(LANES)]
            done = list(rows)
            for k in range(LANES):
                if not k & step:
                    done[k] = self.pick(rows[k], rows[k + step], low)
                    done[k + step] = self.pick(rows[k], rows[k + step], high)
            rows = done
        return rows

    def added_up(self, rows: list[Any]) -> Any:
        """Sum of each of sixteen vectors, one a lane."""
        for step in (8, 4, 2, 1):
            low = [lane if not lane & step else lane - step + LANES for lane in range(LANES)]
            high = [lane + step if not lane & step else lane + LANES for lane in range(LANES)]
            pairs = zip(rows[:step], rows[step:], strict=True)
            rows = [self.builder.fadd(self.pick(a, b, low), self.pick(a, b, high)) for a, b in pairs]
        return rows[0]


class Variable:
    """A register that a loop may change."""

    def __init__(self, builder: Any, place: Any) -> None:
        self._builder, self._place = builder, place

    @property
    def value(self) -> Any:
        """Value now."""
        return self._builder.load(self._place)

    @value.setter
    def value(self, new: Any) -> None:
        self._builder.store(new, self._place)


def written(body: Callable[..., None], *given: Any) -> Any:
    """Give what an intrinsic of Numba returns: its signature, and the code that `body` writes.

    ``body`` gets a `Writer`, then for each argument the pointer to the data of an
    array of one dimension, or a position.
    """
    signature = types.void(*given)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [
            context.make_array(kind)(context, builder, value).data
            if isinstance(kind, types.Array)
            else context.cast(builder, value, kind, types.int64)
            for kind, value in zip(signature.args, arguments, strict=True)
        ]
        body(Writer(builder), *values)
        return context.get_dummy_value()

    return signature, generate
