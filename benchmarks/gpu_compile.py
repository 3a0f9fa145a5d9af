"""The fused kernels compiled for an H200, on a machine without one.

    python benchmarks/gpu_compile.py [--quick]

prints the shared memory of every kernel and how many have products of the tensor cores. Nothing is computed:
`benchmarks/gpu.py check` does that on a GPU. ``--quick`` takes a few maps and one shape.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

os.environ["TRITON_INTERPRET"] = "0"  # Triton reads this as it is imported

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.tools.tensor_descriptor import TensorDescriptor

from gpu import MORE, PENALTIES
from snapimpute.backends import backend_named
from snapimpute.backends.torch import _forms as forms
from snapimpute.backends.torch import _fused as fused
from snapimpute.backends.torch import _gathers as gathers

TARGET = GPUTarget("cuda", 90, 32)
NAMES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.float64: "fp64",
    torch.int32: "i32",
    torch.int64: "i64",
}
SHAPES = ((64, 64), (37, 76), (140, 200), (256, 256), (5, 3))
QUICK = {"L1": ("bf16", "float32"), "L1 with weights": ("tf32",), "fractional L0 that jumps": ("fp16",)}


class Compiled(NamedTuple):
    """A kernel, the bytes of shared memory that it takes, and its instructions."""

    name: str
    shared: int
    text: str


class Compiler:
    """In the place of a kernel: `kernel[grid](...)` compiles it, and leaves its results as they are."""

    def __init__(self, kernel: Any, made: dict[Any, Compiled]) -> None:
        self.kernel, self.made = kernel, made

    def __getitem__(self, grid: Sequence[int]) -> Callable[..., None]:
        return self.launch

    def launch(self, *given: Any, num_warps: int = 4, enable_fp_fusion: bool = True, **known: Any) -> None:
        names = self.kernel.arg_names
        known = {name: one for name, one in zip(names, given, strict=False) if one is None} | known
        signature = {name: _kind(one) for name, one in zip(names, given, strict=False) if one is not None}
        case = (self.kernel.__name__, num_warps, *signature.items(), *known.items())
        if case not in self.made:
            fixed = {(names.index(name),): value for name, value in known.items()}
            source = ASTSource(self.kernel, signature | dict.fromkeys(known, "constexpr"), constexprs=fixed)
            options = {"num_warps": num_warps, "enable_fp_fusion": enable_fp_fusion}
            done = triton.compile(source, target=TARGET, options=options)
            self.made[case] = Compiled(self.kernel.__name__, done.metadata.shared, done.asm["ptx"])


def _kind(one: Any) -> str:
    if isinstance(one, TensorDescriptor):
        return f"tensordesc<{NAMES[one.base.dtype]}{list(one.block_shape)}>"
    if isinstance(one, torch.Tensor):
        return "*" + NAMES[one.dtype]
    return "fp32" if isinstance(one, float) else "i32"


def compiled(shapes: Sequence[tuple[int, int]], maps: dict[str, Sequence[str]]) -> list[Compiled]:
    """Every kernel that these ranks, widths, maps and precisions launch, and those of sums over observed cells."""
    made: dict[Any, Compiled] = {}
    for module, name in ((fused, "mapped_product"), (fused, "mapped_total")):
        setattr(module, name, Compiler(getattr(module, name), made))
    for name in ("summed_lanes", "sampled_product"):
        setattr(gathers, name, Compiler(getattr(gathers, name), made))
    fused.LARGE = 0  # pieces as large products have them
    for rank, width in shapes:
        left, right, block = torch.ones(300, rank), torch.ones(260, rank), torch.ones(260, width)
        for name, precisions in maps.items():
            penalty = (PENALTIES | MORE)[name]
            rest, cost = (forms.form_of(one(1.0)) for one in (penalty.compiled_remainder, penalty.compiled_envelope))
            for precision in precisions:
                fused.product(left, right, rest, block, precision)
            if cost is not None:
                fused.total(left, right, cost)
    _sums()
    return list(made.values())


def _sums() -> None:
    ends = torch.tensor([0, 5, 9 + gathers.LONGEST])
    where, block = torch.zeros(int(ends[-1]), dtype=torch.int32), torch.ones(40, 20)
    lanes = gathers.Lanes(backend_named("torch:cpu").array(ends), where, None)
    gathers.lane_sums(lanes.pieces, where, torch.ones(len(where)), block)
    gathers.entries(block, block, where, where)


def main() -> None:
    quick = "--quick" in sys.argv
    maps = QUICK if quick else dict.fromkeys(PENALTIES | MORE, fused.PRECISIONS)
    made = compiled(SHAPES[:1] if quick else SHAPES, maps)
    found = {
        "target": "an H200 (sm_90a)",
        "triton": triton.__version__,
        "kernels": {name: sum(one.name == name for one in made) for name in dict.fromkeys(one.name for one in made)},
        "most shared memory": max(one.shared for one in made),
        "kernels with products of the tensor cores": sum("wgmma.mma_async" in one.text for one in made),
    }
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
