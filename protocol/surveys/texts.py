"""Wording of a survey's questions for respondents, in one or more languages."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

import msgspec

from protocol.errors import SurveyError

_LANGUAGE = re.compile("[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
# A text may have several lines, but no other invisible characters.
_UNFIT = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_JOINERS = "\u200c\u200d"


class Wording(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The words of one question.

    Args:
        attribute: the name of the attribute.
        ask: the question.
        help: what explains it.
        labels: the labels of the categories, in their order; by default their names.
    """

    attribute: str
    ask: str
    help: str = ""
    labels: tuple[str, ...] = ()


class Group(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Attributes that are shown as check boxes under one heading.

    Of the two categories of each, the first stands for an empty box, the second for a ticked one.

    Args:
        attributes: their names, at least two that follow each other in the survey.
        ask: the heading.
        help: what explains it.
    """

    attributes: tuple[str, ...]
    ask: str
    help: str = ""


class Texts(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The words of a survey in one language.

    Args:
        language: its tag (BCP 47), such as ``en`` or ``pt-BR``.
        title: of the survey.
        asks: the person or organisation that asks.
        consent: what respondents agree to.
        contact: the contact for respondents.
        questions: the questions of attributes; by default their names.
        groups: of attributes that are shown as check boxes.
    """

    language: str
    title: str = ""
    asks: str = ""
    consent: str = ""
    contact: str = ""
    questions: tuple[Wording, ...] = ()
    groups: tuple[Group, ...] = ()

    @property
    def about(self) -> Mapping[str, str]:
        """The words about the whole survey, by field, without empty ones."""
        fields = ("title", "asks", "consent", "contact")
        return {field: words for field in fields if (words := getattr(self, field))}


def check_texts(texts: Sequence[Texts], sizes: Mapping[str, int]) -> None:
    """Refuse words that do not fit a survey.

    Args:
        texts: of the survey.
        sizes: the number of categories of each attribute, in the survey's order.

    Raises:
        SurveyError: a language that is malformed or occurs twice, words for a question that is not
            asked or for one twice, no question, another number of labels than categories, a label
            twice, a group that cannot be check boxes, or invisible characters.
    """
    languages = set[str]()
    for each in texts:
        where = f"texts in {each.language!r:.20}"
        if not _LANGUAGE.fullmatch(each.language) or each.language in languages:
            raise SurveyError(f"{where}: expected a tag such as 'en', each once")
        languages.add(each.language)
        named = set[str]()
        for wording in each.questions:
            name, size = wording.attribute, sizes.get(wording.attribute)
            if size is None or name in named:
                why = "no attribute" if size is None else "more than one question for"
                raise SurveyError(f"{where}: {why} {name!r:.60}")
            named.add(name)
            if not wording.ask.strip():
                raise SurveyError(f"{where}: the question is empty", column=name)
            if len(set(wording.labels)) != len(wording.labels) or len(wording.labels) not in (
                0,
                size,
            ):
                raise SurveyError(f"{where}: expected {size} different labels", column=name)
        _check_groups(each.groups, sizes, where)
        headed: tuple[Wording | Group, ...] = (*each.questions, *each.groups)
        words = [word for wording in headed for word in (wording.ask, wording.help)]
        labels = [label for wording in each.questions for label in wording.labels]
        if any(map(_has_hidden, (*each.about.values(), *words, *labels))):
            raise SurveyError(f"{where}: a character that does not show")


def _check_groups(groups: Sequence[Group], sizes: Mapping[str, int], where: str) -> None:
    """Refuse groups whose attributes cannot be shown as check boxes under one heading.

    Raises:
        SurveyError: fewer than two attributes, one that is not asked, has not two categories or is
            in two groups, attributes that do not follow each other in the survey, or no heading.
    """
    names = list(sizes)
    places = {name: place for place, name in enumerate(names)}
    grouped = set[str]()
    for number, group in enumerate(groups, 1):
        which = f"{where}: group {number}"
        if len(group.attributes) < 2:
            raise SurveyError(f"{which}: expected at least 2 attributes")
        for name in group.attributes:
            if name not in sizes:
                raise SurveyError(f"{which}: no attribute {name!r:.60}")
            if sizes[name] != 2:
                raise SurveyError(
                    f"{which}: {sizes[name]:,} categories, expected 2: not ticked, ticked",
                    column=name,
                )
            if name in grouped:
                raise SurveyError(f"{which}: already in a group", column=name)
            grouped.add(name)
        first = places[group.attributes[0]]
        if list(group.attributes) != names[first : first + len(group.attributes)]:
            raise SurveyError(
                f"{which}: expected attributes that follow each other, in the survey's order"
            )
        if not group.ask.strip():
            raise SurveyError(f"{which}: the heading is empty")


def _has_hidden(text: str) -> bool:
    """Check whether a text has invisible characters, or characters that reverse others."""
    formats = (c for c in text if unicodedata.category(c) == "Cf" and c not in _JOINERS)
    return bool(_UNFIT.search(text)) or any(formats)
