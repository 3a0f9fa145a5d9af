"""Files of the tests of reading and writing."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("polars") is None:  # reading files is part of an optional extra
    collect_ignore_glob = ["test_*.py"]
else:
    from tests.app.io.reading import Put


@pytest.fixture
def put(tmp_path) -> Put:
    """Write text or bytes to a file and give its path."""

    def write(content: str | bytes, name: str = "x.csv") -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}" / name
        path.parent.mkdir()
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write
