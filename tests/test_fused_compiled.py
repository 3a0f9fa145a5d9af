"""The fused kernels, compiled for an H200 where there is none: the interpreter does not see all errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")

SHARED = 232_448
"""Bytes of fast memory that a program may have on an H200."""

# In a process of its own: functions are compiled or interpreted, as is decided when they are imported.
PROGRAM = """
import json, sys
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.tools.tensor_descriptor import TensorDescriptor
import snapimpute as si
from snapimpute.backends import forms, fused

NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.float64: "fp64"}
found = {}

def kind(value):
    if isinstance(value, TensorDescriptor):
        return f"tensordesc<{NAMES[value.base.dtype]}{list(value.block_shape)}>"
    if isinstance(value, torch.Tensor):
        return "*" + NAMES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"

class Compiled:
    def __init__(self, function):
        self.function = function

    def __getitem__(self, grid):
        def launch(*arguments, num_warps, **known):
            names = self.function.arg_names
            signature = {name: kind(value) for name, value in zip(names, arguments)}
            signature |= dict.fromkeys(known, "constexpr")
            fixed = {(names.index(name),): value for name, value in known.items()}
            source = ASTSource(fn=self.function, signature=signature, constexprs=fixed)
            made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": num_warps})
            found[case] = [made.metadata.shared, made.asm["ptx"].count("wgmma.mma_async")]
        return launch

fused.mapped_product, fused.mapped_total = Compiled(fused.mapped_product), Compiled(fused.mapped_total)
even, jumping = si.L1("1:5", xi=0.01), si.FractionalL0("1:3", xi=0.3, alpha=0.01)
left, right, block = torch.ones(128, 64), torch.ones(128, 64), torch.ones(128, 64)
for case, penalty, precision in (("even", even, "bf16"), ("jumping", jumping, "fp16"), ("exact", even, "float32")):
    fused.product(left, right, forms.form_of(penalty.compiled_remainder(1.0)), block, precision)
case = "total"
fused.total(left, right, forms.form_of(even.compiled_envelope(1.0)))
print(json.dumps(found))
"""


def test_kernels_compile_for_an_h200(tmp_path: object) -> None:
    """By the tensor cores' own instructions, within the memory that a program has there."""
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 -- our own
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found) == {"even", "jumping", "exact", "total"}
    for shared, products in found.values():
        assert 0 < shared <= SHARED
        assert products > 0
