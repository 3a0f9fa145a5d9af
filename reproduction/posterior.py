"""The posterior and myFM with histories of rows and columns, on the same splits, one thread each.

Splits: known cells in the order of the source, ``default_rng(seed).permutation``, the first share known. A score of
ours is made anew when a line of its code has changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import snapimpute.posterior
from reproduction import peer_run
from reproduction.peers import VERSION, Peer, PeerError, ask, environment, pins
from reproduction.summary import mean_in_words
from reproduction.units import fingerprint
from snapimpute.data.datasets import Dataset, movielens_1m_top501, movielens_100k
from snapimpute.data.observations import Observations
from snapimpute.evaluation import metrics

SHARES = {"movielens-100k": (0.2, 0.4, 0.6, 0.8), "movielens-1m-top501": (0.9,)}
SEEDS = {"movielens-100k": 6, "movielens-1m-top501": 3}
DATA: dict[str, Callable[[], Dataset]] = {
    "movielens-100k": movielens_100k,
    "movielens-1m-top501": movielens_1m_top501,
}
OURS = "ours, Posterior"


def _methods(rank: int, limit: float) -> dict[str, Peer]:
    about = f"rank {rank}, histories of rows and columns, 300 Gibbs iterations, all samples kept"
    return {
        OURS: Peer("posterior", None, "all defaults", limit),
        "myFM regression": Peer(f"myfm-regression-histories-{rank}", "myfm", about, limit),
        "myFM ordered probit": Peer(f"myfm-probit-histories-{rank}", "myfm", about, limit),
    }


METHODS = {"movielens-100k": _methods(8, 1200.0), "movielens-1m-top501": _methods(16, 7200.0)}
"""The ranks of myFM are those that did best: a larger one costs time and gains nothing, or next to nothing."""


@dataclass(frozen=True)
class Score:
    """Scores of one method on the hidden cells of one split; only a note where it did not run.

    ``log_loss`` and ``calibration`` (expected calibration error, 15 bins) are of methods with probabilities. Seconds
    are the processor's, without imports and compilation.
    """

    data: str
    share: float
    seed: int
    method: str
    nmse: float | None = None
    rmse: float | None = None
    exact: float | None = None
    log_loss: float | None = None
    calibration: float | None = None
    seconds: float | None = None
    peak_mib: float | None = None
    note: str = ""


def split(data: Dataset, share: float, seed: int) -> tuple[Observations, Observations]:
    """Return known and hidden cells: a permutation of the cells in the order of the source, cut at the share."""
    order = np.random.default_rng(seed).permutation(len(data))
    known, hidden = np.split(order, [int(share * order.size)])
    return _take(data, known), _take(data, hidden)


def _take(data: Dataset, which: NDArray[np.intp]) -> Observations:
    return Observations.from_coo(data.rows[which], data.cols[which], data.values[which], data.shape)


def prints(data: str, asked: Sequence[str] | None = None) -> dict[str, str]:
    """The methods, all if none are named, with their fingerprints."""
    found = {}
    for name in METHODS[data] if asked is None else asked:
        peer = METHODS[data][name]
        made_by = _sources() if peer.environment is None else (*pins(peer.environment), peer_run.MYFM_HISTORIES)
        found[name] = fingerprint(peer.run, made_by, not environment(peer.environment).reason, VERSION)
    return found


def _sources() -> tuple[bytes, ...]:
    folder = Path(str(snapimpute.posterior.__file__)).parent
    return tuple(file.read_bytes() for file in sorted(folder.glob("*.py")))


def run_unit(data: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Score]:
    """Hide all but a share of the cells, and let methods predict the rest."""
    source = DATA[data]()
    known, hidden = split(source, share, seed)
    for name in methods:
        try:
            answer = ask(METHODS[data][name], known, hidden, source.alphabet, seed)
        except PeerError as err:
            yield Score(data, share, seed, name, note=str(err))
            continue
        scores = metrics.scores(hidden.values, answer.estimate, source.alphabet, symbols=answer.symbols)
        loss = calibration = None
        if answer.proba is not None:
            right = answer.proba[np.arange(len(hidden)), source.alphabet.indices(hidden.values)]
            loss = -float(np.log(np.maximum(right, 1e-12)).mean())
            calibration = float(metrics.reliability(hidden.values, answer.proba, source.alphabet).error)
        yield Score(
            *(data, share, seed, name),
            nmse=scores["nmse"],
            rmse=scores["rmse"],
            exact=scores["exact"],
            log_loss=loss,
            calibration=calibration,
            seconds=round(answer.seconds, 2),
            peak_mib=round(answer.peak_mib, 1) if math.isfinite(answer.peak_mib) else None,
            note=answer.chosen,
        )


# -------------------------------------------------------------------- the table
COLUMNS = {"nmse": 4, "rmse": 4, "exact": 4, "log_loss": 3, "calibration": 3, "seconds": 1, "peak_mib": 0}
HEAD = "| method | NMSE | RMSE | exact | log loss | calibration error | CPU s | MiB above imports |"
GROUPS = ((0, 1, 2), (3, 4, 5))
LEGEND = """Mean ± standard error over the seeds. Every method in a process of its own with one thread. "Exact"
counts the symbols that a method decides for; for regression those nearest to its estimates. Seconds are the
processor's for fit and prediction, without imports and compilation."""


def as_markdown(scores: Sequence[Score]) -> str:
    """A table for each share and group of seeds, and how far ours is below the better of the others."""
    out = []
    for data, share in dict.fromkeys((s.data, s.share) for s in scores):
        for group in GROUPS:
            mine = [s for s in scores if (s.data, s.share) == (data, share) and s.seed in group]
            if mine:
                seeds = ", ".join(str(seed) for seed in sorted({s.seed for s in mine}))
                out += [f"### {data}, {100 * share:g} % known, seeds {seeds}\n", HEAD, "|---" * 8 + "|"]
                out += [_row(name, [s for s in mine if s.method == name]) for name in METHODS[data]]
                out += ["", gain_in_words(mine), ""]
    return "\n".join([*out, LEGEND]) + "\n"


def _row(name: str, rows: Sequence[Score]) -> str:
    cells = []
    for key, digits in COLUMNS.items():
        found = [value for row in rows if (value := getattr(row, key)) is not None]
        spread = key not in ("seconds", "peak_mib")
        text = mean_in_words(found, digits) if found and spread else f"{np.mean(found):.{digits}f}" if found else "–"
        cells.append(text)
    return f"| {name} | " + " | ".join(cells) + " |"


def gains(scores: Sequence[Score]) -> list[float]:
    """Shares by which the NMSE of ours is below the best of the others, seed by seed."""
    out = []
    for seed in sorted({s.seed for s in scores}):
        found = {s.method: s.nmse for s in scores if s.seed == seed and s.nmse is not None}
        others = [nmse for name, nmse in found.items() if name != OURS]
        if OURS in found and others:
            out.append(1 - found[OURS] / min(others))
    return out


def gain_in_words(scores: Sequence[Score]) -> str:
    """Say how far ours is below the best of the others on each split."""
    found = [100 * gain for gain in gains(scores)]
    if not found:
        return "The methods have no split in common."
    return f"Ours is below the better myFM of each split by {mean_in_words(found, 2)} % (least {min(found):.2f} %)."
