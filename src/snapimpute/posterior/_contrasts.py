"""Columns of categories beside others in a full covariance: contrasts of their utilities.

    u_ic = a_c + (H v_i)_c + e_ic,   e_ic ~ N(0, 1 / w_i),   y_i = argmax u_ic

The C − 1 contrasts v_i are latent columns like any other, and have any covariance
with them. H has orthonormal columns of sum 0: a common shift of all utilities says
nothing, and no category is the one that others are compared with. Given the
contrasts utilities are independent, so probabilities need one integral only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from snapimpute.base.threads import cut
from snapimpute.base.types import Array
from snapimpute.posterior._choices import BLOCK, add_largest, draw_choice, levels_of

OFFSET_SPREAD = 2.0
"""Prior standard deviation of the offsets a_c: categories as rare as one in a hundred are about two apart."""


@dataclass(frozen=True, eq=False)
class Contrasts:
    """The known cells of a column of categories, and where its contrasts stand among the latent columns.

    Offsets have a number for each category, utilities a row for each category and a column for each known cell.
    """

    first: int
    count: int
    known: NDArray[np.int64]
    category: NDArray[np.uint8]

    @property
    def columns(self) -> slice:
        """The latent columns."""
        return slice(self.first, self.first + self.count - 1)

    @cached_property
    def basis(self) -> Array:
        """H."""
        return contrast_basis(self.count)

    def start(self) -> tuple[Array, Array]:
        """Begin with offsets that give the categories their shares, and with utilities of 0."""
        shares = np.bincount(self.category, minlength=self.count) + 0.5
        return levels_of(shares / shares.sum()), np.zeros((self.count, self.known.size), np.float32)

    def means(self, offsets: Array, v: Array) -> Array:
        """a + H v for some rows, one column each."""
        found: Array = offsets[:, None].astype(np.float32) + self.basis @ v
        return found

    def draw(self, offsets: Array, utilities: Array, v: Array, roots: Array, key: np.uint32) -> None:
        """Draw the utilities given contrasts and the roots of the weights of the known rows."""
        work = np.empty((4, self.known.size), np.float32)
        draw_choice(0, self.known.size, key, self.category, self.means(offsets, v), roots, utilities, work)

    def targets(self, offsets: Array, utilities: Array) -> Array:
        """Return what utilities say of the contrasts: these, with noise of variance 1 / w_i each."""
        found: Array = self.basis.T @ (utilities - offsets[:, None].astype(np.float32))
        return found

    def squares(self, offsets: Array, utilities: Array, v: Array) -> Array:
        """Sum of the squared noise of each known cell."""
        rest = utilities - self.means(offsets, v)
        found: Array = np.einsum("ij,ij->j", rest, rest)
        return found

    def offsets(self, utilities: Array, v: Array, weights: Array, rng: np.random.Generator) -> Array:
        """Draw the offsets given utilities and contrasts."""
        rest = (utilities - self.basis @ v).astype(np.float64)
        precision = OFFSET_SPREAD**-2 + float(weights.sum(dtype=np.float64))
        drawn: Array = rest @ weights / precision + rng.standard_normal(self.count) / np.sqrt(precision)
        return drawn

    def shares(self, offsets: Array, v: Array, roots: Array) -> Array:
        """Probability of each category in some rows, one row a category."""
        x = self.means(offsets, v) * roots
        out = np.empty_like(x)
        for start, stop in cut(x.shape[1], BLOCK):
            part = np.zeros((len(x), stop - start), np.float32)
            work = np.empty((len(x) + 2, stop - start), np.float32)
            add_largest(np.ascontiguousarray(x[:, start:stop]), stop - start, part, work)
            out[:, start:stop] = part
        return out

    def chosen(self, offsets: Array, v: Array, roots: Array, rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw a category for some rows."""
        means = self.means(offsets, v)
        drawn: NDArray[np.intp] = (means + rng.standard_normal(means.shape) / roots).argmax(axis=0)
        return drawn


def contrast_basis(count: int) -> Array:
    """Orthonormal columns of sum 0, one fewer than categories.

    Examples
    --------
    >>> basis = contrast_basis(3)
    >>> (basis.T @ basis).round(6).tolist(), basis.sum(axis=0).round(6).tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.0])
    """
    basis = np.zeros((count, count - 1))
    for k in range(1, count):
        basis[:k, k - 1], basis[k, k - 1] = 1.0, -k
    basis /= np.sqrt((basis**2).sum(axis=0))
    return basis.astype(np.float32)
