"""Work on the blocks of a table, handed to the workers of a Dask scheduler, and what makes up for their death.

Nothing is lost with a worker. After each iteration, or after several where they
are short, all blocks are there twice, on different workers, and the scheduler
may forget how they came to be; the observations are read again. What was lost
since is computed again from there, for the blocks that were lost.
"""

from __future__ import annotations

import hashlib
import time
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
from distributed import Client, KilledWorker, Variable, get_client, wait
from distributed.comm import CommClosedError

from snapimpute.backends.block_operators import entries
from snapimpute.backends.blocks import Blocks, Written
from snapimpute.backends.expressions import Call, Given, evaluated, numbered, sources
from snapimpute.types import Array

BRANCHES = 8
"""How many blocks are added up in one task."""

SMALL = 1 << 16
"""Bytes up to which an array is sent along with what is done with it."""

REMEMBERED = 6
"""Arrays that were sent out last are not sent again."""

SECURING = 0.1
"""Share of the time that is spent on having blocks twice, at most: what led to them is held until then, too."""

ATTEMPTS = 4
"""How often workers may die in one iteration."""

PATIENCE = 120.0
"""Seconds to wait for a worker when there is none."""

GONE = (
    "workers of the cluster died, and with them something that was nowhere else, as happens if several die at the "
    "same time: resume from the checkpoint, or begin anew"
)
LOST = (CancelledError, KilledWorker, CommClosedError)
"""What it is called when a worker took something with it."""


class Shared:
    """An array of this side that all workers have, or will have."""

    def __init__(self, array: Array) -> None:
        self.array, self.future = array, None


