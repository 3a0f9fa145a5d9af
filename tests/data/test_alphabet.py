"""Alphabets: every way to write one, every way to get it wrong, and the nearest symbol by brute force."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snapimpute import Alphabet, Nominal
from snapimpute.data.alphabet import MAX_SYMBOLS

quick = settings(max_examples=60, deadline=None)  # a slow machine is no failure

# Eighths are exact in binary, so that the distance to a symbol, and a tie, are exact too.
eighths = st.integers(-400, 400).map(lambda k: k / 8)
exact_alphabets = st.lists(eighths, min_size=1, max_size=9, unique=True).map(Alphabet)
scales = st.sampled_from([1e-9, 0.001, 0.1, 1.0, 7.3, 1e6])


def nearest(symbols: Alphabet, x: float) -> float:
    """The nearest symbol by looking at all of them; of two as near, the larger."""
    return min(symbols, key=lambda a: (abs(a - x), -a))


# -------------------------------------------------------------------- building
@pytest.mark.parametrize(
    ("spec", "symbols"),
    [
        ("1:5", [1, 2, 3, 4, 5]),
        (" -1 : 1 ", [-1, 0, 1]),
        ("3:3", [3]),
        ("0.5:2:0.5", [0.5, 1, 1.5, 2]),
        ("0:1e3:5e2", [0, 500, 1000]),
        ("-1,1", [-1, 1]),
        (" 4, 1 ,2.5", [1, 2.5, 4]),
        ("7", [7]),
        ([5, 1, 3], [1, 3, 5]),
        ((0, 1), [0, 1]),
        (range(3), [0, 1, 2]),
        ([True, False], [0, 1]),
        (np.array([2, 0, 1], dtype=np.uint8), [0, 1, 2]),
        (np.array([0.5, 0.25], dtype=np.float32), [0.25, 0.5]),
    ],
)
def test_every_form_is_read(spec, symbols):
    """A range, a list in a string, a sequence and an array of any real type give the sorted symbols."""
    alphabet = Alphabet.of(spec)
    assert list(alphabet) == symbols
    assert len(alphabet) == len(symbols)
    assert alphabet.symbols.dtype == np.float64


def test_an_alphabet_is_taken_as_it_is():
    """`of` returns an alphabet unchanged, so functions may call it on whatever they are given."""
    alphabet = Alphabet.of("1:5")
    assert Alphabet.of(alphabet) is alphabet


def test_decimal_steps_do_not_drift():
    """Each symbol of "0.1:1:0.1" is the double that its decimal reads as, 0.3 and not 0.30000000000000004."""
    expected = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert list(Alphabet.of("0.1:1:0.1")) == expected
    assert expected != [0.1 + 0.1 * k for k in range(10)], "the naive sum drifts, so this test can fail"


@quick
@given(st.integers(-300, 300), st.integers(1, 99), st.integers(1, 60), st.sampled_from([1, 10, 100, 1000]))
def test_ranges_are_exact_decimals(first, step, count, unit):
    """A decimal range holds, for every step, the double nearest to the exact decimal."""
    exact = [Fraction(first + k * step, unit) for k in range(count)]
    spec = ":".join(str(float(q)) for q in (exact[0], exact[-1], Fraction(step, unit)))
    assert list(Alphabet.of(spec)) == [float(q) for q in exact]


@quick
@given(exact_alphabets)
def test_lists_and_strings_agree(alphabet):
    """Writing the symbols as a string and reading them back gives an equal alphabet."""
    assert Alphabet.of(",".join(map(str, alphabet))) == alphabet


def test_the_given_array_is_left_alone():
    """Building neither sorts nor freezes the caller's array, and later writes to it do not reach the alphabet."""
    given_symbols = np.array([3.0, 1.0, 2.0])
    alphabet = Alphabet.of(given_symbols)
    given_symbols[0] = 9.0
    assert given_symbols.tolist() == [9.0, 1.0, 2.0]
    assert list(alphabet) == [1.0, 2.0, 3.0]


