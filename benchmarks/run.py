"""Run every benchmark, each in a process of its own; results go to benchmarks/results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    *("tiles.py", "penalties.py", "iteration.py", "sampled.py", "book_crossing.py", "growth.py", "svd.py"),
    *("memory.py", "solvers.py", "sizes.py", "race.py", "imputers.py", "decisions.py", "published.py"),
    *("read_triplets.py", "cluster.py", "posterior.py", "posterior_parts.py", "posterior_growth.py", "inference.py"),
    "categories.py",
)


def main() -> None:
    here = Path(__file__).parent
    asked = sys.argv[1:] or BENCHMARKS
    failed = [name for name in asked if subprocess.run([sys.executable, here / name], check=False).returncode]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
