"""Options that several commands share: each said once, as a field, and handed to commands as one object."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

if TYPE_CHECKING:
    from snapimpute.app.io import AlphabetSpec, Options
    from snapimpute.data.alphabet import Alphabet
    from snapimpute.estimator.imputer import SnapImputer
    from snapimpute.experts.proximal.expert import Proximal
    from snapimpute.experts.proximal.tuned import TunedSpec
    from snapimpute.experts.proximal.tuning import Progress
    from snapimpute.solvers import FitOptions

READING, MODEL, PROXIMAL, CLUSTER, TALKING = "Reading", "Model", "Proximal expert", "Cluster", "Output"

PROXIMAL_OPTIONS = (
    *("lam", "xi", "spectral", "discrete", "weights", "center", "solver", "cv", "max_iter", "tol", "max_rank"),
    "alphabet_term",
)
"""Options that the proximal expert alone has; those that are not given are None."""

WITHOUT_CLOCK = ("proximal", "habits")
"""Experts that keep to no time limit of their own."""


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
    """Options for the fit: the method, and the parameters of `SnapImputer` and `Proximal`."""

    method: Annotated[
        str | None,
        _option(
            MODEL,
            show_default="auto",
            help="auto: every expert that suits the table, weighed on held-out cells. Or one of posterior, mosaic, "
            "proximal, habits, links; or several of them with commas between.",
        ),
    ] = None
    decide: Annotated[str, _option(MODEL, help="What a symbol is to minimise: accuracy, mae, rmse; or nearest.")] = (
        "accuracy"
    )
    min_confidence: Annotated[
        float, _option(MODEL, min=0, max=1, help="Leave cells open that are less certain than that.")
    ] = 0.0
    time_limit: Annotated[
        float | None, _option(MODEL, metavar="SECONDS", help="Keep the best so far when they are over.")
    ] = None
    seed: Annotated[int, _option(MODEL, min=0, help="Same seed, same result.")] = 0
    lam: Annotated[
        str | None, _option(PROXIMAL, show_default="auto", help="Strength of low rank, λ: a number, or auto.")
    ] = None
    xi: Annotated[
        str | None, _option(PROXIMAL, show_default="auto", help="Strength of discreteness, ξ: a number, or auto.")
    ] = None
    spectral: Annotated[
        str | None,
        _option(PROXIMAL, show_default="nuclear", help="nuclear, lsp, capped-l1, tnn, mcp, scad or rank."),
    ] = None
    discrete: Annotated[
        str | None,
        _option(PROXIMAL, show_default="l1", help="l1, l1-composed, l0, l0-fractional, lp, l2, ridge or none."),
    ] = None
    weights: Annotated[
        str | None,
        _option(PROXIMAL, show_default="none", help="Of the symbols in the discrete penalty: none, or frequency."),
    ] = None
    center: Annotated[
        str | None,
        _option(
            PROXIMAL,
            show_default="auto",
            help="What is subtracted first: auto, none, mean, rows, columns or biases.",
        ),
    ] = None
    solver: Annotated[str | None, _option(PROXIMAL, show_default="auto", help="See snapimpute solvers.")] = None
    cv: Annotated[
        int | None, _option(PROXIMAL, min=2, help="Tune on so many folds. (by default one fifth is held out)")
    ] = None
    max_iter: Annotated[
        int | None, _option(PROXIMAL, min=1, show_default="300", help="Iterations of a fit at most.")
    ] = None
    tol: Annotated[
        float | None,
        _option(PROXIMAL, min=0, show_default="0.0001", help="Stop when the relative change is at most this."),
    ] = None
    max_rank: Annotated[int | None, _option(PROXIMAL, min=1, help="Keep so many factors at most.")] = None
    alphabet_term: Annotated[str | None, _option(PROXIMAL, show_default="auto", help="tiled, sampled or auto.")] = (
        None
    )
    backend: Annotated[
        str | None, _option(PROXIMAL, show_default="cpu", help="cpu, torch, torch:cpu or torch:cuda.")
    ] = None
    dtype: Annotated[str | None, _option(PROXIMAL, show_default="float64", help="float64 or float32.")] = None

    def __post_init__(self) -> None:
        from snapimpute.app.cli._wording import in_options
        from snapimpute.backends import backend_named
        from snapimpute.experts.decide import Decide
        from snapimpute.experts.proximal.offsets import CENTERS
        from snapimpute.penalties import DISCRETE, SPECTRAL
        from snapimpute.solvers import SOLVERS
        from snapimpute.solvers.options import ALPHABET_TERMS, PRECISIONS

        self._check_method()
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
            if (given := getattr(self, name)) is not None:
                _one_of(_spelled(name), given, names)
        _ = self.expert  # says what is wrong with a strength
        try:
            backend_named(self.backend or "cpu")
        except (ValueError, ImportError, RuntimeError) as err:  # before anything is read
            raise typer.BadParameter(in_options(err)) from None
        if self.min_confidence > 0 and self.decide == "nearest":
            raise typer.BadParameter("--min-confidence needs probabilities, which --decide nearest has none of")

    def _check_method(self) -> None:
        """Refuse experts that are not there, and options that the chosen ones would drop."""
        from snapimpute.experts.methods import METHODS

        for place, name in enumerate(self.methods):
            _one_of("--method", name, tuple(METHODS))
            if name == "auto" and len(self.methods) > 1:
                raise typer.BadParameter("--method auto stands for every expert: name it alone")
            if name in self.methods[:place]:
                raise typer.BadParameter(f"--method names {name} twice: name it once")
        unused = [] if "proximal" in self.methods else list(self._for_proximal)
        if self.methods != ("auto",) and "proximal" not in self.methods:
            unused += [name for name in ("backend", "dtype") if getattr(self, name) is not None]
        if unused:
            raise typer.BadParameter(
                f"{_spelled(unused[0])} belongs to the proximal expert, and --method {self.method} has no use for "
                "it: leave it out, or name --method proximal"
            )
        if self.time_limit is None:
            return
        if not (math.isfinite(self.time_limit) and self.time_limit > 0):
            raise typer.BadParameter(f"--time-limit takes a number of seconds above 0, got {self.time_limit:g}")
        if self.methods[0] in WITHOUT_CLOCK and len(self.methods) == 1:
            raise typer.BadParameter(f"--time-limit has no use with --method {self.methods[0]} alone: leave it out")

    @property
    def methods(self) -> tuple[str, ...]:
        """Names of the experts; options of the proximal one choose it where nothing else is said."""
        if self.method is not None:
            return tuple(one.strip() for one in self.method.split(","))
        return ("proximal",) if self._for_proximal else ("auto",)

    @property
    def blends(self) -> bool:
        """Tell whether several experts are weighed."""
        return self.methods == ("auto",) or len(self.methods) > 1

    @property
    def _for_proximal(self) -> dict[str, Any]:
        """The options of the proximal expert that were given."""
        return {name: getattr(self, name) for name in PROXIMAL_OPTIONS if getattr(self, name) is not None}

    @property
    def proximal(self) -> Proximal:
        """The proximal expert with its options."""
        from snapimpute.experts.proximal.expert import Proximal

        given = self._for_proximal
        for name in ("lam", "xi"):
            if name in given:
                given[name] = _strength(_spelled(name), given[name])
        for name in ("discrete", "weights", "center"):
            if name in given:
                given[name] = _or_none(given[name])
        if "weights" in given:
            given["symbol_weights"] = given.pop("weights")
        return Proximal(**given)

    @property
    def expert(self) -> Any:
        """Method of the estimator: a name, an expert, or a list of such."""
        several = [self.proximal if self._for_proximal and one == "proximal" else one for one in self.methods]
        return several if len(several) > 1 else several[0]

    def settled(
        self,
        known: Any,
        alphabet: Alphabet,
        options: FitOptions,
        progress: Progress,
    ) -> TunedSpec:
        """Choose what is open of the proximal expert, for known cells that lie on a cluster."""
        from snapimpute.experts.proximal.tuned import tune

        given = self.proximal.get_params()
        strengths = {name: given[name] for name in ("spectral", "discrete", "lam", "xi", "center", "solver", "cv")}
        return tune(known, alphabet, weights=given["symbol_weights"], options=options, progress=progress, **strengths)

    def options(self) -> FitOptions:
        """Return the options of the fits on a cluster."""
        return replace(self.proximal.options(), dtype=self.dtype or "float64", random_state=self.seed)  # type: ignore[arg-type]

    def imputer(self, alphabet: Any, *, callback: Any, progress: Any) -> SnapImputer:
        """Return the estimator, not fitted yet."""
        from snapimpute.estimator.imputer import SnapImputer

        return SnapImputer(
            alphabet,
            method=self.expert,
            decide=self.decide,  # type: ignore[arg-type]
            min_confidence=self.min_confidence,
            time_limit=self.time_limit,
            backend=self.backend or "cpu",
            dtype=self.dtype or "float64",  # type: ignore[arg-type]
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


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


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
