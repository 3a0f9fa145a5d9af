"""Tables of answers, votes and genotypes that may not come with the package: read from the user's files."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence

import numpy as np

from reproduction.data.given import given_file
from snapimpute.data.alphabet import Alphabet
from snapimpute.data.datasets.base import Dataset, DatasetUnavailable

MISSING = ("", "NA")
Where = str | os.PathLike[str] | None


def bfi(path: Where = None) -> Dataset:
    """Answers 1 to 6 of 2800 people to 25 items on personality, with real gaps: ``psych::bfi`` of R.

    Parameters
    ----------
    path : path, optional
        The file bfi.csv, or its folder, as in `given_file`: a column of names, 25 items, then demographics, which
        are left out.
    """
    header, rows = _table("bfi", ["bfi.csv"], "the data set bfi of the R package psych, saved as CSV", path)
    body = [row[1:26] for row in rows]
    return _dataset(
        "bfi",
        header[1:26],
        [row[0] for row in rows],
        body,
        Alphabet.of("1:6"),
        citation="Revelle, W. psych: Procedures for Psychological, Psychometric and Personality Research. R package.",
        licence="Part of a GPL package: not redistributed here.",
        description="25 items of personality, 1 very inaccurate to 6 very accurate",
    )


def house_votes_1984(path: Where = None) -> Dataset:
    """16 votes, n or y, of the 435 members of the US House in 1984, from the UCI repository.

    Parameters
    ----------
    path : path, optional
        The file house_votes_1984.csv, or its folder, as in `given_file`: the party first, then the votes.
    """
    names, source = ["house_votes_1984.csv"], "the UCI repository (Congressional Voting Records), saved as CSV"
    header, rows = _table("House votes 1984", names, source, path)
    code = {"n": "0", "y": "1"}
    body = [[code.get(cell, cell) for cell in row[1:]] for row in rows]
    return _dataset(
        "house-votes-1984",
        header[1:],
        [f"{row[0]} {i}" for i, row in enumerate(rows)],
        body,
        Alphabet.of("0,1"),
        citation="Congressional Voting Records (1987). UCI Machine Learning Repository.",
        licence="See the UCI Machine Learning Repository.",
        description="votes of the US House of Representatives, 1984: 1 yes, 0 no",
    )


def hapmap_ceu(path: Where = None) -> Dataset:
    """Genotypes 0, 1, 2 of 90 people at 603 places of chromosome 22: HapMap, population CEU.

    Parameters
    ----------
    path : path, optional
        The file hapmap_ceu_chr22.csv, or its folder, as in `given_file`: a person's name, then one column a marker.
    """
    names, source = ["hapmap_ceu_chr22.csv"], "the HapMap project (CEU, 1 Mb of chromosome 22), saved as CSV"
    header, rows = _table("HapMap CEU", names, source, path)
    return _dataset(
        "hapmap-ceu",
        header[1:],
        [row[0] for row in rows],
        [row[1:] for row in rows],
        Alphabet.of("0,1,2"),
        citation="The International HapMap Consortium. A haplotype map of the human genome. Nature 437, 2005.",
        licence="Comes with a GPL package: not redistributed here.",
        description="copies of one allele at 603 markers of chromosome 22, 90 people",
    )


def _table(title: str, names: Sequence[str], source: str, path: Where) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV file; ragged ones are refused."""
    text = given_file(title, names, source, path).decode("utf-8", errors="replace")
    header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
    ragged = next((i for i, row in enumerate(rows) if len(row) != len(header)), None)
    if not rows or len(header) < 2 or ragged is not None:
        found = (
            f"line {ragged + 2} has {len(rows[ragged])} of {len(header)} columns" if ragged is not None else "none"
        )
        raise DatasetUnavailable(f"{title}: expected a CSV file with a header and equal rows; {found}. See {source}.")
    return header, rows


def _dataset(
    name: str,
    cols: Sequence[str],
    rows: Sequence[str],
    body: Sequence[Sequence[str]],
    alphabet: Alphabet,
    *,
    citation: str,
    licence: str,
    description: str,
) -> Dataset:
    """Cells that are not missing; another symbol is refused with its place."""
    symbols = {f"{symbol:g}": float(symbol) for symbol in alphabet.symbols}
    cells = [(i, j, cell) for i, row in enumerate(body) for j, cell in enumerate(row) if cell not in MISSING]
    for i, j, cell in cells:
        if cell not in symbols:
            allowed = ", ".join([*symbols, "NA"])
            raise DatasetUnavailable(f"{name}: {cell!r} at row {rows[i]}, column {cols[j]}; expected {allowed}")
    return Dataset(
        name,
        np.array([i for i, _, _ in cells], np.int32),
        np.array([j for _, j, _ in cells], np.int32),
        np.array([symbols[cell] for _, _, cell in cells]),
        (len(body), len(cols)),
        alphabet,
        np.array(rows),
        np.array(cols),
        citation,
        licence,
        description,
    )
