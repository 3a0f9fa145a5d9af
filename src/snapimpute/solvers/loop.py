"""The one loop: it runs every solver."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from snapimpute.backends import backend_named
from snapimpute.base.errors import ArgumentError, Setting
from snapimpute.base.threads import single_threaded_blas
from snapimpute.linalg import LowRank
from snapimpute.linalg.backend import backend_of
from snapimpute.problem import ALL_CELLS, Coverage, Problem
from snapimpute.problem.losses import Squares
from snapimpute.problem.sampling import Sampler
from snapimpute.solvers.base import Context, Solver, State
from snapimpute.solvers.checkpoint import Checkpoint, CheckpointFile, RunSnapshot
from snapimpute.solvers.forecast import look_ahead
from snapimpute.solvers.options import DEFAULT, AlphabetTerm, FitOptions, Precision
from snapimpute.solvers.registry import SolverChoice, pick, require
from snapimpute.solvers.result import History, Info, Result, Status

SAMPLED_CELLS = 1 << 28
"""From so many cells on "auto" takes a sample: a pass over all of them takes about a second."""

Callback = Callable[[Info], "bool | Mapping[str, float] | None"]


def solve(
    problem: Problem,
    solver: Solver[Any] | str = "auto",
    *,
    x0: LowRank | None = None,
    max_iter: int = 500,
    tol: float = 1e-5,
    max_rank: int | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    evaluate_every: int = 1,
    alphabet_term: AlphabetTerm = "tiled",
    backend: str = "cpu",
    dtype: Precision = "float64",
    random_state: int = 0,
) -> Result:
    """Minimise a problem with a solver.

    Parameters
    ----------
    problem : Problem
    solver : Solver or str
        For instance ``solvers.APG()``; a name such as "apg" takes its defaults;
        "auto" picks one that fits, and ``result.settings["why"]`` says why.
        A solver that cannot treat the problem is refused at once.
    x0 : LowRank, optional
        Where to start; the zero matrix if not given.
    max_iter : int
        Iterations at most.
    tol : float
        Stop when ‖X⁺ − X‖_F ≤ tol·‖X⁺‖_F; 0 never stops early. With a sampled
        term also when X changes no more than the sample's noise makes it. Solvers with an
        equality constraint compare the relative residual on Ω with it instead.
    max_rank : int, optional
        Keep at most that many singular triplets in every step. The problem
        solved is then another one, unless the solution's rank is smaller.
    callback : callable, optional
        Called with an `Info` after each iteration. A mapping that it returns
        becomes columns of the history; True stops the run.
    checkpoint : path or Checkpoint, optional
        Save the run there, every 30 seconds and when it ends or is interrupted.
        If the file exists, the run goes on where it was, with the same bits as
        if it had never stopped; it must be of the same problem, solver and
        settings, but may have another ``max_iter`` or ``tol``.
    evaluate_every : int
        Evaluate the objective in every so many iterations (and the last). For
        a discrete problem an evaluation is one pass over all cells.
    alphabet_term : {"tiled", "sampled", "auto"}
        Whether a discrete penalty is computed on all cells, tile by tile, or
        estimated on a sample of them that is drawn anew in every iteration (see
        `snapimpute.problem.sampling`). The history then has the columns share, noise
        and doubt, its objective is an estimate with the standard error doubt, and
        its certificate is that of the estimated gradient, whose noise it does not count.
        "auto" takes a sample above 2²⁸ cells, if the solver can work with one.
    backend : {"cpu", "torch", "torch:cpu", "torch:cuda", "dask"}
        Where the solver computes: numpy and compiled code here, or torch, on a
        GPU if there is one or the device that is named, or the workers of the
        `distributed.Client` that was made last. Data are moved there
        once and the result back; ``result.settings["backend"]`` says where it was.
    dtype : {"float64", "float32"}
        Precision of all arrays of the solver, and of the result.
    random_state : int
        Seed of the random starting blocks of the partial SVD, and of the samples.

    Returns
    -------
    Result
        The last iterate; after an interruption (Ctrl-C) or a non-finite value,
        the best one evaluated so far. ``result.status`` says which.

    Raises
    ------
    MemoryError
        If the fit needs more memory than there is; the message has the numbers
        and the alternatives. See `forecast`.
    ImportError, RuntimeError
        If the backend is not installed, or its device not there.

    Notes
    -----
    What is to be expected (memory, and seconds of an iteration) is logged to
    the logger "snapimpute": as information, as a warning if an iteration will
    take longer than 5 s.

    Examples
    --------
    >>> import snapimpute as si
    >>> observations = si.Observations.from_dense([[1, 5, np.nan], [np.nan, 5, 1], [1, 5, 1]])
    >>> result = solve(si.Problem(observations, si.Nuclear(0.1)), si.solvers.APG())
    >>> result.status.code, result.x.rank
    ('converged', 1)
    """
    options = FitOptions(
        max_iter=max_iter,
        tol=tol,
        max_rank=max_rank,
        evaluate_every=evaluate_every,
        alphabet_term=alphabet_term,
        backend=backend,
        dtype=dtype,
        random_state=random_state,
    )
    return run(problem, solver, options, x0=x0, callback=callback, checkpoint=checkpoint)


def run(
    problem: Problem,
    solver: Solver[Any] | str = "auto",
    options: FitOptions = DEFAULT,
    *,
    x0: LowRank | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
) -> Result:
    """Minimise a problem with a solver, the options given whole; everything else as in `solve`."""
    given = backend_of(problem.observations.values)  # None is numpy's memory
    backend = given or backend_named(options.backend)
    dtype = options.dtype
    start = LowRank.zeros(problem.shape, dtype) if x0 is None else x0.astype(dtype)
    if start.shape != problem.shape:
        raise ValueError(f"x0 has shape {start.shape}, the problem {problem.shape}")
    picked = pick(problem, solver, warm=start.rank > 0)
    if dtype != "float64":
        require(picked.solver, "single")
    if backend is not None:
        _check_elsewhere(problem, picked.solver, options.backend)
    where = "cpu" if backend is None else backend.name
    options = replace(options, backend=where, alphabet_term=_term(problem, picked.solver, options.alphabet_term))
    if given is None:
        look_ahead(problem, picked.solver, options, backend)
    problem = problem.astype(dtype)
    keeper = None
    if checkpoint is not None:
        keeper = Checkpoint.of(checkpoint).begin(problem, picked.solver, options.lasting() | {"x0": x0}, backend)
    there = problem if backend is None else backend.guarded(lambda: problem.moved(backend))
    running = _Run(there, picked.solver, options, callback, keeper)
    status = running.loop(start.moved(backend))
    if backend is not None:
        status = replace(status, message=f"{status.message} Computed with {backend.name}.")
    history, name, x = running.history.columns(), picked.solver.objective_name, running.answer.moved(given)
    settings = _described(problem, picked) | _limits(options)
    return Result(x, problem.offsets, status, history, name, settings, running.extras, running.row)


def _described(problem: Problem, picked: SolverChoice) -> dict[str, Any]:
    """Describe the problem and the solver in words."""
    return {
        "solver": repr(picked.solver),
        "why": picked.why,
        "spectral": repr(problem.spectral),
        "discrete": repr(problem.discrete),
        "loss": repr(problem.loss),
    }


def _limits(options: FitOptions) -> dict[str, Any]:
    """The options that a result tells of."""
    return {"max_iter": options.max_iter, "tol": options.tol} | {
        name: value for name, value in options.lasting().items() if name != "evaluate_every"
    }


def _check_elsewhere(problem: Problem, solver: Solver[Any], backend: str) -> None:
    """Refuse what only numpy can do."""
    require(solver, "anywhere")
    if not isinstance(problem.loss, Squares):
        raise ArgumentError(
            "backend",
            backend,
            Setting("backend", backend),
            f' knows the least-squares fit only, not {problem.loss!r}: use "cpu"',
        )


def _term(problem: Problem, solver: Solver[Any], asked: AlphabetTerm) -> AlphabetTerm:
    """Choose how to treat the discrete term; a problem without one has nothing to sample."""
    if asked == "auto":
        m, n = problem.shape
        asked = "sampled" if m * n > SAMPLED_CELLS and solver.samples else "tiled"
    if asked == "sampled" and problem.is_discrete:
        require(solver, "samples")
        return asked
    return "tiled"


class _Run:
    """One run of the loop: clock, history, best so far."""

    def __init__(
        self,
        problem: Problem,
        solver: Solver[Any],
        options: FitOptions,
        callback: Callback | None,
        keeper: CheckpointFile | None = None,
    ) -> None:
        self.problem, self.solver, self.options, self.callback = problem, solver, options, callback
        seed = int(options.random_state)
        self.coverage: Coverage = Sampler(seed) if options.alphabet_term == "sampled" else ALL_CELLS
        self.context = Context(options.max_rank, seed, self.coverage)
        self.history = History()
        self.seconds = 0.0
        self.best = np.inf
        self.row = -1
        self.extras: dict[str, Any] = {}
        self.keeper = keeper
        self.unsaved: RunSnapshot | None = None

    def loop(self, x0: LowRank) -> Status:
        self.answer, tol = x0, self.options.tol
        try:
            resumed = self._resumed()
            state: State = self._timed(self.solver.init, x0) if resumed is None else resumed
            while True:
                if state is not resumed:  # what was saved has taken its step and was not yet recorded
                    state = self._stepped(state)
                resumed = None
                settled = not state.pending and self.coverage.settled(state.relative_change)
                done = state.final or (tol > 0 and (state.measure <= tol or settled))
                last = done or state.iteration >= self.options.max_iter
                if last:
                    state = self._timed(self.solver.finish, state)
                stop = self._record(state, last=last)
                if stop and not last:
                    state = self._finish_early(state)
                if last or stop:
                    self._save(done=True)
                    self.answer, self.extras, self.row = state.x, self.solver.extras(state), -1
                    return self._ended(state, done, stop)
        except KeyboardInterrupt:
            self._save()
            return self._broken_off("interrupted", "Interrupted")
        except (FloatingPointError, OverflowError) as err:
            return self._broken_off("diverged", f"A value that is not finite appeared ({err})")

    def _stepped(self, state: State) -> State:
        """One iteration."""
        self.coverage.begin(state.iteration + 1)
        after: State = self._timed(self.solver.step, state)
        if not (math.isfinite(after.size) and not math.isnan(after.certificate)):
            raise FloatingPointError("the iterate is not finite")
        if self.keeper is not None:
            self.unsaved = self._as_it_is(after)
            if self.keeper.due():
                self._save()
        return after

    # ---------------------------------------------------------------- checkpoints
    def _resumed(self) -> State | None:
        """Take up a run that was saved, if there is one."""
        saved = None if self.keeper is None else self.keeper.load()
        if saved is None:
            return None
        self.history.rows = list(saved.rows)
        self.seconds, self.best, self.row = saved.seconds, saved.best, saved.row
        self.answer, self.extras = saved.answer, saved.extras
        self.coverage.remember(saved.memory)
        self.coverage.begin(saved.state.iteration)
        self.unsaved = saved
        return saved.state

    def _as_it_is(self, state: State) -> RunSnapshot:
        """The state after a step, and the rest as it was before the step was recorded."""
        rows, memory = list(self.history.rows), self.coverage.memory()
        return RunSnapshot(state, rows, self.seconds, self.best, self.row, self.answer, self.extras, memory=memory)

    def _save(self, *, done: bool = False) -> None:
        if self.keeper is None or self.unsaved is None:
            return
        try:
            keeper, saved = self.keeper, replace(self.unsaved, done=done)
            self._guarded(lambda: keeper.save(saved))
        except (OSError, TypeError, ValueError) as err:  # the run is worth more than its checkpoint
            warnings.warn(f"the checkpoint {self.keeper.path} could not be written: {err}", stacklevel=4)

    def _timed(self, work: Callable[..., Any], *arguments: Any) -> Any:
        begin = time.perf_counter()
        with single_threaded_blas(), _quiet_overflow():
            out = self._guarded(lambda: work(self.problem, *arguments, self.context))
        self.seconds += time.perf_counter() - begin
        return out

    def _guarded(self, work: Callable[[], Any]) -> Any:
        backend = backend_of(self.problem.observations.values)
        return work() if backend is None else backend.guarded(work)

    def _record(self, state: State, *, last: bool) -> bool:
        """Append a row to the history; whether the callback asks to stop."""
        row: dict[str, Any] = {"iteration": state.iteration, "seconds": self.seconds}
        if last or state.iteration % self.options.evaluate_every == 0:
            self._evaluate(state, row)
        elif not np.isfinite(self.best):
            self.answer = state.x  # nothing to compare it with yet
        row |= self._described(state)
        self.history.rows.append(row)
        return self._ask_callback(state, row)

    def _finish_early(self, state: State) -> State:
        """The callback asked to stop: what the last row says must be true of the answer."""
        finished: State = self._timed(self.solver.finish, state)
        row = self.history.rows[-1]
        if finished is not state or "objective" not in row:
            self._evaluate(finished, row)
            row |= self._described(finished)
        row["seconds"] = self.seconds
        return finished

    def _described(self, state: State) -> dict[str, Any]:
        own = self.solver.columns(state) | self.coverage.columns()
        return {"certificate": state.certificate, "rank": state.x.rank} | own

    def _evaluate(self, state: State, row: dict[str, Any]) -> None:
        with _quiet_overflow():
            terms = self._guarded(lambda: self.solver.terms(self.problem, state, self.context))
        if not np.isfinite(terms.objective):
            raise FloatingPointError("the objective is not finite")
        row |= {"objective": terms.objective, "fit": terms.fit}
        row |= {"spectral": terms.spectral, "discrete": terms.discrete}
        self.coverage.watch(terms.objective)
        merit = self.solver.merit(state, terms)
        if merit <= self.best:
            self.best, self.answer, self.extras = merit, state.x, self.solver.extras(state)
            self.row = state.iteration - 1

    def _ask_callback(self, state: State, row: dict[str, Any]) -> bool:
        if self.callback is None:
            return False
        info = Info(state.iteration, state.x, self.problem, row)
        answer = self.callback(info)
        if isinstance(answer, Mapping):
            info.record(answer)
            return False
        return bool(answer)

    def _ended(self, state: State, done: bool, stop: bool) -> Status:
        what, iteration, tol = self.solver.measures, state.iteration, self.options.tol
        if state.final:
            return Status("converged", "Solved in one go: this method does not iterate here.")
        if done:
            message = f"Converged: the {what} fell to {state.measure:.1e} in {iteration} iterations."
            if state.measure > tol:
                message = (
                    f"Settled to the noise of the sample in {iteration} iterations: the {what} stays at "
                    f'{state.measure:.1e}, above tol={tol:g}; alphabet_term="tiled", started from here, goes further.'
                )
            return Status("converged", message)
        if stop:
            return Status("stopped", f"Stopped by the callback after {iteration} iterations.")
        if tol == 0:
            return Status(
                "max_iter", f"Ran all {iteration} iterations that were asked for (tol=0 never stops early)."
            )
        if state.pending:
            return Status("max_iter", f"Stopped at max_iter={iteration} {state.pending}.", "Raise max_iter.")
        return Status(
            "max_iter",
            f"Stopped at max_iter={iteration} with a {what} of {state.measure:.1e}, above tol={tol:g}.",
            "Raise max_iter, or tol if this is close enough.",
        )

    def _broken_off(self, code: str, message: str) -> Status:
        done = len(self.history.rows)
        unevaluated = "the last iterate" if done else "the starting point"
        kept = "the best iterate so far" if np.isfinite(self.best) else unevaluated
        advice = {"interrupted": "Pass it as x0 to go on from there.", "diverged": self.solver.if_it_diverges}[code]
        return Status(code, f"{message} after {done} iteration(s); x is {kept}.", advice)


def _quiet_overflow() -> np.errstate:
    """The loop itself looks for what is not finite, and says so in the status."""
    return np.errstate(over="ignore", invalid="ignore")
