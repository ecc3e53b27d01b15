"""No name in a CSV file is a formula, and each is read back as it was."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import Attribute, Records, Survey
from protocol.surveys.formulas import escape_formula, unescape_formula

BEGINS = ("=", "+", "-", "@", "\t", "\r")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('=HYPERLINK("http://x";"y")', '\'=HYPERLINK("http://x";"y")'),
        ("+1+cmd|' /C calc'!A0", "'+1+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("-10 to 0", "'-10 to 0"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\tx", "'\tx"),
        ("\rx", "'\rx"),
        ("-", "'-"),
        ("'=x", "''=x"),
        ("-9", "-9"),
        ("+1.5", "+1.5"),
        ("-1\n=x", "'-1\n=x"),
        ("'tis", "'tis"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_an_apostrophe_stands_before_a_formula(text: str, expected: str) -> None:
    assert escape_formula(text) == expected
    assert unescape_formula(expected) == text


@given(st.text(st.sampled_from("'=+-@\t\r1.a"), max_size=6))
def test_every_text_is_read_back(text: str) -> None:
    escaped = escape_formula(text)
    assert unescape_formula(escaped) == text
    assert not escaped.startswith(("=", "@", "\t", "\r"))


def test_records_are_read_back() -> None:
    names = ("=a", "-b", "'@c", "-9", "d")
    survey = Survey(
        "x",
        (Attribute(name="=1+1", categories=names), Attribute(name="plain", categories=("y", "n"))),
    )
    records = Records(survey, np.array([[0, 0], [1, 1], [2, 0], [3, 0], [4, 1]]))
    text = records.to_csv()
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert [cell for cell in cells if cell.startswith(BEGINS)] == ["-9"]
    assert Records.from_csv(survey, text) == records
