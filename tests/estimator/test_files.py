"""Models in files: what is loaded is what was saved, and nothing else is taken for a model."""

from __future__ import annotations

import json
import pathlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import snapimpute as si
from snapimpute.data.schema import ColumnSchema
from snapimpute.estimator import files as model_io
from snapimpute.experts.proximal.spec import ModelSpec
from snapimpute.experts.proximal.tuning import Choice
from snapimpute.solvers.checkpoint import checksum
from snapimpute.solvers.serialise import Decoder, Encoder
from tests.helpers import proximal

pytestmark = pytest.mark.slow

NAN = np.nan
GIVEN = {"lam": 0.5, "xi": 0.01}


@pytest.fixture(scope="module")
def X() -> np.ndarray:  # noqa: N802  a matrix
    rng = np.random.default_rng(5)
    whole = np.clip(np.round(3 + rng.standard_normal((20, 2)) @ rng.standard_normal((2, 8))), 1, 5)
    whole[rng.random(whole.shape) < 0.3] = NAN
    whole[3] = NAN
    return whole


def labelled(X: np.ndarray) -> np.ndarray:
    names = np.array(["a", "b", "c", "d", "e", None], dtype=object)
    return names[np.where(np.isnan(X), 6, X).astype(int) - 1]


def named(X: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"q{j}" for j in range(8)])


def mixed(X: np.ndarray) -> pd.DataFrame:
    """Ratings, labels, and any numbers."""
    frame = named(X)
    frame["q0"] = labelled(X)[:, 0]
    frame["q7"] = X[:, 7] * 1.37 + np.arange(20)
    return frame


MIXED = {"q0": list("abcde"), **{f"q{j}": "1:5" for j in range(1, 7)}, "q7": None}
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": (lambda X: X, "1:5", GIVEN),
    "tuned": (lambda X: X, "1:5", {"center": "biases", "max_iter": 50, "tol": 1e-3}),
    "cv": (lambda X: X, "1:5", {"center": "mean", "xi": 0.0, "cv": 3, "max_iter": 50, "tol": 1e-3}),
    "labels": (labelled, list("abcde"), GIVEN),
    "names": (named, "1:5", {**GIVEN, "decide": "mae", "missing": [99, "?"]}),
    "several": (mixed, MIXED, GIVEN),
    "left alone": (mixed, MIXED, {**GIVEN, "continuous": "passthrough", "min_confidence": 0.4}),
    "by position": (lambda X: X, {0: "1:6", **dict.fromkeys(range(1, 8), "1:5")}, GIVEN),
    "list": (lambda X: X, ["1:5", None, *[[1, 2, 3, 4, 5]] * 6], GIVEN),
    "alphabet": (lambda X: X, si.Alphabet.of("1:5"), {**GIVEN, "symbol_weights": "frequency", "decide": "rmse"}),
    "nearest": (lambda X: X, "1:5", {**GIVEN, "decide": "nearest", "center": None, "dtype": "float32"}),
    "objects": (
        lambda X: X,
        "1:5",
        {
            "spectral": si.LogSum(1.0, 1.0),
            "discrete": si.L1("1:5", 0.02, weights=[1, 1, 2, 1, 1]),
            "solver": si.solvers.NIAPG(),
        },
    ),
    "not convex": (lambda X: X, "1:5", {**GIVEN, "discrete": "l0-fractional", "spectral": "mcp"}),
    "an array": (lambda X: X, np.arange(1.0, 6.0), {**GIVEN, "symbol_weights": np.ones(5), "max_rank": 2}),
}


@pytest.fixture(scope="module", params=CASES)
def case(request, X) -> tuple[Any, si.SnapImputer]:
    make, alphabet, params = CASES[request.param]
    table = make(X)
    imputer = proximal(alphabet, **params)
    with _quiet():
        imputer.fit(table)
    return table, imputer


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory, X) -> pathlib.Path:
    path = tmp_path_factory.mktemp("models") / "model.snap"
    proximal("1:5", **GIVEN).fit(X).save(path)
    return path


