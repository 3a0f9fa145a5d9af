"""Numbers as registers hold them, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

CHUNK = 16
"""Bytes that a swizzle keeps together."""

IEEE: dict[str, Any] = {
    "f16": (np.float16, np.uint16),
    "f32": (np.float32, np.uint32),
    "f64": (np.float64, np.uint64),
}
"""Types that numpy has too, and those of their bits."""

WIDTHS = {"8": np.uint8, "16": np.uint16, "32": np.uint32, "64": np.uint64}


def to_bf16(values: Any) -> Any:
    """The bits of the nearest bf16, ties to even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype(np.uint16)


def of_bits(bits: Any, kind: str) -> Any:
    """The numbers of float64 that bits of a type stand for."""
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    if kind == "tf32":
        return (bits & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    return bits.view(IEEE[kind][0]).astype(np.float64)


def to_bits(values: Any, kind: str) -> Any:
    """The bits of numbers rounded to a type."""
    if kind == "bf16":
        return to_bf16(values)
    float_type, bit_type = IEEE[kind]
    return np.asarray(values).astype(float_type).view(bit_type)


def swizzled(addresses: Any, width: int) -> Any:
    """Where a byte is, whose place in a table with rows of so many bytes is given."""
    return addresses ^ (((addresses >> 7) & (width // CHUNK - 1)) * CHUNK)


def halves(bits: Any) -> tuple[Any, Any]:
    """The lower and the upper half of registers of 32 bits."""
    return (bits & np.uint32(0xFFFF)).astype(np.uint16), (bits >> np.uint32(16)).astype(np.uint16)


def joined(low: Any, high: Any) -> Any:
    """The way back of `halves`."""
    return low.astype(np.uint32) | (high.astype(np.uint32) << np.uint32(16))


FLOATS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.fmin,
    "max": np.fmax,
    "fma": lambda a, b, c: a * b + c,
    "neg": np.negative,
    "abs": np.abs,
}
WHOLE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "mad": lambda a, b, c: a * b + c,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "neg": np.negative,
}
COMPARED: dict[str, Callable[..., Any]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
