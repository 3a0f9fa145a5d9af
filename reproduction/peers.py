"""Other libraries on the same splits as ours: each in a process and an environment of its own, one thread each.

uv makes an environment with the versions of a file in ``requirements``, and keeps it
in its cache. Where it cannot, or a library fails or takes too long, the score is a
note with the reason, and the others go on. The libraries never see the hidden
entries: they give estimates at their places. `peer_run` runs each of them.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from reproduction import peer_run
from reproduction.summary import mean_in_words
from reproduction.units import fingerprint
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets import Dataset, movielens_100k
from snapimpute.data.observations import Observations
from snapimpute.evaluation import metrics

SHARES = (0.2, 0.4, 0.6, 0.8)
"""Shares of the entries that stay known."""

DATA: dict[str, Callable[[], Dataset]] = {"movielens": movielens_100k}
REQUIREMENTS = Path(__file__).parent / "requirements"
SCRIPT = Path(peer_run.__file__)
THREADS = ("OPENBLAS", "MKL", "OMP", "VECLIB_MAXIMUM", "NUMBA", "SNAPIMPUTE")
PYTHON = sys.executable if sys.version_info < (3, 14) else ">=3.11,<3.14"
"""Python of the environments: fancyimpute's scikit-learn has wheels up to 3.13. uv looks for one, or fetches it."""

INSTALL_LIMIT = 1200.0
"""Seconds that making an environment may take."""

VERSION = 1
"""To be raised when a run changes otherwise than in its grid or its versions: scores are then made anew."""


@dataclass(frozen=True)
class Peer:
    """A line of the table.

    Parameters
    ----------
    run : str
        Its name in `peer_run.RUNS`.
    environment : str or None
        Its file in ``requirements``; None runs where this package runs.
    about : str
        What is run, and how it is set.
    limit : float
        Seconds that the process may take.
    """

    run: str
    environment: str | None
    about: str
    limit: float = 600.0


_TUNED = "tuned on a fifth of the known entries"
PEERS: dict[str, Peer] = {
    "constant mean": Peer("constant-mean", None, "the mean of the known entries"),
    "damped biases": Peer("damped-biases", None, "mean, row and column biases, with their defaults"),
    "ours, SnapImputer": Peer(
        "ours", None, "the proximal expert, tuned by error rate; symbols by its calibrated decision"
    ),
    "myFM regression": Peer(
        "myfm-regression", "myfm", "rank 10, 512 Gibbs iterations, 256 samples kept; not clipped"
    ),
    "myFM ordered probit": Peer(
        "myfm-probit", "myfm", "the same; the estimate is the expected symbol, decided is the most probable one"
    ),
    "Surprise SVD": Peer("surprise-svd", "surprise", f"factors, epochs and regularisation {_TUNED}; clipped"),
    "Surprise SVD++": Peer("surprise-svdpp", "surprise", f"20 factors, epochs and regularisation {_TUNED}; clipped"),
    "cornac MF": Peer("cornac-mf", "cornac", f"factors, iterations and regularisation {_TUNED}; clipped"),
    "fancyimpute SoftImpute": Peer(
        "fancyimpute",
        "fancyimpute",
        f"BiScaler first, rank at most {peer_run.MAX_RANK}; λ as a part of the largest singular value, and whether "
        f"to scale or to centre only, {_TUNED}; clipped",
    ),
    "KNNImputer": Peer("knn", None, f"number of neighbours {_TUNED}"),
    "IterativeImputer": Peer("iterative", None, "10 nearest features, 10 rounds, not tuned; clipped", 300.0),
}


@dataclass(frozen=True)
class Score:
    """Scores of one method on the hidden entries of one split; only a note where it did not run.

    MAE is that of the estimate. ``exact`` counts the symbols the method decides for, else those nearest to its
    estimate. Seconds are the processor's. ``peak_mib`` is the memory above that of the imports, ``total_mib`` that of
    the whole process. The note of a run is what it chose by tuning.
    """

    data: str
    share: float
    seed: int
    method: str
    nmse: float | None = None
    rmse: float | None = None
    mae: float | None = None
    exact: float | None = None
    seconds: float | None = None
    peak_mib: float | None = None
    note: str = ""
    total_mib: float | None = None


class PeerError(Exception):
    """A peer has no answer, for a reason that fits into one line."""


# -------------------------------------------------------------------- environments
class Made(NamedTuple):
    """Command that starts Python in an environment, or the reason why there is none."""

    command: tuple[str, ...]
    reason: str = ""


def environment(name: str | None) -> Made:
    """Return how to run a peer; uv makes the environment at the first call, which may take a minute.

    A failure is remembered as long as the program runs. ImportError says how to install uv.
    """
    if name is None:
        return Made((sys.executable, "-P"))
    return _prepared(_uv(), REQUIREMENTS / f"{name}.txt", pins(name))


