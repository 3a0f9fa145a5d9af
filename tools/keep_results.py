"""Keep what `snapimpute reproduce all` has made beside the documentation: one page, figures, tables and scores.

python tools/keep_results.py reproduce-output
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs" / "results"
KEPT = (".png", ".svg", ".pdf", ".csv")
INTRODUCTION = """# The paper's evaluation: all figures and tables

[What follows from them](../discreteness.md#the-paper-s-figure-with-its-controls), and
[how they were made](../reproduce.md). The figures as SVG and PDF and the numbers as CSV are in `docs/results/paper`,
every single score in `docs/results/scores`.
"""


def main() -> None:
    """Copy, and write the page."""
    made = Path(sys.argv[1])
    page = (made / "results.md").read_text(encoding="utf-8")
    folder = DOCS / "paper"
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(made.iterdir()):
        if path.suffix in KEPT:
            shutil.copyfile(path, folder / path.name)
            page = page.replace(f"]({path.name})", f"](paper/{path.name})")
    shutil.copytree(made / "scores", DOCS / "scores", dirs_exist_ok=True)
    (DOCS / "paper.md").write_text(page.replace("# Results\n", INTRODUCTION, 1).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