def test_symbols_are_read_only():
    """Neither the symbols nor the attribute can be changed, which is what makes an alphabet hashable."""
    alphabet = Alphabet([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        alphabet.symbols[0] = 5.0
    with pytest.raises(AttributeError, match="cannot assign"):
        alphabet.symbols = np.array([1.0])


# ---------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    "spec",
    [
        "",
        " ",
        "a",
        "1:b",
        "1:",
        ":5",
        "1:5:",
        "1:2:3:4",
        "1,,2",
        "1,two",
        "1;5",
        "1/2:1",
        "nan:5",
        "1:inf",
        "0:1e400:1e399",
        [1, "two"],
        ["one", None],
        [["one", "two"], ["three", "four"]],
        [[1, 2], [3]],
        {1, 2},
        {"one", "two"},
        {"a": 1},
        (i for i in range(3)),
        [1, 2j],
        np.array([1 + 0j, 2]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        [10**400],
    ],
)
def test_what_cannot_be_read_is_refused_with_advice(spec):
    """What is no list of numbers is refused, and the message shows what was given and what to give."""
    with pytest.raises(ValueError, match="cannot read an alphabet from") as error:
        Alphabet.of(spec)
    assert repr(spec) in str(error.value)
    assert '"0.5:5:0.5"' in str(error.value)


def test_the_class_itself_gives_the_same_advice():
    """A short form handed to the class instead of `of` gets the message with advice, not one of numpy's."""
    with pytest.raises(ValueError, match=r"cannot read an alphabet from '1:5'.*give a list"):
        Alphabet("1:5")


@pytest.mark.parametrize("spec", ["5:1", "1:5:-1", "1:5:0", "1:0.5:0.1", "1:2:1e-400"])
def test_ranges_must_rise(spec):
    """A range that falls, or whose step is zero or negative, is refused and quoted."""
    with pytest.raises(ValueError, match=f"'{spec}' must rise"):
        Alphabet.of(spec)


@pytest.mark.parametrize(("spec", "end"), [("1:5:3", "5"), ("0: 1 :0.3", "1"), ("1:2.5", "2.5"), ("0:1:0.3333", "1")])
def test_ranges_must_reach_their_end(spec, end):
    """A range whose steps miss its end is refused instead of losing its last symbol silently."""
    with pytest.raises(ValueError, match=f"'{spec}' does not reach its end {end} in whole steps"):
        Alphabet.of(spec)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_symbols_must_be_finite(bad):
    """NaN and infinities are refused, in a list and in a string, and named."""
    for spec in ([1.0, bad], f"1,{bad}"):
        with pytest.raises(ValueError, match=f"must be finite, got {bad}"):
            Alphabet.of(spec)


def test_a_missing_symbol_is_refused():
    """None in a list is NaN to numpy and is refused as such."""
    with pytest.raises(ValueError, match="must be finite, got nan"):
        Alphabet.of([1, None])


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ([1, 2, 1], "1.0 and 1.0"),
        ("3,3", "3.0 and 3.0"),
        ([0.0, -0.0], "0.0 and 0.0"),
        ([0.1 + 0.2, 1, 0.3], "0.3 and 0.30000000000000004"),
        ([1e6, 1e6 + 1e-9], "1000000.0 and 1000000.000000001"),
    ],
)
def test_duplicates_are_refused(spec, named):
    """A symbol given twice is refused, also when the two differ by no more than rounding error."""
    with pytest.raises(ValueError, match=f"must differ by more than rounding error, got {named}"):
        Alphabet.of(spec)


@pytest.mark.parametrize("spec", [[], np.empty(0), 3, None, [[1, 2], [3, 4]], np.zeros((1, 1))])
def test_symbols_must_be_a_flat_list(spec):
    """An empty list, a single number and a two-dimensional array are refused, and their shape is named."""
    shape = np.shape(spec)
    with pytest.raises(ValueError, match="needs a flat list of symbols, got shape") as error:
        Alphabet.of(spec)
    assert str(shape) in str(error.value)


def test_too_many_symbols_are_refused():
    """The largest alphabet allowed is built; one symbol more is refused, as a list and as a range."""
    assert len(Alphabet.of(f"1:{MAX_SYMBOLS}")) == MAX_SYMBOLS
    assert len(Alphabet.of(np.arange(MAX_SYMBOLS))) == MAX_SYMBOLS
    with pytest.raises(ValueError, match=f"range '0:{MAX_SYMBOLS}' has {MAX_SYMBOLS + 1} symbols, at most"):
        Alphabet.of(f"0:{MAX_SYMBOLS}")
    with pytest.raises(ValueError, match=f"an alphabet of {MAX_SYMBOLS + 1} symbols is not one"):
        Alphabet.of(np.arange(MAX_SYMBOLS + 1))
    with pytest.raises(ValueError, match="symbols, at most"):
        Alphabet.of("0:1e300")


