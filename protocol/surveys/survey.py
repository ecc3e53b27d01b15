"""Surveys: attributes, their categories and the codes of these."""

from __future__ import annotations

import datetime
import hashlib
import math
import re
from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import force_setattr

from protocol.errors import SurveyError
from protocol.surveys.texts import Texts, check_texts
from protocol.wire.arrays import smallest_dtype

MAX_CATEGORIES = 2**32
"""Codes are unsigned integers of at most four bytes."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_MOMENT = "%Y-%m-%dT%H:%M:%SZ"
_SHOWN_CATEGORIES = 8
_SHOWN_NAMES = 20
_SHOWN_CHARACTERS = 60

# Control characters, Unicode line ends, the byte order mark and lone surrogates: text with one of
# these does not come back the same from a CSV file or is not encodable as UTF-8.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def shown(value: object) -> str:
    """The ``repr`` of a value, on one line and cut to a length that suits an error message."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."


def listed(values: Sequence[object], at_most: int = _SHOWN_NAMES) -> str:
    """The first values of a sequence for an error message, and how many more there are."""
    text = ", ".join(map(shown, values[:at_most]))
    more = len(values) - at_most
    return f"{text} and {more} more" if more > 0 else text


def _check_text(what: str, text: object, column: str | None = None) -> None:
    if not isinstance(text, str):
        raise SurveyError(f"{what} must be text, not {type(text).__name__}", column=column)
    if not text:
        raise SurveyError(f"{what} is empty", column=column)
    if text != text.strip():
        raise SurveyError(f"{what} {shown(text)} begins or ends with a blank", column=column)
    if _UNFIT.search(text):
        raise SurveyError(f"{what} {shown(text)} has an unprintable character", column=column)


def moment_text(moment: datetime.datetime) -> str:
    """A moment as a survey states it, ``YYYY-MM-DDTHH:MM:SSZ``.

    Args:
        moment: with its offset from UTC.

    Raises:
        SurveyError: no offset, a part of a second, or a year that is not from 1 to 9999 in UTC.
    """
    if moment.tzinfo is None:
        raise SurveyError(
            f"closes {moment.isoformat()}: expected an offset from UTC, such as "
            f"{moment.isoformat()}Z"
        )
    try:
        moment = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    except OverflowError:
        raise SurveyError(f"closes {moment.isoformat()}: expected a year from 1 to 9999") from None
    if moment.microsecond:
        raise SurveyError(f"closes {moment.isoformat()}Z: expected whole seconds")
    return f"{moment.isoformat()}Z"


def _moment(text: object) -> datetime.datetime:
    """The moment that a text states, in UTC.

    Raises:
        SurveyError: not of the form ``YYYY-MM-DDTHH:MM:SSZ``, or no such day or time.
    """
    wrong = SurveyError(f"closes {shown(text)}: expected a moment such as '2026-12-15T18:00:00Z'")
    if not isinstance(text, str):
        raise wrong
    try:
        moment = datetime.datetime.strptime(text, _MOMENT).replace(tzinfo=datetime.UTC)
    except ValueError:
        raise wrong from None
    # Digits of other scripts, or fewer of them, are another text for the same moment.
    if moment_text(moment) != text:
        raise wrong
    return moment


def plain_text(text: str) -> str:
    """A text as the built-in type, since numpy's own type is not encoded."""
    return str.__str__(text)


def _first_repeat(values: Sequence[str]) -> str | None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


class Attribute(msgspec.Struct, frozen=True, kw_only=True, dict=True, forbid_unknown_fields=True):
    """One question with a finite list of possible answers.

    The code of a category is its place in ``categories``. ``ordinal`` says that this order has a
    meaning. ``missing`` is the category for an empty cell or ``None``; without it, no answer may be
    missing.

    Raises:
        SurveyError: fewer than 2 or more than 2**32 categories; a name or category that is not
            text, is empty, begins or ends with a blank, holds an unprintable character or is
            repeated; ``missing`` is not a category. (Inside ``msgspec.convert`` and the msgspec
            decoders it comes out as a ``msgspec.ValidationError`` with the same text.)
    """

    name: str
    categories: tuple[str, ...]
    ordinal: bool = False
    missing: str | None = None

    def __post_init__(self) -> None:
        _check_text("the name of an attribute", self.name)
        if not isinstance(self.categories, tuple):
            raise SurveyError("the categories must be a tuple of text", column=self.name)
        if len(self.categories) < 2:
            raise SurveyError("fewer than 2 categories", column=self.name)
        if len(self.categories) > MAX_CATEGORIES:
            raise SurveyError("more than 2**32 categories", column=self.name)
        for category in self.categories:
            _check_text("a category", category, self.name)
        if (repeat := _first_repeat(self.categories)) is not None:
            raise SurveyError(f"category {shown(repeat)} is repeated", column=self.name)
        if self.missing is not None and self.missing not in self.categories:
            raise SurveyError(
                f"the missing category {shown(self.missing)} is not a category", column=self.name
            )
        if not isinstance(self.ordinal, bool | np.bool_):
            raise SurveyError(
                f"ordinal {shown(self.ordinal)}: expected True or False", column=self.name
            )
        force_setattr(self, "name", plain_text(self.name))
        force_setattr(self, "categories", tuple(map(plain_text, self.categories)))
        force_setattr(self, "ordinal", bool(self.ordinal))
        if self.missing is not None:
            force_setattr(self, "missing", plain_text(self.missing))

    def __repr__(self) -> str:
        categories = listed(self.categories, _SHOWN_CATEGORIES)
        return f"<Attribute: {shown(self.name)}, {self.size} categories: {categories}>"

    @property
    def size(self) -> int:
        """The number of categories, r in the papers."""
        return len(self.categories)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {category: code for code, category in enumerate(self.categories)}

    def code(self, category: str | None, *, row: int | None = None) -> int:
        """The code of a category; ``None`` and the empty text mean the missing category.

        Args:
            category: one of ``categories``, exactly as written there.
            row: its row (from 1), for the error message.

        Raises:
            SurveyError: not a category, or missing where nothing may be missing.
        """
        if category is None or category == "":
            if self.missing is None:
                raise SurveyError(
                    "the answer is missing, and this attribute has no missing category",
                    row=row,
                    column=self.name,
                )
            return self._codes[self.missing]
        if not isinstance(category, str):
            raise SurveyError(
                f"expected text, got {shown(category)} ({type(category).__name__})",
                row=row,
                column=self.name,
            )
        code = self._codes.get(category)
        if code is None:
            raise SurveyError(
                f"unknown category {shown(category)}; "
                f"allowed: {listed(self.categories, _SHOWN_CATEGORIES)}",
                row=row,
                column=self.name,
            )
        return code


