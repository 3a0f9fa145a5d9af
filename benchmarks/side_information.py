"""The posterior with and without features of rows and columns, on cells, on cold rows and columns, and on new ones.

    python benchmarks/side_information.py [movielens folds cold survey new]

MovieLens-100k with the age, gender and occupation of its people, the year and the
genres of its films; splits as in `posterior.py`. Cold: a fifth of the people (of the
films) is new, and folded in without any rating. Beside it the damped mean of the film (of the person), and a
ridge regression of what is left of it on the features, those of people times those
of films included. bfi with age, gender and education (read from SNAPIMPUTE_TEST_DATA):
answers hidden at random, and people who answered nothing. Means over seeds 0, 1, 2.
Rows of tables that were not asked for are kept.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import MultiLabelBinarizer, OneHotEncoder, StandardScaler

import snapimpute as si
from common import RESULTS, save
from snapimpute.posterior import Posterior

SEEDS = (0, 1, 2)
DAMPING = 5
COLD_SHARE = 0.2
BFI_ITEMS = 25
NEW = 100


class Case(NamedTuple):
    """Known cells, hidden cells, and the features of both sides."""

    known: si.Observations
    hidden: si.Observations
    features: dict[str, Any]


# ---------------------------------------------------------------- MovieLens
DATA = si.datasets.movielens_100k()
PEOPLE, FILMS = si.datasets.movielens_100k_features()
BOTH = {"row_features": PEOPLE, "column_features": FILMS}


def take(which: np.ndarray) -> si.Observations:
    labels = {"row_labels": DATA.row_labels, "col_labels": DATA.col_labels}
    return si.Observations.from_coo(DATA.rows[which], DATA.cols[which], DATA.values[which], DATA.shape, **labels)


def shuffled(percent: int) -> Iterator[Case]:
    for seed in SEEDS:
        order = np.random.default_rng(seed).permutation(len(DATA))
        known, hidden = np.split(order, [int(percent / 100 * order.size)])
        yield Case(take(known), take(hidden), BOTH)


def folds() -> Iterator[Case]:
    for k in range(1, 6):
        test = DATA.splits[f"u{k}"]
        yield Case(take(np.setdiff1d(np.arange(len(DATA)), test)), take(test), BOTH)


def cold(whose: np.ndarray, size: int) -> Iterator[Case]:
    for seed in SEEDS:
        without = np.random.default_rng(seed).permutation(size)[: int(COLD_SHARE * size)]
        hidden = np.isin(whose, without)
        yield Case(take(np.flatnonzero(~hidden)), take(np.flatnonzero(hidden)), BOTH)


# ---------------------------------------------------------------- a survey
def bfi() -> tuple[np.ndarray, np.ndarray]:
    """Answers to 25 items; gender, education and age."""
    folder = Path(os.environ.get("SNAPIMPUTE_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")
    with gzip.open(folder / "bfi.csv.gz", "rt") as file:
        _, *rows = csv.reader(file)
    cells = np.array([[float(one) if one not in ("", "NA") else np.nan for one in row[1:]] for row in rows])
    return cells[:, :BFI_ITEMS], cells[:, BFI_ITEMS:]


def survey(hides: Callable[[np.ndarray, np.random.Generator], np.ndarray]) -> Iterator[Case]:
    answers, people = bfi()
    gender = np.array([None if np.isnan(one) else "mf"[int(one) - 1] for one in people[:, 0]], dtype=object)
    features = np.column_stack([people[:, 1:].astype(object), gender])
    for seed in SEEDS:
        hidden = hides(answers, np.random.default_rng(seed))
        tables = [np.where(hidden ^ (part == 0), answers, np.nan) for part in range(2)]
        known, asked = (si.Observations.from_dense(table) for table in tables)
        yield Case(known, asked, {"row_features": features})


def at_random(answers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return rng.random(answers.shape) < 0.3


def whole_rows(answers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.repeat(rng.random((len(answers), 1)) < COLD_SHARE, answers.shape[1], axis=1)


# ---------------------------------------------------------------- methods
def scores(case: Case, alphabet: str, p: np.ndarray | None, mean: np.ndarray) -> dict[str, float]:
    truth, symbols = case.hidden.values, si.Alphabet.of(alphabet)
    out = {"rmse": si.metrics.rmse(truth, mean), "nmse": float(((mean - truth) ** 2).sum() / (truth**2).sum())}
    right = symbols.indices(truth)
    if p is not None:
        out["log_loss"] = -float(np.log(p[np.arange(truth.size), right]).mean())
    return out


def posterior(case: Case, alphabet: str, seed: int, *, given: bool, model: Posterior) -> dict[str, float]:
    begin = time.process_time()
    fit = model.fit(case.known, alphabet, **(case.features if given else {}))
    p = fit.proba(case.hidden.rows, case.hidden.cols)
    seconds = time.process_time() - begin
    return scores(case, alphabet, p, p @ si.Alphabet.of(alphabet).symbols) | {"seconds": seconds}


def folded(case: Case, axis: int, seed: int, *, given: bool) -> dict[str, float]:
    """Scores of a fit without the cold rows (0) or columns (1), which are folded in with nothing but features."""
    lane, known = ("row", "column")[axis], case.known
    sides, labels = [known.rows, known.cols], [known.row_labels, known.col_labels]
    warm = np.flatnonzero(np.bincount(sides[axis], minlength=known.shape[axis]))
    new = np.unique((case.hidden.rows, case.hidden.cols)[axis])
    shape, empty, own = list(known.shape), list(known.shape), labels.copy()
    shape[axis], empty[axis] = warm.size, new.size
    sides[axis], own[axis], labels[axis] = np.searchsorted(warm, sides[axis]), labels[axis][warm], labels[axis][new]
    begin = time.process_time()
    old = si.Observations.from_coo(*sides, known.values, tuple(shape), row_labels=own[0], col_labels=own[1])
    fit = Posterior(random_state=seed).fit(old, "1:5", **(case.features if given else {}))
    nothing = si.Observations(*np.zeros((2, 0), np.int32), np.zeros(0), tuple(empty), *labels)
    fold, name = ((fit.fold_in, fit.fold_in_columns)[axis]), f"{lane}_features"
    more = fold(nothing, **({name: case.features[name]} if given else {}))
    asked = [case.hidden.rows, case.hidden.cols]
    asked[axis] = np.searchsorted(new, asked[axis])
    p = more.proba(*asked)
    seconds = time.process_time() - begin
    return scores(case, "1:5", p, p @ np.arange(1, 6)) | {"seconds": seconds}


def damped_means(case: Case, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Means of the rows (0) or columns (1), drawn to the mean of all, at the known and at the hidden cells."""
    known, everywhere = case.known, case.known.values.mean()
    which, asked = ((one.rows, one.cols)[axis] for one in (known, case.hidden))
    sums = np.bincount(which, known.values - everywhere, minlength=known.shape[axis])
    means = everywhere + sums / (np.bincount(which, minlength=known.shape[axis]) + DAMPING)
    return means[which], means[asked]


