"""The kernels of `_fused`; what they compute is said there.

``P`` points to the symbols and their pulls, or to a table; ``n0`` … ``n7`` are
the numbers of a `Form`. Names in capitals are known when a kernel is compiled.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _saturated(s, factor, more):
    """s·factor + more, clamped to 0 … 1 in the same instruction."""
    return tl.inline_asm_elementwise(
        "fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f", [s, factor, more], dtype=tl.float32, is_pure=True, pack=1
    )


@triton.jit
def _from_flat(s, inverse, above, top, back, PLAIN: tl.constexpr):
    """Distance of s + shift from the nearest of the whole numbers 0 … top, the middles of flat spots; less `rest`.

    The rest is what shift has beyond a whole number: to add it here would take one more instruction, and half of
    one where two cells go at once. 1.5·2²³, added to a float32, rounds it.
    """
    v = tl.minimum(tl.maximum(s * inverse + above, 0.0), 1.0) if PLAIN else _saturated(s, inverse, above)
    return s - ((v * top + 12582912.0) - back)


@triton.jit
def _on_stairs_by_two(rho, rest, half, c, TYPE: tl.constexpr):
    """c·ρ less ρ clamped to ± half, of ρ in two parts; two cells at once, in a type of two bytes."""
    one = tl.cast(1.0, TYPE)
    rest, low, high, c = tl.cast(rest, TYPE), tl.cast(-half, TYPE), tl.cast(half, TYPE), tl.cast(c, TYPE)
    if tl.float16 == TYPE:
        f = tl.inline_asm_elementwise(
            """{ .reg .b32 h, q;
            cvt.rn.f16x2.f32 h, $2, $1; fma.rn.f16x2 h, h, $7, $3; min.f16x2 q, h, $5; max.f16x2 q, q, $4;
            neg.f16x2 q, q; fma.rn.f16x2 $0, h, $6, q; }""",
            "=r,f,f,r,r,r,r,r", [rho, rest, low, high, c, one], dtype=tl.float16, is_pure=True, pack=2,
        )  # fmt: skip
    else:
        f = tl.inline_asm_elementwise(
            """{ .reg .b32 h, q;
            cvt.rn.bf16x2.f32 h, $2, $1; fma.rn.bf16x2 h, h, $7, $3; min.bf16x2 q, h, $5; max.bf16x2 q, q, $4;
            neg.bf16x2 q, q; fma.rn.bf16x2 $0, h, $6, q; }""",
            "=r,f,f,r,r,r,r,r", [rho, rest, low, high, c, one], dtype=tl.bfloat16, is_pure=True, pack=2,
        )  # fmt: skip
    return f


@triton.jit
def _on_stairs(s, inverse, above, top, back, rest, half, c, TYPE: tl.constexpr, PLAIN: tl.constexpr):
    rho = _from_flat(s, inverse, above, top, back, PLAIN)
    if tl.float32 == TYPE:
        rho += rest
        f = c * rho - tl.minimum(tl.maximum(rho, -half), half)
    elif PLAIN:
        h = rho.to(TYPE) + tl.cast(rest, TYPE)
        f = h * tl.cast(c, TYPE) - tl.minimum(tl.maximum(h, tl.cast(-half, TYPE)), tl.cast(half, TYPE))
    else:  # ρ is small by now
        f = _on_stairs_by_two(rho, rest, half, c, TYPE)
    return f


@triton.jit
def _to_even(s, inverse, above, top, back, rest, bound, c, less, PLAIN: tl.constexpr):
    """(1 − slope)·s − less, and without ρ where ρ² < bound: there the symbol is near enough to be taken."""
    rho = _from_flat(s, inverse, above, top, back, PLAIN) + rest
    return c * s - less - tl.where(rho * rho < bound, rho, 0.0)


@triton.jit
def _gain_of_even(s, inverse, above, top, back, rest, bound, PLAIN: tl.constexpr):
    """Saving by a symbol that is near enough."""
    rho = _from_flat(s, inverse, above, top, back, PLAIN) + rest
    return 0.5 * tl.maximum(bound - rho * rho, 0.0)


@triton.jit
def _by_recurrence(s, P, COUNT: tl.constexpr):
    u = s
    for k in tl.static_range(COUNT):
        u += tl.load(P + COUNT + k)
    for k in tl.static_range(COUNT):
        u = tl.minimum(u, tl.maximum(u - 2 * tl.load(P + COUNT + k), tl.load(P + k)))
    return u


@triton.jit
def _by_composition(s, P, COUNT: tl.constexpr):
    u = s
    for i in tl.static_range(COUNT):
        a, pull = tl.load(P + COUNT - 1 - i), tl.load(P + 2 * COUNT - 1 - i)
        u = a + tl.maximum(u - a - pull, 0.0) + tl.minimum(u - a + pull, 0.0)
    return u


@triton.jit
def _to_nearest(s, P, COUNT: tl.constexpr):
    u = s
    best = tl.zeros_like(s)
    for k in tl.static_range(COUNT):
        a = tl.load(P + k)
        cost = 0.5 * (s - a) * (s - a) - tl.load(P + COUNT + k)
        u = tl.where(cost < best, a, u)
        best = tl.minimum(cost, best)
    return u


@triton.jit
def _from_table(s, P, low, rate, COUNT: tl.constexpr, BREAKS: tl.constexpr, PLAIN: tl.constexpr):
    """Straight between the nodes; where the map jumps or bends the jump, and the line from there on, are added."""
    t = (s - low) * rate
    cell = tl.minimum(tl.maximum(t, 0.0), COUNT - 1.0).to(tl.int32)
    if PLAIN:
        value, rise = tl.load(P + 2 * cell), tl.load(P + 2 * cell + 1)
    else:  # both at once, and no load that the compiler would try to begin before its place is known
        value, rise = tl.inline_asm_elementwise(
            "ld.global.nc.v2.f32 {$0, $1}, [$2];",
            "=f,=f,l",
            [(P + 2 * cell).to(tl.int64)],
            dtype=(tl.float32, tl.float32),
            is_pure=True,
            pack=1,
        )
    f = value + (t - cell.to(tl.float32)) * rise
    for i in tl.static_range(BREAKS):
        beyond = s - tl.load(P + 2 * COUNT + 3 * i)
        step, bend = tl.load(P + 2 * COUNT + 3 * i + 1), tl.load(P + 2 * COUNT + 3 * i + 2)
        f += tl.where(beyond < 0, 0.0, step + bend * beyond)
    return f


@triton.jit
def _gain_on_stairs(s, inverse, above, top, back, rest, half, c, PLAIN: tl.constexpr):
    """½(1 − slope)ρ² less Huber's function of ρ: the integral of f from the middle of a flat spot on."""
    rho = _from_flat(s, inverse, above, top, back, PLAIN) + rest
    q = tl.minimum(tl.maximum(rho, -half), half)
    return 0.5 * c * rho * rho - q * (rho - 0.5 * q)


