"""Duality gap: a bound on the distance from the optimum of a convex problem, for any X from any solver.

With h the smooth part of (E) and G = ∇h(X), every matrix −αG with α‖G‖₂ ≤ λ is
feasible in the dual of min h(X) + λ‖X‖_*, whose value there is −h*(αG). On Ω, h
is ½(x − o)², and its conjugate is known; on Ωᶜ it is the envelope e, and as e*
is convex with e*(0) = −min e, e*(αg) ≤ α(gx − e(x)) − (1 − α) min e. Together

    E(X) − E* ≤ λ‖X‖_* + α⟨G, X⟩ + ½(1 − α)²‖P_Ω(G)‖² + (1 − α)(e(X) − min e).

At an optimum α = 1 and λ‖X‖_* = −⟨G, X⟩, so the gap is 0. A factored solution
with a small gap is thus a global optimum, though its own problem is not convex
(Balcan, Liang, Song, Woodruff, Zhang, JMLR 2019, on strong duality).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from snapimpute.linalg import LowRank, Scaled, Sum, partial_svd
from snapimpute.problem import Problem
from snapimpute.problem.losses import Squares

ACCURACY = 1e-6
"""Error of the spectral norm of the gradient, relative to λ."""


@dataclass(frozen=True)
class Certificate:
    """An upper and a lower bound on the optimum.

    Attributes
    ----------
    objective : float
        (E) at X: the optimum is at most this.
    bound : float
        Value of a dual feasible point: the optimum is at least this.
    gradient_norm : float
        ‖∇h(X)‖₂/λ, at most 1 at an optimum.
    """

    objective: float
    bound: float
    gradient_norm: float

    @property
    def gap(self) -> float:
        """Largest possible distance of the optimum below (E) at X."""
        return max(self.objective - self.bound, 0.0)

    @property
    def relative_gap(self) -> float:
        """Gap relative to the objective."""
        return self.gap / abs(self.objective) if self.objective else self.gap

    def __str__(self) -> str:
        return (
            f"E(X) = {self.objective:.8g}, and no matrix has less than {self.bound:.8g}: X is within "
            f"{self.relative_gap:.1e} of the optimum (‖gradient‖₂ = {self.gradient_norm:.7g} λ)"
        )


def certify(problem: Problem, x: LowRank, *, random_state: int = 0) -> Certificate:
    """Bound the distance of E(X) from the optimum of a convex problem with the nuclear norm.

    Parameters
    ----------
    problem : Problem
        Convex, with λ > 0.
    x : LowRank
        Result of any solver; its factors are orthonormal.
    random_state : int
        Seed of the partial SVD that finds ‖∇h(X)‖₂.

    Returns
    -------
    Certificate

    Notes
    -----
    A block Krylov method finds the norm of the gradient to 1e-6 λ, and its measured
    error is added. Only a singular value that the random start never meets could
    escape it. Small tables get a whole SVD.

    Examples
    --------
    >>> import snapimpute as si
    >>> observations = si.Observations.from_dense([[1, 5, None], [None, 5, 1], [1, 5, 1]])
    >>> problem = si.Problem(observations, si.Nuclear(0.1))
    >>> certify(problem, si.solve(problem, tol=1e-10).x).relative_gap < 1e-8
    True
    """
    _check_convex(problem)
    lam, observed = problem.spectral.lam, problem.at_observed(x)
    terms = problem.terms(x, observed)
    gradient = Sum((x, Scaled(-1.0, problem.smooth.imputed(x, observed))))
    rng = np.random.default_rng(random_state)
    svd = partial_svd(gradient, 1, tol=ACCURACY * lam, rng=rng)
    norm = float(svd.x.s[0]) + svd.residual
    alpha = min(1.0, lam / norm) if norm else 1.0
    residual = observed - problem.targets  # G on Ω
    # The dual value itself: far from the optimum E(X) less the gap would be a difference of two large numbers.
    bound = -alpha * float(residual @ problem.targets) - alpha**2 * terms.fit
    if problem.is_discrete:
        slope = x.inner(gradient) - float(residual @ observed)
        bound += alpha * (terms.discrete - slope) + (1 - alpha) * problem.smooth.least_discrete
    return Certificate(terms.objective, bound, norm / lam)


def _check_convex(problem: Problem) -> None:
    if not isinstance(problem.loss, Squares):
        raise ValueError(f"the duality gap is worked out for the least-squares fit only, got {problem.loss!r}")
    if problem.spectral.name != "nuclear" or not problem.convex or problem.spectral.lam <= 0:
        raise ValueError(
            f"a duality gap needs the nuclear norm with λ > 0 and convex terms, got {problem.spectral!r}"
            + (f" and {problem.discrete!r}" if problem.is_discrete else "")
        )
    if not problem.exact:
        raise ValueError(
            f"{problem.discrete!r} is not the prox of its value, so there is no convex problem to certify: use L1"
        )
