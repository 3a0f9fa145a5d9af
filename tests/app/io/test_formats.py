"""Other formats than text: files of columns, matrices, workbooks; and output."""

from __future__ import annotations

import contextlib
import errno
import io
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from snapimpute.app.io import (
    check_output,
    output_format,
    table_format,
    write_array,
    write_frame,
    write_pieces,
)
from snapimpute.app.io._sniff import format_of, suffix_format
from snapimpute.app.io.write import in_plain_words, writing
from tests.app.io.reading import U_DATA, cells, dense, frame, read, refused, told, wide

# -------------------------------------------------------------------- other formats
X = np.array([[1, np.nan, 3], [np.nan, 5, 0]])
A = sp.coo_array(([1.0, 3, 5, 0], ([0, 0, 1, 1], [0, 2, 1, 2])), shape=(2, 4))


def saved(save: Callable[..., Any], *args: Any, **more: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, *args, **more)
    return buffer.getvalue()


def polars_bytes(method: str, table: Any) -> bytes:
    buffer = io.BytesIO()
    getattr(table, method)(buffer)
    return buffer.getvalue()


FRAME = pl.DataFrame({"id": ["ann", "bob"], "a": [1, None], "b": [None, 5], "c": [3, 0]})
BINARY = {
    "parquet": polars_bytes("write_parquet", FRAME),
    "arrow": polars_bytes("write_ipc", FRAME),
    "arrow stream": polars_bytes("write_ipc_stream", FRAME),
    "npz": saved(np.savez, X=X),
    "npy": saved(np.save, X),
    "sparse npz": saved(sp.save_npz, A.tocsr()),
    "mtx": saved(mmwrite, A),
    "dense mtx": saved(mmwrite, np.nan_to_num(X, nan=-9)),
}


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrow stream"])
def test_files_of_columns(put, kind):
    """Known by their content, not by their name."""
    source = wide(put(BINARY[kind], "x.txt"), ["0:5"])
    assert told(source)["format"] == kind.split()[0]
    assert source.row_labels.tolist() == ["ann", "bob"]
    np.testing.assert_array_equal(dense(source, "0:5"), X)


@pytest.mark.parametrize(("kind", "first"), [("npz", 0), ("npy", 0), ("dense mtx", 1)])
def test_dense_matrices(put, kind, first):
    """NaN is missing, codes too; rows and columns are counted as the format does, and that is told."""
    source = wide(put(BINARY[kind], "x"), ["0:5"], missing=["-9"])
    np.testing.assert_array_equal(dense(source, "0:5"), X)
    assert source.values.columns == [str(j + first) for j in range(3)]
    assert source.row_labels.tolist() == [first, first + 1]
    assert f"counted from {first}" in told(source)["column names"]
    assert f"counted from {first}" in told(source)["row labels"]


def test_a_matrix_has_no_labels(put):
    """Its first column is one of values, whatever stands in it; and its rows are no triplets."""
    assert "2 value(s) not in" in refused(put(saved(np.save, np.array([[9, 1], [8, 2]]))))
    three = np.array([[7, 1, 5], [7, 2, 4], [8, 1, 3]])
    assert wide(put(saved(np.save, three)), ["any"]).shape == (3, 3)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bool", "float16", "float32"])
def test_dense_matrices_of_any_type(put, dtype):
    """Small types and booleans, too."""
    np.testing.assert_array_equal(dense(wide(put(saved(np.save, np.eye(3, dtype=dtype))), ["0,1"]), "0,1"), np.eye(3))


@pytest.mark.parametrize(("kind", "first"), [("sparse npz", 0), ("mtx", 1)])
def test_sparse_matrices(put, kind, first):
    """What is not stored is missing, a stored 0 is known, empty lanes stay."""
    source = cells(put(BINARY[kind], "x"), ["0:5"])
    assert source.shape == (2, 4)
    assert source.row_labels.tolist() == [first, first + 1]
    np.testing.assert_array_equal(dense(source, "0:5")[:, :3], X)
    assert f"positions count from {first}" in told(source)["layout"]
    assert np.isnan(dense(cells(put(BINARY[kind], "x"), ["0:5"], missing=["0"]), "0:5")[1, 2])
    assert "no --layout wide" in refused(put(BINARY[kind], "x"), layout="wide")


