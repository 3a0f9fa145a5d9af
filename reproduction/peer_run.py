"""One run of another library in the environment that `peers` makes for it: numpy and that library are all it needs.

It is given the name of a run, a file with the known entries and the places asked
for, and the file to write its answer to. The truth at those places is in no file.

Settings: the libraries' defaults, or what their documentation takes for
MovieLens-100k. Where a setting is known to matter, a fifth of the known entries is
held out, a short grid tried on it by squared error, and all known entries fitted
with the best; the seconds, of the processor, count all of that. The grids were laid out on such
held-out entries too. Estimates are the libraries' own: Surprise and cornac hold
them in the range of the symbols, as they do by default; so do BiScaler and
IterativeImputer, which are told the range; KNNImputer gives means of known
values; those of myFM's regression and ours may leave it a little.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Task(NamedTuple):
    """Known entries of a table, and the places whose entries are asked for."""

    shape: Array
    symbols: Array
    seed: int
    rows: Array
    cols: Array
    values: Array
    asked_rows: Array
    asked_cols: Array


class Answer(NamedTuple):
    """Estimates at the places asked for; symbols, where a library decides by itself; what tuning chose.

    ``proba`` has the probability of each symbol, one row a place, where a library gives them.
    """

    estimate: Array
    symbols: Array | None = None
    chosen: str = ""
    proba: Array | None = None


PeerFit = Callable[..., Array]
"""Task, and settings by name → estimates."""

Run = Callable[[Task], Answer]

GRIDS: dict[str, tuple[dict[str, Any], ...]] = {
    "surprise-svd": (
        {},
        {"reg_all": 0.1},
        {"n_factors": 20, "n_epochs": 50, "reg_all": 0.1},
        {"n_epochs": 50, "reg_all": 0.1},
        {"n_epochs": 100, "reg_all": 0.12},
        {"n_factors": 200, "n_epochs": 100, "reg_all": 0.12},
    ),
    "surprise-svdpp": ({}, {"reg_all": 0.1}, {"n_epochs": 40, "reg_all": 0.1}),
    "cornac-mf": (
        {},
        {"max_iter": 25},
        {"lambda_reg": 0.1},
        {"k": 50, "max_iter": 50, "lambda_reg": 0.1},
        {"k": 100, "max_iter": 50, "lambda_reg": 0.1},
        {"k": 200, "max_iter": 40, "lambda_reg": 0.08},
    ),
    "fancyimpute": (
        {"scale": True, "part": 0.4},
        {"scale": True, "part": 0.55},
        {"scale": True, "part": 0.75},
        {"scale": True, "part": 0.9},
        {"scale": False, "part": 0.5},
        {"scale": False, "part": 0.7},
    ),
    "knn": tuple({"n_neighbors": k} for k in (5, 10, 20, 40)),
}
"""Settings to try; an empty one is the library's default."""

MYFM = {"n_iter": 512, "n_kept_samples": 256}
MYFM_HISTORIES = {"n_iter": 300, "n_kept_samples": 300}
"""With histories all samples are kept: of 150, 300 and 512 iterations, and halves of these, that predicts best."""

MAX_RANK = 50
"""Largest rank of fancyimpute, which then takes its randomised SVD; the full one takes several times as long."""