# ------------------------------------------------------------------ properties
@quick
@given(exact_alphabets, st.randoms())
def test_equal_alphabets_are_equal_and_hash_alike(alphabet, random):
    """Order and type of the input do not matter to equality or hash, and the sign of zero does not either."""
    symbols = list(alphabet)
    random.shuffle(symbols)
    same = Alphabet([-0.0 if a == 0 else a for a in symbols])
    assert same == alphabet
    assert hash(same) == hash(alphabet)
    assert {alphabet: "seen"}[same] == "seen"


@quick
@given(exact_alphabets, exact_alphabets)
def test_equality_is_that_of_the_symbols(one, other):
    """Two alphabets are equal exactly if their symbols are."""
    assert (one == other) == (list(one) == list(other))


def test_an_alphabet_equals_no_other_type():
    """An alphabet is not equal to a list or an array of its symbols, and comparing does not fail."""
    alphabet = Alphabet([1, 2])
    assert alphabet != [1.0, 2.0]
    assert alphabet != alphabet.symbols
    assert alphabet != "1:2"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("1:5", "Alphabet([1, 2, 3, 4, 5])"),
        ("-1,0.5", "Alphabet([-1, 0.5])"),
        ("1234567,1234568", "Alphabet([1234567, 1234568])"),
        ("0.123456789,1", "Alphabet([0.123456789, 1])"),
        ("0:100", "Alphabet([0, 1, 2, ..., 100])"),
    ],
)
def test_repr_tells_symbols_apart(spec, text):
    """Symbols are shown with the digits that tell them apart, and a long alphabet is abbreviated."""
    assert repr(Alphabet.of(spec)) == text


@pytest.mark.parametrize(
    ("spec", "spacing"),
    [
        ("1:5", 1.0),
        ("0.1:1:0.1", 0.1),
        ("-1,1", 2.0),
        ("1,2,4", None),
        ("3", None),
        ([1e-13, 2e-13, 3e-13], 1e-13),
        ([1e-13, 2e-13, 5e-13], None),
        (np.linspace(0, 1, 8), 1 / 7),
        ([1e6, 1e6 + 1, 1e6 + 2.001], None),
    ],
)
def test_spacing(spec, spacing):
    """The spacing is found up to rounding error at any scale, and is None if it varies or there is one symbol."""
    found = Alphabet.of(spec).spacing
    assert found == (spacing if spacing is None else pytest.approx(spacing, rel=1e-12))


@pytest.mark.parametrize(("spec", "whole"), [("1:5", True), ("-1,1", True), ("0.5:2:0.5", False), ("1e6,2", True)])
def test_is_integer(spec, whole):
    """An alphabet is integer exactly if all its symbols are whole."""
    assert Alphabet.of(spec).is_integer is whole


# --------------------------------------------------------------------- labels
LABELS = st.lists(st.text(max_size=4), min_size=1, max_size=9, unique=True)


@pytest.mark.parametrize(
    "make", [list, tuple, np.array, lambda labels: np.array(labels, dtype=object), pd.Index, pd.Series]
)
def test_labels_keep_their_order(make):
    """Labels stand for 0, 1, 2, … in the order given, which is not that of the letters."""
    alphabet = Alphabet.of(make(["low", "mid", "high"]))
    assert alphabet.labels == ("low", "mid", "high")
    assert all(type(label) is str for label in alphabet.labels)
    assert list(alphabet) == [0, 1, 2]
    assert alphabet.is_integer
    assert alphabet.spacing == 1


def test_digits_in_quotes_are_labels():
    """A list of text is labels even if it reads as numbers, and is not sorted by them."""
    assert Alphabet.of(["10", "9"]).labels == ("10", "9")
    assert Alphabet.of([10, 9]).labels is None


