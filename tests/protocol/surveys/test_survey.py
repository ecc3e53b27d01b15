"""Attributes and surveys: codes, shapes, refusals, and the way through msgspec."""

from __future__ import annotations

import copy
import datetime
import pickle

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import Attribute, ProtocolError, Survey, SurveyError
from protocol.surveys.survey import MAX_CATEGORIES, moment_text

COLOUR = Attribute(name="colour", categories=("red", "green", "blue"))
SIZE = Attribute(name="size", categories=("S", "M", "L", "?"), ordinal=True, missing="?")
SURVEY = Survey("Shirts", (COLOUR, SIZE))


def numbered(size: int, name: str = "many") -> Attribute:
    return Attribute(name=name, categories=tuple(map(str, range(size))))


def test_reprs_are_short() -> None:
    assert repr(COLOUR) == "<Attribute: 'colour', 3 categories: 'red', 'green', 'blue'>"
    assert repr(SURVEY) == "<Survey: 'Shirts', colour[3], size[4]>"
    many = numbered(2**16)
    assert repr(many).endswith("'6', '7' and 65528 more>")
    wide = Survey("Wide", tuple(numbered(2**10, f"a{place}") for place in range(50)))
    assert repr(wide).endswith("a19[1024] and 30 more>")


def test_codes_are_places_in_the_list_of_categories() -> None:
    assert [COLOUR.code(category) for category in COLOUR.categories] == [0, 1, 2]
    assert COLOUR.size == 3
    assert not COLOUR.ordinal


@pytest.mark.parametrize("missing", [None, "", "?"])
def test_a_missing_answer_has_the_code_of_the_missing_category(missing: str | None) -> None:
    assert SIZE.code(missing) == 3


@pytest.mark.parametrize("missing", [None, ""])
def test_a_missing_answer_needs_a_missing_category(missing: str | None) -> None:
    with pytest.raises(SurveyError, match=r"^row 5, column 'colour': the answer is missing") as e:
        COLOUR.code(missing, row=5)
    assert (e.value.row, e.value.column) == (5, "colour")


def test_an_unknown_category_is_named_with_what_is_allowed() -> None:
    with pytest.raises(SurveyError) as caught:
        COLOUR.code("Red")
    assert str(caught.value) == (
        "column 'colour': unknown category 'Red'; allowed: 'red', 'green', 'blue'"
    )


def test_at_most_eight_allowed_categories_are_listed() -> None:
    with pytest.raises(SurveyError, match=r"allowed: '0', .*'7' and 92 more$") as caught:
        numbered(100).code("no\nsuch" + "x" * 1000)
    assert "'8'" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_only_text_is_a_category() -> None:
    with pytest.raises(SurveyError, match=r"expected text, got 1 \(int\)"):
        numbered(3).code(1)


class Endless(tuple[str, ...]):
    """A tuple that claims one category more than codes can tell apart."""

    def __len__(self) -> int:
        return MAX_CATEGORIES + 1