def design() -> tuple[np.ndarray, np.ndarray]:
    """Features of people and of films for a regression."""
    one_hot = OneHotEncoder(sparse_output=False)
    words = one_hot.fit_transform([[one["gender"], one["occupation"]] for one in PEOPLE.values()])
    ages = StandardScaler().fit_transform([[one["age"], one["age"] ** 2] for one in PEOPLE.values()])
    genres = MultiLabelBinarizer().fit_transform([one["genres"] for one in FILMS.values()])
    years = np.array([[one["year"] or 1990, one["year"] is None] for one in FILMS.values()], dtype=float)
    years = np.column_stack([years, years[:, 0] ** 2])
    return np.hstack([ages, words]), np.hstack([StandardScaler().fit_transform(years), genres])


def regression(case: Case, axis: int) -> np.ndarray:
    """Ridge regression of the known cells less a damped mean on features, and on products of both sides' features."""
    people, films = design()

    def columns(cells: si.Observations) -> np.ndarray:
        a, b = people[cells.rows], films[cells.cols]
        return np.hstack([a, b, (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)]).astype(np.float32)

    known, asked = damped_means(case, axis)
    model = RidgeCV(alphas=[1, 10, 100, 1000, 10000]).fit(columns(case.known), case.known.values - known)
    return asked + model.predict(columns(case.hidden))


