"""Documentation that is wrong fails here."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_give_the_output_they_show(page):
    """Every >>> example of a page prints what the page says."""
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    """Every relative link of a page points to a file that exists."""
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_formula_table_names_tests_that_exist():
    """docs/formulas.md refers only to test files that are there."""
    named = re.findall(r"`(test_\w+\.py)`", (ROOT / "docs" / "formulas.md").read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []
