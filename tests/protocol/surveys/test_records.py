"""Records: encoding from arrays, rows and text, exact counts, cutting and joining."""

from __future__ import annotations

import dataclasses
import io
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import Attribute, Records, Survey, SurveyError
from protocol.wire.arrays import MAX_TABLE_CELLS

SURVEY = Survey(
    "Shirts",
    (
        Attribute(name="colour", categories=("red", "green", "light blue")),
        Attribute(name="size", categories=("S", "M", "L", "?"), ordinal=True, missing="?"),
        Attribute(name="tag", categories=("a,b", 'say "hi"', "plain")),
    ),
)
CODES = np.array([[0, 1, 0], [2, 3, 1], [1, 0, 2], [2, 3, 2], [0, 1, 0]], np.int64)
RECORDS = Records(SURVEY, CODES)
CSV = """colour,size,tag
red,M,"a,b"
light blue,?,"say ""hi\"""
green,S,plain
light blue,?,plain
red,M,"a,b"
"""


def wide(m: int, size: int = 2) -> Survey:
    categories = tuple(f"c{code}" for code in range(size))
    return Survey("t", tuple(Attribute(name=f"a{j}", categories=categories) for j in range(m)))


def coded(k: int, survey: Survey = SURVEY) -> Records:
    return Records(survey, np.arange(k)[:, None] % np.array(survey.sizes))


@pytest.mark.parametrize("dtype", ["i1", "u1", "<i4", ">i4", "<u8", "i8"])
def test_codes_of_any_integer_type_become_the_survey_s(dtype: str) -> None:
    records = Records(SURVEY, np.asfortranarray(CODES.astype(dtype)))
    assert records == RECORDS
    assert records.codes.dtype == SURVEY.dtype == np.dtype("u1")
    assert records.codes.flags.c_contiguous
    assert len(records) == 5
    np.testing.assert_array_equal(records.codes, CODES)


def test_codes_are_a_read_only_copy() -> None:
    codes = CODES.astype("u1")
    records = Records(SURVEY, codes)
    codes[0, 0] = 1
    assert records == RECORDS
    for part in (records, records.take(2), records.split(2)[1], Records.joined([records])):
        with pytest.raises(ValueError, match="read-only"):
            part.codes[0, 0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        records.codes = codes


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (CODES.astype(float), "must be integers, not float64"),
        (CODES.astype(bool), "must be integers, not bool"),
        (CODES.astype(object), "must be integers, not object"),
        (CODES.tolist(), "must be a numpy array, not list"),
        (CODES[:, :2], r"shape \(5, 2\), expected \(k, 3\)"),
        (CODES[0], r"shape \(3,\), expected \(k, 3\)"),
        (CODES[None], r"shape \(1, 5, 3\)"),
        (CODES[:0], "no records"),
    ],
)
def test_codes_of_another_form_are_refused(array: NDArray[np.int64], message: str) -> None:
    with pytest.raises(SurveyError, match=message):
        Records(SURVEY, array)


@pytest.mark.parametrize(
    ("dtype", "code"),
    [("i1", -1), ("i8", 4), ("i8", 260), ("u8", 2**64 - 1), ("u8", 2**63 + 1), ("i8", -(2**63))],
)
def test_a_code_out_of_range_is_named_by_row_and_column(dtype: str, code: int) -> None:
    codes = CODES.astype(dtype)
    codes[1, 1] = codes[2, 0] = code
    with pytest.raises(SurveyError) as caught:
        Records(SURVEY, codes)
    assert (caught.value.row, caught.value.column) == (2, "size")
    assert str(caught.value) == f"row 2, column 'size': code {code} is not in 0..3"


def test_codes_are_compared_with_sizes_that_their_type_cannot_hold() -> None:
    survey = wide(2, size=300)
    assert len(Records(survey, np.full((4, 2), 127, "i1"))) == 4
    assert len(Records(survey, np.full((4, 2), 255, "u1"))) == 4
    records = Records(survey, np.full((4, 2), 299))
    assert records.codes.dtype == np.dtype("<u2")
    assert records.to_rows()[3] == {"a0": "c299", "a1": "c299"}
    with pytest.raises(SurveyError, match=r"code 300 is not in 0\.\.299"):
        Records(survey, np.full((4, 2), 300))


def test_the_repr_shows_no_answer() -> None:
    assert repr(RECORDS) == str(RECORDS) == "<Records: k=5, m=3>"


def test_records_are_equal_by_survey_and_codes() -> None:
    other = CODES.copy()
    other[4, 2] = 1
    assert Records(SURVEY, other) != RECORDS
    assert RECORDS.take(4) != RECORDS
    renamed = Survey("Trousers", SURVEY.attributes)
    assert Records(renamed, CODES) != RECORDS
    assert CODES.tolist() != RECORDS


