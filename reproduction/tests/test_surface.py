"""Walking over a grid of λ and ξ: paths, climbs, starts and sharing, on surfaces that are known."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import snapimpute as si
from reproduction import surface as module
from reproduction.surface import Point, Surface
from snapimpute.experts.proximal.spec import ModelSpec
from snapimpute.experts.proximal.tuning import lam_grid


def table(score: Callable[[int, int], float], *, discrete: str | None = "l1", lams: int = 10, **options: Any) -> Any:
    """A surface whose errors are a function of the places; ``visited`` keeps the order of the fits."""
    visited, ranks = [], options.pop("ranks", {})

    class Known(Surface):
        def _fit(self, lam: int, xi: int, before: tuple[int, int] | None) -> Point:
            visited.append((lam, xi))
            result = SimpleNamespace(x=SimpleNamespace(rank=ranks.get(lam, 0)))
            return Point(lam, xi, score(lam, xi), 1.0, result, before)

    spec = ModelSpec(si.Alphabet.of("1:5"), options.pop("spectral", "nuclear"), discrete)
    observations = si.Observations.from_dense([[1.0, 2.0], [3.0, 4.0]])
    surface = Known(observations, observations, spec, "niapg", [1.0] * lams, 0, **options)
    return surface, visited


def test_the_plain_path_ends_after_the_first_rise():
    """Down from the largest λ; the fit after the best is the last."""
    surface, visited = table(lambda lam, _: (lam - 4) ** 2, discrete=None)
    assert surface.best().lam == 4
    assert visited == [(lam, 0) for lam in range(6)]


def test_flat_ends_and_high_ranks_end_a_path():
    """Hardly better is not better; nor is a path followed to a rank near the side."""
    errors = [2, 1, 0.999, 0.998]
    surface, visited = table(lambda lam, _: errors[lam], discrete=None, lams=4)
    assert surface.best().lam == 1
    assert visited[-1] == (2, 0)
    surface, visited = table(lambda lam, _: 10 - lam, discrete=None, ranks={3: 1})
    assert surface.best().lam == 3
    assert visited[-1] == (3, 0)


def test_a_low_rank_term_that_is_not_convex_gets_more_patience():
    """One bump is passed over, two in a row end the path."""
    errors = [5, 4, 4.5, 3, 6, 7, 1]
    surface, visited = table(lambda lam, _: errors[lam], discrete=None, spectral="lsp", lams=7)
    assert surface.best().lam == 3
    assert visited[-1] == (5, 0)


def test_larger_xi_begin_above_the_best_and_end_when_they_are_worse():
    """Each path begins one λ above the best so far; a ξ that is no better is the last."""
    ridge = {0: (6, 3.0), 1: (5, 2.0), 2: (4, 1.0), 3: (4, 1.5), 4: (4, 9.0)}
    surface, visited = table(lambda lam, xi: ridge[xi][1] + (lam - ridge[xi][0]) ** 2)
    best = surface.best()
    assert (best.lam, best.xi, best.nmse) == (4, 2, 1.0)
    assert [place for place in visited if place[1] == 1] == [(5, 1), (4, 1), (6, 1)]
    assert not [place for place in visited if place[1] == 4]


def test_the_best_lam_may_lie_far_above():
    """The larger ξ, the larger the best λ: a path goes up as far as that helps."""
    surface, _ = table(lambda lam, xi: (lam - (7 if xi == 0 else 2)) ** 2 - xi)
    best = surface.best()
    assert (best.lam, best.xi) == (2, 4)


def test_a_valley_below_does_not_hide_a_deeper_one_above():
    """Down from where it began the error falls a little, up it falls further: both ways are walked."""
    above = {6: 10.0, 5: 9.0, 4: 5.0, 3: 1.0, 2: 4.0, 7: 9.9, 8: 9.5, 9: 9.6}
    ranks = dict.fromkeys(range(5, 7), 1)  # up it goes from high ranks, too
    surface, _ = table(
        lambda lam, xi: 20 + (lam - 7) ** 2 if xi == 0 else above.get(lam, 12.0) + 5 * (xi > 1), plain={}, ranks=ranks
    )
    best = surface.best()
    assert (best.lam, best.xi, best.nmse) == (3, 1, 1.0)


def test_climbing_ends_where_no_neighbour_is_better():
    """From anywhere to the least error of a bowl, inside the grid."""
    surface, visited = table(lambda lam, xi: (lam - 7) ** 2 + (xi - 1) ** 2)
    best = surface.climb(3, 3)
    assert (best.lam, best.xi) == (7, 1)
    assert all(0 <= lam < 10 and 0 <= xi < 5 for lam, xi in visited)
    assert len(visited) == len(set(visited))
    edge, _ = table(lambda lam, xi: lam + xi)
    assert (edge.climb(1, 1).lam, edge.climb(1, 1).xi) == (0, 0)


def test_plain_fits_are_taken_from_others_and_added():
    """Fits with ξ = 0 are kept in the mapping that was given; others are not."""
    plain: dict[tuple[int, int], Point] = {}
    first, once = table(lambda lam, xi: (lam - 3) ** 2 - 0.1 * xi, plain=plain)
    second, again = table(lambda lam, xi: (lam - 3) ** 2 - 0.2 * xi, plain=plain)
    first.best()
    second.best()
    assert {xi for _, xi in plain} == {0}
    assert [place for place in once if place[1] == 0] == [(lam, 0) for lam in range(5)]
    assert not [place for place in again if place[1] == 0]
    assert second.seconds == sum(1 for _ in second.points())


@pytest.fixture
def real() -> tuple[si.Observations, si.Observations]:
    made = si.datasets.low_rank_alphabet((40, 30), 2, "1:5", observed=0.8, random_state=0).observations
    return made.split(0.3, random_state=0)


def test_fits_are_those_of_the_problem(real):
    """NMSE is that of the held-out entries; started beside or from nothing, a convex fit comes out the same."""
    known, held = real
    spec = ModelSpec(si.Alphabet.of("1:5"), "nuclear", "l1")
    surface = Surface(known, held, spec, "apg", lam_grid(known, spec), 0)
    for lam in range(4):
        point = surface.at(lam, 2)
    alone = si.solve(spec.problem(known, surface.lams[3], surface.xis[2]), "apg", max_iter=2000, tol=1e-9)
    estimate = alone.entries(held.rows, held.cols)
    assert point.nmse == pytest.approx(np.sum((estimate - held.values) ** 2) / np.sum(held.values**2), rel=1e-2)
    assert surface.strengths(point) == {"lam": surface.lams[3], "xi": surface.xis[2], "theta": None}


def test_a_fit_starts_beside_another(real, monkeypatch):
    """From the next λ above if that is there, then the next ξ below, then the next λ below, then ``start``."""
    known, held = real
    spec = ModelSpec(si.Alphabet.of("1:5"), "nuclear", "l1")
    starts = []
    original = module.solve
    monkeypatch.setattr(module, "solve", lambda *a, **o: (starts.append(o["x0"]), original(*a, **o))[1])
    surface = Surface(known, held, spec, "apg", lam_grid(known, spec), 0)
    first = surface.at(3, 1)
    assert starts[-1] is None
    below = surface.at(3, 2)
    assert starts[-1] is first.result.x
    surface.at(2, 2)
    assert starts[-1] is below.result.x
    surface.at(4, 1)
    assert starts[-1] is first.result.x
    surface.start = first.result.x
    surface.at(9, 4)
    assert starts[-1] is first.result.x


def test_the_way_to_a_point_is_followed_on_other_data(real):
    """All the fits that led there, in their order and each from the one before, on the data of another surface."""
    known, held = real
    spec = ModelSpec(si.Alphabet.of("1:5"), "nuclear", "l0")
    lams = lam_grid(known, spec)
    first, second = (Surface(some, held, spec, "niapg", lams, 0) for some in (known, held))
    for place in ((0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (3, 1)):
        point = first.at(*place)
    way = first.way_to(point)
    assert way == [(0, 0), (1, 0), (1, 1), (2, 1), (3, 1)]
    reached = second.follow(way)
    assert (reached.lam, reached.xi) == (3, 1)
    assert second.way_to(reached) == way
    assert [*second.plain, *second.others] == way
    by_hand = None
    for lam, xi in way:
        problem = spec.problem(held, lams[lam], second.xis[xi])
        solver = "ais-impute" if problem.convex else "niapg"
        options = {"max_iter": 40, "tol": 1e-4, "evaluate_every": 40, "dtype": "float32"}
        by_hand = si.solve(problem, solver, x0=by_hand, **options).x
    np.testing.assert_array_equal(reached.result.x.s, by_hand.s)
    assert first.way_to(first.at(0, 0)) == [(0, 0)]
