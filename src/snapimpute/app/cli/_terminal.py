"""Messages of a command while it works and when it is done: for people, for scripts, or none."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console

from snapimpute.app.cli._ending import INTERRUPTED, ReaderGoneError
from snapimpute.app.cli._options import Manner
from snapimpute.base.machine import seconds_in_words

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from snapimpute.experts.blend import Step
    from snapimpute.experts.proximal.choice import Candidate

EVERY = 10.0
"""Seconds between lines, where there is no terminal to draw on."""

WIDE = 110
"""Columns of a terminal that has room for a bar."""


class Speaker(Console):
    """A console whose reader may go away, such as `head`: rich would take that for an error."""

    def on_broken_pipe(self) -> None:
        """End without a word."""
        raise ReaderGoneError


class Terminal:
    """Says things as it was asked to.

    Text for people goes to standard output, or to standard error if the results
    go there (``to_stdout``); progress always to standard error. With JSON only the
    object is printed, at the end.
    """

    def __init__(self, manner: Manner, *, to_stdout: bool = False) -> None:
        self.manner = manner
        self.silent = manner.quiet or manner.as_json
        as_it_is: dict[str, Any] = {"soft_wrap": True, "highlight": False, "markup": False, "emoji": False}
        self.console = Speaker(stderr=to_stdout, **as_it_is)
        self.errors = Console(stderr=True, **as_it_is)
        self.json_to = sys.stderr if to_stdout else sys.stdout
        self.facts: dict[str, Any] = {}
        self.begin = time.perf_counter()

    def say(self, text: Any = "") -> None:
        """Say something to people."""
        if not self.silent:
            self.console.print(text)

    def warn(self, text: str) -> None:
        """Say something that matters even to those who asked for quiet."""
        self.errors.print(f"snapimpute: {text}")

    @contextmanager
    def saying_warnings(self) -> Iterator[None]:
        """Say each warning once, in one line; those for programmers not at all."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            for kind in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", kind)
            try:
                yield
            finally:
                for text in dict.fromkeys(str(one.message) for one in caught):
                    self.warn(" ".join(text.splitlines()))

    def note(self, **facts: Any) -> None:
        """Remember something for the JSON object."""
        self.facts |= facts

    def wrote(self, out: str, what: str = "", **facts: Any) -> None:
        """Say where results are."""
        where = "standard output" if out == "-" else out
        self.say(f"wrote {where}{what}")
        self.note(output=where, **facts)

    def done(self, *, interrupted: bool = False) -> None:
        """Say how long it took; leave with the exit code of an interruption, if there was one."""
        self.print_facts()
        self.say(f"{seconds_in_words(time.perf_counter() - self.begin)} in all")
        if interrupted:
            raise typer.Exit(INTERRUPTED)

    def print_facts(self) -> None:
        """Print the JSON object, if asked."""
        if self.manner.as_json:
            facts = plain({**self.facts, "seconds": round(time.perf_counter() - self.begin, 3)})
            self.json_to.write(json.dumps(facts, ensure_ascii=False) + "\n")
            self.json_to.flush()

    @contextmanager
    def watching(self, what: str, *, centers: int = 1, max_iter: int = 0) -> Iterator[Watcher]:
        """Show how tuning and fitting go."""
        if self.silent:
            yield Watcher(None, what, centers, max_iter)
            return
        if not self.errors.is_terminal:
            yield Watcher(self.errors, what, centers, max_iter)
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        text, left = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[left]}")
        bars = [BarColumn(20)] if self.errors.width >= WIDE else []  # else there is no room beside the words
        columns = SpinnerColumn(), text, *bars, TimeElapsedColumn(), left
        with Progress(*columns, console=self.errors, transient=True) as bar:
            watcher = Watcher(self.errors, what, centers, max_iter)
            watcher.bar, watcher.task = bar, bar.add_task(what, total=None, left="")
            yield watcher


