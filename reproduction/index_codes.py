"""Index codes: who holds which messages, what is broadcast and how it is decoded, bounds, and an exact search.

Receiver i wants message i and holds some of the others. A linear code is an n×n
matrix with 1 on the diagonal, anything at (i, j) where receiver i holds message
j, and 0 elsewhere. As many combinations of the messages have to be sent as its
rank (Bar-Yossef, Birk, Jayram, Kol, IEEE Trans. Inf. Theory 2011).
Receivers and messages are numbered from 0 in code, and from 1 in print.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from snapimpute.base.types import Array

Row = tuple[Fraction, ...]
Integers = NDArray[np.int64]

ROUNDING = 1e-9
"""A singular value below this is taken for 0."""

LARGEST = 1e3
"""Inexact numbers beyond this are refused: rank may fall in a limit that no code attains."""

MAX_SECONDS = 60.0
"""An exact search that is expected to take longer is refused."""

MAX_PRIME = 1_000_000
"""So many inverses are tabulated at most."""


# ---------------------------------------------------------------- what is given
@dataclass(frozen=True)
class SideInformation:
    """Messages that the receivers hold.

    Parameters
    ----------
    n : int
        Number of receivers, and of messages.
    pairs : set of (receiver, message)
        Receiver i never holds message i, which it wants.

    Examples
    --------
    >>> SideInformation.from_lists([[1], [0, 2], []]).held
    ((1,), (0, 2), ())
    """

    n: int
    pairs: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        if not (isinstance(self.n, int) and self.n >= 1):
            raise ValueError(f"n must be a whole number of receivers, at least 1, got {self.n!r}")
        object.__setattr__(self, "pairs", frozenset(self.pairs))
        for i, j in sorted(self.pairs):
            if not (0 <= i < self.n and 0 <= j < self.n):
                raise ValueError(f"receiver {i} holds message {j}: both are numbered from 0 to {self.n - 1}")
            if i == j:
                raise ValueError(f"receiver {i} wants message {i}, so that it cannot hold it: leave the pair out")

    @classmethod
    def from_lists(cls, held: Sequence[Sequence[int]]) -> SideInformation:
        """The messages that each receiver holds."""
        return cls(len(held), frozenset((i, j) for i, messages in enumerate(held) for j in messages))

    @classmethod
    def none(cls, n: int) -> SideInformation:
        """Nobody holds anything."""
        return cls(n)

    @classmethod
    def complete(cls, n: int) -> SideInformation:
        """Everybody holds all but the message wanted."""
        return cls.random(n, 1.0)

    @classmethod
    def cycle(cls, n: int, directed: bool = False) -> SideInformation:
        """Receiver i holds message i + 1, and i − 1 unless directed, around a circle."""
        if n < 3:
            raise ValueError(f"a cycle has at least 3 receivers, got n = {n}")
        return cls(n, frozenset((i, (i + d) % n) for i in range(n) for d in ((1,) if directed else (1, -1))))

    @classmethod
    def random(cls, n: int, probability: float, seed: int = 0) -> SideInformation:
        """Each pair with the same probability."""
        if not 0 <= probability <= 1:
            raise ValueError(f"probability must lie between 0 and 1, got {probability}")
        rows, cols = np.nonzero(np.random.default_rng(seed).random((max(n, 0), max(n, 0))) < probability)
        return cls(n, frozenset((i, j) for i, j in zip(rows.tolist(), cols.tolist(), strict=True) if i != j))

    @cached_property
    def held(self) -> tuple[tuple[int, ...], ...]:
        """The messages that each receiver holds, in order."""
        return tuple(tuple(j for j in range(self.n) if (i, j) in self.pairs) for i in range(self.n))

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """The same as bits."""
        return tuple(sum(1 << j for j in held) for held in self.held)

    def completed(self, free: Array) -> Array:
        """1 on the diagonal, given entries where they are free, 0 elsewhere; of one matrix or a stack of them."""
        return np.where(self._free, free, np.eye(self.n))

    @cached_property
    def _free(self) -> NDArray[np.bool_]:
        return np.array([[(i, j) in self.pairs for j in range(self.n)] for i in range(self.n)])


def _prime_above(x: int) -> int:
    return next(p for p in itertools.count(max(x, 1) + 1) if all(p % d for d in range(2, math.isqrt(p) + 1)))


@dataclass(frozen=True)
class Field:
    """Field in which rank is counted, the integers modulo a prime or the reals, and the entries a matrix may have."""

    name: str
    modulus: int | None = None
    alphabet: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.modulus is not None and (self.modulus < 2 or _prime_above(self.modulus - 1) != self.modulus):
            raise ValueError(f"the modulus of {self.name} must be a prime, got {self.modulus}")
        if self.alphabet is not None and not {0, 1} <= set(self.alphabet):
            raise ValueError(f"the alphabet of {self.name} must have 0 and 1 in it, got {self.alphabet!r}")

    def number(self, x: Any) -> Fraction:
        """x as an element."""
        return Fraction(x) if self.modulus is None else Fraction(x) % self.modulus

    def inverse(self, x: Fraction) -> Fraction:
        """1/x."""
        return 1 / x if self.modulus is None else Fraction(pow(int(x), -1, self.modulus))

    def dot(self, weights: Iterable[Any], numbers: Iterable[Any]) -> Fraction:
        """Σ_k w_k·x_k."""
        return self.number(sum(w * x for w, x in zip(weights, numbers, strict=True) if w and x))

    def mixed(self, weights: Sequence[Any], rows: Sequence[Row]) -> Row:
        """Σ_k w_k·row_k."""
        return tuple(self.dot(weights, column) for column in zip(*rows, strict=True))


GF2 = Field("GF(2)", 2, (0, 1))
SIGNS = Field("reals, −1/0/1", None, (-1, 0, 1))
BITS = Field("reals, 0/1", None, (0, 1))
REALS = Field("reals")


# ---------------------------------------------------------------- what is sent
@dataclass(frozen=True)
class Scheme:
    """Broadcasts, and the way each receiver decodes them.

    Parameters
    ----------
    side : SideInformation
    field : Field
    sent : r rows of n numbers
        B: broadcast k is Σ_j B_kj x_j.
    mixes : n rows of r numbers
        C: receiver i forms Σ_k C_ik b_k = Σ_j (CB)_ij x_j, subtracts what it holds, and divides by (CB)_ii.
    proved : bool
        Whether the numbers are exact, and no code over the field (and alphabet) sends less.
    discarded : float
        0 if the numbers are exact; else the largest singular value of the completed matrix that was taken for 0.

    Examples
    --------
    >>> side = SideInformation.cycle(3, directed=True)
    >>> scheme = Scheme.of(side, GF2, [[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    >>> print(scheme)
    2 broadcasts for 3 receivers over GF(2)
    broadcast 1: x1 + x2
    broadcast 2: x2 + x3
    receiver 1 wants x1, holds x2: from b1 subtract x2
    receiver 2 wants x2, holds x3: from b2 subtract x3
    receiver 3 wants x3, holds x1: from b1 + b2 subtract x1
    >>> scheme.verify()
    True
    """

    side: SideInformation
    field: Field
    sent: tuple[Row, ...]
    mixes: tuple[Row, ...]
    proved: bool = False
    discarded: float = 0.0

    def __post_init__(self) -> None:
        n, rank = self.side.n, len(self.sent)
        if any(len(row) != n for row in self.sent) or [len(row) for row in self.mixes] != [rank] * n:
            raise ValueError(
                f"a scheme for {n} receivers has rows of {n} numbers, and {n} mixes of {rank} broadcasts"
            )

    @classmethod
    def of(cls, side: SideInformation, field: Field, matrix: Any) -> Scheme:
        """The scheme of a completed matrix: its first independent rows are sent, the others are mixed of them."""
        rows = [tuple(field.number(x) for x in row) for row in matrix]
        _check_completed(side, rows)
        sent: list[Row] = []
        mixes: list[Row] = []
        basis: list[tuple[int, Row, Row]] = []  # place of the leading 1, row, how it is mixed of those sent
        for row in rows:
            rest, how = row, (Fraction(0),) * side.n
            for place, reduced, made in basis:
                how = field.mixed((1, rest[place]), (how, made))
                rest = field.mixed((1, -rest[place]), (rest, reduced))
            if any(rest):
                place = next(j for j, x in enumerate(rest) if x)
                scale = field.inverse(rest[place])
                unit = tuple(Fraction(k == len(sent)) for k in range(side.n))
                basis.append((place, field.mixed((scale,), (rest,)), field.mixed((scale, -scale), (unit, how))))
                sent.append(row)
                how = unit
            mixes.append(how)
        return cls(side, field, tuple(sent), tuple(how[: len(sent)] for how in mixes))

    @classmethod
    def near(cls, side: SideInformation, matrix: Array, rank: int) -> Scheme | None:
        """A scheme over the reals, exact to rounding, if a completed matrix is of that rank to rounding."""
        s = np.append(np.linalg.svd(matrix, compute_uv=False), 0.0)
        if s[rank] > ROUNDING or np.abs(matrix).max() > LARGEST:
            return None
        sent = matrix[qr(matrix.T, mode="r", pivoting=True)[-1][:rank]]
        mixes = matrix @ np.linalg.pinv(sent)
        first, second = (tuple(tuple(map(Fraction, row)) for row in rows.tolist()) for rows in (sent, mixes))
        return cls(side, REALS, first, second, discarded=max(float(s[rank]), 1e-16))

    @property
    def rank(self) -> int:
        """Number of broadcasts."""
        return len(self.sent)

    @cached_property
    def matrix(self) -> tuple[Row, ...]:
        """CB, the completed matrix."""
        return tuple(self.field.mixed(how, self.sent) for how in self.mixes)

    def judged(self) -> Scheme:
        """Itself, proved if its numbers are exact and it sends no more than `lower_bound`."""
        return replace(self, proved=True) if not self.discarded and self.rank == lower_bound(self.side) else self

    def verify(self, rounds: int = 10, seed: int = 0) -> bool:
        """Send single and random messages: whether every receiver decodes them, to 1e-6 if numbers are inexact."""
        n, draw = self.side.n, random.Random(seed)  # noqa: S311  # a simulation
        trials = [[int(j == k) for j in range(n)] for k in range(n)]
        trials += [[draw.randint(-9, 9) for _ in range(n)] for _ in range(rounds)]
        return all(self._decoded(trial) for trial in trials)

    def _decoded(self, trial: Sequence[int]) -> bool:
        """Check that every receiver finds its message from the broadcasts and what it holds."""
        field, x = self.field, [self.field.number(message) for message in trial]
        broadcasts = [field.dot(row, x) for row in self.sent]
        for i, row in enumerate(self.matrix):
            held = self.side.held[i]
            known = field.dot([row[j] for j in held], [x[j] for j in held])
            left = field.number(field.dot(self.mixes[i], broadcasts) - known)
            error = abs(field.number(left * field.inverse(row[i])) - x[i]) if row[i] else 1
            if error > (1e-6 if self.discarded else 0):
                return False
        return True

    def __str__(self) -> str:
        sure = ", proved least" if self.proved else ""
        sure += f", numbers to rounding: σ{self.rank + 1} = {self.discarded:.1g}" if self.discarded else ""
        lines = [f"{self.rank} broadcasts for {self.side.n} receivers over {self.field.name}{sure}"]
        lines += [f"broadcast {k}: {_sum(row, 'x')}" for k, row in enumerate(self.sent, 1)]
        for i, row in enumerate(self.matrix):
            held = ", ".join(f"x{j + 1}" for j in self.side.held[i]) or "nothing"
            known = _sum([row[j] if j in self.side.held[i] else Fraction(0) for j in range(self.side.n)], "x")
            how = _sum(self.mixes[i], "b")
            how = f"from {how} subtract {known}" if known else f"take {how}"
            how += f", divide by {_number(row[i])}" if _number(row[i]) != "1" else ""
            lines.append(f"receiver {i + 1} wants x{i + 1}, holds {held}: {how}")
        return "\n".join(lines)


def _check_completed(side: SideInformation, rows: Sequence[Row]) -> None:
    if [len(row) for row in rows] != [side.n] * side.n:
        raise ValueError(f"the matrix of {side.n} receivers has {side.n} rows and columns")
    for i, row in enumerate(rows):
        if not row[i]:
            raise ValueError(f"entry ({i}, {i}) is 0: receiver {i} would not learn the message that it wants")
        for j, x in enumerate(row):
            if x and j != i and (i, j) not in side.pairs:
                raise ValueError(f"entry ({i}, {j}) must be 0: receiver {i} does not hold message {j}")


def _number(x: Fraction) -> str:
    return str(x) if x.denominator < 100 else f"{float(x):.4g}"


def _sum(weights: Sequence[Fraction], letter: str) -> str:
    """A weighted sum of x1, x2, … as text; none of the terms that rounding would print as 0."""
    terms = [(w, f"{letter}{k}") for k, w in enumerate(weights, 1) if abs(w) > 1e-9]
    text = "".join(
        f" {'−' if w < 0 else '+'} {name if _number(abs(w)) == '1' else f'{_number(abs(w))}·{name}'}"
        for w, name in terms
    )
    return text[3:] if text.startswith(" +") else text.replace(" − ", "−", 1)


# ---------------------------------------------------------------- bounds
@lru_cache(maxsize=64)
def lower_bound(side: SideInformation, width: int = 5000) -> int:
    """Size of a set of receivers without a cycle of side information, the largest if no more than ``width`` are open.

    Its rows and columns make a triangle with 1 on the diagonal, so that no
    completion over any field has a lower rank.
    """
    sets, size = {0}, -1
    while sets:
        size += 1
        # The next receiver of a set holds nothing that those before it want.
        larger = (s | 1 << i for s in sets for i, held in enumerate(side.masks) if not (s >> i & 1 or held & s))
        sets = set(itertools.islice(dict.fromkeys(larger), width))
    return size


def clique_cover(side: SideInformation, field: Field = GF2) -> Scheme:
    """One broadcast, a sum of messages, for each group of receivers who hold each other's; the groups are greedy."""
    groups: list[set[int]] = []
    for i in sorted(range(side.n), key=lambda i: len(side.held[i])):
        for group in groups:
            if all({(i, j), (j, i)} <= side.pairs for j in group):
                group.add(i)
                break
        else:
            groups.append({i})
    return Scheme.of(side, field, [[any({i, j} <= g for g in groups) for j in range(side.n)] for i in range(side.n)])


# ---------------------------------------------------------------- exact
class TooLong(ValueError):  # noqa: N818  # reads well where it is caught
    """An exact search is refused, as it may take too long."""


def search_seconds(side: SideInformation, field: Field, rank: int | None = None) -> float:
    """About how long `exact` takes at most to refute a rank; the last below `clique_cover` if none is given.

    That is the product of all choices for the rows with the fewest, times the
    rows of the table. A rank that is found, not refuted, takes less.
    """
    if field.alphabet is None:
        raise ValueError(
            f"over the {field.name} with any entries there is nothing to count: give a field an alphabet"
        )
    last = clique_cover(side, field).rank - 1
    if last < lower_bound(side):
        return 0.0
    counts = sorted(len(field.alphabet) ** len(held) for held in side.held)
    short = (field.modulus or _largest_minor(side, field)) < MAX_PRIME
    return 1e-6 * math.prod(counts[: (last if rank is None else rank) - 1]) * sum(counts) if short else math.inf


def exact(side: SideInformation, field: Field = GF2, *, max_seconds: float = MAX_SECONDS) -> Scheme:
    """Find a code of least rank over a field with an alphabet, and prove that it is.

    Ranks are tried from `lower_bound` on; below that of `clique_cover` each is
    found or refuted. One that may take longer than ``max_seconds`` is not tried.
    """
    cover, search = clique_cover(side, field), None
    for rank in range(lower_bound(side), cover.rank):
        seconds = search_seconds(side, field, rank)
        if seconds > max_seconds:
            raise TooLong(
                f"{side.n} receivers need at least {rank} broadcasts over {field.name}; to tell whether {rank} are "
                f"enough may take {seconds:.2g} s, more than max_seconds = {max_seconds:g}: allow more, or use a "
                "method that may miss the best, such as local_search or alternating_projections"
            )
        search = search or _Search(side, field)
        rows = search.within(rank)
        if rows is not None:
            return replace(Scheme.of(side, field, rows.tolist()), proved=True)
    return replace(cover, proved=True)


def _largest_minor(side: SideInformation, field: Field) -> float:
    """Hadamard's bound: no minor of the matrix is larger."""
    return float((max(map(abs, field.alphabet or ())) * math.sqrt(side.n)) ** side.n)


class _Search:
    """Every row that a receiver may have, in one table, reduced modulo the rows chosen so far.

    All is done modulo a prime. For the reals it exceeds every minor of the
    matrix, so that a minor is 0 just when it is 0 modulo the prime, and ranks are
    those over the reals.
    """

    def __init__(self, side: SideInformation, field: Field) -> None:
        self.n = side.n
        self.prime = field.modulus or _prime_above(math.ceil(_largest_minor(side, field)))
        self.inverses = np.zeros(self.prime, np.int64)
        self.inverses[1] = 1
        for k in range(2, self.prime):
            self.inverses[k] = -(self.prime // k) * self.inverses[self.prime % k] % self.prime
        blocks = []
        for i, held in enumerate(side.held):
            free = list(itertools.product(field.alphabet or (), repeat=len(held)))
            blocks.append(np.zeros((len(free), side.n), np.int64))
            blocks[-1][:, i] = 1
            blocks[-1][:, list(held)] = np.array(free).reshape(len(free), len(held))
        self.table: Integers = np.concatenate(blocks)
        self.receiver = np.repeat(np.arange(side.n), [len(block) for block in blocks])

    def within(self, rank: int) -> Integers | None:
        """A row for each receiver, all of them together of at most this rank; None if there are none."""
        return self._extend(self.table % self.prime, rank)

    def _extend(self, rest: Integers, room: int) -> Integers | None:
        """The rows, if ``room`` more of them may be independent of those chosen; these have left ``rest``."""
        spanned = np.flatnonzero(~rest.any(axis=1))
        done, first = np.unique(self.receiver[spanned], return_index=True)
        if done.size == self.n:
            return self.table[spanned[first]]
        if room == 0:
            return None
        place = (rest != 0).argmax(axis=1)
        lines = rest * self.inverses[rest[np.arange(len(rest)), place]][:, None] % self.prime
        choices: dict[int, dict[bytes, int]] = {i: {} for i in set(range(self.n)).difference(done.tolist())}
        for k, (i, line) in enumerate(zip(self.receiver.tolist(), lines, strict=True)):
            if i in choices:
                choices[i].setdefault(line.tobytes(), k)
        # Some row must be added for the receiver with the fewest choices; the last one has to serve all.
        serves = Counter(itertools.chain.from_iterable(choices.values()))
        fewest = min(choices.values(), key=len)
        for line in sorted(fewest, key=serves.__getitem__, reverse=True):
            if serves[line] < (len(choices) if room == 1 else 1):
                break
            k = fewest[line]
            found = self._extend((rest - rest[:, place[k], None] * lines[k]) % self.prime, room - 1)
            if found is not None:
                return found
        return None