def same(one: Any, other: Any) -> bool:
    """Whether two values are alike to the bit, whatever they are made of."""
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and np.array_equal(one, other, equal_nan=one.dtype.kind == "f"))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, si.LowRank):
        return same([one.U, one.s, one.V], [other.U, other.s, other.V])
    return type(one) is type(other) and (one == other or repr(one) == repr(other))


def equal_tables(one: Any, other: Any) -> None:
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other)
    else:
        pd.testing.assert_frame_equal(pd.DataFrame(one), pd.DataFrame(other))


# -------------------------------------------------------------------- the way back
def test_what_is_loaded_is_what_was_saved(tmp_path, case):
    """Parameters, attributes, tables, predictions and probabilities are the same bits; it can go on from there."""
    table, imputer = case
    imputer.save(tmp_path / "a.snap")
    copy = si.load(tmp_path / "a.snap")
    assert type(copy) is si.SnapImputer
    assert same(copy.get_params(), imputer.get_params())
    public = {name for name in vars(imputer) if name.endswith("_") and not name.startswith("_")}
    assert public == {name for name in vars(copy) if name.endswith("_") and not name.startswith("_")}
    for name in public:
        assert same(getattr(copy, name), getattr(imputer, name)), name
    equal_tables(copy.transform(table), imputer.transform(table))
    cells = np.ix_(range(20), range(7 if imputer.continuous == "passthrough" else 8))
    equal_tables(copy.predict(*cells), imputer.predict(*cells))
    equal_tables(copy.predict_mean(*cells), imputer.predict_mean(*cells))
    if imputer.decide != "nearest":
        np.testing.assert_array_equal(copy.predict_proba(0, [2, 3]), imputer.predict_proba(0, [2, 3]))
    np.testing.assert_array_equal(copy.recommend(3, 2), imputer.recommend(3, 2))
    assert copy.score(table) == imputer.score(table)
    with _quiet():
        other = deepcopy(imputer)
        np.testing.assert_array_equal(*(one.partial_fit([0], [2], a_symbol(one)).left_ for one in (copy, other)))


def a_symbol(imputer: si.SnapImputer) -> list[Any]:
    """Some symbol of column 2."""
    book: ColumnSchema = imputer._model.schema
    return [book[2].decode(book[2].symbols[:1])[0]]


def test_a_loaded_copy_saves_to_the_same_content(tmp_path, case):
    """Saving again what was loaded changes nothing, whatever the order in the file."""
    _, imputer = case
    imputer.save(tmp_path / "a.snap")
    si.load(tmp_path / "a.snap").save(tmp_path / "b.snap")
    with safe_open(tmp_path / "a.snap", "numpy") as a, safe_open(tmp_path / "b.snap", "numpy") as b:
        assert a.metadata() == b.metadata()  # the checksum included


def test_the_choice_and_the_verdict_come_back(tmp_path, X):
    """What was tried, with its scores, and whether discreteness helped."""
    imputer = si.SnapImputer("1:5", method=si.Proximal(center="mean", max_iter=50, tol=1e-3)).fit(X)
    imputer.save(tmp_path / "a.snap")
    copy = si.load(tmp_path / "a.snap")
    assert isinstance(copy.choice_, Choice)
    assert (copy.choice_, copy.verdict_, copy.status_) == (imputer.choice_, imputer.verdict_, imputer.status_)
    assert str(copy.verdict_) == str(imputer.verdict_)


def test_output_as_frames_comes_back(tmp_path, X):
    """What set_output asked for is part of the model."""
    proximal("1:5", **GIVEN).set_output(transform="pandas").fit(X).save(tmp_path / "a.snap")
    assert isinstance(si.load(tmp_path / "a.snap").transform(X), pd.DataFrame)


def test_a_path_may_be_text_in_a_new_folder_and_a_file_is_replaced(tmp_path, X):
    """The folder is made; a file that was there is another one afterwards."""
    path = str(tmp_path / "new" / "model.snap")
    for lam in (0.5, 0.7):
        si.SnapImputer("1:5", method=si.Proximal(lam=lam, xi=0.0)).fit(X).save(path)
        assert si.load(path).lam_ == lam


