"""Models in files, and the classes that may stand in them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from snapimpute.data.alphabet import Alphabet, Nominal
from snapimpute.data.feature_map import FEATURE_KINDS
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator import model as fitted
from snapimpute.experts.blend.model import BLEND_KINDS
from snapimpute.experts.habits import Habits, HabitsFit
from snapimpute.experts.links import LINKS_KINDS, Links
from snapimpute.experts.proximal import calibration, choice, foldin, model
from snapimpute.experts.proximal.expert import Proximal, ProximalFit
from snapimpute.experts.proximal.spec import ModelSpec
from snapimpute.experts.proximal.tuned import TunedSpec
from snapimpute.linalg import LowRank
from snapimpute.mosaic import Mosaic
from snapimpute.mosaic.fit import MOSAIC_KINDS
from snapimpute.penalties import DISCRETE, SPECTRAL, ByColumn, Ridge
from snapimpute.posterior import Posterior
from snapimpute.posterior.fit import POSTERIOR_KINDS
from snapimpute.solvers import SOLVERS, FitOptions, Status
from snapimpute.solvers.model_file import read_content, write_content
from snapimpute.solvers.serialise import Known, known_by_name

FORMAT = "snapimpute model"


def _known() -> Known:
    """The classes that a file may hold, by name."""
    kinds: list[type] = [
        Alphabet,
        Nominal,
        ColumnSchema,
        Observations,
        LowRank,
        TunedSpec,
        ModelSpec,
        Status,
        FitOptions,
        *SOLVERS.values(),
    ]
    kinds += [
        calibration.Calibration,
        calibration.SymbolRule,
        calibration.SymbolLogOdds,
        foldin.OffsetModel,
        model.Model,
    ]
    kinds += [choice.Candidate, choice.Choice, choice.HeldOut, choice.Verdict]
    kinds += [fitted.Decision, fitted.FittedModel, Posterior, *POSTERIOR_KINDS, *FEATURE_KINDS]
    kinds += [Mosaic, *MOSAIC_KINDS, Proximal, ProximalFit, Habits, HabitsFit, Links, *LINKS_KINDS, *BLEND_KINDS]
    return known_by_name([*kinds, *SPECTRAL.values(), *DISCRETE.values(), ByColumn, Ridge])


def write_model(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write a mapping of names to numbers, text, arrays and known objects, atomically; anything else is a TypeError.

    Arrays of objects and dicts whose keys are no text, which a tree cannot hold, are kept beside the others as lists.
    """
    rest, lists, pairs = dict(state), {}, {}
    for name, value in state.items():
        if isinstance(value, np.ndarray) and value.dtype == object:
            lists[name] = list(rest.pop(name))
        elif isinstance(value, dict) and not all(isinstance(key, str) for key in value):
            pairs[name] = [list(value), list(rest.pop(name).values())]
    write_content(path, {"state": rest, "lists": lists, "pairs": pairs}, _known(), FORMAT)


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_model` wrote; a file that is no model, damaged, or of another version is a ValueError."""
    return _state(Path(path), read_content(path, _known(), FORMAT))


def _state(where: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{where} is damaged: it holds a {type(content).__name__}")
    if content.keys() != {"state", "lists", "pairs"}:
        raise ValueError(f"{where} is damaged: it holds no model")
    out = dict(content["state"])
    out |= {name: np.array(values, dtype=object) for name, values in content["lists"].items()}
    return out | {name: dict(zip(*both, strict=True)) for name, both in content["pairs"].items()}