def test_rows_may_be_mappings_or_sequences() -> None:
    rows = [
        {"tag": "a,b", "colour": "red", "size": "M", "price": "9"},
        ("light blue", None, 'say "hi"'),
        [" green ", "S\t", "plain"],
        {"colour": "light blue", "size": "", "tag": "plain"},
        ("red", "M", "a,b"),
    ]
    assert Records.from_rows(SURVEY, rows) == RECORDS
    assert Records.from_rows(SURVEY, iter(rows)) == RECORDS


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        (("red", "M"), None, "2 cells, expected 3"),
        (("red", "M", "plain", "x"), None, "4 cells, expected 3"),
        ({"colour": "red", "tag": "plain"}, "size", "missing; the row has 'colour', 'tag'"),
        ("red", None, "expected a mapping or a sequence, got str"),
        (7, None, "expected a mapping or a sequence, got int"),
        (("red", "XL", "plain"), "size", "unknown category 'XL'; allowed: 'S', 'M', 'L', '?'"),
        ((None, "M", "plain"), "colour", "no missing category"),
        (("red", "M", "  "), "tag", "no missing category"),
        (("red", 2, "plain"), "size", r"expected text, got 2 \(int\)"),
        (("red", ["S"], "plain"), "size", r"expected text, got \['S'\] \(list\)"),
        ((float("nan"), "M", "plain"), "colour", "no missing category"),
        (("red", True, "plain"), "size", r"expected text, got True \(bool\)"),
    ],
)
def test_a_bad_row_is_named(row: object, column: str | None, message: str) -> None:
    good = ("red", "M", "a,b")
    with pytest.raises(SurveyError, match=message) as caught:
        Records.from_rows(SURVEY, [good, good, row, good])
    assert (caught.value.row, caught.value.column) == (3, column)


def test_the_first_bad_cell_in_reading_order_is_named() -> None:
    rows = [("red", "M", "a,b"), ("red", "M", "x"), ("y", "z", "a,b")]
    with pytest.raises(SurveyError, match="unknown category 'x'") as caught:
        Records.from_rows(SURVEY, rows)
    assert (caught.value.row, caught.value.column) == (2, "tag")


@pytest.mark.parametrize(
    "lines",
    [CSV, CSV.splitlines(), CSV.splitlines(keepends=True), io.StringIO(CSV), CSV.split("\n")],
    ids=["text", "lines", "ended lines", "file", "last line empty"],
)
def test_a_table_is_read_from_text_lines_or_a_file(lines: str | list[str]) -> None:
    assert Records.from_csv(SURVEY, lines) == RECORDS


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n", "\r\n"),
        (",M,", ",  M\t ,"),
        (',"a,b"', ',  "a,b" '[:-1]),
        (",?,", ",,"),
        (",?,", ',"",'),
        ("colour,", "\ufeffcolour,"),
        ("colour,", '\ufeff"colour" ,'.replace(" ,", ",")),
        ("colour,size,tag", " colour , size ,tag "),
        ("green,S,plain", '"green","S","plain"'),
    ],
)
def test_ways_to_write_the_same_table(old: str, new: str) -> None:
    assert CSV.replace(old, new) != CSV
    assert Records.from_csv(SURVEY, CSV.replace(old, new)) == RECORDS


def test_columns_are_found_by_name_and_others_ignored() -> None:
    lines = ["price;tag;;colour;size;price;", "1;plain;x;red;S;2;", "3;plain;;green;;4;y"]
    records = Records.from_csv(SURVEY, lines, delimiter=";")
    np.testing.assert_array_equal(records.codes, [[0, 0, 2], [1, 3, 2]])
    tabbed = [line.replace(";", "\t") for line in lines]
    assert Records.from_csv(SURVEY, tabbed, delimiter="\t") == records


@pytest.mark.parametrize("tail", ["", "\n", "\n \n\t\n"])
def test_blank_lines_at_the_end_are_ignored(tail: str) -> None:
    assert Records.from_csv(SURVEY, CSV + tail) == RECORDS


def test_an_empty_field_of_a_single_column_is_an_answer() -> None:
    single = SURVEY.project(["size"])
    assert Records.from_csv(single, 'size\nM\n""\nL\n').codes.tolist() == [[1], [3], [2]]


def bad_text() -> Iterator[str]:
    """A file with a byte that is not UTF-8."""
    with io.TextIOWrapper(io.BytesIO(b"colour,size,tag\nred,M,\xff\n"), "utf-8") as file:
        yield from file


HEAD = "colour,size,tag\n"
GOOD = "red,M,plain\n"


