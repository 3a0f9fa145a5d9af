"""Files that take the place of others: all at once, and no more is changed than their content."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from snapimpute.base.files import replacing, write_atomically

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links, permissions and pipes of other systems")


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    """The file may be elsewhere, and may not be there yet."""
    (tmp_path / "far").mkdir()
    for content in (b"first", b"second"):
        link = tmp_path / "link.csv"
        if not link.is_symlink():
            link.symlink_to(tmp_path / "far" / "real.csv")
        write_atomically(link, content)
        assert link.is_symlink()
        assert (tmp_path / "far" / "real.csv").read_bytes() == content
    assert os.listdir(tmp_path / "far") == ["real.csv"]


def test_permissions_stay(tmp_path):
    """What only its owner may read is not opened to others by being written again."""
    path = tmp_path / "private.csv"
    path.write_bytes(b"old")
    path.chmod(0o600)
    write_atomically(path, b"new")
    assert (stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (0o600, b"new")


def test_a_pipe_gets_what_was_written_and_stays_a_pipe(tmp_path):
    """As -o /dev/stdout, or >(gzip) of a shell."""
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_atomically(pipe, b"all of it")
    reader.join(30)
    assert got == [b"all of it"]
    assert pipe.is_fifo()
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_device_is_not_replaced(tmp_path):
    """Root could put a file in place of /dev/null, and break the machine."""
    device = Path(os.devnull)
    before = device.stat().st_mode
    if os.access(device.parent, os.W_OK):  # then try it on one that nobody needs
        device = tmp_path / "null"
        try:
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except OSError:
            pytest.skip("no device can be made here")
    write_atomically(device, b"nothing")
    assert stat.S_ISCHR(device.stat().st_mode)
    assert Path(os.devnull).stat().st_mode == before


def test_a_failure_leaves_what_was_there(tmp_path):
    """Nothing half written, nothing left over."""
    path = tmp_path / "out.csv"
    path.write_bytes(b"old")

    def fails() -> None:
        with replacing(path) as temporary:
            temporary.write_bytes(b"half")
            raise OSError("no")

    with pytest.raises(OSError, match="no"):
        fails()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.csv"]
