"""Kernels of Triton, compiled for an H200 and run here, block after block.

Triton must not interpret: TRITON_INTERPRET=0 has to be set before it is imported.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.tools.tensor_descriptor import TensorDescriptor

from ptx.block import Block
from ptx.reading import parsed
from ptx.units import WARP, Table

TARGET = GPUTarget("cuda", 90, WARP)
NAMES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int32: "i32",
    torch.int64: "i64",
}


class Kernel(NamedTuple):
    """A compiled kernel: its lines, how it wants tables copied, and the shared memory that it takes."""

    program: Any
    tables: Sequence[Any]
    shared: int
    text: str


class OnNumpy:
    """In the place of a kernel: `kernel[grid](...)` compiles it and computes its instructions.

    Parameters
    ----------
    function : triton.JITFunction
    hasty : bool
        As in `Block`.
    made : callable, optional
        Told of every kernel that is compiled.
    """

    def __init__(self, function: Any, hasty: bool = True, made: Callable[[Kernel], None] | None = None) -> None:
        self.function, self.hasty, self.made = function, hasty, made
        self.kernels: dict[Any, Kernel] = {}

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        """A launch on a grid."""

        def launch(*given: Any, num_warps: int = 4, enable_fp_fusion: bool = True, **known: Any) -> None:
            options = {"num_warps": num_warps, "enable_fp_fusion": enable_fp_fusion}
            kernel = self._kernel(given, options, known)
            arguments = [*_flat(given, kernel.tables), 0, 0]  # two of memory that these kernels do not use
            for place in itertools.product(*(range(count) for count in reversed(grid))):
                Block(kernel.program, arguments, place[::-1], WARP * num_warps, kernel.shared, self.hasty).run()

        return launch

    def _kernel(self, given: Sequence[Any], options: dict[str, Any], known: dict[str, Any]) -> Kernel:
        names = self.function.arg_names
        known = {name: one for name, one in zip(names, given, strict=False) if one is None} | known
        signature = {name: _kind(one) for name, one in zip(names, given, strict=False) if one is not None}
        case = (*options.items(), *signature.items(), *known.items())
        if case not in self.kernels:
            fixed = {(names.index(name),): value for name, value in known.items()}
            signature |= dict.fromkeys(known, "constexpr")
            source = ASTSource(fn=self.function, signature=signature, constexprs=fixed)
            done = triton.compile(source, target=TARGET, options=options)
            text, metadata = done.asm["ptx"], done.metadata
            self.kernels[case] = Kernel(parsed(text), metadata.tensordesc_meta or (), metadata.shared, text)
            if self.made is not None:
                self.made(self.kernels[case])
        return self.kernels[case]


def _kind(one: Any) -> str:
    if isinstance(one, TensorDescriptor):
        return f"tensordesc<{NAMES[one.base.dtype]}{list(one.block_shape)}>"
    if isinstance(one, torch.Tensor):
        return "*" + NAMES[one.dtype]
    return "fp32" if isinstance(one, float) else "i32"


def _flat(given: Sequence[Any], tables: Sequence[Any]) -> list[Any]:
    """Arguments as a compiled kernel takes them: of a table also its sides and strides."""
    out: list[Any] = []
    left = iter(tables)
    for one in given:
        if isinstance(one, TensorDescriptor):
            how = next(left)
            out += [Table(_array(one.base), tuple(how["block_size"]), how["swizzle"]), *one.shape, *one.strides]
        elif one is not None:
            out.append(_array(one) if isinstance(one, torch.Tensor) else one)
    return out


def _array(tensor: torch.Tensor) -> Any:
    """The same memory as an array; numpy has no bf16."""
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
