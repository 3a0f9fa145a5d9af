"""Networks whose links are the ones of a 0/1 matrix; networkx reads them where the user keeps them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from reproduction.data.given import given_file
from snapimpute.base.types import Array, Index
from snapimpute.data.alphabet import Alphabet

ALPHABET = Alphabet.of("0,1")
"""No link, link."""

NEWMAN = "Mark Newman's network data (https://websites.umich.edu/~mejn/netdata/)"
SNAP = "SNAP, ego-Facebook (https://snap.stanford.edu/data/ego-Facebook.html; facebook_combined.txt there)"


class LinkSample(NamedTuple):
    """Positions in the adjacency matrix, and 1 where there is a link, else 0."""

    rows: Index
    cols: Index
    values: Array


@dataclass(frozen=True, eq=False)
class Graph:
    """The links of a network, without loops and repeats.

    Parameters
    ----------
    nodes : int
    rows, cols : array of int
        Each link once, as zero-based positions of its two nodes: from and to if
        the graph is directed. Samples and splits depend on their order.
    directed : bool
        If not, (i, j) and (j, i) are the same link, and one of them is listed.

    Examples
    --------
    >>> graph = Graph(4, [0, 2, 2], [1, 1, 3], directed=False)
    >>> graph.cells().rows, graph.cells().cols, graph.cells().values
    (array([0, 1, 2, 0, 0, 1]), array([1, 2, 3, 2, 3, 3]), array([1., 1., 1., 0., 0., 0.]))
    """

    nodes: int
    rows: Index
    cols: Index
    directed: bool

    def __post_init__(self) -> None:
        for name in ("rows", "cols"):
            array = np.array(getattr(self, name), dtype=np.int64)
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        r, c = self.rows, self.cols
        if r.ndim != 1 or r.shape != c.shape or r.size == 0:
            raise ValueError(f"rows and cols must be equally long lists of links, got shapes {r.shape} and {c.shape}")
        if min(r.min(), c.min()) < 0 or max(r.max(), c.max()) >= self.nodes:
            raise ValueError(f"a link leads to a node that is not one of 0..{self.nodes - 1}")
        loops, repeats = int((r == c).sum()), r.size - np.unique(self._codes).size
        if loops or repeats:
            raise ValueError(f"the graph has {loops} loops and {repeats} repeated links: drop them")

    def __len__(self) -> int:
        return int(self.rows.size)

    @property
    def pairs(self) -> int:
        """Number of pairs that could be linked: ordered if directed, else unordered; no loops."""
        return self.nodes * (self.nodes - 1) // (1 if self.directed else 2)

    def cells(self, ratio: float | None = None, random_state: int = 0) -> LinkSample:
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
        LinkSample
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
        return LinkSample(rows, cols, np.repeat([1.0, 0.0], [len(self), count]))

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
    """Load Zachary's karate club: 78 friendships between 34 members, undirected.

    Parameters
    ----------
    path : path, optional
        The file karate.gml, or its folder, as in `given_file`; ValueError if it is not in GML.

    References
    ----------
    Wayne W. Zachary. 1977. An Information Flow Model for Conflict and Fission in Small Groups. Journal of
    Anthropological Research 33(4), 452-473.
    """
    return read_gml(given_file("the karate club", ["karate.gml"], NEWMAN, path), "karate.gml")


def polblogs(path: str | os.PathLike[str] | None = None) -> Graph:
    """Load the political blogs of Adamic and Glance: 19,022 links between 1490 blogs in February 2005, directed.

    The file lists 19,090 links. Three of them lead from a blog to itself and 65
    repeat an earlier one; both kinds are dropped. 266 blogs are left without any link.

    Parameters
    ----------
    path : path, optional
        The file polblogs.gml, or its folder, as in `given_file`; ValueError if it is not in GML.

    References
    ----------
    Lada A. Adamic and Natalie Glance. 2005. The Political Blogosphere and the 2004 U.S. Election: Divided They Blog.
    Proceedings of the 3rd International Workshop on Link Discovery, 36-43. https://doi.org/10.1145/1134271.1134277
    """
    return read_gml(given_file("the political blogs", ["polblogs.gml"], NEWMAN, path), "polblogs.gml")


def facebook(path: str | os.PathLike[str] | None = None) -> Graph:
    """Load ego-Facebook: 88,234 friendships between 4039 people in the circles of ten, undirected.

    Parameters
    ----------
    path : path, optional
        The file facebook_edges.txt or facebook_combined.txt, or its folder, as in `given_file`; ValueError if it is
        not a list of pairs of numbers.

    References
    ----------
    Julian McAuley and Jure Leskovec. 2012. Learning to Discover Social Circles in Ego Networks. Advances in Neural
    Information Processing Systems 25, 539-547.
    """
    names = ["facebook_edges.txt", "facebook_combined.txt"]
    return read_edges(given_file("ego-Facebook", names, SNAP, path), names[0])


# ---------------------------------------------------------------- files
def read_edges(data: bytes, file: str) -> Graph:
    r"""Read undirected links, two numbers a line; nodes and links are sorted by number.

    Examples
    --------
    >>> read_edges(b"# a path\n5 1\n0 1\n", "path.txt").cols
    array([1, 2])
    """
    import networkx as nx

    try:
        found = nx.parse_edgelist(data.decode("utf-8", "replace").splitlines(), nodetype=int)
    except TypeError as err:
        raise ValueError(f"{file} must list the numbers of two nodes a line: {err}") from err
    place = {node: i for i, node in enumerate(sorted(found))}
    return _graph(file, place, sorted(sorted((place[a], place[b])) for a, b in found.edges), directed=False)


def read_gml(data: bytes, file: str) -> Graph:
    """Read a graph in GML; nodes and links stand in the order of the file.

    Examples
    --------
    >>> text = b'graph [ directed 1 node [ id 7 ] node [ id 2 ] edge [ source 2 target 7 ] ]'
    >>> read_gml(text, "two.gml").rows
    array([1])
    """
    import networkx as nx

    # networkx allows repeated links in a multigraph only, and keeps the order of the links as their keys only.
    numbers = count()
    text = re.sub(r"\bgraph\s*\[", "graph [ multigraph 1 ", data.decode("utf-8", "replace"), count=1)
    text = re.sub(r"\bedge\s*\[", lambda _: f"edge [ key {next(numbers)} ", text)
    try:
        found = nx.parse_gml(text, label="id")
    except (nx.NetworkXError, AttributeError, TypeError) as err:
        raise ValueError(f"{file} is not a graph in GML: {err}") from err
    place = {node: i for i, node in enumerate(found)}
    links = sorted(found.edges(keys=True), key=lambda link: link[2])
    return _graph(file, place, ((place[a], place[b]) for a, b, _ in links), directed=found.is_directed())


def _graph(file: str, place: Mapping[Any, int], links: Iterable[Sequence[int]], *, directed: bool) -> Graph:
    """Drop loops and repeats; of a link that is there several times the first one stays."""
    ends = (tuple(link if directed else sorted(link)) for link in links)
    kept = list(dict.fromkeys((i, j) for i, j in ends if i != j))
    if not kept:
        raise ValueError(f"{file} lists no link between two nodes")
    rows, cols = np.array(kept).T
    return Graph(len(place), rows, cols, directed)