@pytest.mark.parametrize(
    ("lines", "row", "column", "message"),
    [
        ("", None, None, "table is empty"),
        ([], None, None, "table is empty"),
        ("\n" + CSV, None, None, "first line is blank"),
        (HEAD, None, None, "a header and no records"),
        (HEAD + "\n\n", None, None, "a header and no records"),
        ("colour,tag\nred,plain\n", None, "size", "the header has 'colour', 'tag'$"),
        ("size,colour,size,tag\n", None, "size", "names this column more than once"),
        ("size,colour,size,tag\nS,red,S,plain\n", None, "size", "more than once"),
        (HEAD + GOOD + "red,M\n", 2, None, "2 fields, but the header has 3"),
        (HEAD + GOOD + "red,M,plain,\n", 2, None, "4 fields, but the header has 3"),
        (HEAD + GOOD + "red\n", 2, None, "1 fields, but the header has 3"),
        (HEAD + GOOD + ",\n" + GOOD, 2, None, "2 fields, but the header has 3"),
        (HEAD + GOOD + "\n" + GOOD, 2, None, "a blank line before further records"),
        (HEAD + GOOD + GOOD + "red,XL,plain\n", 3, "size", "unknown category 'XL'"),
        (HEAD + GOOD + ",M,plain\n", 2, "colour", "no missing category"),
        (HEAD + GOOD + 'red,M,"pl"ain\n', 2, None, "not a table"),
        (HEAD + GOOD + 'red,M,"plain\n', 2, None, "not a table"),
        (HEAD + GOOD + "red,M,pl\0ain\n", 2, None, "not a table: NUL"),
        (HEAD + GOOD + "red,M," + "x" * 200_000, 2, None, "not a table: field larger"),
        ("colour,si\0ze,tag\n" + GOOD, None, None, "not a table: NUL"),
        ('colour,"size"x,tag\n' + GOOD, None, None, "not a table"),
        ([b"colour,size,tag", b"red,M,plain"], None, None, "not a table: .*bytes"),
        (["colour,size,tag", "red,M\rL,plain"], 1, None, "not a table: new-line"),
        (bad_text(), None, None, "not text: .*0xff"),
    ],
)
def test_a_bad_table_is_refused_and_the_place_named(
    lines: str | Sequence[str], row: int | None, column: str | None, message: str
) -> None:
    with pytest.raises(SurveyError, match=message) as caught:
        Records.from_csv(SURVEY, lines)
    assert (caught.value.row, caught.value.column) == (row, column)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("delimiter", ["", ", ", " ", '"', "\n", "\0"])
def test_a_delimiter_that_cannot_delimit_is_refused(delimiter: str) -> None:
    with pytest.raises(SurveyError, match="delimiter"):
        Records.from_csv(SURVEY, CSV, delimiter=delimiter)


def test_long_tables_are_read_in_pieces_with_right_row_numbers() -> None:
    survey = SURVEY.project(["size"])
    cells = ["S", "M", "L", "?", '""'] * 14_000
    records = Records.from_csv(survey, ["size", *cells])
    np.testing.assert_array_equal(records.codes[:, 0], np.tile([0, 1, 2, 3, 3], 14_000))
    cells[69_998] = "XL"
    with pytest.raises(SurveyError, match="'XL'") as caught:
        Records.from_csv(survey, ["size", *cells])
    assert caught.value.row == 69_999


def test_to_rows_and_to_csv_give_the_categories_back() -> None:
    assert RECORDS.to_rows()[:2] == [
        {"colour": "red", "size": "M", "tag": "a,b"},
        {"colour": "light blue", "size": "?", "tag": 'say "hi"'},
    ]
    assert RECORDS.to_csv() == CSV


@st.composite
def any_records(draw: st.DrawFn) -> Records:
    # What an attribute accepts, with plenty of what is special in a table.
    texts = st.text(
        st.sampled_from(",;\"' ab") | st.characters(codec="utf-8", exclude_categories=["C", "Z"]),
        min_size=1,
        max_size=5,
    ).filter(lambda text: text == text.strip())
    attributes = []
    for name in draw(st.lists(texts, min_size=1, max_size=4, unique=True)):
        categories = tuple(draw(st.lists(texts, min_size=2, max_size=5, unique=True)))
        missing = draw(st.sampled_from([None, *categories]))
        attributes.append(Attribute(name=name, categories=categories, missing=missing))
    survey = Survey("t", tuple(attributes))
    rows = st.tuples(*(st.integers(0, size - 1) for size in survey.sizes))
    return Records(survey, np.array(draw(st.lists(rows, min_size=1, max_size=12))))


@pytest.mark.slow
@settings(deadline=None, max_examples=150)
@given(any_records())
@example(RECORDS)
def test_any_records_come_back_from_text_and_rows(records: Records) -> None:
    text = records.to_csv()
    assert Records.from_csv(records.survey, text) == records
    assert Records.from_csv(records.survey, text.split("\n")) == records
    assert Records.from_csv(records.survey, io.StringIO(text, newline="")) == records
    assert Records.from_rows(records.survey, records.to_rows()) == records


