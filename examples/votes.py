"""Senators by roll calls: 90 % of the votes are hidden, found again, and looked at."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import snapimpute as si

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
known, hidden = si.datasets.senate_votes(117).observations.split(0.9, random_state=0)
imp = si.SnapImputer("0,1", method=si.Proximal(lam=2.94, xi=0.003, center="mean")).fit(known)
right = (imp.predict(hidden.rows, hidden.cols) == hidden.values).mean()
print(f"{100 * right:.1f} % of {len(hidden):,} hidden votes found again from {len(known):,}")

figure, (left, middle) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
si.plots.plot_matrix(known, ax=left)
si.plots.plot_matrix(known, imp, ax=middle)
figure.savefig(folder / "votes.png", dpi=90)
