"""Files of fitted models: safetensors for the numbers, JSON for the rest, no code in either.

The JSON part is a tree (`serialise`) of numbers, text and objects of the classes
that the caller lists, each under the name and the fields that `files.stored`
declares. A file says its format and version; other versions, other files and
damaged ones are refused with one clear error.
"""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import safetensors
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from snapimpute.base.files import write_atomically
from snapimpute.solvers.checkpoint import checksum
from snapimpute.solvers.serialise import Decoder, Encoder, Known

VERSION = 3


def write_content(path: str | os.PathLike[str], content: Any, known: Known, form: str) -> None:
    """Write content atomically as a file of a form, such as "snapimpute model".

    Anything but numbers, text, arrays and known objects is a TypeError.
    """
    encoder = Encoder(known, {}, form.rpartition(" ")[2])
    tree = json.dumps(encoder.node(content), allow_nan=False)
    head = {"format": form, "version": str(VERSION), "tree": tree, "sha256": checksum(tree, encoder.tensors)}
    write_atomically(Path(path), save_tensors(encoder.tensors, head))


def read_content(path: str | os.PathLike[str], known: Known, form: str) -> Any:
    """Read what `write_content` wrote; a file of another form, damaged, or of another version is a ValueError."""
    where, what = Path(path), form.removeprefix("snapimpute ")
    data = where.read_bytes()
    try:
        with safetensors.safe_open(where, framework="numpy") as file:
            head = dict(file.metadata() or {})
        tensors = load_tensors(data)
    except Exception as err:
        raise ValueError(
            f"{where} is no {what} file of snapimpute, or is damaged ({err}): name one that was saved, or fit again"
        ) from None
    if head.get("format") != form:
        raise ValueError(
            f"{where} is a safetensors file, but no {what} of snapimpute: its format is {head.get('format')!r}"
        )
    version = head.get("version", "")
    if version != str(VERSION):
        old = version.isdecimal() and int(version) < VERSION
        advice = f"fit the {what} again and save it" if old else "update snapimpute"
        raise ValueError(
            f"{where} is written in version {version!r} of the {what} format, and this snapimpute reads version "
            f"{VERSION}: {advice}"
        )
    tree = head.get("tree", "")
    if head.get("sha256") != checksum(tree, tensors):
        raise ValueError(f"{where} is damaged: its content does not match its checksum; fit it again")
    try:
        return Decoder(known, {}, tensors).value(json.loads(tree))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, struct.error) as err:
        raise ValueError(f"{where} is damaged: {err}") from None
