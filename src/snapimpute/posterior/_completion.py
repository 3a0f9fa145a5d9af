"""Completed tables by the full covariance, where a narrow table is predicted by the low-rank one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from snapimpute.base.files import stored
from snapimpute.base.threads import single_threaded_blas
from snapimpute.data.observations import Observations
from snapimpute.posterior._answers import Completed, CovarianceAnswers
from snapimpute.posterior._features import SideMap
from snapimpute.posterior._table import Frame

BURN_IN, DRAWS, EVERY = 40, 30, 8
"""Sweeps before the first draw, draws that are kept, and sweeps between two of them."""


@stored("posterior completion", "fitted", "seed", "rows")
@dataclass(frozen=True, eq=False)
class Completion:
    """A chain with a full covariance, run when tables are asked for first.

    Low rank may predict cells as well, but loses part of what two columns share and no other has.

    Attributes
    ----------
    fitted : Observations
        The table whose columns the covariance describes.
    seed : int
    rows : SideMap or None
        What is known of the fitted rows, where the rows to complete are new ones.
    """

    fitted: Observations
    seed: int
    rows: SideMap | None = None

    def answers(self, frame: Frame, observations: Observations) -> CovarianceAnswers:
        """Run the chain, and fold in the rows to complete if they are new."""
        own = frame if self.rows is None else replace(frame, row_side=self.rows)
        done = Completed(own.covariance_chain(self.fitted, seed=self.seed, burn_in=BURN_IN))
        with single_threaded_blas():
            for _ in range(BURN_IN):
                done.chain.sweep()
            for _ in range(DRAWS):
                for _ in range(EVERY):
                    done.sweep()
                done.keep()
            found = done.answers()
            return found if self.rows is None else found.folded(frame, observations, self.seed)

    def of_new_rows(self, fitted: SideMap) -> Completion:
        """Complete new rows by the covariance of the fitted ones."""
        return self if self.rows is not None else replace(self, rows=fitted)
