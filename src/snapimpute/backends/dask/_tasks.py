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

from snapimpute.backends.dask._block_operators import added, entries
from snapimpute.backends.dask._blocks import NUMBERS, Blocks, Written
from snapimpute.backends.dask._expressions import Node, Ref, evaluated, numbered, sources
from snapimpute.base.types import Array

BRANCHES = 8
"""Number of blocks added up in one task."""

SMALL = 1 << 16
"""Bytes up to which an array is sent along with what is done with it."""

REMEMBERED = 6
"""Arrays that were sent out last are not sent again."""

SECURING = 0.1
"""Share of the time that is spent on having blocks twice, at most: what led to them is held until then, too."""

ATTEMPTS = 5
"""Most deaths of workers in one iteration."""

PAUSE = 0.25
"""Seconds until it is tried again, twice as long every time: the scheduler is to see first that a worker is dead."""

PATIENCE = 120.0
"""Seconds to wait for a worker when there is none."""

LOOK = 5.0
"""Seconds after which to see whether there is still one."""

NOBODY = (
    "the cluster at {} does not answer any more, or has had no worker for {:.0f} seconds: start one, and resume from "
    "the checkpoint"
)

GONE = (
    "workers of the cluster died, and with them something that was nowhere else, as happens if several die at the "
    "same time: resume from the checkpoint, or begin anew"
)
LOST = (CancelledError, KilledWorker, CommClosedError)
"""Errors raised when a worker took something with it."""


Loader = Callable[[Sequence[int]], list[Any]]
"""Brings the blocks of the given numbers to workers, all at once: what they are read from is read once."""


class Shared:
    """An array of this side that all workers have, or will have."""

    def __init__(self, array: Array) -> None:
        self.array, self.future = array, None


FAMILIES: weakref.WeakKeyDictionary[Client, weakref.WeakSet[Tasks]] = weakref.WeakKeyDictionary()


