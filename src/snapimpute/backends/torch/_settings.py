"""Torch as if a program had asked nothing of it for its own work: all digits of float32, and no warnings twice.

Most settings of torch are those of the whole process. The first fit inside
changes them, and the last one that leaves brings them back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

_lock = threading.RLock()
_inside: set[object] = set()
_before = ExitStack()
"""Callbacks that bring back the settings of the program."""


@contextmanager
def undisturbed(device_type: str) -> Iterator[None]:
    """Compute so inside, on a "cpu" or "cuda"; then all is as it was.

    Examples
    --------
    >>> torch.set_float32_matmul_precision("high")
    >>> with undisturbed("cpu"):
    ...     torch.get_float32_matmul_precision()
    'highest'
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    me = object()
    try:
        with _lock:
            if not _inside:
                _change()
            _inside.add(me)
        with torch.autocast(device_type, enabled=False):
            yield
    finally:
        with _lock:
            _inside.discard(me)
            if not _inside:
                _before.close()


def _change() -> None:
    """Each setting is noted first: an interruption may come anywhere."""
    asked, switches = _asked(), [(one, one.fp32_precision) for one in _switches()]
    for one, before in switches:
        _before.callback(_give_back, one, before)
    if asked != "highest":
        _before.callback(torch.set_float32_matmul_precision, asked)
        torch.set_float32_matmul_precision("highest")
    for one, before in switches:
        if before in ("tf32", "bf16"):
            one.fp32_precision = "ieee"
    if torch.is_warn_always_enabled():
        _before.callback(torch.set_warn_always, True)
        torch.set_warn_always(False)


def _give_back(switch: Any, before: str) -> None:
    """Restore a switch; if it said what is set for all of them, it goes on to follow that."""
    if switch.fp32_precision != before:
        switch.fp32_precision = "none"
    if switch.fp32_precision != before:
        switch.fp32_precision = before


def _asked() -> str:
    """Precision set for all devices together; torch refuses to tell it once each was set for itself."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return "highest"


def _switches() -> list[Any]:
    """Precisions of single devices, which torch has since 2.9."""
    each = torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)
    return [one for one in each if hasattr(one, "fp32_precision")]