def _uv() -> str:
    """Find uv beside this interpreter, or on the path."""
    places = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    found = shutil.which("uv", path=places)
    if found is None:
        raise ImportError(
            "the other libraries run in environments that uv makes, and uv is not installed. Install it with: "
            'pip install "snapimpute[reproduction]"'
        )
    return found


@cache
def _prepared(uv: str, requirements: Path, _pins: tuple[str, ...]) -> Made:
    run = (uv, "run", "--quiet", "--isolated", "--no-project", "--python", PYTHON)
    command = (*run, "--with-requirements", str(requirements), "python", "-I")
    try:
        _start([*command, "-c", ""], INSTALL_LIMIT)
    except PeerError as err:
        return Made((), f"no environment for it: {err}")
    return Made(command)


def pins(name: str) -> tuple[str, ...]:
    """The lines of a file of requirements, without its comments."""
    lines = (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if not line.startswith("#"))


def _library(peer: Peer) -> str:
    """Name and version of what is run, empty for ours."""
    if peer.environment is None:
        return f"scikit-learn {version('scikit-learn')}" if peer.run in ("knn", "iterative") else ""
    return pins(peer.environment)[0].replace("==", " ")


# -------------------------------------------------------------------- one run
class Answer(NamedTuple):
    """Estimates and symbols at the hidden places, seconds, memory, the settings that tuning chose, probabilities."""

    estimate: Any
    symbols: Any
    seconds: float
    peak_mib: float
    total_mib: float
    chosen: str
    proba: Any = None


def ask(peer: Peer, known: Observations, hidden: Observations, alphabet: Alphabet, seed: int) -> Answer:
    """Run a peer in its process; `PeerError` says why it has no answer."""
    made = environment(peer.environment)
    if made.reason:
        raise PeerError(made.reason)
    with tempfile.TemporaryDirectory() as folder:
        task, answer = Path(folder) / "task.npz", Path(folder) / "answer.npz"
        entries = {"rows": known.rows, "cols": known.cols, "values": known.values}
        asked = {"asked_rows": hidden.rows, "asked_cols": hidden.cols}
        given: dict[str, Any] = {"shape": known.shape, "symbols": alphabet.symbols, "seed": seed, **entries, **asked}
        np.savez(task, **given)
        _start([*made.command, str(SCRIPT), peer.run, str(task), str(answer)], peer.limit)
        return _read(answer, len(hidden), alphabet)


def _start(command: Sequence[str], limit: float) -> None:
    """Run a command with one thread; `PeerError` says how it failed."""
    threads = {f"{name}_NUM_THREADS": "1" for name in THREADS}
    options: dict[str, Any] = {"text": True, "errors": "replace", "start_new_session": True}
    options |= {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "env": os.environ | threads}
    try:
        process = subprocess.Popen(command, **options)  # noqa: S603
    except OSError as err:
        raise PeerError(f"could not be started: {_one_line(str(err))}") from None
    with process:
        try:
            _, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise PeerError(f"did not finish in {limit:g} s") from None
        finally:
            _stop(process)
    signal_number = -process.returncode if process.returncode < 0 else process.returncode - 128  # as uv hands it on
    if signal_number > 0:
        raise PeerError(f"was ended by signal {signal_number}")
    if process.returncode:
        raise PeerError(f"failed: {_reason(errors) or f'exit status {process.returncode}'}")


def _stop(process: subprocess.Popen[str]) -> None:
    """End a process that runs over its time, and what it has started."""
    if process.poll() is None:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _read(file: Path, size: int, alphabet: Alphabet) -> Answer:
    try:
        with np.load(file, allow_pickle=False) as found:
            estimate = np.asarray(found["estimate"], dtype=np.float64)
            symbols = np.asarray(found["symbols"], dtype=np.float64) if "symbols" in found else None
            seconds, peak, total = (float(found[key]) for key in ("seconds", "peak_mib", "total_mib"))
            chosen = str(found["chosen"])
            proba = np.asarray(found["proba"], dtype=np.float64) if "proba" in found else None
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as err:
        raise PeerError(f"gave no answer that can be read: {_one_line(str(err))}") from None
    if estimate.shape != (size,) or not np.isfinite(estimate).all():
        raise PeerError(f"gave no answer that can be read: {size} finite estimates wanted, got {estimate.shape}")
    decided = alphabet.snap(estimate) if symbols is None else symbols
    if decided.shape != (size,) or not alphabet.contains(decided).all():
        raise PeerError("gave no answer that can be read: its symbols are not those of the alphabet")
    if proba is not None and (proba.shape != (size, len(alphabet)) or not np.isfinite(proba).all()):
        raise PeerError("gave no answer that can be read: its probabilities are not those of the symbols")
    return Answer(estimate, decided, seconds, peak, total, chosen, proba)


