"""The discrete term on a random sample of the cells: an iteration then costs no more than the sample.

The prox is a line plus a small remainder (`CellPenalty.line`). The line keeps
the low rank exactly; the remainder alone is estimated, unbiased, on tiles drawn
anew in every iteration. What keeps its noise harmless:

Averaging. The estimate is mixed with those of the iterations before, of which
only the part is kept that the next step feels: the products with the leading
singular spaces, guards included. A new direction thus shows at once, if with
the weight of the fresh sample only, and is carried on as soon as it leads.

A sample that is large enough. A random matrix with independent entries of size
e has a norm of about e(√m + √n), and drawing one cell of W multiplies e by
√(W − 1). W is chosen such that this, after averaging, is at most `NOISE` times
the threshold that singular values have to pass (`NOISE_OF_BANDS` where whole
bands of rows are left out); as the threshold or the remainder changes, so does W.

A guard. The sample grows for good, at last to all cells, which is the exact
method, where iterates change by more than `SMALL` and do not settle, as
momentum may enlarge the noise, and where the objective rises beyond doubt (it
is estimated too, all but its own small remainder exactly).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from snapimpute.base.files import stored
from snapimpute.base.types import Array
from snapimpute.linalg import LowRank, MatrixOperator, Sample, Scaled, Sum, mapped, sampled_sum
from snapimpute.linalg.backend import Accuracy
from snapimpute.penalties import CellMap, DiscretePenalty
from snapimpute.problem.discreteness import Coverage, Part, moments

WEIGHT = 0.2
"""Weight of the fresh sample in the average."""

DAMPING = math.sqrt(WEIGHT / (2 - WEIGHT))
"""Share of the noise that averaging leaves."""

NOISE, NOISE_OF_BANDS = 0.1, 0.03
"""Largest norm of the noise, relative to the threshold of the singular values; and where bands of rows are left out,
which the norm of a random matrix does not tell all about."""

SURE = 4.0
"""Standard errors that leave no doubt."""

RISE, ALARMS = 0.01, 3
"""The guard acts when the objective was that much above its least, beyond doubt, so many times in a row."""

STILL, QUIET = 0.98, 15
"""The change of an iterate has stopped falling when it stayed above that part of its least for so many iterations."""

SMALL = 1e-3
"""A relative change that is not worth a larger sample."""

PAST_COST = 5
"""Cost of a number of the past, in cells of tiles: where the past would cost more than all cells, those are taken."""

GROWTH = 4
"""Factor by which the sample then grows."""


@stored("drawn sample", "iteration", "step", "factors", "sample", "past", "noise", "past_noise")
@dataclass(frozen=True, eq=False)
class Drawn:
    """The estimate of one part of the columns in one iteration: a fresh sample and what is kept of the past.

    ``noise`` is the norm of the noise in the average, ``past_noise`` in the past.
    """

    iteration: int
    step: float
    factors: LowRank
    sample: Sample
    past: LowRank | None
    noise: float
    past_noise: float | None

    def total(self, rest: CellMap) -> MatrixOperator:
        """The average."""
        fresh = mapped(self.factors, rest, sample=self.sample)
        if self.past is None:
            return fresh
        return Sum((Scaled(WEIGHT, fresh), LowRank.combine([1 - WEIGHT], [self.past])))


def _room(allowed: float, past: float | None) -> float:
    """Noise that a fresh sample may have, such that the average has no more than is allowed.

    Where the past has more than that, as after a fall of the threshold, it is brought down step by step.
    """
    if past is None:
        return allowed
    rest = max(allowed**2 - ((1 - WEIGHT) * past) ** 2, (1 - (1 - WEIGHT) ** 2) * allowed**2)
    return math.sqrt(rest) / WEIGHT


@dataclass
class Sampler(Coverage):
    """A coverage by samples, and what a run remembers of them; same seed, same samples."""

    seed: int
    iteration: int = 0
    fractions: dict[int, int] = field(default_factory=dict)
    """One of so many cells was drawn last, for each part of the columns; 1 is all cells."""
    most: int | None = None
    """No larger fraction than that, after the guard has acted."""
    noise: float = 0.0
    """Norm of the noise in the last average."""
    threshold: float = 0.0
    """Threshold of the singular values, which the noise is to stay below."""
    doubt: float = 0.0
    """Standard error of the last estimate of the objective."""
    lowest: float = math.inf
    risen: int = 0
    least: float = math.inf
    quiet: int = 0
    drawn: dict[int, Drawn] = field(default_factory=dict)

    def begin(self, iteration: int) -> None:
        """A new iteration: from now on other cells are drawn."""
        self.iteration = iteration

    def watch(self, objective: float) -> None:
        """Look at an estimate of the objective; enlarge the sample if it has risen beyond doubt."""
        if objective <= self.lowest + max(self.slack, RISE * abs(self.lowest)):
            self.lowest, self.risen = min(self.lowest, objective), 0
            return
        self.risen += 1
        if self.risen >= ALARMS and self.fraction > 1:
            self._grow()
            self.drawn.clear()

    def settled(self, change: float) -> bool:
        """Look at the relative change of an iterate; whether noise is all that is left of it, and is small.

        A change that has stopped falling is noise, which momentum enlarges. Where
        it is not small, the sample grows.
        """
        if change < STILL * self.least:
            self.least, self.quiet = change, 0
            return False
        self.quiet += 1
        if self.quiet < QUIET or self.fraction == 1:
            return False
        if change <= SMALL:
            return True
        self._grow()
        return False

    def _grow(self) -> None:
        self.most = max(self.fraction // GROWTH, 1)
        self.lowest, self.least, self.risen, self.quiet = math.inf, math.inf, 0, 0

    @property
    def fraction(self) -> int:
        """One of so many cells was drawn last, where fewest were drawn."""
        return max(self.fractions.values(), default=1)

    @property
    def slack(self) -> float:
        """Difference that two estimates of one objective may have."""
        return SURE * math.sqrt(2) * self.doubt

    def columns(self) -> dict[str, float]:
        """Columns of the history."""
        relative = self.noise / self.threshold if self.threshold > 0 else 0.0
        return {"share": 1 / self.fraction, "noise": relative, "doubt": self.doubt}

    def sample_for(
        self,
        i: int,
        shape: tuple[int, int],
        observed: int,
        remainder: float,
        threshold: float,
        past_noise: float | None = None,
    ) -> Sample:
        """The sample of a part that keeps the noise low enough, of at least as many cells as were observed.

        ``remainder`` is the root mean square of what is to be estimated, and
        ``past_noise`` that of the past that it is averaged with, if there is one.
        Without a threshold it is a sample like the last one.
        """
        m, n = shape
        seed = (self.seed, self.iteration, i)
        most = max(m * n // max(observed, 1), 1)
        if threshold <= 0:
            return Sample.of(shape, min(self.fractions.get(i, most), self.most or most), seed)
        size = remainder * (math.sqrt(m) + math.sqrt(n))
        if size > 0:
            rooms = [_room(noise * threshold, past_noise) for noise in (NOISE, NOISE_OF_BANDS)]
            quiet, quieter = (1 + min((room / size) ** 2, most) for room in rooms)
            most = min(most, int(max(min(quiet, Sample.most_windows(shape)), quieter)))
        sample = Sample.of(shape, min(most, self.most or most), seed)
        fresh = size * math.sqrt(sample.fraction - 1)
        self.fractions[i], self.threshold = sample.fraction, threshold
        self.noise = fresh if past_noise is None else math.hypot(WEIGHT * fresh, (1 - WEIGHT) * past_noise)
        return sample

    # ---------------------------------------------------------------- estimates
    def begin_total(self) -> None:
        """Forget the error of the last sum."""
        self.doubt = 0.0

    def envelope(self, part: Part, x: LowRank, penalty: DiscretePenalty, step: float) -> float:
        """Estimate Σ of the envelope over all cells of a part; `doubt` becomes its standard error."""
        cost, line = penalty.compiled("envelope", step), penalty.line(step)
        # The envelope has the derivative x − prox(x), so that its quadratic part is that of the line.
        bend, shift = 0.5 * (1 - line.slope), line.shift
        vertex = np.array([shift / (2 * bend) if bend > 0 else 0.0])
        CellMap("less-parabola", (cost, bend, shift, 0.0))(vertex)
        least = float(vertex[0])  # what is left varies about 0: it is the variation that a sample estimates badly
        rest = CellMap("less-parabola", (cost, bend, shift, least))
        sample = Sample.of(x.shape, self.fractions.get(part.number, 1), (self.seed, self.iteration, part.number, 1))
        estimate, error = sampled_sum(x, rest, sample if sample.fraction > 1 else None)
        self.doubt = math.hypot(self.doubt, error / step)
        cells = moments(x)
        smooth = bend * cells.squares - shift * cells.total + least * cells.count
        return smooth + estimate

    def remainder(
        self, part: Part, x: LowRank, rest: CellMap, size: float, step: float, accuracy: Accuracy
    ) -> MatrixOperator:
        """Make the operator of what the line leaves of a prox, averaged over samples."""
        i, (m, n) = part.number, x.shape
        if accuracy.right is not None and PAST_COST * 2 * accuracy.right.shape[1] * (m + n) >= m * n:
            self.take_all(i)
            return super().remainder(part, x, rest, size, step, accuracy)
        past, past_noise = self._past(part, rest, step, accuracy)
        sample = self.sample_for(i, x.shape, part.known, size, accuracy.threshold, past_noise)
        if sample.fraction == 1:
            self.take_all(i)
            return super().remainder(part, x, rest, size, step, accuracy)
        drawn = Drawn(self.iteration, step, x, sample, past, self.noise, past_noise)
        if accuracy.right is not None:
            self.drawn[i] = drawn
        return drawn.total(rest)

    def _past(
        self, part: Part, rest: CellMap, step: float, accuracy: Accuracy
    ) -> tuple[LowRank | None, float | None]:
        """Return what is kept of the averages before this iteration, and the noise in it."""
        last = self.drawn.get(part.number)
        if last is None or accuracy.left is None or accuracy.right is None or last.step != step:
            return None, None
        if last.iteration == self.iteration:
            return last.past, last.past_noise
        right = accuracy.right if part.cols is None else np.linalg.qr(accuracy.right[part.cols]).Q
        return compressed(last.total(rest), accuracy.left, right), last.noise

    def take_all(self, i: int) -> None:
        """Take all cells of a part, without a past."""
        self.fractions[i], self.noise = 1, 0.0
        self.drawn.pop(i, None)

    def memory(self) -> dict[str, Any]:
        """Return everything that changes from iteration to iteration, for a checkpoint, whose keys are text."""
        kept = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("seed", "iteration")}
        return kept | {name: list(kept[name].items()) for name in ("fractions", "drawn")}

    def remember(self, memory: dict[str, Any]) -> None:
        """Take up what `memory` gave."""
        for name, value in memory.items():
            setattr(self, name, dict(value) if name in ("fractions", "drawn") else value)


def compressed(operator: MatrixOperator, left: Array, right: Array) -> LowRank:
    """The part of a matrix that meets either of two orthonormal bases: P_l A + A P_r − P_l A P_r."""
    forward, backward = operator.both(right, left)
    backward -= right @ (right.T @ backward)
    return LowRank(
        np.hstack([forward, left]),
        np.ones(right.shape[1] + left.shape[1], forward.dtype),
        np.hstack([right, backward]),
    )
