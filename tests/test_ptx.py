"""The computation of PTX: single instructions by hand, and faults of kernels that it must notice."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from ptx.block import Block
from ptx.numbers import swizzled, to_bits
from ptx.reading import parsed
from ptx.units import PTXError, Table

HEAD = """
.visible .entry kernel(
  .param .u64 .ptr .global .align 1 kernel_param_0,
  .param .align 64 .b8 kernel_param_1[128]
)
$L__func_begin0:
"""
STORE = """
ld.param.b64 %out, [kernel_param_0]; mov.u32 %t, %tid.x; mad.wide.s32 %to, %t, 4, %out;
st.global.b32 [ %to + 0 ], { %r };
"""


def run(body: str, shared: int = 4096, threads: int = 128, table: Any = None, hasty: bool = True) -> Any:
    """What a kernel leaves in an array of one number of 32 bits a thread."""
    out = np.zeros(threads, np.uint32)
    text = HEAD + body + "ret;\n$L__func_end0:\n"
    Block(parsed(text), [out, table], (0,), threads, shared, hasty).run()
    return out


def bits(value: float, kind: str = "f32") -> str:
    return f"0f{int(to_bits(np.float64(value), kind)):08X}"


@pytest.mark.parametrize(
    ("instruction", "wanted"),
    [
        (f"add.f32 %r, {bits(1.5)}, {bits(0.25)};", 1.75),
        (f"fma.rn.f32 %r, {bits(3)}, {bits(4)}, {bits(-2)};", 10.0),
        (f"fma.rn.sat.f32 %r, {bits(3)}, {bits(4)}, {bits(-2)};", 1.0),
        (f"fma.rn.sat.f32 %r, {bits(-3)}, {bits(4)}, {bits(-2)};", 0.0),
        (f"min.f32 %r, {bits(np.nan)}, {bits(4)};", 4.0),
        (f"abs.f32 %r, {bits(-2.5)};", 2.5),
        (f"neg.f32 %r, {bits(-2.5)};", 2.5),
        (f"setp.lt.f32 %p, {bits(1)}, {bits(2)}; selp.f32 %r, {bits(7)}, {bits(9)}, %p;", 7.0),
        (f"cvt.rzi.s32.f32 %i, {bits(-2.9)}; cvt.rn.f32.s32 %r, %i;", -2.0),
        (f"cvt.rn.f16.f32 %h, {bits(1 + 2**-11)}; cvt.f32.f16 %r, %h;", 1.0),  # a tie goes to the even one
        (f"cvt.rn.f16.f32 %h, {bits(1 + 3 * 2**-11)}; cvt.f32.f16 %r, %h;", 1 + 2**-9),
        (f"cvt.rn.bf16.f32 %h, {bits(1 + 3 * 2**-8)}; cvt.u32.u16 %i, %h; shl.b32 %r, %i, 16;", 1 + 2**-6),
    ],
)
def test_floating_point(instruction: str, wanted: float) -> None:
    found = run(instruction + STORE).view(np.float32)
    np.testing.assert_array_equal(found, np.float32(wanted))


@pytest.mark.parametrize(
    ("instruction", "wanted"),
    [
        ("mov.b32 %a, -7; shr.s32 %r, %a, 1;", -4),
        ("mov.b32 %a, -8; shr.u32 %r, %a, 28;", 15),
        ("mov.b32 %a, 2000000000; add.s32 %r, %a, %a;", 4_000_000_000 - (1 << 32)),
        ("mov.b32 %a, 52; bfe.u32 %r, %a, 2, 3;", 5),
        ("mov.b32 %a, 52; bfe.s32 %r, %a, 2, 3;", -3),
        ("mov.b32 %a, 52; bfe.s32 %r, %a, 2, 4;", -3),
        ("mov.b32 %a, 52; bfe.s32 %r, %a, 2, 5;", 13),
        ("mov.b32 %a, -3; mul.wide.s32 %b, %a, 5; cvt.u32.u64 %r, %b;", -15),
        ("mov.b32 %a, -3; max.s32 %r, %a, 2;", 2),
        ("mov.b32 %a, -3; setp.gt.u32 %p, %a, 2; selp.b32 %r, 1, 0, %p;", 1),
        ("mov.b64 %b, 4294967298; mov.b64 {%a, %c}, %b; add.s32 %r, %a, %c;", 3),
        ("mov.b32 %a, 5; @%p mov.b32 %a, 6; mov.b32 %r, %a;", None),
    ],
)
def test_whole_numbers(instruction: str, wanted: int | None) -> None:
    found = run("mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 3;" + instruction + STORE).view(np.int32)
    np.testing.assert_array_equal(found, np.where(np.arange(128) < 3, 6, 5) if wanted is None else wanted)


def test_two_halves_at_once() -> None:
    """h = (2.5, -1) in fp16, times 2 and less 1, negated."""
    found = run(
        f"""{{ .reg .b32 h;
        cvt.rn.f16x2.f32 h, {bits(2.5)}, {bits(-1)}; mov.b32 %two, 1073758208; mov.b32 %less, -1140802560;
        fma.rn.f16x2 h, h, %two, %less; neg.f16x2 %r, h; }}"""
        + STORE
    )
    np.testing.assert_array_equal(found.view(np.float16).reshape(-1, 2)[0], [3, -4])


def test_threads_give_to_each_other() -> None:
    found = run("mov.u32 %t, %tid.x; shfl.sync.bfly.b32 %r, %t, 2, 31, -1;" + STORE)
    np.testing.assert_array_equal(found, np.arange(128) ^ 2)
    found = run("mov.u32 %t, %tid.x; shfl.sync.idx.b32 %r, %t, 0, 31, -1;" + STORE)
    np.testing.assert_array_equal(found, np.arange(128) // 32 * 32)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.u32 %t, %tid.x; st.shared.b32 [%s], %t; mov.b32 %s, 8;", "nothing was put into %s"),
        ("mov.b32 %s, global_smem; st.shared.b32 [%s+4096], %s;", "shared memory of 4096 bytes"),
        ("mov.b32 %s, global_smem; ld.shared.b32 %r, [%s+-4];", "shared memory of 4096 bytes"),
        ("mov.b32 %s, global_smem; st.shared.b64 [%s+4], %s;", "not aligned"),
        ("ld.param.b64 %o, [kernel_param_0]; ld.global.b32 { %r }, [ %o + 512 ];", "no such memory"),
        ("sin.approx.f32 %r, 0f3F800000;", "sin.approx.f32 is not known"),
        ("mov.b32 %s, global_smem; mbarrier.init.shared::cta.b64 [%s], 1; "
         "mbarrier.try_wait.parity.shared::cta.b64 complete, [%s], 0;", "nothing will complete"),
        ("mov.b32 %s, global_smem; mbarrier.inval.shared::cta.b64 [%s];", "no barrier was made"),
        ("mov.u32 %t, %tid.x; setp.lt.u32 %p, %t, 3;\n@%p bra $L__func_begin0;", "threads part"),
    ],
)  # fmt: skip
def test_what_a_gpu_would_not_survive(body: str, message: str) -> None:
    with pytest.raises(PTXError, match=message):
        run(body)


@pytest.mark.parametrize("width", [32, 64, 128])
def test_a_swizzle_only_changes_places(width: int) -> None:
    """Within eight rows every place is taken once, and chunks of one column are in different banks."""
    places = swizzled(np.arange(8 * width), width)
    np.testing.assert_array_equal(np.sort(places), np.arange(8 * width))
    column = swizzled(np.arange(8) * width, width) % 128
    assert len(set(column.tolist())) == 8


COPY = """
mov.b32 %s, global_smem; mov.b32 %z, 0; mov.b32 %row, 8; mov.u32 %t, %tid.x; setp.eq.u32 %first, %t, 0;
mov.b64 %d, kernel_param_1; add.s32 %bar, %s, 2048;
@%first mbarrier.init.shared::cta.b64 [%bar], 1;
@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 1024;
@%first cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%s], [%d, {%z, %row}], [%bar];
"""
WAIT = "mbarrier.try_wait.parity.shared::cta.b64 complete, [%bar], %z;"
READ = "mad.lo.s32 %at, %t, 4, %s; ld.shared.b32 %r, [%at];"
ROWS = np.arange(32 * 32, dtype=np.uint32).reshape(32, 32)


@pytest.mark.parametrize("hasty", [True, False])
def test_a_copy_is_swizzled(hasty: bool) -> None:
    """The second row of the piece: its chunks of four numbers are in pairs exchanged."""
    found = run(COPY + WAIT + READ + STORE, table=Table(ROWS, (8, 32), 3), hasty=hasty)
    np.testing.assert_array_equal(found[:32], ROWS[8])
    np.testing.assert_array_equal(found[32:40], ROWS[9][[4, 5, 6, 7, 0, 1, 2, 3]])


def test_who_does_not_wait_for_a_copy_does_not_have_it() -> None:
    with pytest.raises(PTXError, match="while something is under way"):
        run(COPY + READ + STORE, table=Table(ROWS, (8, 32), 3), hasty=False)
    late = run(COPY + READ + WAIT + STORE, table=Table(ROWS, (8, 32), 3), hasty=False)
    assert not late.any()


def test_copies_stay_within_the_table() -> None:
    with pytest.raises(PTXError, match="8×32 is copied from 8, 0 of a table of 15×32"):
        run(COPY + WAIT, table=Table(ROWS[:15], (8, 32), 3))
    with pytest.raises(PTXError, match="not aligned"):
        run(COPY.replace("[%s], [%d", "[%row], [%d") + WAIT, table=Table(ROWS, (8, 32), 3))


PRODUCT = """
mov.b64 %da, 4611686293305294912; mov.b64 %db, 4611686293305295424;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r, %r1, %r2, %r3}, %da, %db, 0, 1, 1, 0, 0;
wgmma.commit_group.sync.aligned;
"""


def halves_in_shared(first: Any, second: Any) -> str:
    """Store two matrices with rows of 128 bytes, swizzled, one number of 32 bits by one thread each."""
    lines = ["mov.b32 %s, global_smem;"]
    for base, one in ((0, first), (8192, second)):
        for i, pair in enumerate(np.ascontiguousarray(one, np.float16).view(np.uint32).reshape(-1)):
            at = swizzled(base + i // 8 * 128 + i % 8 * 4, 128)
            lines.append(f"mov.b32 %v, {pair}; st.shared.b32 [%s+{at}], %v;")
    return "\n".join(lines)


def test_a_product_of_four_warps() -> None:
    """64×16 times 16×8, and what one reads of it before it is waited for."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(-3, 4, (64, 16)), rng.integers(-3, 4, (8, 16))
    begin = halves_in_shared(first, second) + PRODUCT
    done = run(begin + "wgmma.wait_group.sync.aligned 0;" + STORE, shared=16384).view(np.float32)
    thread = np.arange(128)
    np.testing.assert_array_equal(done, (first @ second.T)[thread // 32 * 16 + thread % 32 // 4, 2 * (thread % 4)])
    with pytest.raises(PTXError, match="nothing was put into %r"):
        run(begin + STORE, shared=16384)