def test_labels_must_differ_and_match_the_symbols():
    """A label given twice is named; labels stand for 0, 1, … and no other symbols."""
    with pytest.raises(ValueError, match="must differ, got 'b' twice"):
        Alphabet.of(["a", "b", "c", "b"])
    for symbols in ([1, 2], [0, 1, 2], [0, 2]):
        with pytest.raises(ValueError, match="2 labels stand for 0, 1, …, 1, got symbols"):
            Alphabet(np.array(symbols), ("a", "b"))


@quick
@given(LABELS, st.data())
def test_decoding_undoes_encoding(labels, data):
    """What is encoded comes back, a missing value as None, in an array of the same shape."""
    alphabet = Alphabet.of(labels)
    cells = data.draw(
        st.lists(st.sampled_from([*labels, None]), min_size=2, max_size=12).filter(lambda x: len(x) % 2 == 0)
    )
    values = np.array(cells, dtype=object).reshape(2, -1)
    codes = alphabet.encode(values)
    assert codes.dtype == np.float64
    assert codes.shape == values.shape
    assert [None if np.isnan(c) else labels[int(c)] for c in codes.flat] == cells
    assert np.array_equal(alphabet.decode(codes), values)


@pytest.mark.parametrize("nothing", [None, np.nan, np.float32("nan"), pd.NA, pd.NaT])
def test_nothing_is_encoded_as_nan(nothing):
    """None, NaN and what pandas calls missing have no symbol."""
    codes = Alphabet.of(["n", "y"]).encode(np.array(["y", nothing, np.str_("n")], dtype=object))
    np.testing.assert_array_equal(codes, [1, np.nan, 0])


@pytest.mark.parametrize("strange", ["x", "", "Y", " y", 0, 1.0, True, b"y"])
def test_what_is_no_label_is_named(strange):
    """An unknown label and anything that is no text are refused, the first with its count and its place if given."""
    alphabet, values = Alphabet.of(["n", "y"]), np.array(["n", None, strange, "y", "z"], dtype=object)
    message = f"2 value(s) not in Alphabet(['n', 'y']), the first is {strange!r}"
    with pytest.raises(ValueError, match=re.escape(message + ": correct the data or the alphabet")):
        alphabet.encode(values)
    with pytest.raises(ValueError, match=re.escape(message + " at seat 2: correct")):
        alphabet.encode(values, lambda i: f"seat {i}")


def test_decode_without_labels_gives_the_symbols():
    """Numbers stand for themselves, and NaN stays NaN; among labels it is None."""
    np.testing.assert_array_equal(Alphabet.of("0,0.5").decode([0.5, np.nan]), [0.5, np.nan])
    decoded = Alphabet.of(["n", "y"]).decode([[1, np.nan], [0, 1]])
    assert decoded.dtype == object
    assert decoded.tolist() == [["y", None], ["n", "y"]]


def test_labels_count_in_equality():
    """Alphabets are equal if symbols and labels are; equal ones hash alike, and others are told apart in a dict."""
    labelled, numbers, others = Alphabet.of(["n", "y"]), Alphabet.of("0,1"), Alphabet.of(["y", "n"])
    assert labelled == Alphabet.of(("n", "y"))
    assert hash(labelled) == hash(Alphabet.of(("n", "y")))
    assert len({labelled, numbers, others}) == 3
    assert labelled != numbers
    assert labelled != others


def test_labels_are_shown_in_quotes():
    """The text of an alphabet tells labels from numbers, and a long one is abbreviated."""
    assert Alphabet.of(["1", "it's"]).names() == ["'1'", '"it\'s"']
    assert Alphabet.of("0.5,1").names() == ["0.5", "1"]
    assert repr(Alphabet.of(["n", "y"])) == "Alphabet(['n', 'y'])"
    many = Alphabet.of([f"l{k}" for k in range(30)])
    assert repr(many) == "Alphabet(['l0', 'l1', 'l2', ..., 'l29'])"
    assert len(many.names()) == 30


