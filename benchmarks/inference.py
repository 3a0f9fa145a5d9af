"""Coverage of 95 % intervals from completed tables, beside complete data and complete cases on the same samples.

    python benchmarks/inference.py [--samples 200] [--methods draw,full,low-rank] [bfi planted mixed wide]

Every sample draws 600 people, deletes a third of one item depending on another one, and estimates four numbers
whose values in the population are known: a mean, a difference of two means, a slope and a logistic coefficient.
Twenty completed tables are pooled by Rubin's rules with Barnard and Rubin's degrees of freedom.

- bfi: people drawn with replacement from all 2,800, completed once by the full covariance. N1 is missing more often
  where N4 is high; its slope is on N2, the item that it correlates most with (.71).
- planted: thirty items of 1..5 with one common factor (correlations .3), two of which correlate at .8.
- mixed: thirty items of 1..6 in five groups (correlations .4 inside, .15 across), skewed; the two that correlate
  at .8 belong to different groups; a tenth of all other cells is missing at random, too.
- wide: 310 items of 1..5 with correlations of .2, thirty pairs of which correlate at .8. That is too wide for a full
  covariance: low rank is compared with and without its links.

Results are kept as they come, one line a sample (in results/inference): a run that was stopped goes on, and one of
some methods takes up the others as far as they are there. bfi is read from SNAPIMPUTE_TEST_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats

import snapimpute as si
from common import RESULTS, save
from posterior import bfi
from snapimpute.posterior import Posterior

PEOPLE, TABLES = 600, 20
SWEEPS = 200
"""Forty of burn-in, and eight for each of twenty tables: what `draw` needs, where a method is named."""

ESTIMANDS = ("mean", "difference", "slope", "logistic")
LOW_RANK = {"covariance": "low-rank", "thresholds": "columns", "sweeps": SWEEPS}
METHODS: dict[str, dict[str, Any]] = {
    "draw": {},
    "full": {"covariance": "full", "sweeps": SWEEPS},
    "low-rank": LOW_RANK,
    "no links": LOW_RANK | {"links": False},
}
"""Posteriors that tables are drawn from; the first is the default one."""

NARROW = ["draw", "full", "low-rank"]
USUAL = {"bfi": NARROW, "planted": NARROW, "mixed": NARROW, "wide": ["low-rank", "no links"]}
"""Methods of each design."""


class Design(NamedTuple):
    """How tables are made; ``target`` is missing depending on ``cause``, and ``pair`` is what correlates with it."""

    alphabet: str
    people: Callable[[np.random.Generator, int], np.ndarray]
    missing_elsewhere: float
    target: int
    pair: int
    cause: int
    group: int
    truth_from: int

    def sample(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Complete answers of a sample, and the same with cells deleted at random given what stays."""
        rng = np.random.default_rng([24, seed])
        complete = self.people(rng, PEOPLE)
        place = stats.rankdata(complete[:, self.cause]) / PEOPLE
        given = complete.copy()
        elsewhere = rng.random(given.shape) < self.missing_elsewhere
        elsewhere[:, [self.cause, self.group]] = False
        given[elsewhere] = np.nan
        given[rng.random(PEOPLE) < place**2, self.target] = np.nan  # a third, as ∫ u² du = 1/3
        return complete, given

    def truth(self) -> dict[str, float]:
        """The four numbers in the population."""
        people = self.people(np.random.default_rng(2024), self.truth_from)
        return {name: value for name, (value, _) in analysed(people, self).items()}


def latent(correlation: np.ndarray, thresholds: np.ndarray) -> Callable[[np.random.Generator, int], np.ndarray]:
    root = np.linalg.cholesky(correlation)

    def people(rng: np.random.Generator, count: int) -> np.ndarray:
        z = rng.standard_normal((count, len(root))) @ root.T
        return 1.0 + (z[:, :, None] > thresholds).sum(axis=2)

    return people


def one_factor() -> np.ndarray:
    correlation = np.full((30, 30), 0.3)
    correlation[0, 1] = correlation[1, 0] = 0.8
    np.fill_diagonal(correlation, 1.0)
    return correlation


def five_groups() -> np.ndarray:
    group = np.arange(30) % 5
    correlation = np.where(group[:, None] == group, 0.4, 0.15)
    correlation[0, 1] = correlation[1, 0] = 0.8
    np.fill_diagonal(correlation, 1.0)
    return correlation


def many_pairs() -> np.ndarray:
    correlation = np.full((310, 310), 0.2)
    first = np.arange(0, 60, 2)
    correlation[first, first + 1] = correlation[first + 1, first] = 0.8
    np.fill_diagonal(correlation, 1.0)
    return correlation


