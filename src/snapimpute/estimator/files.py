"""Models in files: safetensors for the numbers, JSON for the rest, no code in either.

The JSON part is a tree (`solvers.tree`) of numbers, text and objects of the
classes listed here, each under the name and the fields that `files.stored`
declares. A file says its format and version; other versions, other files and
damaged ones are refused with one clear error.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from snapimpute.base.files import write_atomically
from snapimpute.data.alphabet import Alphabet, Nominal
from snapimpute.data.feature_map import FEATURE_KINDS
from snapimpute.data.observations import Observations
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator import choice, decide, foldin, model, posterior
from snapimpute.estimator.spec import ModelSpec
from snapimpute.estimator.tuned import TunedSpec
from snapimpute.linalg import LowRank
from snapimpute.penalties import DISCRETE, SPECTRAL, ByColumn, Ridge
from snapimpute.posterior import Posterior
from snapimpute.posterior.fit import POSTERIOR_KINDS
from snapimpute.solvers import SOLVERS, Status
from snapimpute.solvers.checkpoint import checksum
from snapimpute.solvers.serialise import Decoder, Encoder, Known, known_by_name

FORMAT, VERSION = "snapimpute model", 2


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
        *SOLVERS.values(),
    ]
    kinds += [decide.Calibration, decide.SymbolRule, decide.SymbolLogOdds, foldin.OffsetModel, model.Model]
    kinds += [choice.Candidate, choice.Choice, choice.HeldOut, choice.Verdict]
    kinds += [posterior.Decision, posterior.PosteriorModel, Posterior, *POSTERIOR_KINDS, *FEATURE_KINDS]
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
    encoder = Encoder(_known(), {}, "model")
    tree = json.dumps(encoder.node({"state": rest, "lists": lists, "pairs": pairs}), allow_nan=False)
    head = {"format": FORMAT, "version": str(VERSION), "tree": tree, "sha256": checksum(tree, encoder.tensors)}
    write_atomically(Path(path), save_tensors(encoder.tensors, head))


def read_model(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_model` wrote; a file that is no model, damaged, or of another version is a ValueError."""
    where = Path(path)
    data = where.read_bytes()
    try:
        with safetensors.safe_open(where, framework="numpy") as file:
            head = dict(file.metadata() or {})
        tensors = load_tensors(data)
    except Exception as err:
        raise ValueError(
            f"{where} is no model file of snapimpute, or is damaged ({err}): name one that was saved, or fit again"
        ) from None
    if head.get("format") != FORMAT:
        raise ValueError(
            f"{where} is a safetensors file, but no model of snapimpute: its format is {head.get('format')!r}"
        )
    version = head.get("version", "")
    if version != str(VERSION):
        old = version.isdecimal() and int(version) < VERSION
        advice = "fit the model again and save it" if old else "update snapimpute"
        raise ValueError(
            f"{where} is written in version {version!r} of the model format, and this snapimpute reads version "
            f"{VERSION}: {advice}"
        )
    tree = head.get("tree", "")
    if head.get("sha256") != checksum(tree, tensors):
        raise ValueError(f"{where} is damaged: its content does not match its checksum; fit it again")
    try:
        content = Decoder(_known(), {}, tensors).value(json.loads(tree))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, struct.error) as err:
        raise ValueError(f"{where} is damaged: {err}") from None
    return _state(where, content)


def _state(where: Path, content: Any) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise ValueError(f"{where} is damaged: it holds a {type(content).__name__}")
    if content.keys() != {"state", "lists", "pairs"}:
        raise ValueError(f"{where} is damaged: it holds no model")
    out = dict(content["state"])
    out |= {name: np.array(values, dtype=object) for name, values in content["lists"].items()}
    return out | {name: dict(zip(*both, strict=True)) for name, both in content["pairs"].items()}