class Tasks:
    """All that is asked of the workers of a client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.number = next(NUMBERS)
        """Number of the table: one derived from another gets a larger number."""
        self.count = 0
        """Number of the blocks."""
        self._secured, self._cost = 0.0, 0.0
        self._seen: set[str] = set()
        self.secured = 0
        """Number of times that all was put on two workers."""
        self._sent: OrderedDict[bytes, Shared] = OrderedDict()
        self._shared: weakref.WeakSet[Shared] = weakref.WeakSet()
        self._live: weakref.WeakSet[Written] = weakref.WeakSet()
        self._roots: weakref.WeakKeyDictionary[Written, Loader] = weakref.WeakKeyDictionary()
        FAMILIES.setdefault(client, weakref.WeakSet()).add(self)

    @property
    def family(self) -> list[Tasks]:
        """All tables of the same cluster: one may be made of another, and all lose something if a worker dies."""
        return sorted(FAMILIES[self.client], key=lambda one: one.number)

    def workers(self) -> dict[str, Any]:
        """The workers there are now, by their addresses."""
        found: dict[str, Any] = self.client.scheduler_info(n_workers=-1)["workers"]
        return found

    def written(
        self, tree: Any, *, keep: bool = False, brief: bool = False, held: list[Any] | None = None
    ) -> Written:
        """Note down what makes the blocks, so that it is not lost with a worker."""
        out = Written(tree, keep=keep, brief=brief)
        out.held = held
        if keep or held is not None:
            self._live.add(out)
        return out

    def root(self, load: Loader, held: list[Any] | None = None) -> Written:
        """Blocks that ``load`` brings to a worker, now unless they are there, and whenever they were lost."""
        out = self.written(None, keep=True, held=held or load(range(self.count)))
        self._roots[out] = load
        return out

    def shared(self, array: Array, *, again: bool = True) -> Any:
        """A tree for an array of this side, which all workers get; small ones go with the task.

        One that is not to come again, as the blocks of a partial SVD, is not remembered.
        """
        if array.nbytes <= SMALL:
            return array
        packed = np.ascontiguousarray(array)
        if not again:
            once = Shared(packed)
            self._shared.add(once)
            return Ref(once)
        shape = f"{packed.shape}{packed.dtype}".encode()
        key = hashlib.blake2b(packed.data, digest_size=16, key=shape[:64]).digest()
        if key not in self._sent:
            self._sent[key] = Shared(packed)
            self._shared.add(self._sent[key])
        self._sent.move_to_end(key)
        while len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)
        return Ref(self._sent[key])

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
                source.future = self.given(source.array)
            return [source.future] * self.count
        if source.held is None and source.tree is None:
            raise ConnectionError(GONE)
        if source.held is None:
            source.held = self._computed(source.tree)
        return list(source.held)

    def given(self, value: Any) -> Any:
        """A value of this side on a worker; others take it from there, and from each other, as they need it.

        Not scattered to all at once: that never ends where a worker dies meanwhile.
        """
        try:
            return self.client.scatter(value, hash=False)
        except (TimeoutError, OSError) as err:  # the worker that was to get it died, or there is none
            raise CancelledError from err

    def tree(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(arguments) as a tree."""
        return Node(function, *(one.as_tree() if isinstance(one, Blocks) else one for one in arguments))

    def each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """function(arguments) of each block, here."""
        tree = self.tree(function, *arguments)
        found: list[Any] = self.surely(lambda: self.here(self._computed(tree)))
        return found

    def total(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(arguments) of each block, added up in a tree."""
        tree = self.tree(function, *arguments)
        return self.surely(lambda: self.here(self._added_up(self._computed(tree)))[0])

    def _added_up(self, parts: list[Any]) -> list[Any]:
        while len(parts) > 1:
            groups = [parts[i : i + BRANCHES] for i in range(0, len(parts), BRANCHES)]
            parts = self.client.map(added, groups, pure=False)
        return parts

    def here(self, futures: list[Any]) -> list[Any]:
        """Gather the results here."""
        self._awaited(futures)
        found: list[Any] = self.client.gather(futures)
        return found

    def _awaited(self, futures: list[Any]) -> None:
        """Wait until all is computed; an error where there has been nobody to do it for long."""
        idle = time.monotonic()
        while True:
            try:
                with self.client.as_current():
                    wait(futures, timeout=LOOK)
                return
            except TimeoutError:
                now = time.monotonic()
                idle = now if self.workers() else idle
                if now - idle >= PATIENCE:
                    raise ConnectionError(NOBODY.format(self.client.scheduler.address, PATIENCE)) from None

    # ---------------------------------------------------------------- faults
    def guarded(self, work: Callable[[], Any]) -> Any:
        """work(), again if a worker died meanwhile; what it leaves outlives the death of another."""

        def secured() -> Any:
            out = work()
            self._notice()
            for one in self.family:
                one._part()
            begin = time.monotonic()
            if SECURING * (begin - self._secured) >= self._cost or any(one._bare() for one in self.family):
                for one in self.family:
                    one._secure()
                self._secured = time.monotonic()
                self._cost = self._secured - begin
                self.secured += 1
            return out

        return self.surely(secured)

    def _notice(self) -> None:
        """Replace what was lost with a worker also where nothing was asked of it: a second copy, say."""
        gone, self._seen = self._seen - {*self.workers()}, {*self.workers()}
        if gone:
            self._recover()

    def _part(self) -> None:
        """Forget a second copy beside the first on one worker, where Dask's memory manager may have left both."""
        ones = [one for one in self._live if one.held is not None and one.spare is not None]
        pairs = [list(zip(one.held or [], one.spare or [], strict=True)) for one in ones]
        futures = [future for some in pairs for pair in some for future in pair]
        there = self.client.who_has(futures) if futures else {}
        for one, some in zip(ones, pairs, strict=True):
            if any(len({*there[held.key], *there[spare.key]}) == 1 for held, spare in some):
                one.spare = None

    def surely(self, work: Callable[[], Any]) -> Any:
        """work(), again if a worker died meanwhile."""
        for attempt in range(ATTEMPTS):
            try:
                return work()
            except LOST:
                time.sleep(PAUSE * 2**attempt)
                self._recover()
        raise ConnectionError(
            f"workers of the cluster died {ATTEMPTS} times in a row, which hints at too little memory: "
            "see their logs, use more or smaller blocks, and resume from the checkpoint"
        )

    def restored(self, root: Written, wanted: Sequence[int]) -> list[Any]:
        """Blocks that were brought to a worker; those that were lost, again."""
        held: Any = root.held
        lost = [wanted[i] for i in sorted(self._lost([held[block] for block in wanted]))]
        self._bring(root, [block for block in lost if held[block].status != "pending"])  # else it is on its way
        return [held[block] for block in wanted]

    def _bring(self, root: Written, lost: Sequence[int]) -> None:
        held: Any = root.held
        for block, future in zip(lost, self._roots[root](lost) if lost else [], strict=True):
            held[block] = future

    def _bare(self) -> bool:
        """Tell whether something exists once only and cannot be computed again, though there is room for another."""
        alone = any(one.tree is None and one.spare is None and one not in self._roots for one in self._live)
        return alone and len(self.workers()) > 1

    def _secure(self) -> None:
        """Have all that is left of an iteration twice, and forget how it was computed.

        The outermost first: what they were made of is mostly of no other use, and gone when they are secure.
        """
        while outermost := self._outermost(len(self.workers()) > 1):
            self._have_twice(outermost)

    def _outermost(self, several: bool) -> list[Written]:
        """List what is not secure yet, and is no part of anything else that is not secure."""
        left = [one for one in self._live if one.spare is None and not one.brief and not self._again(one)]
        left = [one for one in left if several or one.tree is not None]
        inner = {id(source) for one in left for source in sources(one.tree)}
        return sorted((one for one in left if id(one) not in inner), key=lambda one: one.number)

    def _have_twice(self, ones: list[Written]) -> None:
        ones = [one for one in ones if self._tried(one, self._futures, one)]
        futures = [future for one in ones for future in self._futures(one)]
        self._awaited(futures)
        if self._lost(futures):
            raise CancelledError
        there, others = self.client.who_has(futures), sorted(self.workers())
        homes = [there[future.key][0] for future in futures]
        after = dict(zip(others, others[1:] + others[:1], strict=True))
        several = len(others) > 1
        held = self._placed(futures, homes)
        spare = self._placed(futures, [after.get(home, others[0]) for home in homes]) if several else []
        apart, start = self._apart(held, spare), 0
        for one in ones:
            part = slice(start, start := start + len(one.held or []))
            one.held, one.tree = held[part], None
            one.spare = spare[part] if all(apart[part]) and several else None

    def _apart(self, held: list[Any], spare: list[Any]) -> list[bool]:
        """Tell whether two copies of a block are on different workers: tasks may have been moved to others."""
        there = self.client.who_has([*held, *spare]) if spare else {}
        return [set(there[a.key]).isdisjoint(there[b.key]) for a, b in zip(held, spare, strict=False)]

    def _again(self, one: Written) -> bool:
        """Tell whether it is computed, or read, again where it is lost: observations, and what is known at them."""
        return one in self._roots or (isinstance(one.tree, Node) and one.tree.function is entries)

    def _placed(self, futures: list[Any], workers: list[str]) -> list[Any]:
        """The values on the given workers, as something given: nobody has to know how it was computed.

        On another worker, should one die in this moment: it would be waited for, else.
        """
        names = [f"snapimpute-{uuid.uuid4().hex}" for _ in futures]
        # Again, since on a busy scheduler a worker may fail to connect, which is no fault of the task.
        surely: dict[str, Any] = {"allow_other_workers": True, "pure": False, "retries": 2}
        tasks = [
            self.client.submit(_handed_over, future, name, workers=[worker], **surely)
            for future, name, worker in zip(futures, names, workers, strict=True)
        ]
        self.here(tasks)
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
            raise ConnectionError(NOBODY.format(self.client.scheduler.address, PATIENCE)) from err
        for backend in self.family:
            backend._replace()

    def _replace(self) -> None:
        for array in self._shared:
            array.future = None
        for one in sorted(self._live, key=lambda one: one.number):
            if one.held is None:
                continue
            lost = self._lost(one.held)
            if one in self._roots:
                self._bring(one, sorted(lost))
            elif one.spare is not None:
                spare = self._lost(one.spare)
                if lost & spare:
                    self._give_up(one)
                elif lost or spare:
                    one.held = [one.spare[i] if i in lost else future for i, future in enumerate(one.held)]
                    one.spare = None
            elif lost and one.tree is None:
                self._give_up(one)
            elif lost:
                self._tried(one, self._compute_again, one, sorted(lost))

    def _compute_again(self, one: Written, lost: list[int]) -> None:
        again = dict(zip(lost, self._computed(one.tree, lost), strict=True))
        one.held = [again.get(i, future) for i, future in enumerate(one.held or [])]

    def _tried(self, one: Written, work: Callable[..., Any], *arguments: Any) -> bool:
        """Try, and tell whether it worked; what depends on something that is lost everywhere is given up."""
        try:
            work(*arguments)
        except ConnectionError:
            self._give_up(one)
            return False
        return True

    def _give_up(self, one: Written) -> None:
        """Give up what is nowhere any more: an error, if it is ever needed again."""
        one.held = one.spare = one.tree = None
        self._live.discard(one)

    def _lost(self, futures: list[Any]) -> set[int]:
        known = {i: future for i, future in enumerate(futures) if future.status == "finished"}
        there = self.client.who_has(list(known.values())) if known else {}
        return {i for i in range(len(futures)) if i not in known or not there.get(known[i].key)}


def _handed_over(value: Any, name: str) -> None:
    client = get_client()
    Variable(name, client).set(client.scatter(value, hash=False))
