"""Decorators of compiled functions: without the interpreter's lock, with rounding that vector code allows."""

from __future__ import annotations

from typing import Any

import numba

_njit: Any = numba.njit

kernel: Any = _njit(nogil=True, fastmath=True, error_model="numpy", cache=True)
"""Compiled without the interpreter's lock, and kept on disk for later processes."""

part: Any = _njit(
    nogil=True,
    fastmath=True,
    error_model="numpy",
    cache=True,
    no_cpython_wrapper=True,
    no_cfunc_wrapper=True,
)
"""A part of kernels that Python never calls: it compiles in less time."""

inline: Any = _njit(forceinline=True, nogil=True, fastmath=True, error_model="numpy")
"""Small functions, always part of the loop that calls them: a call would keep it from vector code."""
