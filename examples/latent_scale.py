"""A latent scale with thresholds: how one person's answers become probabilities for a question left open."""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from scipy.stats import norm

import snapimpute as si

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
data = si.datasets.low_rank_alphabet((200, 30), rank=2, alphabet="1:5", observed=0.6, random_state=0)
fit = si.Posterior(covariance="low-rank", thresholds="rows", sweeps=200).fit(data.observations, "1:5")
rows, cols = fit.missing()
p, draws = fit.proba(rows[:200], cols[:200]), fit.answers.draws
print(f"{100 * p.max(axis=1).mean():.0f} % is the average probability of the likeliest symbol")

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", width_ratios=[2, 1])
cell = int(np.argmin(np.abs(p.max(axis=1) - 0.42)))  # a doubtful one
row, col = rows[cell], cols[cell]
last = draws[len(draws) - 1]
eta = float(draws.predictors(np.array([row]), np.array([col])).mean())
size = 1 / np.sqrt(last.rater_noise[row] * last.item_noise[col])
edges = last.factors[col] * last.thresholds[row]
z = np.linspace(min(eta - 4 * size, edges[0] - 1), max(eta + 4 * size, edges[-1] + 1), 400)
density, colours = norm.pdf(z, eta, size), plt.get_cmap("cividis")(np.linspace(0.1, 0.95, 5))
for symbol, (low, high) in enumerate(zip([-np.inf, *edges], [*edges, np.inf], strict=True)):
    inside = (z >= low) & (z <= high)
    left.fill_between(z[inside], density[inside], color=colours[symbol], label=f"answer {symbol + 1}")
for edge in edges:
    left.axvline(edge, color="#555555", linewidth=1, linestyle="--")
left.set(
    xlabel="latent value", ylabel="density", title="One open cell: where its latent value may lie, and the thresholds"
)
left.legend(frameon=False, fontsize=9)
right.bar(range(1, 6), p[cell], color=colours)
right.set(xlabel="answer", ylabel="probability", title="Probability of each answer", ylim=(0, 1))
figure.savefig(folder / "latent_scale.png", dpi=90)