class Survey(
    msgspec.Struct, frozen=True, dict=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The attributes that are asked, in order: the domain of a record.

    It travels as ``msgspec.to_builtins(survey)`` and comes back by ``msgspec.convert``.

    Args:
        title: of the survey.
        attributes: what is asked.
        texts: its words in each language.
        closes: the end of the time for answers, ``YYYY-MM-DDTHH:MM:SSZ``; empty if none is agreed.

    Raises:
        SurveyError: no attribute, a repeated name, an unfit title, texts of another survey, or a
            moment that is not one.
    """

    title: str
    attributes: tuple[Attribute, ...]
    texts: tuple[Texts, ...] = ()
    closes: str = ""

    def __post_init__(self) -> None:
        _check_text("the title of a survey", self.title)
        if not isinstance(self.attributes, tuple):
            raise SurveyError("the attributes of a survey must be a tuple")
        if not self.attributes:
            raise SurveyError("a survey needs at least one attribute")
        for attribute in self.attributes:
            if not isinstance(attribute, Attribute):
                raise SurveyError(f"expected an attribute, got {shown(attribute)}")
        if (repeat := _first_repeat(self.names)) is not None:
            raise SurveyError("the name of this attribute is repeated", column=repeat)
        check_texts(self.texts, dict(zip(self.names, self.sizes, strict=True)))
        if self.closes != "":
            _moment(self.closes)
        force_setattr(self, "title", plain_text(self.title))

    def __repr__(self) -> str:
        sizes = [f"{name}[{size}]" for name, size in zip(self.names, self.sizes, strict=True)]
        more = f" and {len(sizes) - _SHOWN_NAMES} more" if len(sizes) > _SHOWN_NAMES else ""
        return f"<Survey: {shown(self.title)}, {', '.join(sizes[:_SHOWN_NAMES])}{more}>"

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes, m of them."""
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of categories of each attribute: the shape of a joint table."""
        return tuple(attribute.size for attribute in self.attributes)

    @property
    def closing(self) -> datetime.datetime | None:
        """The moment until which answers are taken, in UTC; None if nothing is agreed."""
        return _moment(self.closes) if self.closes else None

    @cached_property
    def cells(self) -> int:
        """The number of cells of the joint table, as an exact integer however large."""
        return math.prod(self.sizes)

    @cached_property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The smallest unsigned little-endian type that holds every code of every attribute."""
        return smallest_dtype(max(self.sizes))

    @cached_property
    def digest(self) -> bytes:
        """Digest that two sides compare to be sure that they mean the same survey, 32 bytes."""
        return hashlib.sha256(b"sottovoce survey 1\0" + _encode(self)).digest()

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: place for place, name in enumerate(self.names)}

    def index(self, name: str) -> int:
        """The place of an attribute, from 0.

        Raises:
            SurveyError: no attribute has this name.
        """
        place = self._places.get(name)
        if place is None:
            raise SurveyError(f"no attribute {shown(name)}; the survey has {listed(self.names)}")
        return place

    def attribute(self, name: str) -> Attribute:
        """The attribute of this name.

        Raises:
            SurveyError: no attribute has this name.
        """
        return self.attributes[self.index(name)]

    def axes(self, names: Sequence[str]) -> tuple[int, ...]:
        """The places of some attributes, in the order given.

        Raises:
            SurveyError: an unknown or repeated name, or one text where a sequence is meant.
        """
        if isinstance(names, str):
            raise SurveyError(f"expected a sequence of names, got the text {shown(names)}")
        if (repeat := _first_repeat(names)) is not None:
            raise SurveyError(f"attribute {shown(repeat)} is named twice")
        return tuple(self.index(name) for name in names)

    def sizes_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """The numbers of categories of some attributes.

        Raises:
            SurveyError: as ``axes``.
        """
        return tuple(self.sizes[axis] for axis in self.axes(names))

    def project(self, names: Sequence[str]) -> Survey:
        """The survey of some attributes alone, in the order given.

        Raises:
            SurveyError: as ``axes``, or no name at all.
        """
        return Survey(self.title, tuple(self.attributes[axis] for axis in self.axes(names)))


def check_partition(survey: Survey, clusters: Sequence[Sequence[str]]) -> None:
    """Refuse clusters that are not a partition of a survey's attributes.

    Raises:
        SurveyError: a name that the survey does not have, or twice in one cluster.
        ValueError: an empty cluster, or an attribute in no cluster or in two.
    """
    for names in clusters:
        survey.axes(names)
        if not names:
            raise ValueError("a cluster is empty: expected at least one attribute")
    covered = sorted(name for names in clusters for name in names)
    if covered != sorted(survey.names):
        raise ValueError(f"clusters of {covered}: expected every attribute exactly once")
