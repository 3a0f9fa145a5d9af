"""Compiled passes over the neighbours of pairs; nothing has the size of the table."""

from __future__ import annotations

import numpy as np

from snapimpute.base.compiled import kernel


@kernel
def common(rows, cols, here, there, weights, out, begin, end):
    """Σ_k w_k over the k that are neighbours of i ``here`` and of j ``there``, for each column w of the weights.

    Pairs stand in the order of their rows. Neighbours are pointers and positions.
    """
    marked = np.zeros(weights.shape[0], np.bool_)
    at = begin
    while at < end:
        i = rows[at]
        for place in range(here[0][i], here[0][i + 1]):
            marked[here[1][place]] = True
        while at < end and rows[at] == i:
            j = cols[at]
            for w in range(weights.shape[1]):
                out[at, w] = 0.0
            for place in range(there[0][j], there[0][j + 1]):
                k = there[1][place]
                if marked[k]:
                    for w in range(weights.shape[1]):
                        out[at, w] += weights[k, w]
            at += 1
        for place in range(here[0][i], here[0][i + 1]):
            marked[here[1][place]] = False


@kernel
def three_steps(rows, cols, first, second, last, by_k, by_l, out, begin, end):
    """Σ_kl u_k v_l over the k that are ``first`` of i and the l that are ``second`` of k and ``last`` of j."""
    reached = np.zeros(by_l.size)
    at = begin
    while at < end:
        i = rows[at]
        for one in range(first[0][i], first[0][i + 1]):
            k = first[1][one]
            for two in range(second[0][k], second[0][k + 1]):
                reached[second[1][two]] += by_k[k]
        while at < end and rows[at] == i:
            j, total = cols[at], 0.0
            for three in range(last[0][j], last[0][j + 1]):
                node = last[1][three]
                total += reached[node] * by_l[node]
            out[at] = total
            at += 1
        for one in range(first[0][i], first[0][i + 1]):
            k = first[1][one]
            for two in range(second[0][k], second[0][k + 1]):
                reached[second[1][two]] = 0.0


@kernel
def low_rank(rows, cols, left, right, ranks, out, begin, end):
    """Σ_r u_ir v_jr over the first r factors, for each of the ranks."""
    for at in range(begin, end):
        i, j, total, r = rows[at], cols[at], 0.0, 0
        for step in range(ranks.size):
            while r < ranks[step]:
                total += left[i, r] * right[j, r]
                r += 1
            out[at, step] = total
