"""A cluster: the rows of the table in blocks on the workers of a Dask scheduler, all else here.

Beside its observations each worker holds its blocks of the row factor; the
column factor and all small arrays stay with the driver and are sent out as they
are needed. Products with a transposed matrix come back as a sum over the blocks,
added up in a tree. What the blocks are made of, and what is done to them, is
numpy's and the compiled code's, the same as on one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from distributed import Client, get_client
from numpy.typing import DTypeLike

from snapimpute.backends.dask import _block_operators as local
from snapimpute.backends.dask._block_operators import BlockMapped, BlockOperator, Within
from snapimpute.backends.dask._blocks import Blocks, Written
from snapimpute.backends.dask._expressions import Node, PerBlock, Ref
from snapimpute.backends.dask._tasks import Tasks
from snapimpute.base.errors import MissingDeviceError, Setting
from snapimpute.base.types import Array, CellFunction
from snapimpute.data.observations import Observations
from snapimpute.linalg import ColumnGroups, LowRank, MatrixOperator, Sample, Scaled, Sparse, Sum, cell_sum
from snapimpute.linalg.backend import COLUMNS, OBSERVED, ROWS, Accuracy, Backend, backend_of
from snapimpute.linalg.tiled import estimate, single_error
from snapimpute.penalties import CellMap


class Cut:
    """The blocks: rows from ``borders[i]`` to ``borders[i + 1]`` with so many observations each."""

    def __init__(self, borders: Iterable[int], observed: Iterable[int]) -> None:
        self.borders, self.observed = tuple(map(int, borders)), tuple(map(int, observed))
        self.rows = tuple(int(n) for n in np.diff(self.borders))

    def lengths(self, side: int) -> tuple[int, ...]:
        """Rows, or observations, of each block."""
        return self.rows if side == ROWS else self.observed

    def __len__(self) -> int:
        return len(self.rows)


def dask_backend() -> DaskBackend:
    """The workers of the client that was made last."""
    try:
        client = get_client()
    except ValueError:
        raise MissingDeviceError(
            "backend",
            "dask",
            Setting("backend", "dask"),
            ' needs a cluster: connect to one first, with distributed.Client("tcp://..."), or start '
            "one on this machine with distributed.Client()",
        ) from None
    check_versions(client)
    return DaskBackend(client)


def check_versions(client: Client) -> None:
    """Refuse workers that have another version of this package, or none."""
    here = str(import_module("snapimpute").__version__)
    try:
        theirs = client.run(_version)
    except ModuleNotFoundError as err:
        raise ImportError(
            f"workers of {client.scheduler.address} do not have {err.name}: install snapimpute {here} there, "
            "with what this machine has of it"
        ) from err
    other = {version for version in theirs.values() if version != here}
    if other:
        raise ImportError(
            f"workers have snapimpute {', '.join(sorted(map(str, other)))}, and this is {here}: "
            "install the same version everywhere"
        )


class DaskBackend(Tasks, Backend):
    """The workers of a client."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.name = f"dask on {client.scheduler.address}"
        self.spread = False
        """True if the workers read the observations: then this machine may not hold an array of all rows."""
        self._cut: Cut | None = None

    @property
    def kind(self) -> str:
        """Wherever the cluster is; arrays that it has written are in as many blocks."""
        return f"dask, {self.count} blocks" if self.spread else "dask"

    @property
    def cut(self) -> Cut:
        """The blocks of the observations that were given last."""
        if self._cut is None:
            raise RuntimeError("no observations are on the cluster yet")
        return self._cut

    @cut.setter
    def cut(self, cut: Cut) -> None:
        self._cut, self.count = cut, len(cut)

    # ---------------------------------------------------------------- moving
    def put(self, array: Any, side: int = ROWS) -> Any:
        """A copy of a numpy array in blocks; one that belongs to columns stays here.

        It is kept here, too, for as long as the copy is in use: what is lost with a worker is sent again.
        """
        if side == COLUMNS:
            return array
        lengths = self.cut.lengths(side)
        parts = np.split(np.asarray(array), np.cumsum(lengths)[:-1])

        def load(wanted: Sequence[int]) -> list[Any]:
            return [self.given(parts[block]) for block in wanted]

        return Blocks(self, self.root(load), lengths, np.asarray(array)[:0], side)

    def full(self, shape: tuple[int, int], value: float, dtype: DTypeLike, side: int) -> Array:
        """An array of one value, in blocks or here."""
        if side == COLUMNS:
            return np.full(shape, value, dtype)
        lengths = self.cut.lengths(side)
        tree = Node(local.full, PerBlock(lengths), shape[1], value, np.dtype(dtype))
        return cast(Array, Blocks(self, Written(tree), lengths, np.empty((0, shape[1]), dtype), side))

    def stored(self, array: Any, path: Path) -> list[Any] | None:
        """Have the workers write their blocks of an array, if they read the observations, too; else an OSError."""
        if not self.spread:
            return None
        path.mkdir(parents=True, exist_ok=True)
        found = self.each(local.stored, array, self.per_block(_parts(path, self.count)))
        missing = [part for part in _parts(path, self.count) if not part.exists()]
        if missing:
            raise FileNotFoundError(f"{missing[0]}: written by a worker, and not there; all must see the same files")
        return [found, array.meta.dtype.str, array.meta.shape[1:], array.side]

    def fetched(self, path: Path, *known: Any) -> Any:
        """An array that workers have written, in the same blocks."""
        digests, dtype, columns, side = known
        if len(digests) != len(self.cut):
            raise ValueError(f"{path} has {len(digests)} blocks, here are {len(self.cut)}")
        tree = Node(local.fetched, self.per_block(_parts(path, self.count)), self.per_block(digests))
        meta = np.empty((0, *columns), np.dtype(dtype))
        out = Blocks(self, self.written(tree, keep=True), self.cut.lengths(side), meta, side)
        self.each(len, out)  # read now: the files may be replaced
        return out

    def per_block(self, values: Iterable[Any]) -> PerBlock:
        """A tree that is another small value for each block."""
        return PerBlock(tuple(values))

    def observations(self, observations: Observations) -> Observations:
        """The same observations in blocks of rows, with about as many in each."""
        if backend_of(observations.values) is self:  # read by the workers themselves
            return observations
        self.cut = cut = balanced(observations, self.blocks())

        def load(wanted: Sequence[int]) -> list[Any]:
            borders = (cut.borders[block : block + 2] for block in wanted)  # one at a time: each is copied here
            return [self.given(_piece(observations, *pair)) for pair in borders]

        return self.as_observations(load, observations.shape, observations.values.dtype)

    def blocks(self) -> int:
        """Number of blocks: as many as the workers have threads."""
        return max(sum(int(one["nthreads"]) for one in self.workers().values()), 1)

    def as_observations(
        self, load: Callable[[Sequence[int]], list[Any]], shape: tuple[int, int], dtype: DTypeLike
    ) -> Observations:
        """Observations of which the workers have the blocks; ``load`` brings some there, now and if lost."""
        written = self.root(load)
        lengths = self.cut.observed

        def field(name: str, kind: DTypeLike) -> Any:
            return Blocks(self, Written(Node(getattr, Ref(written), name)), lengths, np.empty(0, kind), OBSERVED)

        return Observations(field("rows", np.int32), field("cols", np.int32), field("values", dtype), shape)

    # ---------------------------------------------------------------- products
    def times(self, tall: Array, small: Array) -> Array:
        """tall·small."""
        blocks = cast(Blocks, tall)
        return cast(Array, blocks.then(np.matmul, small.astype(tall.dtype, copy=False), keep=True))

    def inner(self, tall: Array, other: Array) -> Array:
        """tallᵀ·other, an array of numpy."""
        found: Array = self.total(local.inner, tall, other)
        return found

    def sampled_product(self, left: Array, right: Array, rows: Any, cols: Any) -> Array:
        """Σ_k left[rows, k] right[cols, k]; numpy's if the indices are."""
        if isinstance(rows, Blocks):
            tree = self.tree(local.entries, left, self.shared(right), rows, cols)
            written = self.written(tree, keep=True)
            return cast(Array, Blocks(self, written, rows.lengths, np.empty(0, left.dtype), OBSERVED))
        r, c = np.broadcast_arrays(np.asarray(rows), np.asarray(cols))
        flat, borders = r.reshape(-1), np.asarray(self.cut.borders)
        order = np.argsort(flat, kind="stable")
        ends = np.searchsorted(flat[order], borders[1:-1])
        places = np.split(order, ends)
        within = self.per_block(flat[p] - start for p, start in zip(places, borders, strict=False))
        across = self.per_block(c.reshape(-1)[p] for p in places)
        parts = self.each(local.entries, left, self.shared(right), within, across)
        out = np.empty(flat.size, left.dtype)
        for where, part in zip(places, parts, strict=True):
            out[where] = part
        return out.reshape(r.shape)

    def take(self, table: Any, index: Any) -> Any:
        """table[index] of an array of numpy and indices in blocks."""
        tree = self.tree(np.take, self.shared(table), index)
        return Blocks(self, Written(tree), index.lengths, np.empty(0, table.dtype), index.side)

    def sparse(self, observations: Observations, values: Array) -> MatrixOperator:
        """The matrix with the given values on the observed cells and 0 elsewhere."""
        rows, given = cast(Blocks, observations.rows), cast(Blocks, values)
        block = rows.written.tree.arguments[0]  # of which the rows are a part
        tree = Node(Sparse, block, given.as_tree())
        return BlockOperator(self, tree, observations.shape, values.dtype)

    def joined(self, operator: MatrixOperator) -> MatrixOperator:
        """One operator of each block for all terms, made once for several products."""
        return BlockOperator(self, self._operator_tree(operator), operator.shape, operator.dtype, operator.error)

    def _operator_tree(self, operator: Any) -> Any:
        if isinstance(operator, BlockOperator | BlockMapped):
            return operator.tree
        if isinstance(operator, LowRank):
            left: Any = operator.U
            return Node(LowRank, left.as_tree(), operator.s, self.shared(operator.V))
        if isinstance(operator, Sum):
            return Node(Sum, tuple(self._operator_tree(term) for term in operator.parts))
        if isinstance(operator, Scaled):
            return Node(Scaled, operator.factor, self._operator_tree(operator.operator))
        if isinstance(operator, ColumnGroups):
            groups = tuple(self._operator_tree(one) for one in operator.parts)
            return Node(ColumnGroups, groups, PerBlock((operator.cols,) * len(self.cut)))
        raise TypeError(f"a {type(operator).__name__} cannot be cut into blocks")

    # ---------------------------------------------------------------- maps of all cells
    def apply(self, cell_map: CellMap, x: Array) -> None:
        """Apply a map of one real variable in place."""
        blocks: Any = x
        blocks.become(blocks.then(local.applied, cell_map, meta=blocks.meta))

    def mapped(
        self, factors: LowRank, cell_map: CellFunction, accuracy: Accuracy, sample: Sample | None
    ) -> MatrixOperator:
        """f(X) as an operator, by tiles of each block."""
        error = single_error(factors, accuracy)
        kind = np.dtype(np.float32) if error or sample is not None else factors.dtype
        return BlockMapped(self, factors, self._mapped_tree(factors, cell_map, kind, sample, error), error)

    def _mapped_tree(
        self, factors: LowRank, cell_map: CellFunction, kind: np.dtype[Any], sample: Sample | None, error: float
    ) -> Any:
        drawn = None if sample is None else self._within(sample, factors.shape)
        return Node(local.mapped_of, self._operator_tree(factors), cell_map, kind, drawn, error)

    def _within(self, sample: Sample, shape: tuple[int, int]) -> PerBlock:
        starts = self.cut.borders[:-1]
        return PerBlock(
            tuple(Within(sample, shape, start, rows) for start, rows in zip(starts, self.cut.rows, strict=True))
        )

    def cell_sum(self, factors: LowRank, cell_map: CellFunction, sample: Sample | None) -> tuple[float, float]:
        """Σ f(X_ij) over all cells as a sample knows it, and its standard error."""
        tree = self._operator_tree(factors)
        if sample is None:
            return float(self.total(cell_sum, tree, cell_map)), 0.0
        sums = self.total(local.sums_of_bands, tree, cell_map, self._within(sample, factors.shape))
        return estimate(list(sums), sample.draw(factors.shape), factors.shape[1])


# ---------------------------------------------------------------- blocks
def balanced(observations: Observations, blocks: int) -> Cut:
    """Blocks of whole rows with about as many observations in each."""
    m = observations.shape[0]
    pointers = observations.by_row.indptr
    # A row costs something too: as much as an observation.
    load = pointers + np.arange(m + 1)
    wanted = load[-1] * np.arange(1, blocks) / blocks
    borders = np.unique([0, *np.searchsorted(load, wanted), m])
    return Cut(borders, np.diff(pointers[borders]))


def _version() -> str:
    return str(import_module("snapimpute").__version__)


def _parts(folder: Path, count: int) -> list[Path]:
    return [folder / f"{block}.npy" for block in range(count)]


def _piece(observations: Observations, start: int, stop: int) -> Observations:
    pointers = observations.by_row.indptr
    part = slice(pointers[start], pointers[stop])
    rows, cols = observations.rows[part] - np.int32(start), observations.cols[part]
    return Observations(rows, cols.copy(), observations.values[part].copy(), (stop - start, observations.shape[1]))
