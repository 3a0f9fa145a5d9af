"""Where the arithmetic of a solver is done: here, or in another place with the same answer."""

from __future__ import annotations

from snapimpute.operators.place import Place

BACKENDS = ("cpu", "torch", "torch:cpu", "torch:cuda", "dask")
"""Names that `solve` takes; "torch:cuda:1" and the like name one of several devices."""

INSTALL = {"torch": 'pip install "snapimpute[gpu]"', "dask": 'pip install "snapimpute[cluster]"'}


def place_named(backend: str) -> Place | None:
    """The place of a backend; None is numpy's memory, where nothing has to be moved.

    "torch" takes a GPU if there is one, else the CPU.

    Raises
    ------
    ValueError
        If there is no backend of that name.
    ImportError
        If what it needs is not installed; the message has the command that installs it.
    RuntimeError
        If the device is not there. Nothing else is taken instead.
    """
    if backend == "cpu":
        return None
    kind, _, device = backend.partition(":")
    if kind != "torch" and backend != "dask":
        raise ValueError(f"backend must be one of {', '.join(map(repr, BACKENDS))}, got {backend!r}")
    try:
        if backend == "dask":
            from snapimpute.backends.dask_place import dask_place

            return dask_place()
        from snapimpute.backends.torch_place import torch_place
    except ModuleNotFoundError as err:
        if err.name not in ("torch", "dask", "distributed"):
            raise
        raise ImportError(f'backend="{backend}" needs {err.name}, which is not installed: {INSTALL[kind]}') from None
    return torch_place(device or None)
