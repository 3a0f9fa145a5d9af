"""Options that several commands share: each said once, as a field, and handed to commands as one object."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

if TYPE_CHECKING:
    from snapimpute.app.io import AlphabetSpec, Options
    from snapimpute.data.alphabet import Alphabet
    from snapimpute.data.observations import Observations
    from snapimpute.data.schema import ColumnSchema
    from snapimpute.estimator.imputer import SnapImputer
    from snapimpute.experts.proximal.choice import Metric
    from snapimpute.experts.proximal.tuned import TunedSpec
    from snapimpute.experts.proximal.tuning import Progress
    from snapimpute.solvers import FitOptions
    from snapimpute.solvers.loop import Callback

READING, MODEL, CLUSTER, TALKING = "Reading", "Model", "Cluster", "Output"


def _option(panel: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **more)


@dataclass(frozen=True)
class Reading:
    """Options for reading a table."""

    alphabet: Annotated[
        list[str] | None,
        _option(
            READING,
            "--alphabet",
            "-a",
            help="What a cell can hold: 1:5, 0.5:5:0.5, 0,1, labels from lowest to highest such as low,mid,high, "
            "or infer. For one column: q1=1:7; a column of any numbers: age=any. Can be repeated.",
        ),
    ] = None
    missing: Annotated[
        list[str] | None, _option(READING, help="A further code for missing, such as -99 or ?. Can be repeated.")
    ] = None
    layout: Annotated[str, _option(READING, help="wide (one row a line), triplets (one cell a line), or auto.")] = (
        "auto"
    )
    triplets: Annotated[
        str | None, _option(READING, help="Columns of row, column and value, such as user,item,rating, or 1,2,3.")
    ] = None
    index: Annotated[
        str | None, _option(READING, help="The column of row labels; none if there is none. (found out by default)")
    ] = None
    leave: Annotated[
        list[str] | None, _option(READING, help="A column to carry along as it is. Can be repeated.")
    ] = None
    delimiter: Annotated[
        str | None, _option(READING, help="A character, or comma, tab, semicolon, bar. (found out by default)")
    ] = None
    header: Annotated[
        bool | None, _option(READING, help="Whether the first line has names. (found out by default)")
    ] = None
    encoding: Annotated[str | None, _option(READING, help="Of text files, such as latin-1. (utf-8 by default)")] = (
        None
    )
    duplicates: Annotated[str, _option(READING, help="Where a cell is given twice: error, or last.")] = "error"
    format: Annotated[
        str | None, _option(READING, help="csv, parquet, arrow, mtx, npz or excel. (found out by default)")
    ] = None

    sheet: Annotated[str | None, _option(READING, help="Of an Excel file, by its name. (the first by default)")] = (
        None
    )

    def __post_init__(self) -> None:
        _ = self.spec, self.options  # what is wrong with them is said before a file is read

    @property
    def spec(self) -> AlphabetSpec:
        """The alphabets."""
        from snapimpute.app.cli._wording import in_options
        from snapimpute.app.io import AlphabetSpec

        try:
            return AlphabetSpec.parse(self.alphabet or [])
        except ValueError as err:
            raise typer.BadParameter(f"--alphabet: {in_options(err)}") from None

    @property
    def named(self) -> tuple[str, str, str] | None:
        """The columns of row, column and value, if they are named."""
        if self.triplets is None:
            return None
        parts = [one.strip() for one in self.triplets.split(",")]
        if len(parts) != 3:
            raise typer.BadParameter(
                f"--triplets names three columns, such as user,item,rating; got {self.triplets!r}"
            )
        return parts[0], parts[1], parts[2]

    @property
    def options(self) -> Options:
        """All else."""
        from snapimpute.app.io import FORMATS, LAYOUTS, Options

        named = self.named
        _one_of("--layout", self.layout, LAYOUTS)
        _one_of("--duplicates", self.duplicates, ("error", "last"))
        if self.format is not None:
            _one_of("--format", self.format, FORMATS)
        if named is not None and self.layout == "wide":
            raise typer.BadParameter("--triplets and --layout wide contradict each other: give one of them")
        return Options(
            format=self.format,
            layout=self.layout,  # type: ignore[arg-type]
            triplets=named,
            index=self.index,
            delimiter=self.delimiter,
            header=self.header,
            encoding=self.encoding,
            missing=self.missing or (),
            leave=self.leave or (),
            duplicates=self.duplicates,  # type: ignore[arg-type]
            sheet=self.sheet,
            labels=self.spec.labels,
        )


@dataclass(frozen=True)
class Fitting:
    """Options for the fit: the parameters of `SnapImputer`."""

    lam: Annotated[str, _option(MODEL, help="Strength of low rank, λ: a number, or auto.")] = "auto"
    xi: Annotated[str, _option(MODEL, help="Strength of discreteness, ξ: a number, or auto.")] = "auto"
    spectral: Annotated[str, _option(MODEL, help="nuclear, lsp, capped-l1, tnn, mcp, scad or rank.")] = "nuclear"
    discrete: Annotated[str, _option(MODEL, help="l1, l1-composed, l0, l0-fractional, lp, l2, ridge or none.")] = "l1"
    weights: Annotated[str, _option(MODEL, help="Of the symbols in the discrete penalty: none, or frequency.")] = (
        "none"
    )
    center: Annotated[
        str, _option(MODEL, help="What is subtracted first: auto, none, mean, rows, columns or biases.")
    ] = "auto"
    solver: Annotated[str, _option(MODEL, help="See snapimpute solvers.")] = "auto"
    decide: Annotated[str, _option(MODEL, help="What a symbol is to minimise: accuracy, mae, rmse; or nearest.")] = (
        "accuracy"
    )
    min_confidence: Annotated[
        float, _option(MODEL, min=0, max=1, help="Leave cells open that are less certain than that.")
    ] = 0.0
    cv: Annotated[
        int | None, _option(MODEL, min=2, help="Tune on so many folds. (by default one fifth is held out)")
    ] = None
    max_iter: Annotated[int, _option(MODEL, min=1, help="Iterations of a fit at most.")] = 300
    tol: Annotated[float, _option(MODEL, min=0, help="Stop when the relative change is at most this.")] = 1e-4
    max_rank: Annotated[int | None, _option(MODEL, min=1, help="Keep so many factors at most.")] = None
    alphabet_term: Annotated[str, _option(MODEL, help="tiled, sampled or auto.")] = "auto"
    backend: Annotated[str, _option(MODEL, help="cpu, torch, torch:cpu or torch:cuda.")] = "cpu"
    dtype: Annotated[str, _option(MODEL, help="float64 or float32.")] = "float64"
    seed: Annotated[int, _option(MODEL, min=0, help="Same seed, same result.")] = 0

    def __post_init__(self) -> None:
        from snapimpute.app.cli._wording import in_options
        from snapimpute.backends import backend_named
        from snapimpute.experts.decide import Decide
        from snapimpute.experts.proximal.offsets import CENTERS
        from snapimpute.penalties import DISCRETE, SPECTRAL
        from snapimpute.solvers import SOLVERS
        from snapimpute.solvers.options import ALPHABET_TERMS, PRECISIONS

        known = {
            "spectral": tuple(SPECTRAL),
            "discrete": (*DISCRETE, "ridge", "none"),
            "weights": ("none", "frequency"),
            "center": ("auto", "none", *CENTERS),
            "solver": ("auto", *SOLVERS),
            "decide": get_args(Decide),
            "alphabet_term": ALPHABET_TERMS,
            "dtype": PRECISIONS,
        }
        for name, names in known.items():
            _one_of(f"--{name.replace('_', '-')}", getattr(self, name), names)
        for name in ("lam", "xi"):
            _strength(f"--{name}", getattr(self, name))
        try:
            backend_named(self.backend)
        except (ValueError, ImportError, RuntimeError) as err:  # before anything is read
            raise typer.BadParameter(in_options(err)) from None
        if self.min_confidence > 0 and self.decide == "nearest":
            raise typer.BadParameter("--min-confidence needs probabilities, which --decide nearest has none of")

    def settled(
        self,
        known: Observations,
        alphabet: Alphabet | ColumnSchema,
        metric: Metric,
        options: FitOptions,
        progress: Progress,
    ) -> TunedSpec:
        """Choose what is open."""
        from snapimpute.experts.proximal.tuned import tune

        return tune(
            known,
            alphabet,
            spectral=self.spectral,
            discrete=_or_none(self.discrete),
            weights=_or_none(self.weights),
            lam=_strength("--lam", self.lam),
            xi=_strength("--xi", self.xi),
            center=_or_none(self.center),
            solver=self.solver,
            metric=metric,
            cv=self.cv,
            options=options,
            progress=progress,
        )

    def options(self, backend: str | None = None) -> FitOptions:
        """Return the options of the fits, on the backend that was asked for or on another."""
        from snapimpute.solvers import FitOptions

        return FitOptions(
            max_iter=self.max_iter,
            tol=self.tol,
            max_rank=self.max_rank,
            alphabet_term=self.alphabet_term,  # type: ignore[arg-type]
            backend=self.backend if backend is None else backend,
            dtype=self.dtype,  # type: ignore[arg-type]
            random_state=self.seed,
        )

    def imputer(self, alphabet: Any, *, callback: Callback, progress: Progress) -> SnapImputer:
        """Return the estimator, not fitted yet."""
        from snapimpute.estimator.imputer import SnapImputer

        return SnapImputer(
            alphabet,
            spectral=self.spectral,
            discrete=_or_none(self.discrete),
            weights=_or_none(self.weights),
            lam=_strength("--lam", self.lam),
            xi=_strength("--xi", self.xi),
            center=_or_none(self.center),
            cv=self.cv,
            solver=self.solver,
            decide=self.decide,  # type: ignore[arg-type]
            min_confidence=self.min_confidence,
            max_iter=self.max_iter,
            tol=self.tol,
            max_rank=self.max_rank,
            alphabet_term=self.alphabet_term,  # type: ignore[arg-type]
            backend=self.backend,
            dtype=self.dtype,  # type: ignore[arg-type]
            random_state=self.seed,
            callback=callback,
            progress=progress,
        )


@dataclass(frozen=True)
class Workers:
    """Options for a fit on a cluster: its scheduler, and further files to write."""

    cluster: Annotated[
        str | None,
        _option(CLUSTER, help="Fit on a cluster: local starts one here, tcp://… is a scheduler's address."),
    ] = None
    top: Annotated[int | None, _option(CLUSTER, min=1, help="Write the so many best columns of each row, too.")] = (
        None
    )
    checkpoint: Annotated[
        Path | None, _option(CLUSTER, help="Save the last fit as it goes, and go on from there if the file exists.")
    ] = None
    blocks: Annotated[
        int | None, _option(CLUSTER, min=1, help="Of rows. (by default as many as the workers have threads)")
    ] = None

    def __post_init__(self) -> None:
        asked = {"--top": self.top, "--checkpoint": self.checkpoint, "--blocks": self.blocks}
        alone = [name for name, value in asked.items() if value is not None]
        if alone and self.cluster is None:
            raise typer.BadParameter(f"{alone[0]} goes with --cluster only")


@dataclass(frozen=True)
class Manner:
    """Options for the messages."""

    quiet: Annotated[bool, _option(TALKING, "--quiet", "-q", help="Say nothing but errors.")] = False
    as_json: Annotated[bool, _option(TALKING, "--json", help="Print one JSON object, for scripts.")] = False


def said(group: Any, *but: str) -> list[str]:
    """The options of a group that are not as by default, as they are typed; without some fields."""
    words = []
    for one in fields(group):
        value, name = getattr(group, one.name), one.name.replace("_", "-")  # as typer spells it
        if one.name in but or value == one.default:
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
            continue
        for each in value if isinstance(value, list) else [value]:
            words += [f"--{name}", str(each)]
    return words


def _or_none(text: str) -> Any:
    return None if text == "none" else text


def _strength(name: str, text: str) -> Any:
    if text == "auto":
        return text
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise typer.BadParameter(f"{name} takes a number, at least 0, or auto; got {text!r}")
    return value


def _one_of(name: str, text: str, known: tuple[str, ...]) -> None:
    if text not in known:
        raise typer.BadParameter(f"{name} is one of {', '.join(known)}; got {text!r}")


def written_as(out: str, to: str | None, *, table: bool = False) -> str:
    """The format to write; one for a table of columns, if it is to hold one."""
    from snapimpute.app.io import output_format, table_format

    try:
        return table_format(out, to) if table else output_format(out, to)
    except ValueError as err:
        raise typer.BadParameter(str(err)) from None


def check_outputs(outputs: list[str | Path | None], inputs: list[str | None], *, force: bool | None) -> None:
    """Refuse to write over what is read, two results to one file, or where nothing can be written."""
    from snapimpute.app.io import check_output

    paths = [str(path) for path in outputs if path is not None]
    again = [path for i, path in enumerate(paths) if path in paths[:i]]
    if again:
        raise typer.BadParameter(f"{again[0]} is to hold two different results: name two files")
    for path in paths:
        check_output(path, [one for one in inputs if one is not None], force=force)


def shared(*groups: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of some groups: it gets an object of each, under its name in lower case."""

    def give(command: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(command, eval_str=True)
        names = {group.__name__.lower(): group for group in groups}
        mine = [parameter for name, parameter in own.parameters.items() if name not in names]
        hints = {group: get_type_hints(group, include_extras=True) for group in groups}
        more = [
            inspect.Parameter(
                one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[group][one.name]
            )
            for group in groups
            for one in fields(group)
        ]

        @wraps(command)
        def run(**given: Any) -> Any:
            made = {
                name: group(**{one.name: given.pop(one.name) for one in fields(group)})
                for name, group in names.items()
            }
            return command(**given, **made)

        parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in mine]
        run.__signature__ = own.replace(parameters=[*parameters, *more], return_annotation=None)  # type: ignore[attr-defined]
        run.__annotations__ = {
            one.name: get_args(one.annotation)[0] if get_args(one.annotation) else one.annotation for one in more
        }
        return run

    return give