class Watcher:
    """Takes the progress of an estimator: `tried` while experts are compared and tuned, `iterated` in the last fits.

    Which objects come is up to the expert: a blend tells its steps, the proximal expert pairs (λ, ξ) and iterations,
    others the models that they try, then sweeps and rounds.
    """

    def __init__(self, console: Console | None, what: str, centers: int, max_iter: int) -> None:
        from snapimpute.experts.proximal.tuning import LAM_STEPS, XI_STEPS

        self.console, self.what, self.max_iter = console, what, max_iter
        self.most = LAM_STEPS * (centers + len(XI_STEPS) - 1)
        self.bar: Progress | None = None
        self.task: Any = None
        self.count, self.best = 0, float("inf")
        self.begin = self.last = time.perf_counter()
        self.first: int | None = None
        """The iteration that was the first to be seen: a fit may go on from a checkpoint."""
        self.share: float | None = None
        """Share of the steps of a blend that are made."""

    def tried(self, found: Any) -> None:
        """A step of a blend was made, a pair (λ, ξ) was scored, or another model."""
        if hasattr(found, "stage"):
            self._stepped(found)
        elif hasattr(found, "score"):
            self._scored(found)
        else:
            self._show(f"{self.what}: {found}", None)

    def _stepped(self, step: Step) -> None:
        """Show which expert was fitted, to what, its score, and how far the blend has come."""
        self.share = min(step.done / max(step.steps, 1), 1.0)
        loss = "" if math.isnan(step.loss) else f": log loss {step.loss:.4f}"
        text = f"{self.what}: {step.name}, {step.stage}{loss}; {100 * self.share:.0f} % done"
        self._show(text, self.share, "" if math.isnan(step.left) else f"about {seconds_in_words(step.left)} left")

    def _scored(self, candidate: Candidate) -> None:
        self.count += 1
        self.best = min(self.best, candidate.score)
        each = (time.perf_counter() - self.begin) / self.count
        self._show(
            f"{self.what}: λ {candidate.lam:.3g}, ξ {candidate.xi:.3g}: held-out loss {candidate.score:.4g} "
            f"(best {self.best:.4g}), rank {candidate.rank}",
            self.count / self.most,
            _at_most(each * max(self.most - self.count, 0)),
        )

    def iterated(self, info: Any) -> None:
        """An iteration, a sweep or a round of the last fits is over."""
        if not hasattr(info, "iteration"):
            seconds, left = getattr(info, "seconds", 0.0), getattr(info, "left", math.nan)
            known = self.share is None and math.isfinite(left) and seconds > 0
            share = seconds / (seconds + left) if known else self.share
            self._show(f"{self.what}: {info}", share)
            return
        now = time.perf_counter()
        if self.first is None or info.iteration <= 1:
            self.first, self.begin = info.iteration, now
        done, to_do = info.iteration - self.first, max(self.max_iter - info.iteration, 0)
        best = f", held-out loss {self.best:.4g}" if self.count else ""
        self._show(
            f"{self.what}: iteration {info.iteration}, objective {info.objective:.6g}, rank {info.x.rank}{best}",
            info.iteration / max(self.max_iter, 1) if self.share is None else self.share,
            _at_most((now - self.begin) / done * to_do) if done and self.share is None else "",
        )

    def _show(self, text: str, share: float | None, left: str = "") -> None:
        if self.bar is not None:
            short = text.removeprefix(f"{self.what}: ").replace("held-out ", ""), left.replace("at most", "≤")
            told: dict[str, Any] = {} if share is None else {"total": 1.0, "completed": share}
            self.bar.update(self.task, description=short[0], left=short[1], **told)
        elif self.console is not None and time.perf_counter() - self.last > EVERY:
            self.last = time.perf_counter()
            self.console.print(f"{text}; {left}" if left else text)


def _at_most(seconds: float) -> str:
    return f"at most {seconds_in_words(seconds)} left"


def new_table(title: str | None = None, **more: Any) -> Table:
    """Begin a table as commands draw them."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), **more)


def plain(value: Any) -> Any:
    """A value as JSON can hold it; NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and value - value != 0:
        return None
    return value
