"""The same problem by several solvers, with a proof of how far each is from the optimum."""

import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

import snapimpute as si

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
data = si.datasets.low_rank_alphabet((250, 200), rank=4, alphabet="1:5", observed=0.3, random_state=0)
problem = si.Problem(data.observations, si.Nuclear(8.0), si.L1("1:5", xi=0.01))
best = si.solve(problem, tol=1e-9, max_iter=3000).objective
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
for solver in (si.solvers.SoftImpute(), si.solvers.APG(), si.solvers.AISImpute(), si.solvers.NIAPG()):
    result = si.solve(problem, solver, max_iter=100, tol=0)
    gap = si.certify(problem, result.x).relative_gap
    print(f"{solver.name:12} within {gap:.0e} of the optimum, as certified, after {result.n_iter} iterations")
    history = result.history
    axes.semilogy(history["iteration"], (history["objective"] - best) / best + 1e-12, label=solver.name)
axes.set(xlabel="iteration", ylabel="objective above the optimum, relative")
axes.legend()
figure.savefig(folder / "solvers.png", dpi=90)
