"""Trees of calls on each block of rows, sent to where the block is and evaluated there.

The functions in a tree run on plain numpy arrays and operators, one block at a
time, on one thread: it is blocks that are spread over threads and machines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from snapimpute.base.threads import one_thread


class Node:
    """function(arguments), some of which may be trees, or tuples of trees."""

    __slots__ = ("arguments", "function")

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self.function, self.arguments = function, arguments


class Ref:
    """A value that is, or will be, where the block is; the number is its place among all that a task is given."""

    __slots__ = ("source",)

    def __init__(self, source: Any) -> None:
        self.source = source


class PerBlock:
    """A small value for each block."""

    __slots__ = ("values",)

    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


def sources(tree: Any) -> Iterator[Any]:
    """Yield the inputs of a tree, each as often as it occurs."""
    if isinstance(tree, Ref):
        yield tree.source
    for one in _parts(tree):
        yield from sources(one)


def _parts(tree: Any) -> tuple[Any, ...]:
    if isinstance(tree, Node):
        return tree.arguments
    return tree if type(tree) is tuple else ()


def numbered(tree: Any, numbers: dict[int, int], done: dict[int, Any]) -> Any:
    """The tree as it is sent: with numbers in place of what it is given."""
    if isinstance(tree, Ref):
        return Ref(numbers[id(tree.source)])
    if type(tree) is tuple:
        return tuple(numbered(one, numbers, done) for one in tree)
    if not isinstance(tree, Node):
        return tree
    if id(tree) not in done:
        done[id(tree)] = Node(tree.function, *(numbered(one, numbers, done) for one in tree.arguments))
    return done[id(tree)]


def evaluated(block: int, *given: Any, tree: Any) -> Any:
    """The value of a tree for one block; what occurs twice in it is computed once, and kept for the last use only."""
    uses: Counter[int] = Counter()
    _count(tree, uses)
    with one_thread(), np.errstate(all="ignore"):  # what is not finite is found by whoever asks
        return _value(tree, block, given, uses, {})


def _count(tree: Any, uses: Counter[int]) -> None:
    """Count how often each call is asked for its value."""
    if isinstance(tree, Node):
        uses[id(tree)] += 1
        if uses[id(tree)] > 1:
            return
    for one in _parts(tree):
        _count(one, uses)


def _value(tree: Any, block: int, given: tuple[Any, ...], uses: Counter[int], done: dict[int, Any]) -> Any:
    if isinstance(tree, Ref):
        return given[tree.source]
    if isinstance(tree, PerBlock):
        return tree.values[block]
    if type(tree) is tuple:
        return tuple(_value(one, block, given, uses, done) for one in tree)
    if not isinstance(tree, Node):
        return tree
    uses[id(tree)] -= 1
    if id(tree) in done:
        return done[id(tree)] if uses[id(tree)] else done.pop(id(tree))
    out = tree.function(*(_value(one, block, given, uses, done) for one in tree.arguments))
    if uses[id(tree)]:
        done[id(tree)] = out
    return out
