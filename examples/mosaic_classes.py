"""Genotypes as mosaics: the holes of a table, and the classes that the two strands of each row follow."""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

import snapimpute as si

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"]  # told apart by colour-blind eyes, too
GREYS = ["#d0d0d0", "#808080", "#202020"]
SHOWN = 12


def classes_of(strand, theta, alpha, rho):
    """Most probable class of a strand in each column, by a pass forward and one backward."""
    shows = np.where(strand[:, None] == 1, theta, 1 - theta)
    forward, backward = np.empty_like(shows), np.ones_like(shows)
    before = alpha[0]
    for j, seen in enumerate(shows):
        forward[j] = seen * ((1 - rho[j]) * before + rho[j] * alpha[j])
        before = forward[j] = forward[j] / forward[j].sum()
    for j in range(strand.size - 1, 0, -1):
        after = shows[j] * backward[j]
        backward[j - 1] = (1 - rho[j]) * after + rho[j] * (alpha[j] @ after)
        backward[j - 1] /= backward[j - 1].sum()
    return (forward * backward).argmax(axis=1)


folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
data = si.datasets.mosaic_genotypes((40, 120), founders=6, jump=0.03, observed=0.6)
model = si.Mosaic(classes=6, rounds=0, starts=1, strands=2, order="given")
fit = model.fit(data.observations, data.alphabet)
found = fit.classes[0]
strands = fit.strands().reshape(80, 120)
classes = np.array([classes_of(strand, found.theta, found.alpha, found.rho) for strand in strands])
pieces, made = (1 + np.mean((np.diff(one, axis=1) != 0).sum(axis=1)) for one in (classes, data.sources))
print(f"a strand is found to be {pieces:.1f} pieces of 6 classes; it was made of {made:.1f} pieces of 6 founders")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", sharey=True)
table = np.full((40, 120), np.nan)
table[data.observations.rows, data.observations.cols] = data.observations.values
shape = {"extent": (0, 120, SHOWN, 0), "aspect": "auto", "interpolation": "none"}
left.imshow(table[:SHOWN], cmap=ListedColormap(GREYS), **shape)
right.imshow(classes[: 2 * SHOWN], cmap=ListedColormap(COLOURS), **shape)
for panel in (left, right):
    panel.hlines(np.arange(1, SHOWN), 0, 120, color="white", linewidth=2.5)
    panel.set(xlabel="column", yticks=np.arange(SHOWN) + 0.5, yticklabels=range(1, SHOWN + 1))
left.set(ylabel="row", title="What is known: 0 light, 1 grey, 2 dark; holes are white")
right.set(title="The two strands of each row, by class")
figure.savefig(folder / "mosaic_classes.png", dpi=90)
