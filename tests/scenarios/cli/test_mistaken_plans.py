"""Mistakes in plans: what is wrong is said with its line, and in words.

Further ones, of mistyped names, are in ``test_bad_input``; of answers, in ``test_own_data``.
"""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from tests.scenarios.cli.refusing import GOOD, refusal
from tests.scenarios.command import sottovoce

TEXTS = [
    ('"T"', '"T', "line 1: a quote that is opened here is never closed: 'title = \"T'"),
    ('"T"', "\u201cT\u201d", 'line 1: expected straight quotes, "..."; these are \u201c'),
    ("epsilon = 2.0", "epsilon: 2.0", "line 2: expected NAME = VALUE: 'epsilon: 2.0'"),
    ("epsilon = 2.0", "epsilon = 2.0\nepsilon = 4.0", "line 3: 'epsilon' is set twice"),
    ('"no", "yes"', '"no" "yes"', "line 6: a list without its closing ], or without a comma"),
    ("[[attributes]]", "[attributes]", "line 8: is there before; several tables of one name"),
    ("= true", "= True", "line 11: expected true: 'ordinal = True'"),
    ("epsilon", "variant = rr-joint\nepsilon", 'line 2: expected a text in quotes; did you mean "'),
    ("epsilon", "closes = 2026-02-30T12:00:00Z\nepsilon", "line 2: no such day or time"),
    ("epsilon", "closes = 31.12.2026\nepsilon", "line 2: expected one NAME = VALUE on this line"),
]

VALUES = [
    ("2.0", '"2.0"', "line 2, column 11: parameter 'epsilon' = '2.0': expected a number, not a t"),
    ("2.0", "-1", "line 2, column 11: parameter 'epsilon' = -1.0: expected a positive finite n"),
    ("2.0", "nan", "line 2, column 11: parameter 'epsilon' = nan: expected a positive finite n"),
    ("2.0", "1e400", "line 2, column 11: parameter 'epsilon' = inf: expected a positive finite n"),
    ("epsilon = 2.0", "p = 1.5", "line 2, column 5: parameter 'p' = 1.5: keep probability 1.5: "),
    ("epsilon", "quorum = -1\nepsilon", "line 2, column 10: variant 'rr-independent' cannot be "),
    ("epsilon", 'patience = "20 s"\nepsilon', "'patience' = '20 s': expected a number, not a text"),
    ("epsilon", "max_records = 10.000\nepsilon", "= 10.0: expected a whole number, not one with "),
    ("epsilon", 'closes = "tomorrow"\nepsilon', "closes 'tomorrow': expected a moment such as '2"),
    ("epsilon", "closes = 2027-01-01T12:00:00\nepsilon", "expected an offset from UTC, such as 20"),
    ('["no", "yes"]', '"no, yes"', "line 6, column 14: categories: expected a list, not a text"),
    ('"no", "yes"', '"no"', "line 6, column 14: attribute 'smokes': fewer than 2 categories"),
    ('"no", "yes"', "0, 1", "line 6, column 14: categories: expected a text, not a whole number"),
    ('name = "age"\n', "", "line 8, column 1: 'name' is missing"),
    ('"age"', '"smokes"', "line 9, column 8: attribute 'smokes': the name is there twice"),
    ("ordinal = true", "edges = 10", "line 11, column 9: edges: expected a list, not a whole num"),
    ('[[attributes]]\nname = "age"', '[[attribute]]\nname = "age"', "mean 'attributes'?"),
    ('title = "T"\n', "", "q.toml: 'title' is missing"),
]


@pytest.mark.parametrize(("wrong", "right", "says"), [*TEXTS, *VALUES])
def test_of_a_plan(wrong: str, right: str, says: str, here: Path) -> None:
    text = GOOD.replace(wrong, right, 1)
    assert text != GOOD
    (here / "q.toml").write_text(text)
    said = refusal(here, "preflight", "q.toml")
    assert said.startswith("q.toml: ")
    assert says in said


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (GOOD.encode("utf-16"), "q.toml: is in UTF-16; save it in UTF-8"),
        (
            GOOD.replace("smokes", "räucht").encode("latin-1"),
            "q.toml: line 5: is not in UTF-8; save the file in UTF-8",
        ),
        (b'{"title": "T"}', "q.toml: a JSON file; expected a TOML file"),
        (b"PK\x03\x04\xff", "q.toml: a spreadsheet or an archive; expected a TOML file"),
    ],
)
def test_of_the_file_of_a_plan(content: bytes, says: str, here: Path) -> None:
    (here / "q.toml").write_bytes(content)
    assert refusal(here, "preflight", "q.toml") == says


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + GOOD.encode(),
        GOOD.replace("\n", "\r\n").encode(),
        GOOD.replace("name = ", "\tname\t=\t").encode(),
    ],
)
def test_what_editors_leave_in_a_plan_is_no_mistake(content: bytes, here: Path) -> None:
    (here / "q.toml").write_bytes(content)
    assert sottovoce("preflight", "q.toml").code == 0