# ---------------------------------------------------------------- tables
def rows_of(name: str, cases: list[Case], alphabet: str, model: Posterior) -> list[dict[str, Any]]:
    """Means over the cases without and with features."""
    out = []
    for given in (False, True):
        found = [posterior(case, alphabet, seed, given=given, model=model) for seed, case in enumerate(cases)]
        out.append(averaged(f"{name}: posterior", "with" if given else "without", found))
    return out


def averaged(name: str, features: str, found: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"data": name, "features": features, "cases": len(found)}
    row |= {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    row |= {f"{key}, each": [round(one[key], 4) for one in found] for key in ("rmse", "log_loss") if key in row}
    print(row, flush=True)
    return row


def movielens() -> list[dict[str, Any]]:
    return [
        row
        for percent in (20, 40, 60, 80)
        for row in rows_of(f"MovieLens-100k, {percent} %", list(shuffled(percent)), "1:5", Posterior())
    ]


def cold_units() -> list[dict[str, Any]]:
    out = []
    for name, whose, size, axis in (("people", DATA.rows, 943, 1), ("films", DATA.cols, 1682, 0)):
        cases, across = list(cold(whose, size)), "film" if axis else "person"
        for given in (False, True):
            found = [folded(case, 1 - axis, seed, given=given) for seed, case in enumerate(cases)]
            out.append(averaged(f"new {name}: posterior, folded in", "with" if given else "without", found))
        means = [scores(case, "1:5", None, damped_means(case, axis)[1]) for case in cases]
        out.append(averaged(f"new {name}: mean of the {across}", "without", means))
        found = [scores(case, "1:5", None, regression(case, axis)) for case in cases]
        out.append(averaged(f"new {name}: ridge regression", "with", found))
    return out


def surveys() -> list[dict[str, Any]]:
    out = []
    for name, hides in (("bfi, 70 %", at_random), ("bfi, cold people", whole_rows)):
        for covariance in ("low-rank", "full"):
            model = Posterior(covariance)
            out += rows_of(f"{name}, {covariance}", list(survey(hides)), "1:6", model)
    return out


def new_units() -> list[dict[str, Any]]:
    """Milliseconds for each new row and column, with features: one alone, and a hundred at once."""
    out = []
    case = next(shuffled(80))
    fit = Posterior("low-rank", thresholds="rows").fit(case.known, "1:5", **case.features)
    for lane, ids, labels in (("row", DATA.rows, DATA.row_labels), ("column", DATA.cols, DATA.col_labels)):
        for count in (1, NEW):
            inside = ids < count
            rows, cols, values = DATA.rows[inside], DATA.cols[inside], DATA.values[inside]
            m, n = DATA.shape
            shape = (count, n) if lane == "row" else (m, count)
            given = {f"{lane}_labels" if lane == "row" else "col_labels": labels[:count]}
            cells = si.Observations.from_coo(rows, cols, values, shape, **given)
            fold = fit.fold_in if lane == "row" else fit.fold_in_columns
            seconds = []
            for _ in range(5):
                begin = time.process_time()
                fold(cells, **{f"{lane}_features": case.features[f"{lane}_features"]})
                seconds.append(time.process_time() - begin)
            row = {"data": f"{count} new {lane}(s)", "cells": len(cells)}
            out.append(row | {"milliseconds each": round(1e3 * min(seconds) / count, 2)})
            print(out[-1], flush=True)
    return out


TABLES: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "movielens": movielens,
    "folds": lambda: rows_of("MovieLens-100k, u1 … u5", list(folds()), "1:5", Posterior()),
    "cold": cold_units,
    "survey": surveys,
    "new": new_units,
}


def kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These rows, after those of the last results that they do not replace."""
    file, new = RESULTS / "side_information.json", {(row["data"], row.get("features")) for row in rows}
    old = json.loads(file.read_text())["rows"] if file.exists() else []
    return [row for row in old if (row["data"], row.get("features")) not in new] + rows


def main() -> None:
    rows: list[dict[str, Any]] = []
    for name in sys.argv[1:] or list(TABLES):
        rows += TABLES[name]()
        save("side_information", kept(rows))


if __name__ == "__main__":
    os.environ.setdefault("SNAPIMPUTE_NUM_THREADS", "1")
    main()
