"""Column schemas: what each column can hold, every way to say it, and the values it is found from."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from snapimpute import Alphabet, Proximal, SnapImputer
from snapimpute.data.alphabet import Nominal
from snapimpute.data.schema import MOST_LEVELS, SPREADS, ColumnSchema, Levels
from snapimpute.data.tables import read_table

STARS, BITS, YESNO = Alphabet.of("1:5"), Alphabet.of("0,1"), Alphabet.of(["no", "yes"])
NAMES = ["a", "b", "c"]
NAN = np.nan


def kinds(book: ColumnSchema) -> list[Alphabet | None]:
    """What each column has, also where it is the same for all."""
    return [book[col] for col in range(book.which.size)]


def inferred(X: Any, **options: Any) -> list[Alphabet | None]:
    return kinds(read_table(X, "infer", **options).schema)


# -------------------------------------------------------------------- one for all
@pytest.mark.parametrize("spec", ["1:5", [1, 2, 3, 4, 5], (5, 4, 3, 2, 1), range(1, 6), np.arange(1.0, 6), STARS])
def test_one_alphabet_serves_all_columns(spec):
    """Whatever reads as an alphabet is one for all columns."""
    book = ColumnSchema.of(spec, 3)
    assert book.kinds == (STARS,)
    assert book.which.tolist() == [0, 0, 0]
    assert book.one == book.by_column == STARS
    assert book.coded.tolist() == [0, 1, 2]
    assert book.discrete.all()


def test_a_list_of_labels_is_one_alphabet():
    """A list of text is labels for all columns, even if it is as long as there are columns."""
    for spec in (["no", "yes"], ("no", "yes"), np.array(["no", "yes"])):
        assert ColumnSchema.of(spec, 2).one == YESNO


def test_single():
    """The short way to one alphabet for all."""
    book = ColumnSchema.single(BITS, 2)
    assert book.one is BITS
    assert kinds(book) == [BITS, BITS]
    assert ColumnSchema.of(BITS, 2).by_column is BITS


# -------------------------------------------------------------------- by column
@pytest.mark.parametrize(
    "spec",
    [
        {"a": "1:5", "c": ["no", "yes"]},
        {0: "1:5", 2: YESNO},
        {np.int64(0): STARS, -1: ["no", "yes"]},
        {-3: range(1, 6), "b": None, -1: YESNO},
        ["1:5", None, ["no", "yes"]],
        (STARS, None, YESNO),
        [range(1, 6), None, np.array(["no", "yes"])],
    ],
)
def test_columns_are_named_by_name_or_position(spec):
    """A dict by name, position or position from the end, and a list of all, say the same; None is any number."""
    book = ColumnSchema.of(spec, 3, NAMES)
    assert kinds(book) == [STARS, None, YESNO]
    assert book.by_column == [STARS, None, YESNO]
    assert book.one is None
    assert book.discrete.tolist() == [True, False, True]
    assert book.coded.tolist() == [0, 1, 2]
    assert book.labelled.tolist() == [2]


def test_a_list_of_lists_is_one_for_each_column():
    """Lists within a list are alphabets of columns, of numbers or labels."""
    assert kinds(ColumnSchema.of([[0, 1], ["no", "yes"]], 2)) == [BITS, YESNO]
    assert kinds(ColumnSchema.of([range(2), range(1, 6)], 2)) == [BITS, STARS]


def test_names_come_before_positions():
    """If the names are numbers, a key is a name; only what is no name is a position."""
    assert kinds(ColumnSchema.of({2: STARS}, 3, [2, 1, 0])) == [STARS, None, None]
    assert kinds(ColumnSchema.of({2: STARS}, 3, [7, 8, 9])) == [None, None, STARS]


def test_columns_not_named_have_the_default():
    """Any number, unless something else is asked for."""
    assert kinds(ColumnSchema.of({"a": STARS}, 3, NAMES, default="0,1")) == [STARS, BITS, BITS]
    assert kinds(ColumnSchema.of({}, 2)) == [None, None]


def test_equal_alphabets_are_one_kind():
    """Columns share a kind if symbols and labels are equal, and kinds come in the order of columns."""
    book = ColumnSchema.of(["0,1", None, [1, 0], ["no", "yes"], None, ["no", "yes"]], 6)
    assert book.kinds == (BITS, None, YESNO)
    assert book.which.tolist() == [0, 1, 0, 2, 1, 2]
    assert [(kind, cols.tolist()) for kind, cols in book.groups] == [(BITS, [0, 2]), (None, [1, 4]), (YESNO, [3, 5])]
    assert ColumnSchema.of({0: "0:1", 1: BITS}, 2).one == BITS


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"d": STARS}, "names the column 'd', which is none of the 3 columns; they are 'a', 'b', 'c'"),
        ({3: STARS}, "names the column 3, which is none"),
        ({-4: STARS}, "names the column -4, which is none"),
        ({True: STARS}, "names the column True, which is none"),
        ({1.0: STARS}, "names the column 1.0, which is none"),
        ([STARS, None], "alphabet has 2 entries, one for each column, but there are 3"),
        ({"a": "1;5"}, "cannot read an alphabet from '1;5'"),
        ([STARS, None, 3], "needs a flat list"),
        ({"a": "infer"}, '"infer" needs a table'),
        ("infer", '"infer" needs a table'),
    ],
)
def test_what_cannot_be_read_is_refused(spec, message):
    """A column that is not there, a list that is too short and what is no alphabet each get their message."""
    with pytest.raises(ValueError, match=re.escape(message)):
        ColumnSchema.of(spec, 3, NAMES)


def test_without_names_there_are_none_to_list():
    """The message about an unknown column does not list names where there are none."""
    with pytest.raises(ValueError, match=r"which is none of the 2 columns$"):
        ColumnSchema.of({"a": STARS}, 2)


# -------------------------------------------------------------------- left alone
def test_columns_of_any_numbers_can_be_left_alone():
    """Then they belong to no kind, and are not coded."""
    book = ColumnSchema.of({"b": STARS}, 3, NAMES, leave=True)
    assert book.kinds == (STARS,)
    assert book.which.tolist() == [-1, 0, -1]
    assert book.one is None
    assert book.by_column == [None, STARS, None]
    assert book.coded.tolist() == [1]
    assert book.discrete.tolist() == [False, True, False]
    assert book[0] is None
    assert [(kind, cols.tolist()) for kind, cols in book.groups] == [(STARS, [1])]


@pytest.mark.parametrize("spec", [{}, [None, None], {"a": None}, "infer"])
def test_there_must_be_something_to_do(spec):
    """If no column is discrete and others are left alone, the error says so."""
    with pytest.raises(ValueError, match=r"no column is discrete.*nothing to do"):
        read_table(pd.DataFrame({"a": [0.1, 0.7], "b": [2.5, 1.3]}), spec, leave=True)


# -------------------------------------------------------------------- inferred
@pytest.mark.parametrize(
    "make",
    [
        np.array,
        lambda X: np.array(X, dtype=object),
        pd.DataFrame,
        lambda X: pd.DataFrame(X).astype("Int64"),
        lambda X: pl.DataFrame(np.array(X), nan_to_null=True),
        lambda X: pa.Table.from_pandas(pd.DataFrame(X).astype("Int64")),
        lambda X: sp.coo_array((np.array([1.0, 4, 4, 2]), ([0, 1, 2, 2], [0, 0, 1, 0])), shape=(3, 2)),
    ],
    ids=["numpy", "objects", "pandas", "Int64", "polars", "arrow", "sparse"],
)
def test_few_values_over_all_columns_are_one_alphabet(make):
    """Columns that together have few values share them, also those that one of them lacks."""
    assert inferred(make([[1, NAN], [4, NAN], [2, 4]])) == [Alphabet.of("1,2,4")] * 2


def test_a_column_without_values_has_what_all_have():
    """If all share an alphabet, a column without any value has it too; else it is a column of any numbers."""
    assert inferred([[0, NAN], [1, NAN]]) == [BITS, BITS]
    assert inferred(pd.DataFrame({"a": ["no", "yes"], "e": [None, None]})) == [YESNO, YESNO]
    assert inferred(pd.DataFrame({"a": ["no", "yes"], "b": [0, 1], "e": [None, None]})) == [YESNO, BITS, None]


def test_a_table_without_values_has_no_alphabet():
    """Nothing is known of its columns."""
    assert inferred(np.full((2, 2), NAN)) == [None, None]


def test_columns_that_differ_have_their_own():
    """Numbers and labels, and numbers that are too many together, are looked at column by column."""
    X = pd.DataFrame({"x": np.linspace(0, 1, 40) ** 2, "b": [0, 1] * 20, "s": [1, 2, 3, 5] * 10})
    assert inferred(X) == [None, BITS, Alphabet.of("1,2,3,5")]
    assert inferred(X, leave=True) == [None, BITS, Alphabet.of("1,2,3,5")]
    assert read_table(X, "infer", leave=True).schema.which.tolist() == [-1, 0, 1]
    mixed = pd.DataFrame({"t": ["yes", "no"], "b": [1, 0]})
    assert inferred(mixed) == [YESNO, BITS]
    assert inferred(mixed.to_numpy(dtype=object)) == [YESNO, BITS]


def test_infer_for_some_columns():
    """Within a dict or list each column is looked at for itself."""
    X = np.array([[1, 0, 0.3], [2, 1, 0.7]])
    assert kinds(read_table(X, {0: "infer", 1: "infer"}).schema) == [Alphabet.of("1,2"), BITS, None]
    assert kinds(read_table(X, ["infer", STARS, None]).schema) == [Alphabet.of("1,2"), STARS, None]


def test_codes_for_missing_are_no_symbols():
    """What means missing is not inferred."""
    assert inferred(np.array([[0, -99], [1, 1]]), missing=[-99]) == [BITS, BITS]
    assert inferred([["no", "?"], ["yes", "no"]], missing=["?"]) == [YESNO, YESNO]


@pytest.mark.parametrize(
    ("values", "symbols"),
    [
        ([0.1, 0.2, 0.3, 0.4], None),  # never again: measurements
        ([0.5, 1.5, 0.5, 1.5], [0.5, 1.5]),
        ([0.5, 1.5, 0.5], None),  # two values in three cells do not come again often enough
        ([3, 1, 2], [1, 2, 3]),  # whole numbers need not come again
        (range(MOST_LEVELS), range(MOST_LEVELS)),
        (range(MOST_LEVELS + 1), None),
        ([*range(MOST_LEVELS + 1)] * 5, None),
        ([7, 7], [7]),
    ],
)
def test_which_numbers_are_symbols(values, symbols):
    """Not more than twenty, and whole or seen twice on average."""
    found = inferred(np.array(values, dtype=float)[:, None])
    assert found == [None if symbols is None else Alphabet.of(symbols)]


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"a": pd.Categorical(["lo", None], ["lo", "mid", "hi"], ordered=True)}),
        pl.DataFrame({"a": pl.Series(["lo", None], dtype=pl.Enum(["lo", "mid", "hi"]))}),
        pa.table(
            {"a": pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), ["lo", "mid", "hi"], ordered=True)}
        ),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_ordered_categories_are_an_alphabet(X):
    """All categories in their order, also those that no cell has."""
    assert inferred(X) == [Alphabet.of(["lo", "mid", "hi"])]


def test_ordered_categories_are_shared_only_if_they_are_the_same():
    """Columns with the same categories in the same order share them; others have their own."""
    make = lambda *orders: pd.DataFrame(  # noqa: E731
        {k: pd.Categorical(["lo", "hi"], order, ordered=True) for k, order in enumerate(orders)}
    )
    assert read_table(make(["lo", "hi"], ["lo", "hi"]), "infer").schema.one == Alphabet.of(["lo", "hi"])
    assert inferred(make(["lo", "hi"], ["hi", "lo"])) == [Alphabet.of(["lo", "hi"]), Alphabet.of(["hi", "lo"])]


def test_the_order_of_two_labels_does_not_matter_that_of_three_does():
    """Two labels are taken in the order of letters; of three or more the order is asked for, and how to give it."""
    assert inferred([["yes"], ["no"]]) == [YESNO]
    assert inferred([["yes"], ["yes"]]) == [Alphabet.of(["yes"])]
    message = "found the labels 'hi', 'lo', 'mid', but not their order: give them from lowest to highest"
    with pytest.raises(ValueError, match=message):
        read_table([["lo"], ["mid"], ["hi"]], "infer")
    with pytest.raises(ValueError, match="found the labels 'a', 'b', 'c'"):
        read_table([["a", "b"], ["b", "c"]], "infer")


@pytest.mark.parametrize(
    ("X", "categories"),
    [
        (pd.DataFrame({"a": pd.Categorical(["lo", None], ["lo", "mid", "hi"])}), ["lo", "mid", "hi"]),
        (pl.DataFrame({"a": pl.Series(["lo", None, "mid", "hi"], dtype=pl.Categorical)}), ["hi", "lo", "mid"]),
        (pa.table({"a": pa.array(["lo", None, "mid", "hi"]).dictionary_encode()}), ["hi", "lo", "mid"]),
    ],
    ids=["pandas", "polars", "arrow"],
)
def test_a_categorical_without_order_has_categories(X, categories):
    """Three or more categories without order are nominal: all that pandas declares, else those of cells."""
    assert inferred(X) == [Nominal(categories)]


def test_columns_of_categories_share_them_only_if_they_are_the_same():
    """Equal categories in equal order are one kind; columns with others have their own."""
    make = lambda *some: pd.DataFrame({k: pd.Categorical([one[0], None], one) for k, one in enumerate(some)})  # noqa: E731
    assert read_table(make(list("abc"), list("abc")), "infer").schema.one == Nominal(list("abc"))
    assert inferred(make(list("abc"), list("xyz"))) == [Nominal(list("abc")), Nominal(list("xyz"))]
    assert inferred(make(list("ab"), list("ba"))) == [Alphabet.of(["a", "b"])] * 2  # two need no order


def test_levels():
    """Text and whole numbers are few if they are few; none are not."""
    assert Levels(np.array(["a", "b"], dtype=object), 2).few
    assert Levels(np.array([1.0, 2.0]), 2).few
    assert not Levels(np.array([1.5, 2.0]), 3).few
    assert not Levels(np.zeros(0), 0).few
    assert not Levels(np.array([f"{k}" for k in range(MOST_LEVELS + 1)], dtype=object), 1000).few


# -------------------------------------------------------------------- units
def test_one_alphabet_needs_no_units():
    """With one alphabet for all the scale is 1, and the scaled schema is the same."""
    book = ColumnSchema.of(STARS, 3)
    scale = book.scale(np.array([0, 1]), np.array([1.0, 5.0]))
    assert scale.tolist() == [1, 1, 1]
    assert book.scaled(scale) is book


def test_scale_makes_columns_count_alike():
    """The range of an alphabet, four standard deviations of any numbers; 1 for a single symbol, or if left alone."""
    book = ColumnSchema.of({0: STARS, 1: "7", 2: None, 3: None, 4: None, 5: "-1,1"}, 6)
    cols = np.array([0, 0, 1, 2, 2, 2, 3, 3])
    values = np.array([1.0, 5, 7, 1, 2, 6, 50, 50])
    scale = book.scale(cols, values)
    assert scale[[0, 1, 5]].tolist() == [4, 1, 2]
    assert scale[2] == pytest.approx(SPREADS * np.std([1, 2, 6]))
    assert scale[3] == 50  # a constant has no spread, so its size
    assert scale[4] == 1  # nothing is known
    alone = ColumnSchema.of({0: STARS, 2: BITS}, 3, leave=True)
    assert alone.scale(np.array([0, 2]), np.array([1.0, 1.0])).tolist() == [4, 1, 1]


def test_any_numbers_alone_have_units_too():
    """If all columns are of any numbers they are scaled each by its own spread."""
    book = ColumnSchema.of([None, None], 2)
    scale = book.scale(np.array([0, 0, 1, 1]), np.array([1.0, 3.0, 100.0, 300.0]))
    assert scale.tolist() == [SPREADS, 100 * SPREADS]
    assert kinds(book.scaled(scale)) == [None, None]


@given(
    st.lists(
        st.none() | st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True).map(Alphabet),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([1e-6, 0.3, 1.0, 7.0, 1e5]),
    st.booleans(),
    st.data(),
)
def test_scaled_symbols_times_the_scale_are_the_symbols(alphabets, unit, leave, data):
    """Also where columns of one kind have several scales; columns of any numbers and left alone stay so."""
    alphabets = [None if one is None else Alphabet(one.symbols * unit) for one in alphabets]
    if leave and not any(alphabets):
        return
    book = ColumnSchema.of([*alphabets, None], len(alphabets) + 1, leave=leave)
    cols = np.array(data.draw(st.lists(st.integers(0, len(alphabets)), max_size=20)), dtype=int)
    values = np.array(data.draw(st.lists(st.floats(-1e3, 1e3), min_size=cols.size, max_size=cols.size)))
    for scale in (book.scale(cols, values), np.arange(1.0, book.which.size + 1)):
        assert (scale > 0).all()
        scaled = book.scaled(scale)
        assert scaled.coded.tolist() == book.coded.tolist()
        assert scaled.discrete.tolist() == book.discrete.tolist()
        assert len(set(scaled.kinds)) == len(scaled.kinds)
        for col in np.flatnonzero(book.discrete):
            np.testing.assert_allclose(scaled[col].symbols * scale[col], book[col].symbols, rtol=1e-14)


def test_alphabets_of_one_shape_become_one_kind():
    """0, 1, 2 and 0, 5, 10 are the same in units of their range; labels count as their symbols."""
    book = ColumnSchema.of([[0, 1, 2], [0, 5, 10], ["lo", "mid", "hi"], None], 4)
    scaled = book.scaled(book.scale(np.zeros(0, dtype=int), np.zeros(0)))
    assert scaled.kinds == (Alphabet.of("0,0.5,1"), None)
    assert scaled.which.tolist() == [0, 0, 0, 1]


def test_one_kind_with_two_scales_becomes_two():
    """The scale belongs to the column, not to the kind."""
    scaled = ColumnSchema.of(BITS, 3).scaled(np.array([1.0, 2.0, 1.0]))
    assert scaled.kinds == (BITS, Alphabet.of("0,0.5"))
    assert scaled.which.tolist() == [0, 1, 0]


# -------------------------------------------------------------------- the rest
def test_widened():
    """Further columns have the first kind; the schema itself stays as it is."""
    book = ColumnSchema.of([BITS, STARS], 2)
    assert kinds(book.widened(2)) == [BITS, STARS, BITS, BITS]
    assert kinds(book) == [BITS, STARS]
    assert ColumnSchema.of(STARS, 2).widened(1).one == STARS
    assert kinds(book.widened(0)) == kinds(book)


@pytest.mark.parametrize(
    ("book", "text"),
    [
        (ColumnSchema.of(BITS, 2), "2 columns: 0, 1"),
        (ColumnSchema.of([BITS, None, BITS], 3), "2 columns: 0, 1; 1 column: any number"),
        (ColumnSchema.of([None, YESNO, None], 3, leave=True), "1 column: 'no', 'yes'; 2 columns: left alone"),
        (ColumnSchema.of([None], 1), "1 column: any number"),
    ],
)
def test_describe(book, text):
    """One line says how many columns hold what."""
    assert book.describe() == text


def test_a_column_named_twice_is_refused():
    """By its name and by its position."""
    with pytest.raises(ValueError, match=r"names one column twice, as 'a' and as 0"):
        ColumnSchema.of({"a": "1:5", 0: "0,1"}, 2, ["a", "b"], default="0,1")


def test_a_fit_says_which_alphabets_it_took(caplog):
    """With "infer" above all: at the level INFO, one line."""
    X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [1.0, np.nan]])
    with caplog.at_level("INFO", logger="snapimpute"):
        SnapImputer({0: "1:3", 1: "infer"}, method=Proximal(lam=0.1, xi=0.0)).fit(X)
    assert "alphabet: 1 column: 1, 2, 3; 1 column: 0, 1" in caplog.text