# -------------------------------------------------------------------- what is in a file
def test_a_file_holds_numbers_and_text_only(model):
    """Safetensors with JSON: every object is of a class known by name, and there is no pickle anywhere."""
    with safe_open(model, framework="numpy") as file:
        head = file.metadata()
    assert (head["format"], head["version"]) == ("snapimpute model", "3")
    tree = json.loads(head["tree"])
    names = set()

    def walk(node: Any) -> None:
        if isinstance(node, list):
            if node and node[0] == "object":
                names.add(node[1])
            for one in node:
                walk(one)
        elif isinstance(node, dict):
            for one in node.values():
                walk(one)

    walk(tree)
    assert names <= set(model_io._known())
    data = model.read_bytes()
    assert not any(mark in data for mark in (b"\x80\x04\x95", b"\x80\x05\x95", b"pickle", b"__reduce__", b"builtins"))
    for values in load_file(model).values():
        assert values.dtype.kind in "fiub"


def test_a_callback_and_other_code_is_refused(tmp_path, X):
    """A callback is code; so is a penalty of one's own class. Nothing is written then."""

    class Own(si.Nuclear):
        pass

    path = tmp_path / "a.snap"
    with pytest.raises(ValueError, match=r"callback is code.*set_params\(callback=None, progress=None\)"):
        proximal("1:5", callback=lambda _: None, **GIVEN).fit(X).save(path)
    with pytest.raises(TypeError, match=r"a model cannot hold a .*Own: it takes [^`]*$"):
        si.SnapImputer("1:5", method=si.Proximal(spectral=Own(1.0), xi=0.0)).fit(X).save(path)
    with pytest.raises(NotFittedError):
        si.SnapImputer("1:5", method="proximal").save(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["write", "replace"])
def test_nothing_is_half_written(monkeypatch, tmp_path, X, what):
    """When the disk is full the old file stays as it was, and no other is left."""
    path = tmp_path / "a.snap"
    imputer = proximal("1:5", **GIVEN).fit(X)
    imputer.save(path)
    before = path.read_bytes()

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    if what == "write":
        real = pathlib.Path.open

        class Full:
            def __init__(self, path: pathlib.Path, mode: str) -> None:
                self.file = real(path, mode)

            def __enter__(self) -> Full:
                return self

            def __exit__(self, *_: object) -> None:
                self.file.close()

            def write(self, data: bytes) -> None:
                self.file.write(data[: len(data) // 2])
                full()

        def opened(path: pathlib.Path, mode: str = "r", **more: Any) -> Any:
            return Full(path, mode) if "w" in mode else real(path, mode, **more)

        monkeypatch.setattr(pathlib.Path, "open", opened)
    else:
        monkeypatch.setattr(pathlib.Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        imputer.set_params(method__lam=0.9).fit(X).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# -------------------------------------------------------------------- what is no model
def test_a_missing_file_says_so(tmp_path):
    """The error is the usual one, with the path."""
    with pytest.raises(FileNotFoundError, match=r"none\.snap"):
        si.load(tmp_path / "none.snap")


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 64, b"row,col\n1,2\n", b"\x80\x04\x95" + bytes(40), b"\xff" * 8 + b"{}"]
)
def test_other_files_are_refused(tmp_path, content):
    """Nothing, zeros, a table, a pickle, a huge header: one error that names the file."""
    path = tmp_path / "other.snap"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.snap is no model file of snapimpute, or is damaged"):
        si.load(path)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(tmp_path, content):
    """Whatever a file holds, loading it is a model or a ValueError."""
    (tmp_path / "random.snap").write_bytes(content)
    with pytest.raises(ValueError, match=r"random\.snap"):
        si.load(tmp_path / "random.snap")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**9), st.integers(1, 255))