@cache
def population() -> np.ndarray:
    """All people of bfi, their few missing cells completed once."""
    table = bfi()
    observations = table.take(np.arange(table.rows.size))
    fit = Posterior(covariance="full", sweeps=SWEEPS).fit(observations, "1:6")
    X = np.full(table.shape, np.nan)
    X[table.rows, table.cols] = table.values
    rows, cols = fit.missing()
    X[rows, cols] = fit.draw(1)[0]
    return X


def resampled(rng: np.random.Generator, count: int) -> np.ndarray:
    people = population()
    return people if count == len(people) else people[rng.integers(0, len(people), count)]


@cache
def design(name: str) -> Design:
    if name == "bfi":
        return Design("1:6", resampled, 0.0, target=15, pair=16, cause=18, group=19, truth_from=2800)
    if name == "planted":
        people = latent(one_factor(), np.array([-1.3, -0.4, 0.4, 1.3]))
        return Design("1:5", people, 0.0, target=0, pair=1, cause=2, group=3, truth_from=1_000_000)
    if name == "wide":
        people = latent(many_pairs(), np.array([-1.3, -0.4, 0.4, 1.3]))
        return Design("1:5", people, 0.0, target=0, pair=1, cause=80, group=81, truth_from=100_000)
    skewed = np.linspace(-1.2, 1.4, 5) + 0.4 * np.sin(np.arange(30))[:, None]
    return Design(
        "1:6", latent(five_groups(), skewed), 0.1, target=0, pair=1, cause=5, group=10, truth_from=1_000_000
    )


# -------------------------------------------------------------------- analyses


Estimates = dict[str, tuple[float, float]]
"""An estimate and its variance, by name."""


def mean(y: np.ndarray) -> tuple[float, float]:
    return float(y.mean()), float(y.var(ddof=1) / y.size)


def difference(y: np.ndarray, group: np.ndarray) -> tuple[float, float]:
    a, b = mean(y[group]), mean(y[~group])
    return a[0] - b[0], a[1] + b[1]


