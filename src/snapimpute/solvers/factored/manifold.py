"""Solvers at a given rank: alternating minimisation, OptSpace, and Sun and Luo's factored gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from snapimpute.base.errors import ArgumentError
from snapimpute.base.files import fields_of, stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank, Sparse
from snapimpute.problem import Problem
from snapimpute.solvers.base import Context, SolverInfo, State
from snapimpute.solvers.factored._fixed_rank import FixedRank, begun, reached

Pair = tuple[Array, Array]


@stored("solver altmin", "rank")
@dataclass(frozen=True)
class AltMin(FixedRank[State]):
    """Alternating minimisation: U⁺ = argmin ‖P_Ω(UVᵀ − O)‖, then V, each row a small least-squares problem.

    Parameters
    ----------
    rank : int, optional
        If not given, `max_rank` of `solve`, or else a guess from the spectrum.

    Notes
    -----
    The start is clipped: rows of U that are more than twice as long as incoherence
    allows are shortened, as the authors do. Their proof draws fresh entries for every
    half-step; this solver, like all practice, uses all entries every time.
    """

    rank: int | None = None
    name: ClassVar[str] = "altmin"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Alternating minimisation",
        minimises="½‖P_Ω(X − O)‖² at rank r, falling",
        spectral=("rank",),
        discrete=False,
        convex=False,
        cost="|Ω|r² + (m+n)r³",
        paper="Jain, Netrapalli, Sanghavi, STOC 2013",
    )

    def init(self, problem: Problem, x0: LowRank, context: Context) -> State:
        """Take the spectral start, clipped; a given start stays as it is."""
        x = self.spectral_start(problem, x0, context)
        if x0.rank < x.rank:
            x = LowRank(x.U, x.s, _clipped(x.V)).orthonormalised()
        return begun(problem, x)

    def step(self, problem: Problem, state: State, context: Context) -> State:
        """Fit U given V, then V given U."""
        data = Sparse(problem.observations, problem.targets)
        U = np.linalg.qr(data.fit_rows(state.x.V)).Q
        V = data.fit_cols(U)
        right, R = np.linalg.qr(V)
        P, s, Qt = np.linalg.svd(R.T, full_matrices=False)
        return reached(problem, state, LowRank(U @ P, s, right @ Qt.T))


def _clipped(V: Array) -> Array:
    """Shorten rows that are more than twice as long as the average row of an orthonormal block, √(r/n)."""
    limit = 2 * math.sqrt(V.shape[1] / V.shape[0])
    lengths = np.linalg.norm(V, axis=1, keepdims=True)
    out: Array = V * np.minimum(1.0, limit / np.maximum(lengths, 1e-300))
    return out


@stored("state optspace", *fields_of(State), "left", "right", "middle", "length")
@dataclass(frozen=True, eq=False, kw_only=True)
class DescentState(State):
    """Adds the two spaces, the matrix S between them, and the length of the last step."""

    left: Array
    right: Array
    middle: Array
    length: float


@stored("solver optspace", "rank", "trim")
@dataclass(frozen=True)
class OptSpace(FixedRank[DescentState]):
    """Gradient descent over pairs of spaces: F(U, V) = min_S ½‖P_Ω(USVᵀ − O)‖² on Grassmann × Grassmann.

    Steps follow geodesics, with backtracking; S is solved for exactly (by
    conjugate gradients, its normal matrix is near a multiple of the identity).

    Parameters
    ----------
    rank : int, optional
        If not given, `max_rank` of `solve`, or else a guess from the spectrum.
    trim : float
        In the start, the entries of a row or column count at most ``trim`` times the
        mean number (the authors drop rows and columns with more).
    """

    rank: int | None = None
    trim: float = 2.0
    name: ClassVar[str] = "optspace"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="OptSpace",
        minimises="½‖P_Ω(X − O)‖² at rank r, falling",
        spectral=("rank",),
        discrete=False,
        convex=False,
        cost="about 20·|Ω|r a trial, + (m+n)r²",
        paper="Keshavan, Montanari, Oh, IEEE Trans. IT 2010",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.trim > 0:
            raise ArgumentError.must("trim", self.trim, "be a number above 0")

    def init(self, problem: Problem, x0: LowRank, context: Context) -> DescentState:
        """Take the trimmed spectral start, with S solved for."""
        x = self.spectral_start(problem, x0, context, self.trim)
        S = _solve_middle(problem, x.U, x.V, np.diag(x.s))
        x = LowRank(x.U, np.ones(x.rank), x.V @ S.T).orthonormalised()
        length = 1 / max(problem.observations.density * float(x.s[0]) ** 2, 1e-300)
        return DescentState.extending(begun(problem, x), left=x.U, right=x.V, middle=np.diag(x.s), length=length)

    def step(self, problem: Problem, state: DescentState, context: Context) -> DescentState:
        """Go along the geodesic of steepest descent, half as far until F falls enough."""
        U, V, S = state.left, state.right, state.middle
        residual = Sparse(problem.observations, state.x_observed - problem.targets)
        value = 0.5 * float(residual.values @ residual.values)
        G, H = residual.matmat(V) @ S.T, residual.rmatmat(U) @ S
        G, H = G - U @ (U.T @ G), H - V @ (V.T @ H)
        square = float(np.sum(G * G) + np.sum(H * H))
        length = 2 * state.length if square else state.length
        while True:
            left, right = _geodesic(U, -length * G), _geodesic(V, -length * H)
            middle = _solve_middle(problem, left, right, S)
            x = LowRank(left, np.ones(left.shape[1]), right @ middle.T)
            error = problem.at_observed(x) - problem.targets
            if 0.5 * float(error @ error) <= value - 0.1 * length * square:
                break
            length /= 2
            if not length * math.sqrt(square) > 1e-16:
                left, right, middle = U, V, S
                x = state.x
                break
        x = x.orthonormalised()
        return reached(problem, state, x, left=left, right=right, middle=middle, length=length)


def _geodesic(U: Array, direction: Array) -> Array:
    """Follow the geodesic of the Grassmann manifold from U with that velocity to time 1."""
    W, theta, Zt = np.linalg.svd(direction, full_matrices=False)
    moved = (U @ Zt.T) * np.cos(theta) + W * np.sin(theta)
    Q, R = np.linalg.qr(moved @ Zt)
    signs: Array = np.where(np.diag(R) < 0, -1.0, 1.0)  # R is ±1: columns that QR flips are flipped back
    return Q * signs


def _solve_middle(problem: Problem, U: Array, V: Array, S: Array) -> Array:
    """Find S with the least ‖P_Ω(USVᵀ − O)‖, by conjugate gradients on the normal equations."""
    obs, ones = problem.observations, np.ones(U.shape[1])

    def project(values: Array) -> Array:
        return U.T @ Sparse(obs, values).matmat(V)

    def spread(T: Array) -> Array:
        return problem.at_observed(LowRank(U, ones, V @ T.T))

    residual = problem.targets - spread(S)
    gradient = project(residual)
    direction, square = gradient, float(np.sum(gradient**2))
    goal = 1e-24 * float(np.sum(project(problem.targets) ** 2))
    for _ in range(4 * S.size):
        if square <= goal:
            break
        image = spread(direction)
        length = square / float(image @ image)
        S, residual = S + length * direction, residual - length * image
        gradient, before = project(residual), square
        square = float(np.sum(gradient**2))
        direction = gradient + (square / before) * direction
    return S


@stored("barrier", "rho", "row", "whole")
@dataclass(frozen=True)
class Barrier:
    """Barrier ρ·(z − 1)₊² on z = 3‖U_i‖²/2β² of every row of a factor, and on that of the whole factor."""

    rho: float
    row: float
    whole: float

    def value(self, U: Array) -> float:
        """Sum the barriers."""
        rows, whole = self._excess(U)
        return self.rho * (float(np.sum(rows**2)) + whole**2)

    def gradient(self, U: Array) -> Array:
        """Compute the gradient of `value`."""
        rows, whole = self._excess(U)
        weights = rows / self.row + whole / self.whole
        return 6 * self.rho * weights[:, None] * U

    def _excess(self, U: Array) -> tuple[Array, float]:
        squares = np.sum(U * U, axis=1)
        rows = np.maximum(1.5 * squares / self.row - 1, 0.0)
        return rows, max(1.5 * float(squares.sum()) / self.whole - 1, 0.0)


Barriers = tuple[Barrier, Barrier]


@stored("state sun-luo", *fields_of(State), "factors", "barriers", "gradients", "value", "length")
@dataclass(frozen=True, eq=False, kw_only=True)
class BarrierState(State):
    """Adds the factors with their barriers, their gradients, the value of all, and the length of the next trial."""

    factors: Pair
    barriers: Barriers
    gradients: Pair
    value: float
    length: float


@stored("solver sun-luo", "rank", "rho")
@dataclass(frozen=True)
class SunLuo(FixedRank[BarrierState]):
    """Gradient descent on ½‖P_Ω(UVᵀ − O)‖² plus barriers that keep rows and factors from growing.

    The barrier ρ(z − 1)₊² acts on z = 3‖U_i‖²/2β₁² for every row, likewise on
    V, and on 3‖U‖²/2β_T² for the whole factors. The bounds come from the start:
    at incoherent solutions no barrier acts. Steps have the length of Barzilai and
    Borwein, shortened until the objective falls enough.

    Parameters
    ----------
    rank : int, optional
        If not given, `max_rank` of `solve`, or else a guess from the spectrum.
    rho : float, optional
        Strength of the barriers; by default |Ω|/mn·σ_r² of the start.
    """

    rank: int | None = None
    rho: float | None = None
    name: ClassVar[str] = "sun-luo"
    info: ClassVar[SolverInfo] = SolverInfo(
        title="Factored gradient with barriers",
        minimises="½‖P_Ω(X − O)‖² + barriers at rank r, falling",
        spectral=("rank",),
        discrete=False,
        convex=False,
        cost="3·|Ω|r + (m+n)r²",
        paper="Sun, Luo, IEEE Trans. IT 2016",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rho is not None and not (math.isfinite(self.rho) and self.rho >= 0):
            raise ArgumentError.must("rho", self.rho, "be a finite number, at least 0, or None")

    def init(self, problem: Problem, x0: LowRank, context: Context) -> BarrierState:
        """Take the spectral start, balanced, and derive the bounds from it."""
        x = self.spectral_start(problem, x0, context)
        density, root = problem.observations.density, np.sqrt(x.s)
        whole = max(5 * x.rank * float(x.s[0]), 1e-300)  # β_T²; C_T = 5
        rho = density * float(x.s[-1]) ** 2 if self.rho is None else self.rho
        # β² of a row: 3·β_T²·(μr/m), where μr/m is the square of the longest row of the start.
        rows = [whole * 3 * float((B * B).sum(axis=1).max()) for B in (x.U, x.V)]
        barriers = (Barrier(rho, rows[0], whole), Barrier(rho, rows[1], whole))
        factors = (x.U * root, x.V * root)
        observed = problem.at_observed(x)
        value = _value(problem, factors, barriers, observed)
        gradients = _gradients(problem, factors, barriers, observed)
        length = 1 / max(density * float(x.s[0]), 1e-300)
        return BarrierState.extending(
            begun(problem, x), factors=factors, barriers=barriers, gradients=gradients, value=value, length=length
        )

    def step(self, problem: Problem, state: BarrierState, context: Context) -> BarrierState:
        """Take a gradient step on both factors, half as long until the objective falls enough."""
        (U, V), (G, H), length = state.factors, state.gradients, state.length
        square = float(np.sum(G * G) + np.sum(H * H))
        while True:
            factors = (U - length * G, V - length * H)
            observed = problem.at_observed(LowRank(factors[0], np.ones(U.shape[1]), factors[1]))
            value = _value(problem, factors, state.barriers, observed)
            if value <= state.value - 1e-4 * length * square:
                break
            length /= 2
            if not length * math.sqrt(square) > 1e-16 * math.hypot(*state.x.s):
                factors, value, observed = state.factors, state.value, state.x_observed
                break
        gradients = _gradients(problem, factors, state.barriers, observed)
        x = LowRank(factors[0], np.ones(U.shape[1]), factors[1]).orthonormalised()
        moved = _barzilai_borwein(state.factors, factors, state.gradients, gradients)
        length = moved or (2 * length if square else length)
        return reached(problem, state, x, factors=factors, gradients=gradients, value=value, length=length)


def _value(problem: Problem, factors: Pair, barriers: Barriers, observed: Array) -> float:
    residual = observed - problem.targets
    return 0.5 * float(residual @ residual) + sum(b.value(f) for b, f in zip(barriers, factors, strict=True))


def _gradients(problem: Problem, factors: Pair, barriers: Barriers, observed: Array) -> Pair:
    residual = Sparse(problem.observations, observed - problem.targets)
    U, V = factors
    return residual.matmat(V) + barriers[0].gradient(U), residual.rmatmat(U) + barriers[1].gradient(V)


def _barzilai_borwein(old: Pair, new: Pair, old_gradients: Pair, gradients: Pair) -> float | None:
    """Compute ⟨s, s⟩/⟨s, y⟩ for the last step s and the change y of the gradient; None without curvature."""
    s = [b - a for a, b in zip(old, new, strict=True)]
    y = [b - a for a, b in zip(old_gradients, gradients, strict=True)]
    square = sum(float(np.sum(a * a)) for a in s)
    curvature = sum(float(np.sum(a * b)) for a, b in zip(s, y, strict=True))
    return square / curvature if curvature > 0 else None
