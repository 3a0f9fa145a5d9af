"""Other libraries on the same splits as ours: each in a process and an environment of its own, one thread each.

An environment is made once, in the cache folder, with the versions of a file in
``requirements``. Where it cannot be made, or a library fails or takes too long, its
score is a note that says so, and the others go on. The libraries never see the
hidden entries: they are asked for estimates at their places. How each is run says
`peer_run`.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from snapimpute import metrics
from snapimpute.alphabet import Alphabet
from snapimpute.datasets import Dataset, cache_dir, movielens_100k
from snapimpute.experiments import peer_run
from snapimpute.experiments.summary import mean_in_words
from snapimpute.experiments.units import fingerprint
from snapimpute.files import write_atomically
from snapimpute.observations import Observations

SHARES = (0.2, 0.4, 0.6, 0.8)
"""Of the entries that stay known."""

DATA: dict[str, Callable[[], Dataset]] = {"movielens": movielens_100k}
REQUIREMENTS = Path(__file__).parent / "requirements"
SCRIPT = Path(peer_run.__file__)
THREADS = ("OPENBLAS", "MKL", "OMP", "VECLIB_MAXIMUM", "NUMBA", "SNAPIMPUTE")
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
        "ours", None, "all defaults, which tune by error rate; symbols by its calibrated decision"
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
    """How one method did on the hidden entries of one split; only a note where it did not run.

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
    """How to start Python in an environment, or why there is none."""

    command: tuple[str, ...]
    reason: str = ""


def environment(name: str | None) -> Made:
    """Where a peer is run; the environment is made if it is not there, which may take a minute.

    A failure is remembered as long as the program runs.
    """
    if name is None:
        return Made((sys.executable, "-P"))
    wanted = f"Python {sys.version_info[0]}.{sys.version_info[1]}\n" + _requirements(name)
    return _environment(name, wanted, cache_dir() / "peers" / name)


@cache
def _environment(name: str, wanted: str, folder: Path) -> Made:
    python, stamp = Path("Scripts/python.exe" if os.name == "nt" else "bin/python"), "installed.txt"

    def ready() -> bool:
        done = folder / stamp
        return done.exists() and done.read_text(encoding="utf-8") == wanted and (folder / python).exists()

    try:
        if not ready():
            folder.parent.mkdir(parents=True, exist_ok=True)
            building = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{name}."))
            try:  # beside it, so that nobody sees half of one
                venv.create(building, with_pip=True)
                _install(building / python, REQUIREMENTS / f"{name}.txt")
                write_atomically(building / stamp, wanted.encode())
                if not ready():  # another process may have been faster
                    shutil.rmtree(folder, ignore_errors=True)
                    building.rename(folder)
            finally:
                shutil.rmtree(building, ignore_errors=True)
    except (OSError, subprocess.SubprocessError, PeerError) as err:
        return Made((), f"no environment for it: {_one_line(str(err))}")
    return Made((str(folder / python), "-I"))


def _install(python: Path, requirements: Path) -> None:
    pip = [str(python), "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--prefer-binary"]
    pip += ["--retries", "1", "--requirement", str(requirements)]
    done = subprocess.run(pip, capture_output=True, text=True, errors="replace", timeout=INSTALL_LIMIT, check=False)  # noqa: S603
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        raise PeerError(lines[-1] if lines else _last_line(done.stderr) or "pip failed")


def _requirements(name: str) -> str:
    return (REQUIREMENTS / f"{name}.txt").read_text(encoding="utf-8")


def _library(peer: Peer) -> str:
    """Name and version of what is run, empty for ours."""
    if peer.environment is None:
        return f"scikit-learn {version('scikit-learn')}" if peer.run in ("knn", "iterative") else ""
    pins = [line for line in _requirements(peer.environment).splitlines() if "==" in line and line[0] != "#"]
    return pins[0].replace("==", " ")


# -------------------------------------------------------------------- one run
class Answer(NamedTuple):
    """What came back: estimates and symbols at the hidden places, seconds, memory, and what was chosen."""

    estimate: Any
    symbols: Any
    seconds: float
    peak_mib: float
    total_mib: float
    chosen: str


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
    threads = {f"{name}_NUM_THREADS": "1" for name in THREADS}
    options: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace", "env": os.environ | threads}
    try:
        done = subprocess.run(command, timeout=limit, check=False, **options)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise PeerError(f"did not finish in {limit:g} s") from None
    except OSError as err:
        raise PeerError(f"could not be started: {_one_line(str(err))}") from None
    if done.returncode < 0:
        raise PeerError(f"was ended by signal {-done.returncode}")
    if done.returncode:
        raise PeerError(f"failed: {_last_line(done.stderr) or f'exit status {done.returncode}'}")


def _read(file: Path, size: int, alphabet: Alphabet) -> Answer:
    try:
        with np.load(file, allow_pickle=False) as found:
            estimate = np.asarray(found["estimate"], dtype=np.float64)
            symbols = np.asarray(found["symbols"], dtype=np.float64) if "symbols" in found else None
            seconds, peak, total = (float(found[key]) for key in ("seconds", "peak_mib", "total_mib"))
            chosen = str(found["chosen"])
    except (OSError, EOFError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as err:
        raise PeerError(f"gave no answer that can be read: {_one_line(str(err))}") from None
    if estimate.shape != (size,) or not np.isfinite(estimate).all():
        raise PeerError(f"gave no answer that can be read: {size} finite estimates wanted, got {estimate.shape}")
    decided = alphabet.snap(estimate) if symbols is None else symbols
    if decided.shape != (size,) or not alphabet.contains(decided).all():
        raise PeerError("gave no answer that can be read: its symbols are not those of the alphabet")
    return Answer(estimate, decided, seconds, peak, total, chosen)


def _last_line(text: str) -> str:
    return _one_line(next((line for line in reversed(text.splitlines()) if line.strip()), ""))


def _one_line(text: str, most: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


# -------------------------------------------------------------------- the study
def prints(asked: Sequence[str] | None = None) -> dict[str, str]:
    """The methods, all if none are named, with their fingerprints.

    This makes the environments that are missing. Whether there is one is part of the fingerprint, so that what was
    skipped for want of it is run as soon as it can be made.
    """
    found = {}
    for name in PEERS if asked is None else asked:
        peer = PEERS[name]
        pins = _library(peer) if peer.environment is None else _requirements(peer.environment)
        made_by = peer_run.GRIDS.get(peer.run), peer_run.MYFM, peer_run.MAX_RANK, VERSION
        found[name] = fingerprint(peer.run, peer.limit, pins, not environment(peer.environment).reason, made_by)
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
    """What became of the seeds, the more frequent first."""
    kinds = Counter((f"chose {s.note}" if s.nmse is not None else s.note) for s in rows if s.note)
    several = len(rows) > 1
    return "; ".join(text + f" ({count} of {len(rows)})" * several for text, count in kinds.most_common())
