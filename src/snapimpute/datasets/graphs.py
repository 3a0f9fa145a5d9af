"""Networks whose links are the ones of a 0/1 matrix; read where the user keeps them, never part of the package."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snapimpute.alphabet import Alphabet
from snapimpute.datasets.given import given_file
from snapimpute.types import Array

ALPHABET = Alphabet.of("0,1")
"""No link, link."""

NEWMAN = "Mark Newman's network data (https://websites.umich.edu/~mejn/netdata/)"
SNAP = "SNAP, ego-Facebook (https://snap.stanford.edu/data/ego-Facebook.html; facebook_combined.txt there)"
LICENCE = "No licence to pass it on comes with it, so it is never bundled."

Index = NDArray[np.int64]


class Cells(NamedTuple):
    """Positions in the adjacency matrix, and 1 where there is a link, else 0."""

    rows: Index
    cols: Index
    values: Array


@dataclass(frozen=True, eq=False)
class Graph:
    """The links of a network, without loops and repeats, and where they come from.

    Parameters
    ----------
    name : str
    nodes : int
    rows, cols : array of int
        Each link once, in the order of the source, as zero-based positions of
        its two nodes: from and to if the graph is directed.
    directed : bool
        If not, (i, j) and (j, i) are the same link, and one of them is listed.
    labels : array, optional
        What the source calls each node.
    citation, licence, description : str

    Examples
    --------
    >>> graph = Graph("path", 4, [0, 2, 2], [1, 1, 3], directed=False)
    >>> graph
    Graph('path', 4 nodes, 3 links, undirected)
    >>> graph.cells().rows, graph.cells().cols, graph.cells().values
    (array([0, 1, 2, 0, 0, 1]), array([1, 2, 3, 2, 3, 3]), array([1., 1., 1., 0., 0., 0.]))
    """

    name: str
    nodes: int
    rows: Index
    cols: Index
    directed: bool
    labels: NDArray[Any] | None = None
    citation: str = ""
    licence: str = ""
    description: str = ""

    def __post_init__(self) -> None:
        for name in ("rows", "cols"):
            array = np.array(getattr(self, name), dtype=np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        r, c = self.rows, self.cols
        if r.ndim != 1 or r.shape != c.shape or r.size == 0:
            raise ValueError(f"rows and cols must be equally long lists of links, got shapes {r.shape} and {c.shape}")
        if min(r.min(), c.min()) < 0 or max(r.max(), c.max()) >= self.nodes:
            raise ValueError(f"graph {self.name!r}: a link to a node that is not one of 0..{self.nodes - 1}")
        loops, repeats = int((r == c).sum()), r.size - np.unique(self._codes).size
        if loops or repeats:
            raise ValueError(f"graph {self.name!r} has {loops} loops and {repeats} repeated links: drop them")
        if self.labels is not None and len(self.labels) != self.nodes:
            raise ValueError(f"graph {self.name!r} has {self.nodes} nodes and {len(self.labels)} labels")

    def __len__(self) -> int:
        return int(self.rows.size)

    def __repr__(self) -> str:
        kind = "directed" if self.directed else "undirected"
        return f"Graph({self.name!r}, {self.nodes} nodes, {len(self)} links, {kind})"

    @property
    def pairs(self) -> int:
        """How many links there could be: ordered pairs of nodes if directed, else unordered ones; no loops."""
        return self.nodes * (self.nodes - 1) // (1 if self.directed else 2)

    def cells(self, ratio: float | None = None, random_state: int = 0) -> Cells:
        """Return every pair of nodes once: the links in their order, then the pairs without a link.

        Parameters
        ----------
        ratio : float, optional
            Of the pairs without a link take a random sample, that many for each
            link, if there are more: a large graph has too many.
        random_state : int
            Of the sample.

        Returns
        -------
        Cells
            In the upper triangle if the graph is not directed.
        """
        links, free = np.sort(self._codes), self.pairs - len(self)
        count = free if ratio is None else min(round(ratio * len(self)), free)
        ranks = np.arange(free)
        if count < free:
            ranks = np.sort(np.random.default_rng(random_state).choice(free, count, replace=False))
        # The pair of rank r among those without a link stands after all links that have at most r such pairs before.
        others = ranks + np.searchsorted(links - np.arange(links.size), ranks, side="right")
        rows, cols = self._decoded(np.concatenate([self._codes, others]))
        return Cells(rows, cols, np.repeat([1.0, 0.0], [len(self), count]))

    @cached_property
    def _codes(self) -> Index:
        """The number of each link among all pairs: row by row without the diagonal, or down the upper triangle."""
        if self.directed:
            ordered: Index = self.rows * (self.nodes - 1) + self.cols - (self.cols > self.rows)
            return ordered
        low, high = np.minimum(self.rows, self.cols), np.maximum(self.rows, self.cols)
        unordered: Index = high * (high - 1) // 2 + low
        return unordered

    def _decoded(self, codes: Index) -> tuple[Index, Index]:
        if self.directed:
            rows, cols = np.divmod(codes, self.nodes - 1)
            return rows, cols + (cols >= rows)
        high = ((1 + np.sqrt(1 + 8 * codes)) / 2).astype(np.int64)
        return codes - high * (high - 1) // 2, high


# ---------------------------------------------------------------- the graphs
def karate(path: str | os.PathLike[str] | None = None) -> Graph:
    """Load Zachary's karate club: 78 links between 34 members, undirected.

    Parameters
    ----------
    path : path, optional
        The file karate.gml, or its folder, as in `given_file`; ValueError if it is not in GML.

    Examples
    --------
    >>> karate()  # doctest: +SKIP
    Graph('karate', 34 nodes, 78 links, undirected)
    """
    found = read_gml(given_file("the karate club", ["karate.gml"], NEWMAN, path), "karate.gml")
    return found.graph(
        "karate",
        citation="Wayne W. Zachary. 1977. An Information Flow Model for Conflict and Fission in Small Groups. "
        "Journal of Anthropological Research 33(4), 452-473.",
        licence=LICENCE,
        description="friendships between the members of a karate club",
    )


def polblogs(path: str | os.PathLike[str] | None = None) -> Graph:
    """Load the political blogs of Adamic and Glance: 19,022 links between 1490 blogs, directed.

    The file lists 19,090 links. Three of them lead from a blog to itself and 65
    repeat an earlier one; both kinds are dropped. 266 blogs are left without any link.

    Parameters
    ----------
    path : path, optional
        The file polblogs.gml, or its folder, as in `given_file`; ValueError if it is not in GML.

    Examples
    --------
    >>> polblogs()  # doctest: +SKIP
    Graph('polblogs', 1490 nodes, 19022 links, directed)
    """
    found = read_gml(given_file("the political blogs", ["polblogs.gml"], NEWMAN, path), "polblogs.gml")
    return found.graph(
        "polblogs",
        citation="Lada A. Adamic and Natalie Glance. 2005. The Political Blogosphere and the 2004 U.S. Election: "
        "Divided They Blog. Proceedings of the 3rd International Workshop on Link Discovery, 36-43. "
        "https://doi.org/10.1145/1134271.1134277",
        licence=LICENCE,
        description="links from one political blog to another, February 2005",
    )


def facebook(path: str | os.PathLike[str] | None = None) -> Graph:
    """Load ego-Facebook: 88,234 links between 4039 people, undirected.

    The list has neither loops nor repeats; nodes are in the order of their numbers.

    Parameters
    ----------
    path : path, optional
        The file facebook_edges.txt or facebook_combined.txt, or its folder, as in `given_file`; ValueError if it is
        not a list of pairs of numbers.

    Examples
    --------
    >>> facebook()  # doctest: +SKIP
    Graph('facebook', 4039 nodes, 88234 links, undirected)
    """
    names = ["facebook_edges.txt", "facebook_combined.txt"]
    found = read_edges(given_file("ego-Facebook", names, SNAP, path), names[0])
    return found.graph(
        "facebook",
        citation="Julian McAuley and Jure Leskovec. 2012. Learning to Discover Social Circles in Ego Networks. "
        "Advances in Neural Information Processing Systems 25, 539-547.",
        licence=LICENCE,
        description="friendships in the circles of ten people",
    )


# ---------------------------------------------------------------- files
@dataclass(frozen=True, eq=False)
class Listed:
    """What a file lists: the nodes by what it calls them, and from which to which the links lead, loops and all."""

    labels: NDArray[Any]
    rows: Index
    cols: Index
    directed: bool

    def graph(self, name: str, **about: str) -> Graph:
        """Drop loops and repeats; of a link that is there several times the first one stays."""
        low, high = (self.rows, self.cols) if self.directed else np.sort([self.rows, self.cols], axis=0)
        first = np.sort(np.unique(low * self.labels.size + high, return_index=True)[1])
        kept = first[low[first] != high[first]]
        return Graph(name, self.labels.size, self.rows[kept], self.cols[kept], self.directed, self.labels, **about)


def read_edges(data: bytes, file: str) -> Listed:
    r"""Read undirected links, a line each: two numbers; lines that begin with # are passed over.

    Examples
    --------
    >>> read_edges(b"# a path\n0 1\n1 5\n", "path.txt").labels
    array([0, 1, 5])
    """
    ends = []
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        fields = line.split()
        if not fields or line.startswith("#"):
            continue
        if len(fields) != 2 or not all(re.fullmatch("[0-9]{1,15}", field) for field in fields):
            raise ValueError(f"{file}, line {number}: expected the numbers of two nodes, got {line[:80]!r}")
        ends.append((int(fields[0]), int(fields[1])))
    if not ends:
        raise ValueError(f"{file} lists no link")
    labels, places = np.unique(np.array(ends), return_inverse=True)
    rows, cols = places.reshape(-1, 2).T.astype(np.int64)
    return Listed(labels, rows, cols, directed=False)


def read_gml(data: bytes, file: str) -> Listed:
    """Read the nodes and edges of a graph in GML; of all their attributes id, label, source and target.

    Examples
    --------
    >>> text = b'graph [ node [ id 7 label "a" ] node [ id 2 ] edge [ source 2 target 7 ] ]'
    >>> read_gml(text, "two.gml").labels
    array(['a', '2'], dtype='<U1')
    """
    graph = next((value for key, value in _gml_list(data.decode("utf-8", "replace"), file) if key == "graph"), None)
    if not isinstance(graph, list):
        raise ValueError(f"{file} is not a graph in GML: it has no 'graph [ ... ]'")
    places: dict[int, int] = {}
    labels, ends, directed = list[str](), list[tuple[int, int]](), False
    for key, value in graph:
        if key == "node":
            attributes = _attributes(value, key, ("id",), file)
            if places.setdefault(attributes["id"], len(places)) != len(labels):
                raise ValueError(f"{file}: two nodes have the id {attributes['id']}")
            labels.append(str(attributes.get("label", attributes["id"])))
        elif key == "edge":
            attributes = _attributes(value, key, ("source", "target"), file)
            ends.append((attributes["source"], attributes["target"]))
        elif key == "directed":
            directed = value == "1"
    unknown = next((end for edge in ends for end in edge if end not in places), None)
    if unknown is not None or not ends:
        wrong = "it has no edge" if unknown is None else f"an edge leads to {unknown}, which is the id of no node"
        raise ValueError(f"{file}: {wrong}")
    rows, cols = np.array([[places[end] for end in edge] for edge in ends], dtype=np.int64).T
    return Listed(np.array(labels), rows, cols, directed)


def _attributes(value: Any, key: str, numbers: Sequence[str], file: str) -> dict[str, Any]:
    """The attributes of a node or edge, those named as whole numbers."""
    found: dict[str, Any] = dict(value) if isinstance(value, list) else {}
    try:
        return found | {name: int(found[name]) for name in numbers}
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"{file}: expected '{key}' with a whole number as {' and '.join(numbers)}: {value}"
        ) from None


def _gml_list(text: str, file: str) -> list[tuple[str, Any]]:
    """The keys and values of a GML text; the value of a key before a bracket is a list again."""
    stack: list[list[tuple[str, Any]]] = [[]]
    key = None
    for line, word in _words(text):
        if key is None and word == "]" and len(stack) > 1:
            stack.pop()
        elif key is None and (word[0].isalpha() or word[0] == "_"):
            key = word
        elif key is not None and word not in ("]", '"'):
            value: Any = [] if word == "[" else word.strip('"')
            stack[-1].append((key, value))
            if word == "[":
                stack.append(value)
            key = None
        else:
            expected = "a key" if key is None else f"the value of {key!r}"
            raise ValueError(f"{file}, line {line}: expected {expected} in GML, got {word[:40]!r}")
    if key is not None or len(stack) > 1:
        raise ValueError(f"{file} is not whole: it ends inside {len(stack) - 1} brackets")
    return stack[0]


def _words(text: str) -> Iterator[tuple[int, str]]:
    """The words, quoted strings and brackets with the numbers of their lines; a quote without its end is one, too."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.lstrip().startswith("#"):
            yield from ((number, word) for word in re.findall(r'"[^"]*"|[][]|[^][\s"]+|"', line))
