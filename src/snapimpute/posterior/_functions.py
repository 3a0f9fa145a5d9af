"""Functions without a branch, in float32: the compiler works on eight or sixteen cells at once.

Coefficients are weighted minimax fits (Lawson's algorithm) to SciPy's values; tests compare both.
"""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import inline

FAR = np.float32(12.5)
"""Deviations beyond which a tail counts as empty: its probability, 4e-36, is still a normal float32."""

LEAST = np.float32(1e-30)
"""Smallest probability that a logarithm is taken of."""

_ONE, _HALF, _ZERO = np.float32(1), np.float32(0.5), np.float32(0)
_LOG2_E, _LN_2 = np.float32(1.4426950408889634), np.float32(0.6931471805599453)


@inline
def exp2(x: np.float32) -> np.float32:
    """2^x for −126 ≤ x ≤ 127; relative error 2e-7."""
    whole = np.floor(x + _HALF)
    u = x - whole
    p = np.float32(0.0013276481768116355)
    p = p * u + np.float32(0.009675546549260616)
    p = p * u + np.float32(0.05550713464617729)
    p = p * u + np.float32(0.24022120237350464)
    p = p * u + np.float32(0.6931469440460205)
    p = p * u + np.float32(1.0)
    power = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
    out: np.float32 = p * np.int32(power).view(np.float32)
    return out


@inline
def log(x: np.float32) -> np.float32:
    """Natural logarithm of a normal positive number; absolute error 2e-7 times the exponent."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32((bits - np.int32(0x3F3504F3)) >> np.int32(23))
    u = np.int32(bits - (exponent << np.int32(23))).view(np.float32) - _ONE
    p = np.float32(-0.10106973350048065)
    p = p * u + np.float32(0.16222725808620453)
    p = p * u + np.float32(-0.1725086271762848)
    p = p * u + np.float32(0.1990015059709549)
    p = p * u + np.float32(-0.24969905614852905)
    p = p * u + np.float32(0.33335059881210327)
    p = p * u + np.float32(-0.5000036358833313)
    p = p * u + np.float32(0.9999999403953552)
    return np.float32(exponent) * _LN_2 + p * u


@inline
def tail(x: np.float32) -> np.float32:
    """P(N > x) for 0 ≤ x ≤ `FAR`; relative error 7e-7 besides that of the exponential."""
    t = _ONE / (_ONE + np.float32(0.36) * x)
    p = np.float32(0.04837888479232788)
    p = p * t + np.float32(-0.18460218608379364)
    p = p * t + np.float32(0.1881655603647232)
    p = p * t + np.float32(0.020898260176181793)
    p = p * t + np.float32(0.14222118258476257)
    p = p * t + np.float32(0.14114896953105927)
    p = p * t + np.float32(0.14379388093948364)
    p = p * t + np.float32(-4.208322934573516e-06)
    return p * exp2(np.float32(-0.5) * _LOG2_E * x * x)


@inline
def quantile(p: np.float32) -> np.float32:
    """x ≥ 0 with P(N > x) = p, for 1e-37 ≤ p ≤ ½; absolute error 1e-6."""
    t = np.sqrt(np.float32(-2) * log(p))
    top = np.float32(0.048392392694950104)
    top = top * t + np.float32(1.78687584400177)
    top = top * t + np.float32(7.728398323059082)
    top = top * t + np.float32(3.142200469970703)
    bottom = np.float32(0.007467725779861212)
    bottom = bottom * t + np.float32(0.4598160982131958)
    bottom = bottom * t + np.float32(3.60910964012146)
    bottom = bottom * t + np.float32(4.926017761230469)
    bottom = bottom * t + _ONE
    return max(t - top / bottom, _ZERO)


@inline
def clipped(x: np.float32) -> np.float32:
    """x, at most `FAR` deviations from 0."""
    return min(max(x, -FAR), FAR)


@inline
def signed_tail(x: np.float32) -> np.float32:
    """The smaller tail at x, with the sign of x: all that an interval's probability needs of one end."""
    x = clipped(x)
    q = tail(abs(x))
    return q if x >= 0 else -q


@inline
def between(low: np.float32, high: np.float32) -> np.float32:
    """P(a < N ≤ b) from the signed tails at a and b; at least `LEAST`."""
    across = _ONE if (low < 0) and (high >= 0) else _ZERO
    return max(low - high + across, LEAST)


@inline
def apart(one: np.float32, other: np.float32) -> np.float32:
    """P(a < N ≤ b) from the signed tails at a and b in either order; at least `LEAST`."""
    size = abs(one - other)
    across = (one < 0) != (other < 0)
    return max(_ONE - size if across else size, LEAST)


@inline
def below(x: np.float32) -> np.float32:
    """P(N ≤ x)."""
    t = signed_tail(x)
    return _ONE - t if t >= 0 else -t
