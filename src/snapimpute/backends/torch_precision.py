"""Products of float32 that have all digits of float32, whatever a program has asked of torch for its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def all_digits() -> Iterator[None]:
    """Compute so inside; then all is as it was.

    Examples
    --------
    >>> torch.set_float32_matmul_precision("high")
    >>> with all_digits():
    ...     torch.get_float32_matmul_precision()
    'highest'
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    asked, switches = _asked(), [(one, one.fp32_precision) for one in _switches()]
    try:
        if asked != "highest":
            torch.set_float32_matmul_precision("highest")
        for one, before in switches:
            if before in ("tf32", "bf16"):
                one.fp32_precision = "ieee"
        yield
    finally:
        if asked != "highest":
            torch.set_float32_matmul_precision(asked)
        for one, before in switches:
            if one.fp32_precision != before:
                one.fp32_precision = before


def _asked() -> str:
    """What was asked for all devices together; torch refuses to say it once each was asked for itself."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


def _switches() -> list[Any]:
    """Those of single devices, which torch has since 2.9."""
    each = torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)
    return [one for one in each if hasattr(one, "fp32_precision")]
