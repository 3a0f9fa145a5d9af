"""Attributes of an estimator whose method is the proximal one alone."""

from __future__ import annotations

from typing import Any

from snapimpute.base.types import Array
from snapimpute.experts.proximal.choice import Choice
from snapimpute.experts.proximal.expert import ProximalFit
from snapimpute.experts.proximal.offsets import Center, Damping
from snapimpute.linalg import LowRank


class ProximalAttributes:
    """Strengths, centre and factors of a proximal fit; with another method they are AttributeErrors."""

    _model: Any

    @property
    def _proximal(self) -> ProximalFit:
        model = vars(self).get("_model")
        if model is None:
            raise AttributeError("the estimator is not fitted yet: call fit first")
        if not isinstance(model.fit, ProximalFit):
            raise AttributeError(
                f'only method="proximal" has factors and strengths, and this was fitted by {model.expert.label}: '
                f"its fit is fit_"
            )
        return model.fit

    @property
    def lam_(self) -> float:
        """λ, the strength of low rank."""
        return self._proximal.lam

    @property
    def xi_(self) -> float:
        """ξ, the strength of discreteness."""
        return self._proximal.xi

    @property
    def center_(self) -> Center:
        """Centre: the offsets that were subtracted."""
        return self._proximal.tuned.spec.center

    @property
    def damping_(self) -> Damping:
        """Damping of row and column biases."""
        return self._proximal.tuned.spec.damping

    @property
    def choice_(self) -> Choice | None:
        """Strengths tried on the held-out cells, with the scores, for the centre that was kept."""
        return self._proximal.choice

    @property
    def solver_(self) -> str:
        """The solver that was run, with its parameters."""
        return self._proximal.solver

    @property
    def solver_why_(self) -> str:
        """Reason why that solver was taken."""
        return self._proximal.why

    @property
    def left_(self) -> Array:
        """Left factors: the estimate is ``left_ @ diag(singular_values_) @ right_.T`` and the offsets."""
        return self._proximal.factors.U

    @property
    def singular_values_(self) -> Array:
        """Singular values."""
        return self._proximal.factors.s

    @property
    def right_(self) -> Array:
        """Right factors."""
        return self._proximal.factors.V

    @property
    def offsets_(self) -> LowRank:
        """Offsets that were subtracted; without a centre it is 0 but for rows and columns without a known cell."""
        return self._proximal.model.offsets
