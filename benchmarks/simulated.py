"""Simulated panels of people, for whom the truth is known: msprime, in an environment that uv makes.

`panel` starts this file there; uv keeps the environment in its cache. 10,000 people
have lived at a time; markers are those whose rarer allele has at least 2 %.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

MSPRIME, PYTHON = "msprime==1.4.4", ">=3.11,<3.15"
POPULATION, RECOMBINATION, MUTATION, SEED = 1e4, 1e-8, 1.2e-8, 1
LEAST_FREQUENCY = 0.02


class Panel(NamedTuple):
    """Haplotypes 2i and 2i + 1 of each person, and the positions of the markers in base pairs."""

    haplotypes: Any
    positions: Any

    @property
    def strands(self) -> Any:
        """Haplotypes as (people, 2, markers)."""
        return self.haplotypes.reshape(-1, 2, self.haplotypes.shape[1])


@cache
def panel(people: int, markers: int, length: float) -> Panel:
    """Simulate a panel, in the other environment."""
    uv = shutil.which("uv", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)]))
    if uv is None:
        sys.exit('panels are simulated in an environment that uv makes: pip install "snapimpute[reproduction]"')
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "panel.npz"
        command = [uv, "run", "--quiet", "--isolated", "--no-project", "--python", PYTHON, "--with", MSPRIME]
        subprocess.run([*command, "python", "-I", __file__, file, str(people), str(markers), str(length)], check=True)
        with np.load(file) as found:
            return Panel(found["haplotypes"], found["positions"])


def simulated(people: int, markers: int, length: float) -> Panel:
    """Simulate a panel, where msprime is there."""
    import msprime

    grown = {"population_size": POPULATION, "recombination_rate": RECOMBINATION, "random_seed": SEED}
    trees = msprime.sim_ancestry(people, sequence_length=length, **grown)
    binary = msprime.BinaryMutationModel()
    trees = msprime.sim_mutations(trees, rate=MUTATION, random_seed=SEED, model=binary)
    found, positions = trees.genotype_matrix(), trees.tables.sites.position
    frequency = found.mean(axis=1)
    often = np.flatnonzero(np.minimum(frequency, 1 - frequency) >= LEAST_FREQUENCY)[:markers]
    if often.size < markers:
        sys.exit(f"the simulation has {often.size} frequent markers, {markers} are wanted: make it longer")
    return Panel(found[often].T.astype(np.uint8), positions[often].astype(np.int64))


def main() -> None:
    file, people, markers, length = sys.argv[1:]
    found = simulated(int(people), int(markers), float(length))
    np.savez_compressed(file, haplotypes=found.haplotypes, positions=found.positions)


if __name__ == "__main__":
    main()
