"""Ids that read alike have one canonical form, and others do not."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parties.keeping.paying.people import canonical


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0417", "417"),
        ("Ann@x.org", "ann@x.org"),
        ("\uff21\uff4e\uff4e", "ann"),
        ("A-007", "a-7"),
        ("a 007 b", "A7B"),
        ("Ann  Smith ", "ann smith"),
        ("AnnSmith", "ann\tsmith"),
        ("1  02", "01 2"),
        ("Strau\xdf", "STRAUSS"),
        ("e\u0301", "\xc9"),
        ("\u0660\u0664\u0661\u0667", "417"),
        ("0", "000"),
        ("T\xa8", "t\u0308"),
        ("ward 0-1", "Ward 00-01"),
        ("\ufb01n \u2460", "FIN1"),
    ],
)
def test_ids_that_read_alike(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("417", "4170"),
        ("1 12", "11 2"),
        ("1 2", "12"),
        ("a-7", "a7"),
        ("ann", "anna"),
        ("a0", "a"),
        ("e", "\xe9"),
        ("ann@x.org", "ann@y.org"),
    ],
)
def test_ids_that_do_not(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@given(st.text(min_size=1))
def test_a_canonical_form_reads_like_all_that_it_is_of(text: str) -> None:
    form = canonical(text)
    for spelled in (form, text.casefold(), f" {text}\t", unicodedata.normalize("NFKD", text)):
        assert canonical(spelled) == form


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(["-", " ", "x", "/"]))
def test_numbers_are_told_apart_however_they_are_padded(one: int, other: int, sep: str) -> None:
    forms = {canonical(f"{one:0{width}}{sep}{other:0{9 - width}}") for width in (1, 4, 8)}
    assert forms == {f"{one}{sep}{other}"}
