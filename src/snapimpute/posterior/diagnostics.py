"""Diagnostics of a run: if it has settled, and how exact its probabilities are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.posterior._convergence import effective_size, split_r_hat, together
from snapimpute.posterior._watch import Precision

SETTLED = 1.1
"""R̂ that half of the cells may have at most."""

ENOUGH = 100
"""Draws of all chains together from which R̂ is more than noise."""


@stored("posterior candidate", "covariance", "thresholds", "loss", "error", "seconds")
@dataclass(frozen=True)
class Candidate:
    """A model that was tried by a short run: its log loss on held-out cells, with the standard error."""

    covariance: str
    thresholds: str
    loss: float
    error: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.covariance}, thresholds by {self.thresholds}: log loss {self.loss:.4f} ± {self.error:.4f}"


@stored(
    "posterior diagnostics",
    *("chains", "restarts", "draws", "error", "excess", "r_hat", "cell_r_hat", "largest_r_hat"),
    *("effective_size", "cell_effective_size", "held_out"),
)
@dataclass(frozen=True)
class Diagnostics:
    """Figures that tell if a run has settled, and how exact its probabilities are.

    R̂ compares the halves of all chains: near 1 they agree (split and
    rank-normalised, after Vehtari and others 2021). The effective size counts the independent draws that are
    worth as much. NaN where too few draws were kept.

    Attributes
    ----------
    chains, restarts : int
        Chains, and those that were stuck and went on from another one.
    draws : int
        Draws of all chains together.
    error : float
        Monte Carlo error of a probability: root mean square over random cells.
    excess : float
        Log loss that more draws could still win, estimated from these errors.
    r_hat, effective_size : float
        Of the log-likelihood of the known cells. It is stricter than the cells': it moves with every number of the
        model.
    cell_r_hat, largest_r_hat, cell_effective_size : float
        Of the expected symbol of random cells: the median R̂, the largest, and the median effective size.
    held_out : tuple of Candidate
        Models that short runs compared, in the order tried; empty where nothing was open.
    """

    chains: int
    restarts: int
    draws: int
    error: float
    excess: float
    r_hat: float
    cell_r_hat: float
    largest_r_hat: float
    effective_size: float
    cell_effective_size: float
    held_out: tuple[Candidate, ...] = ()

    @property
    def settled(self) -> bool | None:
        """True where the halves of the chains agree on cells; None where too few draws tell."""
        if self.draws < ENOUGH or math.isnan(self.cell_r_hat):
            return None
        return self.cell_r_hat <= SETTLED

    def __str__(self) -> str:
        said = {True: "settled", False: "not settled", None: "too few draws to tell if it has settled"}[self.settled]
        restarts = f", {self.restarts} restarted as stuck" if self.restarts else ""
        lines = [
            f"{said}: {self.draws} draws of {self.chains} chain{'s' * (self.chains != 1)}{restarts}",
            f"probabilities: Monte Carlo error {self.error:.4f}, which costs {self.excess:.2g} of log loss",
            f"cells: R̂ {self.cell_r_hat:.3f} (largest {self.largest_r_hat:.2f}), "
            f"{self.cell_effective_size:.0f} effective draws",
            f"log-likelihood: R̂ {self.r_hat:.3f}, {self.effective_size:.0f} effective draws",
        ]
        return "\n".join([*lines, *(f"tried: {one}" for one in self.held_out)])


def diagnose(
    cells: list[Array],
    likelihoods: list[Array],
    *,
    precision: Precision,
    draws: int,
    restarts: int,
    held_out: tuple[Candidate, ...],
) -> Diagnostics:
    """Gather the diagnostics of chains: ``cells`` of shape (draws, cells) and log-likelihoods, one array a chain."""
    by_cell, total = together(cells), together([one[:, None] for one in likelihoods])
    with np.errstate(invalid="ignore"):
        r_hats, sizes = split_r_hat(by_cell), effective_size(by_cell)
        r_hat, size = split_r_hat(total), effective_size(total)
    return Diagnostics(
        chains=len(cells),
        restarts=restarts,
        draws=draws,
        error=precision.error,
        excess=precision.excess,
        r_hat=float(r_hat[0]),
        cell_r_hat=_middle(r_hats),
        largest_r_hat=float(r_hats.max(initial=-math.inf)) if r_hats.size else math.nan,
        effective_size=float(size[0]),
        cell_effective_size=_middle(sizes),
        held_out=held_out,
    )


def _middle(values: Array) -> float:
    return float(np.median(values)) if values.size else math.nan