class Tasks:
    """All that is asked of the workers of a client.

    Parameters
    ----------
    client : distributed.Client
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.count = 0
        """Of the blocks."""
        self._secured, self._cost = 0.0, 0.0
        self._sent: OrderedDict[bytes, Shared] = OrderedDict()
        self._shared: weakref.WeakSet[Shared] = weakref.WeakSet()
        self._live: weakref.WeakSet[Written] = weakref.WeakSet()
        self._roots: weakref.WeakKeyDictionary[Written, Callable[[int], Any]] = weakref.WeakKeyDictionary()

    def workers(self) -> dict[str, Any]:
        """The workers there are now, by their addresses."""
        found: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return found

    def written(
        self, tree: Any, *, keep: bool = False, brief: bool = False, held: list[Any] | None = None
    ) -> Written:
        """What blocks are, noted down such that it is not lost with a worker."""
        out = Written(tree, keep=keep, brief=brief)
        out.held = held
        if keep or held is not None:
            self._live.add(out)
        return out

    def root(self, load: Callable[[int], Any], held: list[Any] | None = None) -> Written:
        """Blocks that ``load`` brings to a worker, now unless they are there, and whenever they were lost."""
        out = self.written(None, keep=True, held=held or [load(block) for block in range(self.count)])
        self._roots[out] = load
        return out

    def shared(self, array: Array) -> Any:
        """A tree for an array of this side, which all workers get; small ones go with the task."""
        if array.nbytes <= SMALL:
            return array
        packed = np.ascontiguousarray(array)
        shape = f"{packed.shape}{packed.dtype}".encode()
        key = hashlib.blake2b(packed.data, digest_size=16, key=shape[:64]).digest()
        if key not in self._sent:
            self._sent[key] = Shared(packed)
            self._shared.add(self._sent[key])
        self._sent.move_to_end(key)
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)
        return Given(self._sent[key])

    # ---------------------------------------------------------------- tasks
    def _computed(self, tree: Any, only: Sequence[int] | None = None) -> list[Any]:
        """Futures of the tree for every block, or some; what it is made of and is to be kept is computed before."""
        wanted = list(dict.fromkeys(sources(tree)))
        numbers = {id(source): number for number, source in enumerate(wanted)}
        given = [self._futures(source) for source in wanted]
        template, blocks = numbered(tree, numbers, {}), range(self.count) if only is None else only
        chosen = [[one[block] for block in blocks] for one in given]
        futures: list[Any] = self.client.map(evaluated, list(blocks), *chosen, tree=template, pure=False)
        return futures

    def _futures(self, source: Any) -> list[Any]:
        if isinstance(source, Shared):
            if source.future is None:
                source.future = self.client.scatter(source.array, broadcast=True, hash=False)
            return [source.future] * self.count
        if source.held is None:
            source.held = self._computed(source.tree)
        return list(source.held)

    def tree(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(arguments) as a tree."""
        return Call(function, *(one.as_tree() if isinstance(one, Blocks) else one for one in arguments))

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """function(arguments) of each block, here."""
        tree = self.tree(function, *arguments)
        found: list[Any] = self._surely(lambda: self._here(self._computed(tree)))
        return found

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(arguments) of each block, added up in a tree."""
        tree = self.tree(function, *arguments)
        return self._surely(lambda: self._here(self._added_up(self._computed(tree)))[0])

    def _added_up(self, parts: list[Any]) -> list[Any]:
        while len(parts) > 1:
            groups = [parts[i : i + BRANCHES] for i in range(0, len(parts), BRANCHES)]
            parts = self.client.map(_added, groups, pure=False)
        return parts

    def _here(self, futures: list[Any]) -> list[Any]:
        found: list[Any] = self.client.gather(futures)
        return found

    # ---------------------------------------------------------------- faults
    def guarded(self, work: Callable[[], Any]) -> Any:
        """work(), again if a worker died meanwhile; what it leaves outlives the death of another."""

        def secured() -> Any:
            out = work()
            begin = time.monotonic()
            if SECURING * (begin - self._secured) >= self._cost or self._bare():
                self._secure()
                self._secured = time.monotonic()
                self._cost = self._secured - begin
            return out

        return self._surely(secured)

    def _surely(self, work: Callable[[], Any]) -> Any:
        """work(), again if a worker died meanwhile."""
        for _ in range(ATTEMPTS):
            try:
                return work()
            except LOST:
                self._recover()
        raise ConnectionError(
            f"workers of the cluster died {ATTEMPTS} times in a row, which hints at too little memory: "
            "see their logs, use more or smaller blocks, and resume from the checkpoint"
        )

    def restored(self, root: Written, block: int) -> Any:
        """A block that was brought to a worker; if it was lost, again."""
        held: Any = root.held
        if self._lost([held[block]]):
            held[block] = self._roots[root](block)
        return held[block]

    def _bare(self) -> bool:
        """Whether something is there once only, and cannot be computed again, though there is room for another."""
        alone = any(one.tree is None and one.spare is None and one not in self._roots for one in self._live)
        return alone and len(self.workers()) > 1

    def _secure(self) -> None:
        """Have all that is left of an iteration twice, and forget how it was computed.

        The outermost first: what they were made of is mostly of no other use, and gone when they are secure.
        """
        while outermost := self._outermost(len(self.workers()) > 1):
            self._have_twice(outermost)

    def _outermost(self, several: bool) -> list[Written]:
        """What is not secure yet, and nothing else that is not secure is made of."""
        left = [one for one in self._live if one.spare is None and not one.brief and not self._again(one)]
        left = [one for one in left if several or one.tree is not None]
        inner = {id(source) for one in left for source in sources(one.tree)}
        return sorted((one for one in left if id(one) not in inner), key=lambda one: one.number)

    def _have_twice(self, ones: list[Written]) -> None:
        futures = [future for one in ones for future in self._futures(one)]
        wait(futures)
        if self._lost(futures):
            raise CancelledError
        there, others = self.client.who_has(futures), sorted(self.workers())
        homes = [there[future.key][0] for future in futures]
        after = dict(zip(others, others[1:] + others[:1], strict=True))
        several = len(others) > 1
        held = iter(self._placed(futures, homes))
        spare = iter(self._placed(futures, [after.get(home, others[0]) for home in homes]) if several else [])
        for one in ones:
            count = len(one.held or [])
            one.held, one.tree = [next(held) for _ in range(count)], None
            one.spare = [next(spare) for _ in range(count)] if several else None

    def _again(self, one: Written) -> bool:
        """Whether it is computed, or read, again where it is lost: observations, and what is known at them."""
        return one in self._roots or (isinstance(one.tree, Call) and one.tree.function is entries)

    def _placed(self, futures: list[Any], workers: list[str]) -> list[Any]:
        """The values on the given workers, as something given: nobody has to know how it was computed.

        On another worker, should one die in this moment: it would be waited for, else.
        """
        names = [f"snapimpute-{uuid.uuid4().hex}" for _ in futures]
        tasks = [
            self.client.submit(_handed_over, future, name, workers=[worker], allow_other_workers=True, pure=False)
            for future, name, worker in zip(futures, names, workers, strict=True)
        ]
        self.client.gather(tasks)
        out = []
        for name in names:
            variable = Variable(name, self.client)
            out.append(variable.get())
            variable.delete()
        return out

    def _recover(self) -> None:
        """Replace what was lost with a worker."""
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, RuntimeError) as err:
            raise ConnectionError(
                f"the cluster at {self.client.scheduler.address} does not answer any more, or has had no worker for "
                f"{PATIENCE:.0f} seconds: start one, and resume from the checkpoint"
            ) from err
        for array in self._shared:
            array.future = None
        for one in sorted(self._live, key=lambda one: one.number):
            if one.held is None:
                continue
            lost = self._lost(one.held)
            if one in self._roots:
                for block in lost:
                    one.held[block] = self._roots[one](block)
            elif one.spare is not None:
                if lost & self._lost(one.spare):
                    raise ConnectionError(GONE)
                if lost or self._lost(one.spare):
                    one.held = [one.spare[i] if i in lost else future for i, future in enumerate(one.held)]
                    one.spare = None
            elif lost and one.tree is None:
                raise ConnectionError(GONE)
            elif lost:
                again = dict(zip(sorted(lost), self._computed(one.tree, sorted(lost)), strict=True))
                one.held = [again.get(i, future) for i, future in enumerate(one.held)]

    def _lost(self, futures: list[Any]) -> set[int]:
        known = {i: future for i, future in enumerate(futures) if future.status == "finished"}
        there = self.client.who_has(list(known.values())) if known else {}
        return {i for i in range(len(futures)) if i not in known or not there.get(known[i].key)}


def _added(parts: list[Any]) -> Any:
    first, *more = parts
    total = first.copy() if isinstance(first, np.ndarray) else first
    for part in more:
        total = total + part
    return total


def _handed_over(value: Any, name: str) -> None:
    client = get_client()
    Variable(name, client).set(client.scatter(value, hash=False))
