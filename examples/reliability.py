"""Ratings: is a probability of 80 % right in 80 % of the cases, and which ratings are mistaken for which."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import snapimpute as si

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
data = si.datasets.low_rank_alphabet((400, 200), rank=4, alphabet="1:5", observed=0.5, noise=0.1, random_state=0)
found = si.evaluate(data.observations, si.SnapImputer("1:5", method=si.Proximal(lam=8.0, xi=0.01)))
print(found)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.3), layout="constrained")
si.plots.plot_scores(found, ax=left)
si.plots.plot_confusion(found, ax=middle)
si.plots.plot_reliability(found.reliability(), ax=right)
figure.savefig(folder / "reliability.png", dpi=90)