@triton.jit
def _l1_envelope(s, P, COUNT: tl.constexpr):
    u = _by_recurrence(s, P, COUNT)
    cost = 0.5 * (u - s) * (u - s)
    for k in tl.static_range(COUNT):
        cost += tl.load(P + COUNT + k) * tl.abs(u - tl.load(P + k))
    return cost


@triton.jit
def _l0_envelope(s, P, COUNT: tl.constexpr):
    least = tl.zeros_like(s)  # ½ (a − s)² less the pull of a symbol, or 0 off the alphabet
    all_pulls = tl.zeros_like(s)
    for k in tl.static_range(COUNT):
        d, pull = s - tl.load(P + k), tl.load(P + COUNT + k)
        all_pulls += pull
        least = tl.minimum(least, 0.5 * d * d - pull)
    return all_pulls + least


@triton.jit
def _map(
    s, P, n0, n1, n2, n3, n4, n5, n6, n7,
    KIND: tl.constexpr, COUNT: tl.constexpr, BREAKS: tl.constexpr, TYPE: tl.constexpr, PLAIN: tl.constexpr,
):  # fmt: skip
    """f(s), in float32 or already in the type that is wanted."""
    if KIND == 0:
        f = _on_stairs(s, n0, n1, n2, n3, n4, n5, n6, TYPE, PLAIN)
    elif KIND == 1:
        f = _by_recurrence(s, P, COUNT) - (n0 * s + n1)
    elif KIND == 2:
        f = _by_composition(s, P, COUNT) - (n0 * s + n1)
    elif KIND == 3:
        f = _to_nearest(s, P, COUNT) - (n0 * s + n1)
    elif KIND == 4:
        f = _from_table(s, P, n0, n1, COUNT, BREAKS, PLAIN)
    elif KIND == 5:
        f = _l1_envelope(s, P, COUNT)
    elif KIND == 7:
        f = _gain_on_stairs(s, n0, n1, n2, n3, n4, n5, n6, PLAIN)
    elif KIND == 8:
        f = _to_even(s, n0, n1, n2, n3, n4, n5, n6, n7, PLAIN)
    elif KIND == 9:
        f = _gain_of_even(s, n0, n1, n2, n3, n4, n5, PLAIN)
    else:
        f = _l0_envelope(s, P, COUNT)
    return f


