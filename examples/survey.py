"""A survey with different questions: labels, scales of 1..7 and yes/no, ages; and how far to trust each answer."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import snapimpute as si

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
rng = np.random.default_rng(0)
people, mood = 300, rng.normal(size=(300, 2))


def answers(levels, noise=0.4):
    """Answers on a scale that follow from two hidden traits."""
    score = mood @ rng.normal(size=2) + noise * rng.normal(size=people)
    cuts = np.quantile(score, np.arange(1, len(levels)) / len(levels))
    return np.array(levels, dtype=object)[np.searchsorted(cuts, score)]


scale, yes_no = list(range(1, 8)), ["no", "yes"]
table = pd.DataFrame({f"q{i}": answers(scale).astype(float) for i in range(12)})
table = table.assign(**{f"member{i}": answers(yes_no) for i in range(4)})
table["age"] = np.round(45 + 10 * mood[:, 0] + 5 * rng.normal(size=people))
holes = table.mask(rng.random(table.shape) < 0.3)

alphabet = {name: "1:7" if name[0] == "q" else yes_no if name[0] == "m" else None for name in table}
imp = si.SnapImputer(alphabet).fit(holes)
filled = imp.transform(holes)
missing = holes.isna()
for name in ("q0", "member0"):
    right = (filled[name] == table[name])[missing[name]].mean()
    print(f"{name}: {100 * right:.0f} % of {missing[name].sum()} missing answers found again")
off = (filled["age"] - table["age"])[missing["age"]].abs().mean()
print(f"age: off by {off:.1f} years on average")

sure = np.array([imp.fold_in(holes).proba(np.arange(people), np.full(people, j)).max(axis=1) for j in range(12)])
figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.boxplot([row[missing[f"q{j}"]] for j, row in enumerate(sure)])
axes.set(xlabel="question", ylabel="probability of the answer filled in", title="How certain, question by question")
figure.savefig(folder / "survey.png", dpi=90)
