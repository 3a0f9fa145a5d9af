"""One run of fancyimpute's SoftImpute, in the environment that imputers.py makes for it; prints JSON.

It is given a file with the observed and the hidden entries, λ and max_rank (0
is none), and runs as its users run it. The matrix after each SVD is looked at,
since what `fit_transform` returns has the observed entries put back.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import fancyimpute
import numpy as np
import sklearn


class Watched(fancyimpute.SoftImpute):
    """Notes when each iteration begins, and keeps the last iterate, which fancyimpute drops."""

    def _svd_step(self, *arguments: Any, **options: Any) -> tuple[Any, int]:
        self.begun = [*getattr(self, "begun", []), time.perf_counter()]
        self.last, self.rank = super()._svd_step(*arguments, **options)
        return self.last, self.rank


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    file, lam, max_rank = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]) or None
    base = peak_mib()
    data = np.load(file)
    rows, cols, values = data["rows"], data["cols"], data["values"]
    X = np.full(data["shape"], np.nan)
    X[rows, cols] = values
    imputer = Watched(shrinkage_value=lam, max_rank=max_rank, verbose=False)
    np.random.seed(0)  # noqa: NPY002  where its randomised SVD takes its numbers from
    begin = time.perf_counter()
    imputer.fit_transform(X)
    seconds = time.perf_counter() - begin
    peak, last = peak_mib(), imputer.last
    fit = 0.5 * float(np.sum((last[rows, cols] - values) ** 2))
    truth = data["hidden_values"]
    wrong = last[data["hidden_rows"], data["hidden_cols"]] - truth
    answer = {
        "iterations": len(imputer.begun),
        "limit": imputer.max_iters,
        "seconds": seconds,
        "at its best": len(imputer.begun) * float(np.diff(imputer.begun).min()),
        "objective": fit + lam * float(np.linalg.svd(last, compute_uv=False).sum()),
        "rank": int(imputer.rank),
        "NMSE": float(np.sum(wrong**2) / np.sum(truth**2)),
        "peak MiB": peak,
        "above imports": peak - base,
        "versions": f"fancyimpute {fancyimpute.__version__}, scikit-learn {sklearn.__version__}",
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
