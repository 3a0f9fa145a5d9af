"""Formulas that solvers are compared with, in whole arrays: gradients, first-order conditions and optima."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import snapimpute as si
from snapimpute.penalties import DiscretePenalty, SpectralPenalty
from snapimpute.problem.losses import Multinomial
from tests.helpers import dense_offsets


def hidden(observations: si.Observations) -> np.ndarray:
    """True in the cells that were not observed."""
    out = np.ones(observations.shape, dtype=bool)
    out[observations.rows, observations.cols] = False
    return out


def groups(penalty: DiscretePenalty, columns: int) -> list[tuple[Any, np.ndarray]]:
    """Each penalty with its columns."""
    return penalty.groups() if isinstance(penalty, si.ByColumn) else [(penalty, np.arange(columns))]


def prox(problem: si.Problem, Z: np.ndarray) -> np.ndarray:
    """prox_ξr(Z) on Ωᶜ, Z elsewhere, with the penalty's own prox on arrays."""
    out, unseen = Z.copy(), hidden(problem.observations)
    for part, cols in [] if problem.discrete is None else groups(problem.discrete, Z.shape[1]):
        if part is not None:
            i, j = np.nonzero(unseen[:, cols])
            out[i, cols[j]] = part.prox(Z[i, cols[j]])
    return out


def gradient(problem: si.Problem, X: np.ndarray) -> np.ndarray:
    """∇ of the smooth part of (E): X + B − O on Ω, X + B − prox(X + B) elsewhere."""
    whole = X + dense_offsets(problem)
    out = whole - prox(problem, whole)
    rows, cols = problem.observations.rows, problem.observations.cols
    out[rows, cols] = whole[rows, cols] - problem.observations.values
    return out


def slopes(penalty: SpectralPenalty, s: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The interval of derivatives at each s > 0, and the derivative at 0 from the right."""
    lam = penalty.lam
    match penalty:
        case si.Nuclear():
            low, at_zero = np.full_like(s, lam), lam
        case si.LogSum():
            low, at_zero = lam / (penalty.theta + s), lam / penalty.theta
        case si.CappedL1():
            kink = np.abs(s - penalty.theta) <= 1e-6 * penalty.theta
            below = s < penalty.theta
            return np.where(below & ~kink, lam, 0.0), np.where(below | kink, lam, 0.0), lam
        case si.TruncatedNuclear():
            low, at_zero = np.where(np.arange(s.size) < penalty.r, 0.0, lam), lam
        case si.MCP():
            low, at_zero = np.maximum(lam - s / penalty.gamma, 0.0), lam
        case si.SCAD():
            low, at_zero = np.clip((penalty.a * lam - s) / (penalty.a - 1), 0.0, lam), lam
        case si.Rank():
            low, at_zero = np.zeros_like(s), np.inf
    return low, low, at_zero


def distance_to_stationary(spectral: SpectralPenalty, x: si.LowRank, G: np.ndarray) -> float:
    """dist(0, G + λ∂g(X)) for X = U diag(s) Vᵀ, from the four blocks that its singular spaces cut."""
    low, high, at_zero = slopes(spectral, x.s)
    left, right = np.eye(x.shape[0]) - x.U @ x.U.T, np.eye(x.shape[1]) - x.V @ x.V.T
    inside = x.U.T @ G @ x.V
    excess = np.maximum(np.linalg.svd(left @ G @ right, compute_uv=False) - at_zero, 0)
    wanted = np.diag(np.clip(-np.diag(inside), low, high))
    return float(
        np.hypot.reduce([np.linalg.norm(a) for a in (inside + wanted, left @ G @ x.V, x.U.T @ G @ right, excess)])
    )


def first_order_gap(problem: si.Problem, x: si.LowRank) -> float:
    """By how much X misses the first-order condition of (E)."""
    return distance_to_stationary(problem.spectral, x, gradient(problem, x.to_dense()))


# ---------------------------------------------------------------- a modelling tool
def _solved(cp: Any, cost: Any, **accuracy: float) -> float:
    model = cp.Problem(cp.Minimize(cost))
    model.solve(solver=cp.CLARABEL, **accuracy)
    assert model.status == "optimal"
    return float(model.value)


def least_envelope(problem: si.Problem) -> float:
    """The least (E) of a convex problem: the envelope is a minimum over U, so U joins the variables."""
    cp = pytest.importorskip("cvxpy", reason="the modelling tool is an optional dependency")
    unseen, B, data = hidden(problem.observations), dense_offsets(problem), problem.observations.to_sparse().toarray()
    X, U = cp.Variable(problem.shape), cp.Variable(problem.shape)
    cost = 0.5 * cp.sum_squares(cp.multiply(~unseen, X + B - data)) + problem.spectral.lam * cp.normNuc(X)
    if isinstance(problem.discrete, si.L1):
        for a, w in zip(problem.discrete.alphabet, problem.discrete.weights, strict=True):
            cost += problem.discrete.xi * w * cp.sum(cp.abs(cp.multiply(unseen, U - a)))
    elif isinstance(problem.discrete, si.Ridge):
        cost += problem.discrete.xi * cp.sum_squares(cp.multiply(unseen, U - problem.discrete.center))
    if problem.is_discrete:
        cost += 0.5 * cp.sum_squares(cp.multiply(unseen, U - X - B))
    return _solved(cp, cost)


def least_as_stated(problem: si.Problem) -> float:
    """The least (P) of a convex problem."""
    cp = pytest.importorskip("cvxpy", reason="the modelling tool is an optional dependency")
    X = cp.Variable(problem.shape)
    seen, B = X[problem.observations.rows, problem.observations.cols], dense_offsets(problem)
    if isinstance(problem.loss, Multinomial):
        cost = 4 * cp.sum(cp.logistic(seen)) - 4 * (problem.targets @ seen)
    else:
        cost = 0.5 * cp.sum_squares(seen - problem.targets)
    cost += problem.spectral.lam * cp.normNuc(X)
    for part, cols in groups(problem.discrete, problem.shape[1]):
        if part is not None:
            i, j = np.nonzero(hidden(problem.observations)[:, cols])
            cells = X[i, cols[j]] + B[i, cols[j]]
            for a, w in zip(part.alphabet, part.weights, strict=True):
                cost += part.xi * w * (cp.norm(cells - a, 2) if isinstance(part, si.L2) else cp.norm1(cells - a))
    return _solved(cp, cost, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
