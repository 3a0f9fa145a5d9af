"""Memory and work of a fit, counted array by array and product by product.

Memory is counted at its peak. Nothing here touches data: sizes in, bytes and
operations out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from snapimpute.linalg.svd import FRESH, GUARD, WHOLE_CELLS, WHOLE_SHARE, WHOLE_SIDE
from snapimpute.linalg.tiled import GROUPS, KEPT_BYTES, KEPT_SAMPLE, MAP_COST, TILE_BYTES, TILE_ROWS

COLD_BLOCKS = 6.5  # basis of the first partial SVD, in multiples of r + GUARD; 2 to 7 were measured
DENSE_ARRAYS = 8  # m×n numbers of a method that stores them, with all temporaries; 5 to 8 were measured
STREAMS, BLOCK_STREAMS = 20, 10  # number of times that an iteration reads |Ω| numbers, and a pass the SVD's blocks

FILLING_PASSES = 4  # over all cells, to fold the rows of a fit in; 2 to 7 were measured, 5 to 13 for other rows

Parts = dict[str, float]


class IterationCost(NamedTuple):
    """Make-up of an iteration of a solver, as measured: passes, objectives, and a flag for a Y other than X.

    ``searches`` is true if there is a partial SVD, whose first call starts from random
    vectors; ``more`` counts further arrays of |Ω| numbers.
    """

    passes: int = 5
    objectives: int = 1
    momentum: bool = True
    searches: bool = True
    more: int = 0


TYPICAL, PLAIN = IterationCost(), IterationCost(3, momentum=False)
ITERATION_COSTS = {
    "ais-impute": IterationCost(3),
    "niapg": IterationCost(3, 2),
    "apgl": IterationCost(8, 2),
    "penalty-decomposition": IterationCost(5, 3),
}
ITERATION_COSTS |= {"soft-impute": PLAIN, "fancl": PLAIN, "svt": PLAIN, "low-rank-sparse": PLAIN._replace(more=5)}
ITERATION_COSTS |= {
    "fpc": PLAIN._replace(passes=5),
    "fpca": PLAIN._replace(passes=11),
    "als": IterationCost(2, 1, False, False),
}


class Work(NamedTuple):
    """Operations, and bytes moved between memory and processor, of an iteration, by part."""

    flops: Parts
    bytes: Parts


@dataclass(frozen=True)
class Case:
    """The sizes that memory and work follow from.

    ``kind`` is "steps" for solvers whose iterations are passes over Ω and all
    cells, "dense" for those that store the whole matrix, else "other". ``tiled``
    is the share of the columns whose cells are computed one by one. Sampling draws
    one in ``fraction`` cells; ``given`` is the size of the values as they were given.
    """

    shape: tuple[int, int]
    observed: int
    itemsize: int
    rank: int
    kind: str = "steps"
    habit: IterationCost = TYPICAL
    discrete: bool = False
    tiled: float = 0.0
    offsets: int = 0
    sampled: bool = False
    fraction: int = 1
    given: int = 8
    tile_size: int = 4
    threads: int = 1

    @property
    def lanes(self) -> int:
        """m + n."""
        return sum(self.shape)

    @property
    def cells(self) -> float:
        """Number of cells computed one by one in a pass."""
        return self.shape[0] * self.shape[1] * self.tiled / self.fraction

    @property
    def kept(self) -> bool:
        """True if mapped tiles are kept from product to product."""
        return self.cells * self.tile_size <= (KEPT_SAMPLE if self.sampled else KEPT_BYTES)

    @property
    def width(self) -> int:
        """Rank of the point where a step begins."""
        return 2 * self.rank if self.habit.momentum else self.rank

    def whole(self, blocks: float) -> bool:
        """Tell whether the whole smaller side replaces a basis of so many blocks."""
        side = min(self.shape)
        large = blocks * (self.rank + GUARD) >= WHOLE_SHARE * side or side <= WHOLE_SIDE
        return large and self.shape[0] * self.shape[1] <= WHOLE_CELLS

    @property
    def columns(self) -> int:
        """Columns of the blocks that are multiplied."""
        return min(self.shape) if self.whole(1) else min(self.rank + GUARD + FRESH, *self.shape)

    @property
    def passes(self) -> int:
        """Number of products with the operator in an iteration; the noise of a sample costs one more round."""
        return 1 if self.whole(1) else self.habit.passes + 2 * self.sampled

    def memory(self) -> dict[str, int]:
        """Count the bytes at the peak, by part."""
        (m, n), size, observed = self.shape, self.itemsize, self.observed
        data = (16 + self.given + size * (size != self.given)) * observed + 8 * self.lanes
        if self.kind == "steps":  # the peak is the correction on Ω, or a partial SVD
            gradient: Parts = {"entries on Ω": self._entries(4), "factors": self._factors()}
            moments = [gradient, self._svd(warm=True), *[self._svd(warm=False)] * self.habit.searches]
        else:
            moments = [{"entries on Ω": 3 * size * observed, "factors": 2 * size * self.lanes * self.rank}]
            moments[0]["dense arrays"] = DENSE_ARRAYS * size * m * n * (self.kind == "dense")
        most = max(moments, key=lambda parts: sum(parts.values()))
        return {"observations": data} | {name: int(size) for name, size in most.items() if size}

    def _entries(self, more: int) -> int:
        """Count the targets, the offsets, X, the X before and, if it differs, Y on Ω; and so many temporaries."""
        held = 3 + self.habit.momentum + self.habit.more + (self.offsets > 0)
        return self.itemsize * self.observed * (held + more)

    def _factors(self) -> int:
        """Count X, the one before, the best, Y if it is not X; with a discrete term Y with offsets, and its line."""
        columns, with_offsets = 3 * self.rank + self.width * self.habit.momentum, self.width + self.offsets
        columns += self.discrete * (with_offsets + 1 + with_offsets * (self.offsets > 0))
        return self.itemsize * self.lanes * columns

    def _svd(self, *, warm: bool) -> Parts:
        """Count a partial SVD; in the first, from random vectors, there are no factors yet."""
        (m, n), side, size = self.shape, min(self.shape), self.itemsize
        k = self.columns if warm else min(self.rank + GUARD, side)
        blocks = max((self.passes - 1) / 2, 1.0) if warm else COLD_BLOCKS
        entries = self._entries(2 if warm or not self.habit.momentum else 1)  # in the first, Y is still X
        parts: Parts = {"entries on Ω": entries, "factors": self._factors() * warm}
        if self.whole(min(blocks + 1, 3.0)):
            parts["dense arrays"] = size * (side * side + 4 * m * n)
        else:
            parts["SVD bases"] = size * (2 * self.lanes * min(blocks * k, side) + (4 * m + 3 * n) * k)
        made_of = self.offsets + self.width * warm
        if self.tiled:
            parts["tiles"] = 3 * TILE_BYTES * self.threads + self.tile_size * self.lanes * 2 * (made_of + k)
            parts["tiles"] += self.tile_size * self.cells * self.kept
        if self.sampled and warm:
            kept = 2 * (2 * self.rank + GUARD) + made_of
            parts["past of the sampler"] = size * self.lanes * kept + self.tile_size * GROUPS * n * k
        return parts

    def work(self) -> Work:
        """Count operations, and bytes moved, by part."""
        (m, n), observed, size = self.shape, self.observed, self.itemsize
        k, r, lanes, tiles = self.columns, self.rank, self.lanes, 2.0 * self.cells
        made_of, line = self.width + self.offsets, self.width + 2 * self.offsets + self.discrete
        flops: Parts = {"Ω": 2.0 * observed * k, "factors": 2.0 * lanes * line * k}
        moved: Parts = {"Ω": (size + 4.0) * observed + size * lanes * k, "factors": size * lanes * (line + k)}
        if self.tiled:
            flops["tiles"] = tiles * (made_of + k + MAP_COST)
            moved["tiles"] = self.tile_size * self.cells * (made_of + k) / TILE_ROWS
        total, traffic = ({name: self.passes * amount for name, amount in once.items()} for once in (flops, moved))
        if self.tiled and self.kept:
            total["tiles"] = tiles * (made_of + MAP_COST + self.passes * k)
        total["Ω"] += 2.0 * observed * r
        traffic["Ω"] += STREAMS * size * observed
        rounds, distances = (self.passes - 1) / 2, 15 * (1 + self.habit.momentum) * r * r
        search = lanes * (k * k * rounds * (6 + 4 * rounds) + distances)  # each round against those before
        total["SVD"] = 5.0 * m * n * k if self.whole(1) else search
        traffic["SVD"] = BLOCK_STREAMS * size * lanes * k * self.passes
        if self.tiled:  # the past of a sample that is kept is multiplied from both sides
            total["tiles"] += tiles * (made_of + 2 * k + MAP_COST) * self.sampled
            total["objective"] = tiles * self.habit.objectives * (r + self.offsets + 2 * MAP_COST)
        return Work(total, traffic)

    def filling(self) -> Parts:
        """Count operations of folding all rows in after a fit, as the estimator does to fill a table, by part."""
        (m, n), r, observed = self.shape, self.rank, self.observed
        passes = FILLING_PASSES if self.tiled and not self.sampled else 1  # one step is exact without cells
        once: Parts = {"Ω": observed * (4.0 * r + r * r), "factors": 2.0 * self.lanes * r * (r + self.offsets)}
        once["rows"] = m * r**3 / 3 + 2.0 * n * r * r
        if passes > 1:
            once["tiles"] = 2.0 * self.cells * (2 * r + self.offsets + MAP_COST)
        return {name: passes * amount for name, amount in once.items()}