def test_sparse_matrices_with_oddities(put):
    """NaN that is stored is missing, a cell stored twice is an error or the last counts, nothing stored is told."""
    odd = sp.coo_array(([1.0, np.nan, 2, 3], ([0, 0, 1, 1], [0, 1, 1, 1])), shape=(2, 2))
    path = put(saved(mmwrite, odd), "x.mtx")
    assert "1 cell(s) are given twice, the first is row '2', column '2', again in entry 4" in refused(path)
    np.testing.assert_array_equal(dense(cells(path, duplicates="last")), [[1, np.nan], [np.nan, 3]])
    assert "no value of its 0 entries is known" in refused(put(saved(mmwrite, sp.coo_array((2, 2))), "y.mtx"))


def test_excel_round_trip(tmp_path):
    """Numbers, text, empty cells and dates come back as they were; wide and triplets."""
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    table = FRAME.with_columns(pl.Series("on", ["2020-01-01", "2020-01-02"]).str.to_date(), empty=pl.lit(None))
    path = str(tmp_path / "x.xlsx")
    write_frame(table, path, "excel")
    source = wide(path, ["0:5"], leave=["on"])
    assert told(source)["format"] == "excel"
    np.testing.assert_array_equal(dense(source, "0:5")[:, :3], X)
    assert source.given["on"].equals(table["on"])
    write_frame(pl.DataFrame({"user": ["a", "a", "b"], "item": [1, 2, 1], "rating": [5, None, 4]}), path, "excel")
    np.testing.assert_array_equal(dense(cells(path)), [[5, np.nan], [4, np.nan]])


def test_sheets_of_a_workbook(tmp_path):
    """The first, or the one that is named; others are told of, and so is one that is not there."""
    pytest.importorskip("fastexcel")
    writer = pytest.importorskip("xlsxwriter")
    path = str(tmp_path / "x.xlsx")
    with writer.Workbook(path) as book:
        book.add_worksheet("notes").write(0, 0, "read me")
        sheet = book.add_worksheet("answers")
        for row, line in enumerate([["id", "a", "b"], ["x", 1, 2], ["y", None, 4]]):
            sheet.write_row(row, 0, line)
    assert "x.xlsx is empty: it has 0 rows and 1 columns (sheet 'notes'; --sheet if another: 'answers')" in refused(
        path
    )
    source = wide(path, sheet="answers")
    np.testing.assert_array_equal(dense(source), [[1, 2], [np.nan, 4]])
    assert told(source)["sheet"] == "'answers'"
    assert "has no sheet 'b', which --sheet names; its sheets are 'notes', 'answers'" in refused(path, sheet="b")


def test_only_a_workbook_has_sheets(put):
    """A sheet that is named for another file is a mistake."""
    for kind in ("csv", *BINARY):
        assert "has no sheets: leave out --sheet" in refused(put(BINARY.get(kind, "a,b\n1,2\n"), "x"), sheet="a")


def test_a_comma_for_a_point_is_told(put):
    """As tables of many countries have it."""
    message = refused(put("id;a;b\nx;1,0;2\ny;;3\n"))
    assert "'1,0' in row 'x'. Write decimals with a point" in message