@pytest.mark.parametrize(
    ("name", "categories", "missing", "message"),
    [
        ("", ("a", "b"), None, "name of an attribute is empty"),
        (" n", ("a", "b"), None, "begins or ends with a blank"),
        ("n\0", ("a", "b"), None, "unprintable"),
        (7, ("a", "b"), None, "must be text, not int"),
        ("n", (), None, "fewer than 2"),
        ("n", ("a",), None, "fewer than 2"),
        ("n", "ab", None, "must be a tuple"),
        ("n", ["a", "b"], None, "must be a tuple"),
        ("n", ("a", ""), None, "a category is empty"),
        ("n", ("a", "b "), None, "begins or ends with a blank"),
        ("n", ("a", "b\nc"), None, "unprintable"),
        ("n", ("a", "\ufeffb"), None, "unprintable"),
        ("n", ("a", "\ud800"), None, "unprintable"),
        ("n", ("a", None), None, "must be text, not NoneType"),
        ("n", ("a", "b", "a"), None, "'a' is repeated"),
        ("n", ("a", "b"), "c", "missing category 'c' is not a category"),
        ("n", ("a", "b"), "", "missing category '' is not a category"),
        ("n", Endless(("a", "b")), None, r"more than 2\*\*32"),
    ],
)
def test_a_bad_attribute_is_refused(
    name: str, categories: tuple[str, ...], missing: str | None, message: str
) -> None:
    with pytest.raises(SurveyError, match=message) as caught:
        Attribute(name=name, categories=categories, missing=missing)
    assert isinstance(caught.value, ProtocolError)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("title", "attributes", "message"),
    [
        ("", (COLOUR,), "title of a survey is empty"),
        ("t", (), "at least one attribute"),
        ("t", [COLOUR], "must be a tuple"),
        ("t", ("colour",), "expected an attribute, got 'colour'"),
        ("t", (COLOUR, SIZE, COLOUR), "column 'colour': the name of this attribute is repeated"),
    ],
)
def test_a_bad_survey_is_refused(
    title: str, attributes: tuple[Attribute, ...], message: str
) -> None:
    with pytest.raises(SurveyError, match=message):
        Survey(title, attributes)


def test_a_survey_knows_its_shape() -> None:
    assert SURVEY.names == ("colour", "size")
    assert SURVEY.sizes == (3, 4)
    assert SURVEY.cells == 12
    assert SURVEY.index("size") == 1
    assert SURVEY.attribute("size") is SIZE
    assert SURVEY.axes(["size", "colour"]) == (1, 0)
    assert SURVEY.axes([]) == ()


def test_the_number_of_cells_never_overflows() -> None:
    survey = Survey("t", tuple(numbered(10, f"a{i}") for i in range(40)))
    assert survey.cells == 10**40


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(2, "<u1"), (256, "<u1"), (257, "<u2"), (65_536, "<u2"), (65_537, "<u4")],
)
def test_codes_have_the_smallest_type_for_the_largest_attribute(size: int, dtype: str) -> None:
    survey = Survey("t", (COLOUR, numbered(size), SIZE))
    assert survey.dtype == np.dtype(dtype)
    assert np.iinfo(survey.dtype).max >= size - 1


def test_a_projection_keeps_the_title_and_the_order_asked_for() -> None:
    assert SURVEY.project(["size"]) == Survey("Shirts", (SIZE,))
    assert SURVEY.project(["size", "colour"]) == Survey("Shirts", (SIZE, COLOUR))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["shape"], "no attribute 'shape'; the survey has 'colour', 'size'"),
        (["size", "size"], "'size' is named twice"),
        ("size", "expected a sequence of names"),
    ],
)
def test_wrong_names_are_refused(names: list[str], message: str) -> None:
    for ask in (SURVEY.axes, SURVEY.project):
        with pytest.raises(SurveyError, match=message):
            ask(names)


def test_a_projection_on_nothing_is_refused() -> None:
    with pytest.raises(SurveyError, match="at least one attribute"):
        SURVEY.project([])


def test_a_survey_travels_as_builtins() -> None:
    builtins = msgspec.to_builtins(SURVEY)
    colour, size = builtins["attributes"]
    assert builtins["title"] == "Shirts"
    assert {**colour, "categories": [*colour["categories"]]} == {
        "name": "colour",
        "categories": ["red", "green", "blue"],
        "ordinal": False,
        "missing": None,
    }
    assert (size["ordinal"], size["missing"]) == (True, "?")
    assert msgspec.convert(builtins, Survey) == SURVEY
    # Through JSON, tuples become lists.
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(builtins)), Survey) == SURVEY


