"""Beagle 5.4, which phases and completes genotypes, on a table in memory.

Debian's package `beagle` brings it, and java beside it. It gets a file with the
known cells and runs on one thread. CPU seconds are those of the whole program,
Java's start and compiler included.
"""

from __future__ import annotations

import gzip
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

JAR = Path("/usr/share/beagle/beagle.jar")
JAVA = ("-Xmx8g", "-XX:+UseSerialGC")
GENOTYPES = np.array(["0/0", "0/1", "1/1", "./."])
"""How a file writes 0, 1, 2 and a missing cell."""

HEAD = """##fileformat=VCFv4.2
##FORMAT=<ID=GT,Number=1,Type=String,Description="genotype">
"""
NAMES = ("#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT")


class Phased(NamedTuple):
    """Two strands of each row, shape (rows, 2, columns), and CPU seconds."""

    strands: NDArray[np.uint8]
    seconds: float


def why_not() -> str:
    """Reason why Beagle cannot run here; empty if it can."""
    if shutil.which("java") is None:
        return "there is no java"
    return "" if JAR.exists() else f"there is no {JAR}: install Debian's package beagle"


def phased(genotypes: NDArray[np.uint8], positions: NDArray[np.integer]) -> Phased:
    """Complete and phase a table of 0, 1, 2; any other number is a missing cell.

    Positions are those of the columns, in base pairs and in ascending order.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, out = Path(folder) / "given.vcf.gz", Path(folder) / "out"
        write(given, genotypes, positions)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = ["java", *JAVA, "-jar", str(JAR), f"gt={given}", f"out={out}", "nthreads=1", "seed=1"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise RuntimeError(f"Beagle failed: {' '.join((done.stderr or done.stdout).split())[-400:]}")
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Phased(strands_of(out.with_suffix(".vcf.gz"), genotypes.shape), seconds)


def write(file: Path, genotypes: NDArray[np.uint8], positions: NDArray[np.integer]) -> None:
    people, written = genotypes.shape[0], GENOTYPES[np.minimum(genotypes, 3)]
    with gzip.open(file, "wt", compresslevel=1) as out:
        out.write(HEAD + "\t".join([*NAMES, *(f"person{i}" for i in range(people))]) + "\n")
        for j, position in enumerate(positions):
            out.write("\t".join(["1", str(int(position)), f"marker{j}", *"AC.", "PASS", ".", "GT", *written[:, j]]))
            out.write("\n")


def strands_of(file: Path, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Strands of a file with phased genotypes, such as 0|1."""
    people, markers = shape
    out = np.empty((people, 2, markers), np.uint8)
    with gzip.open(file, "rt") as lines:
        cells = (line.rstrip("\n").split("\t")[len(NAMES) :] for line in lines if not line.startswith("#"))
        for j, column in enumerate(cells):
            out[:, 0, j], out[:, 1, j] = ([int(one[place]) for one in column] for place in (0, 2))
    return out