def slope(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Least squares, with a variance that holds where the spread of the residuals depends on x (HC1)."""
    centered = x - x.mean()
    total = centered @ centered
    found = centered @ y / total
    rest = y - y.mean() - found * centered
    return float(found), float((centered**2 @ rest**2) / total**2 * y.size / (y.size - 2))


def logistic(x: np.ndarray, success: np.ndarray) -> tuple[float, float]:
    """Maximum likelihood by Newton's method; the sandwich is its variance."""
    X, b = np.column_stack([np.ones(x.size), x]), np.zeros(2)
    for _ in range(50):
        p = special.expit(X @ b)
        step = np.linalg.solve((X.T * (p * (1 - p))) @ X, X.T @ (success - p))
        b += step
        if np.abs(step).max() < 1e-10:
            break
    bread = np.linalg.inv((X.T * (p * (1 - p))) @ X)
    variance = bread @ ((X.T * (success - p) ** 2) @ X) @ bread
    return float(b[1]), float(variance[1, 1])


def analysed(X: np.ndarray, design: Design) -> Estimates:
    """The four estimates from the people who answered what each needs."""
    y, pair, group = X[:, design.target], X[:, design.pair], X[:, design.group]
    middle = (int(design.alphabet[0]) + int(design.alphabet[-1])) / 2
    there, both = ~np.isnan(y), ~np.isnan(y) & ~np.isnan(pair)
    high = group > middle
    return {
        "mean": mean(y[there]),
        "difference": difference(y[there], high[there]),
        "slope": slope(pair[both], y[both]),
        "logistic": logistic(y[there], high[there]),
    }


def pooled(found: list[tuple[float, float]], complete_df: float) -> tuple[float, float, float]:
    """Estimate, standard error and degrees of freedom by Rubin's rules, these by Barnard and Rubin (1999)."""
    values, variances = np.array(found).T
    m, within, across = values.size, variances.mean(), values.var(ddof=1)
    total = within + (1 + 1 / m) * across
    missing = (1 + 1 / m) * across / total
    between_df = (m - 1) / missing**2 if missing > 0 else np.inf
    observed_df = (complete_df + 1) / (complete_df + 3) * complete_df * (1 - missing)
    return float(values.mean()), float(np.sqrt(total)), float(1 / (1 / between_df + 1 / observed_df))


def interval(estimate: float, error: float, df: float) -> list[float]:
    """Estimate, lower end and upper end."""
    half = float(stats.t.ppf(0.975, df)) * error
    return [estimate, estimate - half, estimate + half]


def alone(X: np.ndarray, design: Design) -> dict[str, list[float]]:
    count = int((~np.isnan(X[:, design.target])).sum())
    return {
        name: interval(value, variance**0.5, count - 2) for name, (value, variance) in analysed(X, design).items()
    }


# --------------------------------------------------------------------- a study


def of_sample(name: str, seed: int, method: str) -> dict[str, Any]:
    """Intervals of one sample, by method: those without a model, or those of a posterior."""
    one = design(name)
    complete, given = one.sample(seed)
    if method == "reference":
        return {"complete": alone(complete, one), "cases": alone(given, one)}
    begin = time.process_time()
    fit = Posterior(**METHODS[method], random_state=seed).fit(si.Observations.from_dense(given), one.alphabet)
    rows, cols = fit.missing()
    tables = []
    for cells in fit.iter_draws(TABLES):
        tables.append(given.copy())
        tables[-1][rows, cols] = cells
    seconds = time.process_time() - begin
    found = [analysed(table, one) for table in tables]
    out = {key: interval(*pooled([each[key] for each in found], PEOPLE - 2)) for key in ESTIMANDS}
    if method != "draw":
        return {method: out | {"seconds": seconds}}
    best = given.copy()
    best[rows, cols] = si.Alphabet.of(one.alphabet).symbols[fit.proba(rows, cols).argmax(axis=1)]
    return {"one table": alone(best, one), method: out | {"seconds": seconds}}


def file_of(name: str, method: str) -> Path:
    return RESULTS / "inference" / f"{name}-{method.replace(' ', '-')}.jsonl"


def earlier(name: str, method: str) -> list[dict[str, Any]]:
    """Intervals of the samples of earlier runs."""
    path = file_of(name, method)
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def samples(name: str, count: int, method: str) -> Iterator[dict[str, Any]]:
    """Intervals of all samples; those of earlier runs come from their file."""
    path, done = file_of(name, method), earlier(name, method)
    path.parent.mkdir(parents=True, exist_ok=True)
    yield from done[:count]
    for seed in range(len(done), count):
        found = of_sample(name, seed, method)
        with path.open("a") as file:
            file.write(json.dumps(found) + "\n")
        yield found


def summary(name: str, found: dict[str, np.ndarray], seconds: dict[str, float]) -> list[dict[str, Any]]:
    """Coverage, bias against the population and width against complete data; ``found`` holds intervals by method.

    ``below`` is the coverage that is lost against complete data on the same samples, with its standard error.
    """
    truth = np.array([design(name).truth()[key] for key in ESTIMANDS])
    covered = {method: (ends[..., 1] <= truth) & (truth <= ends[..., 2]) for method, ends in found.items()}
    widths = {method: ends[..., 2] - ends[..., 1] for method, ends in found.items()}
    out = []
    for method, ends in found.items():
        row: dict[str, Any] = {"data": name, "method": method, "samples": len(ends)}
        count = len(ends)
        lost = covered["complete"][:count].astype(float) - covered[method]
        share = widths[method] / widths["complete"][:count]
        for k, key in enumerate(ESTIMANDS):
            row[f"coverage {key}"] = float(covered[method][:, k].mean())
            row[f"below {key}"] = float(lost[:, k].mean())
            row[f"standard error {key}"] = float(lost[:, k].std(ddof=1) / np.sqrt(len(lost)))
            row[f"bias {key}"] = float(ends[:, k, 0].mean() - truth[k])
            row[f"spread {key}"] = float(ends[:, k, 0].std(ddof=1))
            row[f"width {key}"] = float(share[:, k].mean())
        out.append(row | ({"seconds": seconds[method]} if method in seconds else {}))
    return out


def studied(name: str, count: int, methods: list[str]) -> list[dict[str, Any]]:
    found: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    others = [one for one in METHODS if one not in methods and file_of(name, one).exists()]
    for which in ("reference", *methods, *others):
        kept = earlier(name, which) if which in others else list(samples(name, count, which))
        for method in kept[0]:
            found[method] = np.array([[one[method][key] for key in ESTIMANDS] for one in kept])
            if "seconds" in kept[0][method]:
                seconds[method] = float(np.median([one[method]["seconds"] for one in kept]))
    rows = summary(name, found, seconds)
    for row in rows:
        shown = (
            f"{key} {row[f'coverage {key}']:.3f} ({row[f'bias {key}']:+.3f}, ×{row[f'width {key}']:.2f}"
            f"{', LOW' if row[f'below {key}'] > 2 * row[f'standard error {key}'] > 0 else ''})"
            for key in ESTIMANDS
        )
        print(f"{name:8} {row['method']:16} {'  '.join(shown)}  {row.get('seconds', 0):.1f} s", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("designs", nargs="*", default=list(USUAL))
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--methods", help="separated by commas")
    given = parser.parse_args()
    rows = []
    for name in given.designs:
        methods = given.methods.split(",") if given.methods else USUAL[name]
        rows += studied(name, given.samples, methods)
    save("inference", rows)


if __name__ == "__main__":
    os.environ.setdefault("SNAPIMPUTE_NUM_THREADS", "1")
    main()