def test_counts_of_a_known_table() -> None:
    np.testing.assert_array_equal(RECORDS.counts(["colour"]), [2, 1, 2])
    np.testing.assert_array_equal(
        RECORDS.counts(["size", "colour"]), [[0, 1, 0], [2, 0, 0], [0, 0, 0], [0, 0, 2]]
    )
    assert RECORDS.counts(["size", "colour"]).dtype == np.int64
    assert RECORDS.counts([]).shape == ()
    assert RECORDS.counts([]) == 5
    np.testing.assert_array_equal(RECORDS.distribution(["colour"]), [0.4, 0.2, 0.4])


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(any_records(), st.data())
def test_counts_agree_with_counting_one_by_one(records: Records, data: st.DataObject) -> None:
    names = data.draw(st.permutations(records.survey.names))
    names = names[: data.draw(st.integers(1, len(names)))]
    counts = records.counts(names)
    assert counts.shape == records.survey.project(names).sizes
    expected = Counter(tuple(row[name] for name in names) for row in records.to_rows())
    found = {
        tuple(
            records.survey.attribute(name).categories[code]
            for name, code in zip(names, cell, strict=True)
        ): int(counts[tuple(cell)])
        for cell in np.argwhere(counts)
    }
    assert found == dict(expected)
    np.testing.assert_array_equal(records.distribution(names) * len(records), counts)


def test_a_table_that_is_too_large_is_refused() -> None:
    survey = wide(28)
    records = Records(survey, np.ones((3, 28), int))
    assert MAX_TABLE_CELLS == 2**27
    with pytest.raises(SurveyError, match=f"has {2**28} cells"):
        records.counts(survey.names)
    # A product that a 64-bit integer cannot hold must not come round to a small one.
    with pytest.raises(SurveyError, match="cells, more than"):
        coded(2, wide(70)).counts(wide(70).names)


def test_counts_give_the_records_back_and_some_attributes_alone() -> None:
    letters = Attribute(name="letter", categories=("a", "b", "c"))
    survey = Survey("two", (letters, Attribute(name="sign", categories=("+", "-"))))
    counts = np.array([[2, 0], [1, 3], [0, 1]])
    records = Records.from_counts(survey, counts)
    np.testing.assert_array_equal(records.counts(survey.names), counts)
    assert records.to_rows()[2] == {"letter": "b", "sign": "+"}
    turned = records.project(("sign", "letter"))
    assert turned.survey.names == ("sign", "letter")
    np.testing.assert_array_equal(turned.counts(("sign", "letter")), counts.T)
    np.testing.assert_array_equal(records.project(("sign",)).codes[:, 0], records.codes[:, 1])
    with pytest.raises(SurveyError, match=r"shape \(2, 3\), expected \(3, 2\)"):
        Records.from_counts(survey, counts.T)
    with pytest.raises(SurveyError, match="no records"):
        Records.from_counts(survey, 0 * counts)


def test_counts_of_an_unknown_attribute_are_refused() -> None:
    with pytest.raises(SurveyError, match="no attribute 'shape'"):
        RECORDS.counts(["shape"])
    with pytest.raises(SurveyError, match="named twice"):
        RECORDS.distribution(["size", "size"])


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.data())
def test_parts_are_near_equal_runs_that_join_to_the_whole(k: int, data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, k))
    whole = coded(k)
    cut = whole.split(parts)
    lengths = [len(part) for part in cut]
    assert len(cut) == parts
    assert max(lengths) - min(lengths) <= 1
    assert lengths == sorted(lengths, reverse=True)
    assert Records.joined(cut) == whole
    assert whole.take(len(cut[0])) == cut[0]
    for part in cut:
        assert part.codes.dtype == SURVEY.dtype
        assert part.codes.flags.c_contiguous
        assert np.shares_memory(part.codes, whole.codes)


@pytest.mark.parametrize("k", [-1, 0, 6])
def test_no_part_may_be_empty_or_longer_than_the_whole(k: int) -> None:
    with pytest.raises(SurveyError, match=f"5 records cannot be split into {k} parts"):
        RECORDS.split(k)
    with pytest.raises(SurveyError, match=f"cannot take {k} of 5 records"):
        RECORDS.take(k)


def test_there_is_at_least_one_record_and_one_survey() -> None:
    with pytest.raises(SurveyError, match="no records to join"):
        Records.joined([])
    with pytest.raises(SurveyError, match=r"^no records$"):
        Records.from_rows(SURVEY, [])
    other = coded(3, Survey("Trousers", SURVEY.attributes))
    with pytest.raises(SurveyError, match="different surveys"):
        Records.joined([RECORDS, other])
