"""Which λ, which ξ: the path that is walked, and the map of all pairs."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import snapimpute as si

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
data = si.datasets.low_rank_alphabet((100, 80), rank=5, alphabet="-1,1", kind="blocks", observed=0.08, random_state=0)
spec = si.tuning.ModelSpec(data.alphabet, discrete="l0-fractional", center="mean")
choice = si.tuning.choose(data.observations, spec)
print(choice.verdict)
surface = si.tuning.path(data.observations, spec, lam=[8, 6, 4, 3, 2], xi=[0, 0.01, 0.03, 0.1])
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
si.plots.plot_path(choice, ax=left)
si.plots.plot_surface(surface, ax=right)
figure.savefig(folder / "strengths.png", dpi=90)
