"""Keep what `python -m reproduction all` has made in the repository: one page, figures, tables and scores.

python -m reproduction.keep_results reproduce-output

A folder of `python -m reproduction posterior` alone has no such page: its table and scores are kept.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
KEPT = (".png", ".svg", ".pdf", ".csv")
INTRODUCTION = """# The paper's evaluation: all figures and tables

[What follows from them](../../docs/discreteness.md#the-paper-s-figure-with-its-controls), and
[how they were made](../../docs/reproduce.md). The figures as SVG and PDF and the numbers as CSV
are in `reproduction/results/paper`, every single score in `reproduction/results/scores`.
"""


def main() -> None:
    """Copy, and write the page."""
    made = Path(sys.argv[1])
    shutil.copytree(made / "scores", RESULTS / "scores", dirs_exist_ok=True)
    if (made / "posterior.md").exists():
        shutil.copyfile(made / "posterior.md", RESULTS / "posterior.md")
    if (made / "results.md").exists():
        keep_page(made)


def keep_page(made: Path) -> None:
    """Keep the page of all studies, its pictures and its numbers."""
    page = (made / "results.md").read_text(encoding="utf-8")
    folder = RESULTS / "paper"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(made.iterdir()):
        if path.suffix in KEPT:
            shutil.copyfile(path, folder / path.name)
            page = page.replace(f"]({path.name})", f"](paper/{path.name})")
    (RESULTS / "paper.md").write_text(page.replace("# Results\n", INTRODUCTION, 1).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
