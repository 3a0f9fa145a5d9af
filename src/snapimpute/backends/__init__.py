"""Backends do the arithmetic of a solver: numpy here, or another place with the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snapimpute.base.errors import ArgumentError, MissingPackageError, Phrase, Setting
from snapimpute.linalg.backend import Backend

if TYPE_CHECKING:
    from snapimpute.backends.dask.workers import Cluster

BACKENDS = ("cpu", "torch", "torch:cpu", "torch:cuda", "dask")
"""Names that `solve` takes; "torch:cuda:1" and the like name one of several devices."""

INSTALL = {"torch": 'pip install "snapimpute[gpu]"', "dask": 'pip install "snapimpute[cluster]"'}


def backend_named(backend: str) -> Backend | None:
    """The backend of a name; None for numpy's memory. "torch" takes a GPU if there is one, else the CPU.

    An unknown name raises ValueError, a package that is not installed ImportError with the command that installs it,
    and a device that is not there RuntimeError: nothing else is taken instead.
    """
    if backend == "cpu":
        return None
    kind, _, device = backend.partition(":") if isinstance(backend, str) else ("", "", "")
    if kind != "torch" and backend != "dask":
        raise ArgumentError.must("backend", backend, f"be one of {', '.join(map(repr, BACKENDS))}")
    try:
        if kind == "dask":
            from snapimpute.backends.dask.backend import dask_backend

            return dask_backend()
        from snapimpute.backends.torch.backend import torch_backend
    except ModuleNotFoundError as err:
        raise _missing(Setting("backend", backend), kind, err) from None
    return torch_backend(device or None)


def cluster(client: Any = None) -> Cluster:
    """The workers of a cluster of Dask's, to read tables that no machine holds.

    Parameters
    ----------
    client : distributed.Client, optional
        The one that was made last if not given.

    Returns
    -------
    Cluster
        Its `read_parquet` and `from_frame` give observations that `Problem` and
        `solve` take; all work is then done by the workers.

    Examples
    --------
    >>> from distributed import Client  # doctest: +SKIP
    >>> ratings = cluster(Client("tcp://scheduler:8786")).read_parquet("ratings/*.parquet")  # doctest: +SKIP
    """
    try:
        from snapimpute.backends.dask.workers import Cluster
    except ModuleNotFoundError as err:
        raise _missing("a cluster", "dask", err) from None
    return Cluster.of(client)


def _missing(what: Phrase, kind: str, err: ModuleNotFoundError) -> Exception:
    """Say in words that a package is not installed; return the error itself if it is of something else."""
    if err.name not in ("torch", "dask", "distributed"):
        return err
    return MissingPackageError("backend", kind, what, f" needs {err.name}, which is not installed: {INSTALL[kind]}")