@pytest.mark.parametrize("kind", BINARY)
def test_damaged_files_are_told(put, kind):
    """Cut in half, or with bytes in the middle changed: one sentence, and no other exception."""
    whole = BINARY[kind]
    half = put(whole[: len(whole) // 2], "half")
    assert "half" in refused(half, ["0:5"])
    for place in range(8, len(whole), max(1, len(whole) // 40)):
        spoiled = whole[:place] + bytes([whole[place] ^ 0xFF] * 4) + whole[place + 4 :]
        try:
            found = read(put(spoiled, "spoiled"), ["0:5"])
            found.observations("0:5")
        except ValueError as err:
            assert "\n" not in str(err)  # noqa: PT017  it may be damaged where it does not matter


def test_a_damaged_excel_file_is_told(tmp_path, put):
    """Also where the archive is whole but not what it says."""
    pytest.importorskip("fastexcel")
    pytest.importorskip("xlsxwriter")
    whole = polars_bytes("write_excel", FRAME)
    assert "half.xlsx: this looks like an Excel or NPZ file, but is damaged" in refused(
        put(whole[: len(whole) // 2], "half.xlsx")
    )
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("xl/workbook.xml", "no")
    assert "cannot be read as excel" in refused(put(buffer.getvalue(), "x.xlsx"))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "mtx", "npz", "excel"])
def test_a_format_that_is_said_but_not_there(put, kind):
    """Text that is called something else."""
    if kind == "excel":
        pytest.importorskip("fastexcel")
    message = refused(put("a,b\n1,2\n"), format=kind)
    assert f"x.csv cannot be read as {kind}: " in message


def test_archives_and_several_arrays(put):
    """Not looked into."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        made.writestr("ml-100k/u.data", U_DATA)
    assert "x.zip is an archive (of 'ml-100k/u.data'): unpack it" in refused(put(buffer.getvalue(), "x.zip"))
    message = refused(put(saved(np.savez, X=X, Y=X), "x.npz"))
    assert "it holds 2 arrays (X, Y): one is needed" in message


@pytest.mark.parametrize(
    "array", [np.zeros(3), np.zeros((2, 2, 2)), np.ones((2, 2), complex), np.array([["a"]]), np.zeros((0, 3))]
)
def test_arrays_that_are_no_tables(put, array):
    """One dimension, three, complex numbers, text, nothing."""
    assert "expected a two-dimensional array of numbers, got shape" in refused(put(saved(np.save, array), "x.npy"))
    if array.dtype.kind == "c":
        assert "two-dimensional array of numbers" in refused(put(saved(mmwrite, sp.coo_array(array)), "x.mtx"))


def test_objects_are_not_loaded(put):
    """An array of objects would run code."""
    data = saved(np.save, np.array([[{}]], dtype=object), allow_pickle=True)
    assert "cannot be read as npz" in refused(put(data, "x.npy"))


@pytest.mark.parametrize("content", ["", "\n\n", "# nothing\n", "  \n", "\ufeff"])
def test_empty_files(put, content):
    """No table in it."""
    assert "x.csv is empty: there is no table in it" in refused(put(content))


def test_names_without_rows(put):
    """In every format."""
    assert "has a line of names, but no row below it" in refused(put("a,b,c\n"))
    assert "is empty: it has 0 rows" in refused(put(polars_bytes("write_parquet", FRAME.head(0)), "x.parquet"))
    assert "1 row" not in refused(put("a,b,c\n", "y.csv"))


def test_no_such_file_and_a_folder(tmp_path):
    """What is not there, and what is no file."""
    with pytest.raises(FileNotFoundError):
        read(str(tmp_path / "none.csv"))
    assert "is a folder: name a file" in refused(str(tmp_path))


def test_standard_input(monkeypatch):
    """Any format through a pipe."""
    for data in (b"id,a,b\nann,1,2\nbob,3,\n", BINARY["parquet"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        source = wide("-", ["0:5"])
        assert source.where == "standard input"
        assert source.row_labels.tolist() == ["ann", "bob"]


def test_formats_by_content_and_name():
    """What the first bytes and the last letters say."""
    assert [format_of(data) for data in BINARY.values()] == [
        *("parquet", "arrow", "arrow", "npz", "npz", "npz", "mtx", "mtx")
    ]
    assert suffix_format("A/B.CSV") == "csv"
    assert suffix_format("x.unknown") is None


# -------------------------------------------------------------------- output
def test_the_format_to_write_follows_from_the_name():
    """Or from what is asked."""
    known = {"x.csv": "csv", "x.TSV": "tsv", "x.tab": "tsv", "a/b.parquet": "parquet", "x.feather": "arrow"}
    known |= {"x.npz": "npz", "x.npy": "npz", "x.mtx": "mtx", "x.xlsx": "excel", "-": "csv"}
    assert {path: output_format(path, None) for path in known} == known
    assert output_format("x", "parquet") == "parquet"
    for path in ("x", "x.csv.gz", "x.doc"):
        with pytest.raises(ValueError, match=r"does not follow from its name: end it in \.csv"):
            output_format(path, None)
    with pytest.raises(ValueError, match="no output format 'doc'; there are csv"):
        output_format("x.csv", "doc")
    with pytest.raises(ValueError, match="npz holds a matrix"):
        table_format("x.npz", None)


def test_where_nothing_may_be_written(tmp_path, put):
    """Over the input, in a folder's place, below a file."""
    path = put("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is the input, which would be lost"):
        check_output(f"{Path(path).parent}/../0/x.csv", [path], force=False)
    check_output(path, [path], force=True)
    check_output(path, [str(tmp_path / "other.csv"), "-"], force=False)
    path = str(Path(path).rename(tmp_path / "x.csv"))
    (tmp_path / "link.csv").symlink_to(path)
    with pytest.raises(ValueError, match="is the input"):
        check_output(str(tmp_path / "link.csv"), [path], force=False)
    with pytest.raises(ValueError, match="is a folder: name a file in it"):
        check_output(str(tmp_path), [], force=False)
    with pytest.raises(ValueError, match=r"x\.csv is not a folder that can be written to"):
        check_output(f"{path}/y.csv", [], force=False)


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "arrow", "excel"])
def test_what_is_written_can_be_read(tmp_path, kind):
    """Whole, and in pieces, an empty one included."""
    if kind == "excel":
        pytest.importorskip("fastexcel")
        pytest.importorskip("xlsxwriter")
    table = pl.DataFrame({"user": ["a,b", "c"], "item": ["x\ty", "z"], "rating": [5, None]})
    path = str(tmp_path / "x")
    write_frame(table, path, kind)
    expected = table.cast(pl.String).rows() if kind in ("csv", "tsv") else table.rows()
    assert frame(path).rows() == expected
    assert write_pieces(iter([table.head(0), table.head(1), table.tail(1)]), path, kind) == 2
    assert frame(path).rows() == expected
    assert write_pieces(iter([table.head(0)]), path, kind) == 0
    assert list(tmp_path.iterdir()) == [tmp_path / "x"]


@pytest.mark.parametrize("name", ["x.npz", "x.npy", "x.mtx"])
def test_matrices_can_be_read_again(tmp_path, name):
    """Numbers as they are; .npy is no archive."""
    path, whole = str(tmp_path / name), np.array([[1, 2], [3, 5]], dtype=np.int8)
    write_array(whole, path, output_format(path, None))
    np.testing.assert_array_equal(dense(wide(path)), whole)
    if name == "x.npy":
        np.testing.assert_array_equal(np.load(path), whole)


def test_a_sheet_has_an_end(tmp_path):
    """What Excel cannot hold is refused, not cut."""
    with pytest.raises(ValueError, match=r"holds 1,048,575 rows and 16,384 columns, this table has 1 and 16,385"):
        write_frame(pl.DataFrame({str(j): [1] for j in range(16_385)}), str(tmp_path / "x.xlsx"), "excel")
    assert list(tmp_path.iterdir()) == []


def test_errors_of_the_disk_name_the_file():
    """Others stay as they are."""
    with pytest.raises(OSError, match="No space left") as caught, writing("out.csv"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, "out.csv")
    for other in (RuntimeError("other"), OSError("of no number")):
        with pytest.raises(type(other), match=str(other)), writing("out.csv"):
            raise other


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("buffering", [-1, 0])
def test_standard_output_that_takes_no_more(tmp_path, monkeypatch, kind, buffering):
    """An error says so, and never a part is taken for the whole; with a buffer, and without one."""
    resource = pytest.importorskip("resource")
    table = pl.DataFrame({f"column {j}": [j % 3] * 50 for j in range(500)})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    out = (tmp_path / "out").open("wb", buffering=buffering)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_frame(table, "-", kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with contextlib.suppress(OSError):
            out.close()
    assert in_plain_words(caught.value).startswith("standard output: the file would be larger than is allowed here: ")
    assert "what arrived there is not whole" in in_plain_words(caught.value)


@pytest.mark.parametrize("write", [write_frame, lambda table, *rest: write_pieces(iter([table, table]), *rest)])
@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_a_disk_that_takes_no_more(tmp_path, kind, write):
    """The error has its number however polars words it, also where it writes from threads of its own."""
    resource = pytest.importorskip("resource")
    table = pl.DataFrame({f"column {j}": np.random.default_rng(j).random(2000) for j in range(20)})
    limits, path = resource.getrlimit(resource.RLIMIT_FSIZE), tmp_path / f"out.{kind}"
    path.write_text("what was there")
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write(table, str(path), kind)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (caught.value.errno, caught.value.filename) == (errno.EFBIG, str(path))
    assert [one.read_text() for one in tmp_path.iterdir()] == ["what was there"]
