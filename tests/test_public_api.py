"""The public names and their signatures are those of a list, so that none changes unnoticed."""

from tests.helpers import ROOT
from tools.public_api import listed

COMMAND = "python tools/public_api.py > tests/public_api.txt"


def test_the_public_interface_is_as_listed():
    """A name, an argument or a default that is added, lost or changed is on purpose."""
    found = "\n".join(listed()) + "\n"
    kept = (ROOT / "tests/public_api.txt").read_text(encoding="utf-8")
    lines, before = found.splitlines(), kept.splitlines()
    changed = [f"+ {one.strip()}" for one in lines if one not in before]
    changed += [f"- {one.strip()}" for one in before if one not in lines]
    assert found == kept, "\n".join(["the public interface changed; if on purpose, run", COMMAND, *changed])
