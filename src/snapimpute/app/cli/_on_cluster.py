"""`snapimpute fit --cluster`: the same fit by the workers of a cluster, files in and files out."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer import BadParameter

import snapimpute
from snapimpute.app.cli._options import Fitting, Reading, Workers
from snapimpute.app.cli._terminal import Terminal
from snapimpute.backends import cluster
from snapimpute.base.files import write_atomically
from snapimpute.base.machine import in_words
from snapimpute.base.threads import thread_count
from snapimpute.data.alphabet import Alphabet
from snapimpute.experts.proximal.tuned import TunedSpec, TuningInterruptedError
from snapimpute.solvers import Result
from snapimpute.solvers.cluster_forecast import cluster_forecast
from snapimpute.solvers.loop import SAMPLED_CELLS

LIMIT = 10.0
"""Seconds to wait for a scheduler."""

LONGEST = 60.0
"""Seconds to wait for its first worker."""

ASSUMED_RANK = 32
"""For what is to be expected, where no limit is given."""


def fit_on_cluster(
    workers: Workers, files: list[str], model: Path, reading: Reading, fitting: Fitting, terminal: Terminal
) -> bool:
    """Read, choose, fit and write, without gathering anything as high as the table; whether it was interrupted."""
    if fitting.method not in (None, "proximal"):
        raise BadParameter(
            f"--method {fitting.method} has no use with --cluster: leave it out, workers fit the proximal expert"
        )
    if model.exists() and (not model.is_dir() or any(model.iterdir())):
        raise FileExistsError(f"{model} is there already: with --cluster give a new folder, or an empty one")
    if reading.spec.own or not reading.spec.given or reading.spec.default in (None, "infer"):
        raise ValueError("on a cluster give one alphabet for all columns, such as --alphabet 1:5")
    alphabet = Alphabet.of(reading.spec.default)
    row, col, value = reading.named or ("row", "column", "value")
    with connected(str(workers.cluster), terminal) as client:
        there = cluster(client)
        known = there.read_parquet(files, alphabet=alphabet, blocks=workers.blocks, row=row, column=col, value=value)
        (m, n), count = known.shape, len(known)
        terminal.say(f"table: {m:,} rows × {n:,} columns, {count:,} cells known ({100 * known.density:.3g} %)")
        terminal.say(f"blocks: {known.backend.count}, of {min(known.backend.cut.observed):,} cells and more")
        terminal.note(rows=m, columns=n, known=count, blocks=known.backend.count)
        _forecast(known, client, fitting, terminal)
        tuned, result, interrupted = _fitted(known, alphabet, fitting, workers.checkpoint, terminal)
        written = there.write_factors(known, result.estimate, model / "rows")
        told = _told(tuned, result, alphabet)
        write_atomically(model / "columns.parquet", there.columns_as_parquet(known, result.estimate))
        write_atomically(model / "model.json", json.dumps(told, indent=1, ensure_ascii=False).encode())
        terminal.say(f"model: {model / 'model.json'}, columns.parquet, {len(written)} files in {model / 'rows'}")
        terminal.note(**told, files=[str(path) for path in written])
        if workers.top is not None:
            best = there.write_top(known, result.estimate, model / "top", k=workers.top)
            terminal.say(f"the best {workers.top} of each row: {len(best)} files in {model / 'top'}")
    return interrupted


@contextmanager
def connected(address: str, terminal: Terminal) -> Iterator[Any]:
    """A client of the cluster at an address, or of one that is started here for as long as it is needed."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as err:
        raise ImportError(f'--cluster needs {err.name}: pip install "snapimpute[cluster]"') from None
    if address == "local":
        options: dict[str, Any] = {"n_workers": thread_count(), "threads_per_worker": 1, "dashboard_address": ":0"}
        options["silence_logs"] = logging.CRITICAL  # what is wrong is said once, at the end
        # A task that moves to another worker would take its block of the observations with it, and a manager of
        # memory may bring both copies of a block to one worker.
        calm = dask.config.set(
            {"distributed.scheduler.work-stealing": False, "distributed.scheduler.active-memory-manager.start": False}
        )
        with calm, LocalCluster(**options) as started, Client(started) as client:
            _introduce(client, terminal)
            yield client
        return
    try:
        client = Client(address, timeout=LIMIT)
    except (OSError, ValueError) as err:
        raise ConnectionError(
            f"no scheduler answers at {address}: start one with `dask scheduler`, and workers with "
            f"`dask worker {address}`, or take --cluster local"
        ) from err
    with client:
        _introduce(client, terminal)
        yield client


def _introduce(client: Any, terminal: Terminal) -> None:
    """Say who does the work, once there is somebody, and refuse workers with other versions."""
    from snapimpute.backends.dask.backend import check_versions

    try:
        client.wait_for_workers(1, timeout=LONGEST)
    except TimeoutError as err:
        address = client.scheduler.address
        raise ConnectionError(
            f"the scheduler at {address} has no worker after {LONGEST:.0f} seconds: start some with "
            f"`dask worker {address}`"
        ) from err
    check_versions(client)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    threads, memory = sum(one["nthreads"] for one in workers), sum(one["memory_limit"] for one in workers)
    terminal.say(f"cluster: {len(workers)} workers, {threads} threads, {in_words(memory)}")
    terminal.say(f"dashboard: {client.dashboard_link}")
    terminal.note(workers=len(workers), dashboard=client.dashboard_link)


def _forecast(known: Any, client: Any, fitting: Fitting, terminal: Terminal) -> None:
    """Say what to expect, and warn if workers have too little memory for it."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    (m, n), expert, options = known.shape, fitting.proximal, fitting.options()
    expected = cluster_forecast(
        known.shape,
        len(known),
        min(options.max_rank or ASSUMED_RANK, *known.shape),
        workers=len(workers),
        solver="ais-impute" if expert.solver == "auto" else str(expert.solver),
        discrete=expert.discrete is not None,
        sampled=m * n > SAMPLED_CELLS if expert.alphabet_term == "auto" else expert.alphabet_term == "sampled",
        dtype=options.dtype,
    )
    terminal.say(f"expected: {str(expected).partition(', ')[2]}".replace("\n", "; "))
    terminal.note(expected={"memory_per_worker": expected.memory_per_worker, "sent": expected.sent})
    least = min(int(one["memory_limit"]) for one in workers)
    if 0 < least < expected.memory_per_worker:
        terminal.warn(
            f"a worker with {in_words(least)} may have too little: take more workers, --dtype float32, "
            "or a lower --max-rank"
        )


def _fitted(
    known: Any, alphabet: Alphabet, fitting: Fitting, checkpoint: Path | None, terminal: Terminal
) -> tuple[TunedSpec, Result, bool]:
    """Choose and fit; return both, and True if that was interrupted, with the best so far kept."""
    expert, options = fitting.proximal, fitting.options()
    with terminal.watching("fitting", centers=2, max_iter=options.max_iter) as watcher:
        try:
            tuned, interrupted = fitting.settled(known, alphabet, options, watcher.tried), False
        except TuningInterruptedError as err:
            terminal.warn("interrupted: going on with the best so far")
            tuned, interrupted = err.tuned, True
        result = tuned.fit(known, expert.solver, options, callback=watcher.iterated, checkpoint=checkpoint)
    terminal.say(f"strengths: λ = {tuned.lam:.4g}, ξ = {tuned.xi:.3g}, centre {tuned.spec.center or 'none'}")
    terminal.say(f"fit: rank {result.x.rank}, {result.n_iter} iterations, {result.status}")
    return tuned, result, interrupted or result.status.code == "interrupted"


def _told(tuned: TunedSpec, result: Result, alphabet: Alphabet) -> dict[str, Any]:
    out: dict[str, Any] = {
        "format": "snapimpute factors",
        "version": 1,
        "snapimpute": snapimpute.__version__,
        "alphabet": [float(symbol) for symbol in alphabet],
        "lam": tuned.lam,
        "xi": tuned.xi,
        "center": tuned.spec.center,
        "rank": result.x.rank,
        "iterations": result.n_iter,
        "status": result.status.code,
        "solver": result.settings["solver"],
    }
    if tuned.choice is not None:
        out["held_out"] = {"metric": tuned.choice.metric, "score": tuned.choice.best.score}
    return out