def tuned(fit: PeerFit, grid: Sequence[Mapping[str, Any]]) -> Run:
    """Choose the setting with the least squared error on a fifth of the known entries, and fit all with it."""

    def run(task: Task) -> Answer:
        order = np.random.default_rng(task.seed).permutation(task.values.size)
        out, rest = np.split(order, [task.values.size // 5])
        rows, cols, truth = task.rows, task.cols, task.values
        inner = task._replace(
            rows=rows[rest], cols=cols[rest], values=truth[rest], asked_rows=rows[out], asked_cols=cols[out]
        )
        errors = [float(np.mean((fit(inner, **setting) - truth[out]) ** 2)) for setting in grid]
        best = grid[int(np.argmin(errors))]
        return Answer(fit(task, **best), chosen=", ".join(f"{k}={v}" for k, v in best.items()) or "its defaults")

    return run


# -------------------------------------------------------------------- by lists of entries
def one_hot(task: Task, rows: Array, cols: Array) -> Any:
    """A row for each entry, with a 1 for its row and a 1 for its column."""
    from scipy.sparse import csr_array

    m, n = map(int, task.shape)
    places = np.stack([rows, m + cols], axis=1).ravel().astype(np.int64)
    return csr_array((np.ones(places.size), places, np.arange(0, places.size + 1, 2)), shape=(rows.size, m + n))


def myfm_regression() -> Run:
    """Rank 10 and a group for users and one for items, as in its tutorial; the last half of 512 samples is kept."""
    myfm: Any = import_module("myfm")

    def run(task: Task) -> Answer:
        model = myfm.MyFMRegressor(rank=10, random_seed=task.seed)
        known, asked = one_hot(task, task.rows, task.cols), one_hot(task, task.asked_rows, task.asked_cols)
        model.fit(known, task.values, group_shapes=task.shape.tolist(), **MYFM)
        return Answer(model.predict(asked))

    return run


def myfm_probit() -> Run:
    """The same with symbols as classes: estimates are the expected symbols, decided is the likeliest one."""
    myfm: Any = import_module("myfm")

    def run(task: Task) -> Answer:
        model = myfm.MyFMOrderedProbit(rank=10, random_seed=task.seed)
        known, asked = one_hot(task, task.rows, task.cols), one_hot(task, task.asked_rows, task.asked_cols)
        classes = np.searchsorted(task.symbols, task.values)
        model.fit(known, classes, group_shapes=task.shape.tolist(), **MYFM)
        p = model.predict_proba(asked)
        return Answer(p @ task.symbols, task.symbols[np.argmax(p, axis=1)])

    return run


def histories(task: Task) -> tuple[Any, Any]:
    """Rows of myFM for the rows and the columns of a table: who it is, and with whom it has known entries.

    As in its tutorial, the ones of a history are divided by the root of their number. Hidden entries are in none.
    """
    from scipy.sparse import csr_array, csr_matrix, diags_array, eye_array, hstack

    m, n = map(int, task.shape)
    mask = csr_array((np.ones(task.rows.size), (task.rows, task.cols)), shape=(m, n))

    def scaled(one: Any) -> Any:
        return diags_array(np.maximum(one.sum(axis=1), 1.0) ** -0.5) @ one

    return csr_matrix(hstack([eye_array(m), scaled(mask)])), csr_matrix(hstack([eye_array(n), scaled(mask.T)]))


def myfm_histories(name: str, rank: int) -> Run:
    """A model of myFM with the histories of rows and columns as features, one group for each of the four parts."""
    myfm: Any = import_module("myfm")

    def run(task: Task) -> Answer:
        m, n = map(int, task.shape)
        sides = histories(task)

        def blocks(*at: Array) -> list[Any]:
            return [myfm.RelationBlock(one.tolist(), side) for one, side in zip(at, sides, strict=True)]

        known, asked = blocks(task.rows, task.cols), blocks(task.asked_rows, task.asked_cols)
        model = getattr(myfm, name)(rank=rank, random_seed=task.seed)
        classes = np.searchsorted(task.symbols, task.values)
        ordered = hasattr(model, "predict_proba")
        target = classes if ordered else task.values
        model.fit(None, target, X_rel=known, group_shapes=[m, n, n, m], **MYFM_HISTORIES)
        if not ordered:
            return Answer(model.predict(None, asked))
        p = model.predict_proba(None, asked)
        return Answer(p @ task.symbols, task.symbols[np.argmax(p, axis=1)], proba=p)

    return run


def surprise_model(name: str, grid: str, **fixed: Any) -> Run:
    """A model of Surprise, on the scale from the lowest to the highest symbol."""
    surprise: Any = import_module("surprise")

    def fit(task: Task, **setting: Any) -> Array:
        scale = float(task.symbols[0]), float(task.symbols[-1])
        data = surprise.Dataset(surprise.Reader(rating_scale=scale))
        entries = zip(task.rows.tolist(), task.cols.tolist(), task.values.tolist(), strict=True)
        model = getattr(surprise, name)(random_state=task.seed, **fixed, **setting)
        model.fit(data.construct_trainset([(u, i, r, None) for u, i, r in entries]))
        asked = zip(task.asked_rows.tolist(), task.asked_cols.tolist(), strict=True)
        return np.array([model.predict(u, i).est for u, i in asked])

    return tuned(fit, GRIDS[grid])


def cornac_mf() -> Run:
    """Factors with biases; a row or column that is not known gets what `rate` makes of it."""
    models, data = import_module("cornac.models"), import_module("cornac.data")

    def fit(task: Task, **setting: Any) -> Array:
        entries = zip(task.rows.tolist(), task.cols.tolist(), task.values.tolist(), strict=True)
        known = data.Dataset.from_uir(list(entries), seed=task.seed)
        model = models.MF(seed=task.seed, **setting).fit(known)
        users = [known.uid_map.get(u, known.num_users) for u in task.asked_rows.tolist()]
        items = [known.iid_map.get(i, known.num_items) for i in task.asked_cols.tolist()]
        return np.array([float(model.rate(u, i)) for u, i in zip(users, items, strict=True)])

    return tuned(fit, GRIDS["cornac-mf"])


# -------------------------------------------------------------------- by tables
def on_table(fill: Callable[..., Array]) -> PeerFit:
    """Let a function fill a table without empty rows and columns; their entries get the mean of the known ones."""

    def fit(task: Task, **setting: Any) -> Array:
        table = np.full(task.shape, np.nan)
        table[task.rows, task.cols] = task.values
        seen = np.ix_(np.unique(task.rows), np.unique(task.cols))
        filled = np.full(table.shape, task.values.mean())
        filled[seen] = fill(table[seen], task, **setting)
        return filled[task.asked_rows, task.asked_cols]

    return fit


def fancyimpute_soft() -> Run:
    """SoftImpute after BiScaler, as its documentation has it; λ is a part of the largest singular value."""
    fancyimpute: Any = import_module("fancyimpute")

    def fill(table: Array, task: Task, *, scale: bool, part: float) -> Array:
        low, high = task.symbols[[0, -1]].tolist()
        np.random.seed(task.seed)  # noqa: NPY002  where its randomised SVD takes its numbers from
        scaler = fancyimpute.BiScaler(
            scale_rows=scale, scale_columns=scale, min_value=low, max_value=high, verbose=False
        )
        normal = scaler.fit_transform(table)
        lam = part * float(np.linalg.norm(np.nan_to_num(normal), 2))
        model = fancyimpute.SoftImpute(shrinkage_value=lam, max_rank=MAX_RANK, verbose=False)
        return np.asarray(scaler.inverse_transform(model.fit_transform(normal)))

    return tuned(on_table(fill), GRIDS["fancyimpute"])


def knn() -> Run:
    """scikit-learn's mean of the nearest users."""
    from sklearn.impute import KNNImputer

    def fill(table: Array, task: Task, **setting: Any) -> Array:
        return np.asarray(KNNImputer(**setting).fit_transform(table))

    return tuned(on_table(fill), GRIDS["knn"])


def iterative() -> Run:
    """scikit-learn's round of regressions, on 10 features each, as all of them take too long. Not tuned."""
    import_module("sklearn.experimental.enable_iterative_imputer")
    from sklearn.impute import IterativeImputer

    def fill(table: Array, task: Task) -> Array:
        low, high = task.symbols[[0, -1]].tolist()
        imputer = IterativeImputer(n_nearest_features=10, min_value=low, max_value=high, random_state=task.seed)
        return np.asarray(imputer.fit_transform(table))

    return lambda task: Answer(on_table(fill)(task))


# -------------------------------------------------------------------- ours, where this package is
def ours() -> Run:
    """The proximal expert with its defaults; a toy comes first, so that what it compiles does not count."""
    from snapimpute.data.observations import Observations
    from snapimpute.estimator.imputer import SnapImputer

    def run(task: Task) -> Answer:
        known = Observations.from_coo(task.rows, task.cols, task.values, tuple(task.shape.tolist()))
        imputer = SnapImputer(task.symbols.tolist(), method="proximal", random_state=task.seed).fit(known.to_sparse())
        cells = task.asked_rows, task.asked_cols
        chosen = f"λ={imputer.lam_:.3g}, ξ={imputer.xi_:.3g}, centre={imputer.center_}"
        return Answer(imputer.predict_mean(*cells), imputer.predict(*cells), chosen)

    rng = np.random.default_rng(0)
    rows, cols = np.divmod(rng.permutation(2000)[:1000], 40)
    run(Task(np.array([50, 40]), np.arange(1.0, 6.0), 0, rows, cols, rng.integers(1, 6, 1000) * 1.0, rows, cols))
    return run


def posterior() -> Run:
    """The posterior with its defaults; toys of each number of factors come first, to compile."""
    from snapimpute.data.observations import Observations
    from snapimpute.posterior import Posterior

    def run(task: Task, **how: Any) -> Answer:
        known = Observations.from_coo(task.rows, task.cols, task.values, tuple(task.shape.tolist()))
        fit = Posterior(random_state=task.seed, **how).fit(known, task.symbols.tolist())
        p = fit.proba(task.asked_rows, task.asked_cols)
        chosen = f"{len(fit.history)} sweeps"
        return Answer(p @ task.symbols, task.symbols[np.argmax(p, axis=1)], chosen, p)

    rng = np.random.default_rng(0)
    rows, cols = np.divmod(rng.permutation(2000)[:1000], 40)
    toy = Task(np.array([50, 40]), np.arange(1.0, 6.0), 0, rows, cols, rng.integers(1, 6, 1000) * 1.0, rows, cols)
    for rank in (7, 15, 31):
        for side in ("rows", "columns"):
            run(toy, covariance="low-rank", rank=rank, thresholds=side, sweeps=30)
    return run


def baseline(name: str) -> Run:
    """One of `snapimpute.evaluation.baselines` with its defaults."""
    from snapimpute.data.observations import Observations
    from snapimpute.evaluation import baselines

    def run(task: Task) -> Answer:
        known = Observations.from_coo(task.rows, task.cols, task.values, tuple(task.shape.tolist()))
        return Answer(getattr(baselines, name).fit(known).entries(task.asked_rows, task.asked_cols))

    return run


RUNS: dict[str, Callable[[], Run]] = {
    "myfm-regression": myfm_regression,
    "myfm-probit": myfm_probit,
    "myfm-regression-histories-8": lambda: myfm_histories("MyFMRegressor", 8),
    "myfm-probit-histories-8": lambda: myfm_histories("MyFMOrderedProbit", 8),
    "myfm-regression-histories-16": lambda: myfm_histories("MyFMRegressor", 16),
    "myfm-probit-histories-16": lambda: myfm_histories("MyFMOrderedProbit", 16),
    "surprise-svd": lambda: surprise_model("SVD", "surprise-svd"),
    "surprise-svdpp": lambda: surprise_model("SVDpp", "surprise-svdpp", cache_ratings=True),
    "cornac-mf": cornac_mf,
    "fancyimpute": fancyimpute_soft,
    "knn": knn,
    "iterative": iterative,
    "ours": ours,
    "posterior": posterior,
    "damped-biases": lambda: baseline("DampedBiases"),
    "constant-mean": lambda: baseline("ConstantMean"),
}
"""Each imports what it needs, and returns what is to be timed."""


def peak_mib() -> float:
    """Largest resident memory of this program so far; NaN where the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():  # `getrusage` would count what ran before in the process
        lines = status.read_text(encoding="utf-8").splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**10
    try:
        resource: Any = import_module("resource")
    except ImportError:
        return float("nan")
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / (2**20 if sys.platform == "darwin" else 2**10)


def main(name: str, task_file: str, answer_file: str) -> None:
    """Read a task, run it, write the answer with its processor seconds and the peak of memory."""
    warnings.simplefilter("ignore")  # of iterations that did not suffice: they are what the settings say
    run, given = RUNS[name](), np.load(task_file)
    task = Task(**{field: given[field] for field in Task._fields})._replace(seed=int(given["seed"]))
    before, begin = peak_mib(), time.process_time()  # not the clock: others may use the machine
    answer = run(task)
    seconds, peak = time.process_time() - begin, peak_mib()
    found: dict[str, Any] = {"estimate": answer.estimate, "chosen": answer.chosen, "seconds": seconds}
    found |= {"peak_mib": peak - before, "total_mib": peak}
    more = {"symbols": answer.symbols, "proba": answer.proba}
    found |= {key: value for key, value in more.items() if value is not None}
    np.savez(answer_file, **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