# ---------------------------------------------------------------- kernels
@triton.jit
def _tile(ua, ub, uc, VA, VB, VC, start, RB: tl.constexpr, RC: tl.constexpr):
    s = tl.dot(ua, VA.load([start, 0]).T)
    if RB:
        s = tl.dot(ub, VB.load([start, 0]).T, s)
    if RC:
        s = tl.dot(uc, VC.load([start, 0]).T, s)
    return s


@triton.jit
def mapped_product(
    UA, UB, UC, VA, VB, VC, BA, BB, LA, LB, OA, OB, P, n0, n1, n2, n3, n4, n5, n6, n7, blocks, rows,
    RB: tl.constexpr, RC: tl.constexpr, KA: tl.constexpr, KB: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    KIND: tl.constexpr, COUNT: tl.constexpr, BREAKS: tl.constexpr, SPLIT: tl.constexpr, PLAIN: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """OUT ← Σ f(U V_jᵀ)·B_j over the blocks j of one part, for one block of rows."""
    row, part = tl.program_id(0) * BM, tl.program_id(1)
    ua = UA.load([row, 0])
    ub = UB.load([row, 0]) if RB else ua
    uc = UC.load([row, 0]) if RC else ua
    TYPE: tl.constexpr = tl.float32 if SPLIT else BA.dtype
    sum_a = tl.zeros([BM, KA], tl.float32)
    sum_b = tl.zeros([BM, KB if KB else 1], tl.float32)
    for i in tl.range(part * blocks, (part + 1) * blocks, num_stages=STAGES):
        start = i * BN
        s = _tile(ua, ub, uc, VA, VB, VC, start, RB, RC)
        f = _map(s, P, n0, n1, n2, n3, n4, n5, n6, n7, KIND, COUNT, BREAKS, TYPE, PLAIN)
        e = f.to(BA.dtype)
        ba = BA.load([start, 0])
        sum_a = tl.dot(e, ba, sum_a)
        if SPLIT:
            low = (f - e.to(tl.float32)).to(BA.dtype)
            sum_a = tl.dot(low, ba, sum_a)
            sum_a = tl.dot(e, LA.load([start, 0]), sum_a)
        if KB:
            bb = BB.load([start, 0])
            sum_b = tl.dot(e, bb, sum_b)
            if SPLIT:
                sum_b = tl.dot(low, bb, sum_b)
                sum_b = tl.dot(e, LB.load([start, 0]), sum_b)
    OA.store([part * rows + row, 0], sum_a)
    if KB:
        OB.store([part * rows + row, 0], sum_b)


@triton.jit
def mapped_total(
    UA, UB, UC, VA, VB, VC, OUT, P, n0, n1, n2, n3, n4, n5, n6, n7, blocks, m, n,
    RB: tl.constexpr, RC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, KIND: tl.constexpr, COUNT: tl.constexpr,
    BREAKS: tl.constexpr, PLAIN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """OUT ← Σ_j f(U V_jᵀ) over all columns, for each of a block of rows."""
    row = tl.program_id(0) * BM
    ua = UA.load([row, 0])
    ub = UB.load([row, 0]) if RB else ua
    uc = UC.load([row, 0]) if RC else ua
    total = tl.zeros([BM, BN], tl.float32)
    inside = (row + tl.arange(0, BM))[:, None] < m
    for i in tl.range(0, blocks, num_stages=STAGES):
        start = i * BN
        s = _tile(ua, ub, uc, VA, VB, VC, start, RB, RC)
        cost = _map(s, P, n0, n1, n2, n3, n4, n5, n6, n7, KIND, COUNT, BREAKS, tl.float32, PLAIN)
        total += tl.where(inside & ((start + tl.arange(0, BN))[None, :] < n), cost, 0.0)
    tl.store(OUT + row + tl.arange(0, BM), tl.sum(total.to(tl.float64), axis=1))