# --------------------------------------------------------------------- nearest
@quick
@given(exact_alphabets, st.lists(eighths | st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_snap_is_the_nearest_symbol(alphabet, values):
    """Snapping agrees with a search over all symbols; a tie goes to the larger one."""
    exact = [round(x * 16) / 16 for x in values]  # sixteenths reach every midpoint of two eighths
    assert alphabet.snap(exact).tolist() == [nearest(alphabet, x) for x in exact]
    assert alphabet.symbols[alphabet.indices(exact)].tolist() == alphabet.snap(exact).tolist()


@quick
@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=9, unique=True),
    scales,
    st.lists(st.floats(-60, 60), min_size=1, max_size=20),
)
def test_snap_is_nearest_at_any_scale(symbols, scale, values):
    """Also where distances are rounded, no symbol is nearer than the one returned, beyond rounding error."""
    alphabet = Alphabet(np.array(symbols) * scale)
    x = np.array(values) * scale
    snapped = alphabet.snap(x)
    best = np.abs(x[:, None] - alphabet.symbols).min(axis=1)
    assert np.all(np.abs(x - snapped) <= best + 1e-13 * scale * 60)
    assert np.isin(snapped, alphabet.symbols).all()


def test_a_tie_goes_to_the_larger_symbol():
    """Half way between two symbols the larger is taken, on both sides of zero."""
    assert Alphabet.of("1:5").snap([1.5, 2.5, 4.5]).tolist() == [2, 3, 5]
    assert Alphabet.of("-2,-1,1").snap([-1.5, 0.0]).tolist() == [-1, 1]


@quick
@given(exact_alphabets)
def test_snap_keeps_symbols_and_sends_the_far_to_the_ends(alphabet):
    """Every symbol snaps to itself, and what lies beyond the ends, infinity included, to the ends."""
    assert np.array_equal(alphabet.snap(alphabet.symbols), alphabet.symbols)
    low, high = alphabet.symbols[[0, -1]]
    assert alphabet.snap([-np.inf, low - 100, high + 100, np.inf]).tolist() == [low, low, high, high]


@quick
@given(exact_alphabets, st.lists(st.tuples(eighths, eighths), min_size=1, max_size=20))
def test_an_offset_is_added_back(alphabet, pairs):
    """Snapping x with an offset is snapping x + offset: each entry may have its own, and a scalar serves all."""
    x, offset = np.array(pairs).T
    assert np.array_equal(alphabet.snap(x, offset), alphabet.snap(x + offset))
    assert np.array_equal(alphabet.indices(x, offset), alphabet.indices(x + offset))
    assert np.array_equal(alphabet.snap(x, 0.25), alphabet.snap(x + 0.25))


def test_offsets_broadcast():
    """A row of offsets against a column of values gives the matrix of snapped sums."""
    snapped = Alphabet.of("0:3").snap([[0.0], [1.0]], [0.0, 0.6, 9.0])
    assert snapped.tolist() == [[0, 1, 3], [1, 2, 3]]


@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3)])
def test_snap_keeps_the_shape(shape):
    """The result has the shape of the input, be it a number, empty, a vector or a matrix, and is float64."""
    snapped = np.asarray(Alphabet.of("1:5").snap(np.full(shape, 2, dtype=np.int8)))
    assert snapped.shape == shape
    assert snapped.dtype == np.float64


def test_snap_leaves_its_input_alone():
    """Snapping returns a new, writable array and does not touch the values given."""
    alphabet, values = Alphabet.of("1:5"), np.array([0.2, 4.7])
    snapped = alphabet.snap(values)
    snapped[0] = 99.0
    assert values.tolist() == [0.2, 4.7]
    assert list(alphabet) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("method", ["snap", "indices"])
def test_nan_has_no_nearest_symbol(method):
    """NaN, in the values or in the offset, is refused with its count rather than given some symbol."""
    call = getattr(Alphabet.of("1:5"), method)
    with pytest.raises(ValueError, match=r"cannot snap 2 NaN value\(s\) to Alphabet\(\[1, 2, 3, 4, 5\]\)"):
        call([1.0, np.nan, 2.0, np.nan])
    with pytest.raises(ValueError, match=r"cannot snap 1 NaN"):
        call([1.0, 2.0], [0.0, np.nan])


# -------------------------------------------------------------------- contains
@quick
@given(st.lists(st.integers(-50, 50), min_size=1, max_size=9, unique=True), scales)
def test_contains_allows_rounding_error(symbols, scale):
    """A symbol is recognised after float32 storage and after arithmetic, at any scale of the alphabet."""
    alphabet = Alphabet(np.array(symbols) * scale)
    assert alphabet.contains(alphabet.symbols).all()
    assert alphabet.contains(alphabet.symbols.astype(np.float32)).all()
    offset = 3.7 * scale
    assert alphabet.contains((alphabet.symbols / 3) * 3).all()
    if len(alphabet) > 1:  # {0} alone has no scale to measure rounding error by
        assert alphabet.contains((alphabet.symbols + offset) - offset).all()