def test_a_changed_byte_is_noticed(tmp_path, model, place, change):
    """One byte that is another, in the header or in the numbers, makes a file that is refused."""
    data = bytearray(model.read_bytes())
    data[place % len(data)] ^= change
    (tmp_path / "changed.snap").write_bytes(data)
    try:
        si.load(tmp_path / "changed.snap")
    except ValueError as err:
        assert "changed.snap" in str(err)  # noqa: PT017  both outcomes are told apart below
    else:  # a blank in the padding of the header is all that may differ
        assert bytes([data[place % len(data)] ^ change]).isspace() or bytes(data) == model.read_bytes()


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 0.999))
def test_a_truncated_file_is_refused(tmp_path, model, share):
    """However much is missing at the end."""
    data = model.read_bytes()
    (tmp_path / "cut.snap").write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"cut\.snap is no model file of snapimpute, or is damaged"):
        si.load(tmp_path / "cut.snap")


def rewritten(model: pathlib.Path, path: pathlib.Path, **head: str) -> pathlib.Path:
    """A copy of a model file with other metadata."""
    with safe_open(model, framework="numpy") as file:
        old = file.metadata()
    tensors = load_file(model)
    new = old | head
    if "sha256" not in head:
        new["sha256"] = checksum(new["tree"], tensors)
    save_file(tensors, path, metadata=new)
    return path


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"format": "weights"}, r"safetensors file, but no model of snapimpute: its format is 'weights'"),
        ({"version": "2"}, r"version '2' of the model format, .* reads version 3: fit the model again and save it"),
        (
            {"version": "4"},
            r"version '4' of the model format, .* reads version 3: update snapimpute",
        ),
        ({"version": "new"}, "version 'new' of .*: update snapimpute"),
        ({"sha256": "0"}, "is damaged: its content does not match its checksum"),
        ({"tree": "{"}, "is damaged"),
        ({"tree": "[" * 100_000}, "is damaged"),
        ({"tree": "3"}, "is damaged: it holds a int"),
        ({"tree": '["object", "os.system", {"a": 1}]'}, "class os.system is not one"),
        ({"tree": '["array", "no such", "<f8", [1], [8], true]'}, "is damaged"),
        ({"tree": '["dict", {}]'}, "is damaged: it holds no model"),
        ({"tree": '["float", "00"]'}, "is damaged"),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(tmp_path, model, head, message):
    """Another format, a newer version, another content: one error each, and nothing is run."""
    path = rewritten(model, tmp_path / "b.snap", **head)
    with pytest.raises(ValueError, match=message):
        si.load(path)


def test_safetensors_of_others_are_refused(tmp_path):
    """A file of weights has no such metadata."""
    save_file({"w": np.zeros(3)}, tmp_path / "weights.safetensors")
    with pytest.raises(ValueError, match="no model of snapimpute: its format is None"):
        si.load(tmp_path / "weights.safetensors")


def test_a_file_of_version_3_is_read():
    """A model that was written once says what it said then, whatever was renamed or moved since."""
    imp = si.load(pathlib.Path(__file__).parent / "model-3.snap")
    assert imp.predict(0, np.arange(6)).tolist() == ["low", "low", "mid", "mid", "mid", "mid"]
    assert imp.predict_mean(0, [0, 5]) == pytest.approx([0.0799899309409201, 0.9742207337062976], rel=1e-9)
    assert imp.transform([["high", None, None, "high", None, None]]).shape == (1, 6)


def test_what_a_class_was_given_since_has_its_default():
    """A file from before a field was declared is read; one with a field that nobody declared is not."""
    spec = ModelSpec(si.Alphabet.of("0,1"), "lsp", None, theta=3.0)
    encoder = Encoder(model_io._known(), {})
    kind, name, content = encoder.node(spec)

    def read(content: dict[str, Any]) -> ModelSpec:
        return Decoder(model_io._known(), {}, encoder.tensors).value([kind, name, content])

    assert read(content).theta == 3.0
    assert read({field: part for field, part in content.items() if field != "theta"}).theta is None
    with pytest.raises(ValueError, match="a model specification has no field color"):
        read(content | {"color": None})
