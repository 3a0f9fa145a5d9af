"""Cold start: how the answers of a new user get better with every cell that is known."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import snapimpute as si

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
data = si.datasets.low_rank_alphabet((400, 120), rank=3, alphabet="1:5", observed=0.4, random_state=0)
whole = np.array([data.truth_entries(np.full(120, row), np.arange(120)) for row in range(400)])
known = np.full((300, 120), np.nan)
seen = data.observations
old = seen.rows < 300
known[seen.rows[old], seen.cols[old]] = seen.values[old]
imp = si.SnapImputer("1:5", method=si.Proximal(lam=6.0, xi=0.01, center="biases")).fit(known)

rng = np.random.default_rng(1)
counts, right = [0, 1, 2, 4, 8, 16, 32, 64], []
for count in counts:
    new = np.full((100, 120), np.nan)
    for row in range(100):
        cells = rng.permutation(120)[:count]
        new[row, cells] = whole[300 + row, cells]
    filled = imp.transform(new)
    right.append(100 * (filled == whole[300:])[np.isnan(new)].mean())
    print(f"{count:3} cells known: {right[-1]:.0f} % of the others right")
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.plot(counts, right, "o-")
axes.set(xlabel="cells known of a new row", ylabel="per cent of the others right", xscale="symlog")
axes.grid(alpha=0.3)
figure.savefig(folder / "new_users.png", dpi=90)