@pytest.mark.parametrize(
    "builtins",
    [
        {"title": "t", "attributes": []},
        {"title": "t", "attributes": [{"name": "n", "categories": ["a", "a"]}]},
        {"title": "t", "attributes": [{"name": "n", "categories": ["a", "b"], "more": 1}]},
        {"title": "t", "attributes": [{"name": "n", "categories": ["a", "b"]}], "more": 1},
    ],
)
def test_a_bad_survey_does_not_come_through_msgspec(builtins: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(builtins, Survey)


def test_a_survey_says_until_when_answers_are_taken() -> None:
    timed = Survey("Shirts", (COLOUR, SIZE), closes="2026-12-15T18:00:00Z")
    assert timed.closing == datetime.datetime(2026, 12, 15, 18, tzinfo=datetime.UTC)
    assert msgspec.to_builtins(timed)["closes"] == "2026-12-15T18:00:00Z"
    assert msgspec.convert(msgspec.to_builtins(timed), Survey) == timed
    assert timed.digest != SURVEY.digest
    assert SURVEY.closing is None
    assert "closes" not in msgspec.to_builtins(SURVEY)


def test_the_digest_of_a_survey_that_closes_at_no_moment_stays() -> None:
    assert SURVEY.digest.hex() == "339fd52d681ff92103bd7cff8515b27233bc4388b67ab98c9be31e17a0c7d7ca"


@pytest.mark.parametrize(
    "closes",
    [
        "2026-12-15",
        "2026-12-15T18:00:00",
        "2026-12-15 18:00:00Z",
        "2026-12-15T18:00:00z",
        "2026-12-15T18:00:00+00:00",
        "2026-12-15T18:00:00.0Z",
        "2026-02-30T18:00:00Z",
        "2026-12-15T24:00:00Z",
        "2026-12-15T23:59:60Z",
        "2026-12-5T18:00:00Z",
        "26-12-15T18:00:00Z",
        "0000-12-15T18:00:00Z",
        "2026-12-15T18:00:00Z ",
        "\u0662026-12-15T18:00:00Z",
    ],
)
def test_no_other_text_is_a_moment(closes: str) -> None:
    with pytest.raises(SurveyError, match="expected a moment such as '2026-12-15T18:00:00Z'"):
        Survey("Shirts", (COLOUR, SIZE), closes=closes)


def test_a_moment_is_stated_in_utc() -> None:
    east = datetime.timezone(datetime.timedelta(hours=2))
    at = datetime.datetime(2026, 1, 1, 1, tzinfo=east)
    assert moment_text(at) == "2025-12-31T23:00:00Z"
    for wrong, says in (
        (at.replace(tzinfo=None), "an offset from UTC, such as 2026-01-01T01:00:00Z"),
        (at.replace(microsecond=1), "expected whole seconds"),
        (at.replace(year=1), "expected a year from 1 to 9999"),
    ):
        with pytest.raises(SurveyError, match=says):
            moment_text(wrong)


def test_what_is_cached_does_not_show() -> None:
    used, fresh = Survey("t", (SIZE,)), Survey("t", (SIZE,))
    assert used.cells == 4
    used.index("size")
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert repr(used) == repr(fresh)
    assert msgspec.to_builtins(used) == msgspec.to_builtins(fresh)
    assert pickle.loads(pickle.dumps(used)) == used
    assert copy.deepcopy(used) == used


def test_surveys_are_frozen() -> None:
    with pytest.raises(AttributeError):
        SURVEY.title = "Trousers"
    with pytest.raises(AttributeError):
        COLOUR.name = "hue"


TEXTS = st.text(min_size=1, max_size=6)


@settings(deadline=None, max_examples=150)
@given(st.lists(TEXTS, min_size=2, max_size=6))
def test_an_attribute_is_accepted_only_if_each_category_comes_back(texts: list[str]) -> None:
    try:
        attribute = Attribute(name="n", categories=tuple(texts))
    except SurveyError:
        return
    assert [attribute.categories[attribute.code(text)] for text in texts] == texts
    survey = Survey("t", (attribute,))
    assert msgspec.json.decode(msgspec.json.encode(survey), type=Survey) == survey
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(survey), type=Survey) == survey