@quick
@given(st.lists(st.integers(-50, 50), min_size=2, max_size=9, unique=True), scales, st.floats(0.01, 0.99))
def test_contains_refuses_what_lies_between(symbols, scale, share):
    """Nothing that stands at least one hundredth of a gap away from its neighbours counts as a symbol."""
    alphabet = Alphabet(np.array(symbols) * scale)
    between = alphabet.symbols[:-1] + share * np.diff(alphabet.symbols)
    assert not alphabet.contains(between).any()


def test_contains_refuses_what_lies_between_large_symbols():
    """The tolerance is bounded by the gap: half way between two neighbouring large numbers is no symbol."""
    assert Alphabet([1e9, 1e9 + 1]).contains([1e9, 1e9 + 0.5, 1e9 + 1]).tolist() == [True, False, True]


def test_contains_says_no_to_nan_and_infinity():
    """NaN and infinities are not symbols, also if the alphabet holds zero."""
    assert not Alphabet.of("0,1").contains([np.nan, np.inf, -np.inf, 2]).any()


# ----------------------------------------------------------- shift, frequencies
@quick
@given(exact_alphabets, eighths, st.lists(eighths, min_size=1, max_size=10))
def test_shifted_is_the_alphabet_of_centred_data(alphabet, offset, values):
    """Snapping centred data to the shifted alphabet is snapping with the offset, and then subtracting it."""
    shifted = alphabet.shifted(offset)
    assert list(shifted) == [a - offset for a in alphabet]
    assert np.array_equal(shifted.snap(values), alphabet.snap(values, offset) - offset)
    assert shifted.shifted(-offset) == alphabet


def test_shifted_refuses_nan():
    """A shift by NaN is an error, not an alphabet of NaN."""
    with pytest.raises(ValueError, match="must be finite, got nan"):
        Alphabet.of("1:5").shifted(np.nan)


@quick
@given(exact_alphabets, st.data())
def test_frequencies_count_symbols(alphabet, data):
    """The shares are the counts over the number of values, one for each symbol, and sum to one."""
    values = data.draw(st.lists(st.sampled_from(list(alphabet)), min_size=1, max_size=30))
    shares = alphabet.frequencies(values)
    assert shares.tolist() == [values.count(a) / len(values) for a in alphabet]
    assert shares.sum() == pytest.approx(1)


def test_frequencies_of_a_matrix():
    """A matrix of values is counted like the list of its entries."""
    assert Alphabet.of("0:2").frequencies([[0, 1], [1, 1]]).tolist() == [0.25, 0.75, 0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "need at least one value"),
        ([1, 7, 2.0001, 8], r"3 of 4 values are not in Alphabet\(\[1, 2, 3\]\), the first is 7$"),
        ([1, np.nan], "1 of 2 values .* the first is nan$"),
        ([2.999994], "the first is 2.999994$"),
    ],
)
def test_frequencies_refuse_what_is_no_symbol(values, message):
    """No values, a value off the alphabet and NaN are refused; the first is named with all its digits."""
    with pytest.raises(ValueError, match=message):
        Alphabet.of("1:3").frequencies(values)


# -------------------------------------------------------------------- categories
def test_categories_are_no_ordered_alphabet():
    """Names keep their order, codes are sorted; categories equal only categories, and no number is near another."""
    colours = Nominal(["red", "green", "blue"])
    assert colours.labels == ("red", "green", "blue")
    assert repr(colours) == "Nominal(['red', 'green', 'blue'])"
    assert Nominal([3, 1, 2]).symbols.tolist() == [1, 2, 3]
    assert colours != Alphabet.of(["red", "green", "blue"])
    assert colours == Nominal(colours.symbols, colours.labels) == Nominal.of(["red", "green", "blue"])
    assert Alphabet.of(colours) is colours
    assert Nominal.of(colours) is colours
    assert Nominal(Alphabet.of("1:3")) == Nominal([1, 2, 3])
    with pytest.raises(ValueError, match="labels of an alphabet must differ, got 'a' twice"):
        Nominal(["a", "a"])