def _reason(errors: str) -> str:
    """Return uv's own errors, else the last line of a traceback."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith(("error: ", "cause: "))]
    return _one_line(" ".join(said or lines[-1:]))


def _one_line(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


# -------------------------------------------------------------------- the study
def prints(asked: Sequence[str] | None = None) -> dict[str, str]:
    """The methods, all if none are named, with their fingerprints.

    uv makes the environments that are missing. A peer without one has another fingerprint, so that it runs as soon
    as its environment can be made.
    """
    found = {}
    for name in PEERS if asked is None else asked:
        peer = PEERS[name]
        versions = _library(peer) if peer.environment is None else pins(peer.environment)
        made_by = peer_run.GRIDS.get(peer.run), peer_run.MYFM, peer_run.MAX_RANK, VERSION
        found[name] = fingerprint(peer.run, peer.limit, versions, not environment(peer.environment).reason, made_by)
    return found


def run_unit(data: str, share: float, seed: int, methods: Sequence[str]) -> Iterator[Score]:
    """Hide all but a share of the entries, and let methods predict the rest."""
    source = DATA[data]()
    known, hidden = source.observations.split(1 - share, random_state=seed)
    for name in methods:
        try:
            answer = ask(PEERS[name], known, hidden, source.alphabet, seed)
        except PeerError as err:
            yield Score(data, share, seed, name, note=str(err))
            continue
        scores = metrics.scores(hidden.values, answer.estimate, source.alphabet, symbols=answer.symbols)
        yield Score(
            data,
            share,
            seed,
            name,
            nmse=scores["nmse"],
            rmse=scores["rmse"],
            mae=scores["mae"],
            exact=scores["exact"],
            seconds=round(answer.seconds, 2),
            peak_mib=_if_known(answer.peak_mib),
            total_mib=_if_known(answer.total_mib),
            note=answer.chosen,
        )


def _if_known(mib: float) -> float | None:
    return round(mib, 1) if math.isfinite(mib) else None


# -------------------------------------------------------------------- the table
HEAD = "| method | NMSE | RMSE | MAE | exact % | s | MiB above imports | MiB in all |"
LEGEND = """Every method in a process of its own with one thread. NMSE, RMSE and MAE are those of the estimate as the
method gives it; "exact" counts the symbols that a method decides for (ours, ordered probit), for the others those
nearest to their estimates. Seconds are the processor's for tuning, fit and prediction, without imports. Mean ±
standard error over the seeds, sorted by NMSE."""


def as_markdown(scores: Sequence[Score]) -> str:
    """A table for each share, the best NMSE first, with notes; then how each method was run."""
    out = []
    for data, share in dict.fromkeys((s.data, s.share) for s in scores):
        mine = [s for s in scores if (s.data, s.share) == (data, share)]
        seeds = len({s.seed for s in mine})
        out += [f"### {data}, {100 * share:g} % known: {seeds} seed{'s' * (seeds != 1)}\n", HEAD, "|---" * 8 + "|"]
        rows = {name: [s for s in mine if s.method == name] for name in dict.fromkeys(s.method for s in mine)}
        out += [_row(name, rows[name]) for name in sorted(rows, key=lambda name: _mean_nmse(rows[name]))]
        notes = [f"- {name}: {_note(some)}" for name, some in rows.items() if any(s.note for s in some)]
        out += ["", *notes, ""] if notes else [""]
    out += [LEGEND, ""]
    for name in dict.fromkeys(s.method for s in scores if s.method in PEERS):
        library = _library(PEERS[name])
        out.append(f"- {name}{f' ({library})' * bool(library)}: {PEERS[name].about}.")
    return "\n".join(out) + "\n"


def _mean_nmse(rows: Sequence[Score]) -> float:
    found = [s.nmse for s in rows if s.nmse is not None]
    return float(np.mean(found)) if found else math.inf


def _row(name: str, rows: Sequence[Score]) -> str:
    cells = [_cell([getattr(s, key) for s in rows], 4) for key in ("nmse", "rmse", "mae")]
    cells.append(_cell([None if s.exact is None else 100 * s.exact for s in rows], 2))
    cells += [
        _cell([getattr(s, key) for s in rows], digits, spread=False)
        for key, digits in (("seconds", 1), ("peak_mib", 0), ("total_mib", 0))
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def _cell(values: Sequence[float | None], digits: int, *, spread: bool = True) -> str:
    found = np.array([value for value in values if value is not None])
    if not found.size:
        return "–"
    return mean_in_words(found, digits) if spread else f"{found.mean():.{digits}f}"


def _note(rows: Sequence[Score]) -> str:
    """List the outcomes of the seeds, the more frequent first."""
    kinds = Counter((f"chose {s.note}" if s.nmse is not None else s.note) for s in rows if s.note)
    several = len(rows) > 1
    return "; ".join(text + f" ({count} of {len(rows)})" * several for text, count in kinds.most_common())
