"""How a survey words its questions, in one or more languages: what respondents are shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from protocol.errors import SurveyError

_LANGUAGE = re.compile("[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")
# A text may have several lines; what else does not show does not belong there.
_UNFIT = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


class Wording(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The words of one question.

    Args:
        ask: the question.
        help: what explains it.
        labels: of the categories, in their order; without any, their names stand.
    """

    ask: str
    help: str = ""
    labels: tuple[str, ...] = ()


class Texts(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """The words of a survey in one language.

    Args:
        language: its tag (BCP 47), such as ``en`` or ``pt-BR``.
        title: of the survey.
        asks: who asks.
        consent: what respondents agree to.
        contact: whom they can turn to.
        questions: by the name of the attribute; where there is none, names stand.
    """

    language: str
    title: str = ""
    asks: str = ""
    consent: str = ""
    contact: str = ""
    questions: dict[str, Wording] = {}

    def lines(self) -> Sequence[str]:
        """All words in it, in their order."""
        asked = [word for each in self.questions.values() for word in (each.ask, each.help)]
        labels = [label for each in self.questions.values() for label in each.labels]
        return [self.title, self.asks, self.consent, self.contact, *asked, *labels]


def check_texts(texts: Sequence[Texts], sizes: Mapping[str, int]) -> None:
    """Refuse words that are not those of a survey.

    Args:
        texts: of the survey.
        sizes: the number of categories of each attribute.

    Raises:
        SurveyError: a language that is malformed or occurs twice, words for a question that is not
            asked, another number of labels than categories, or characters that do not show.
    """
    languages = [each.language for each in texts]
    for each in texts:
        where = f"texts in {each.language!r:.20}"
        if not _LANGUAGE.fullmatch(each.language) or languages.count(each.language) > 1:
            raise SurveyError(f"{where}: expected a tag such as 'en', each once")
        for name, wording in each.questions.items():
            size = sizes.get(name)
            if size is None:
                raise SurveyError(f"{where}: no attribute {name!r:.60}")
            if len(wording.labels) not in (0, size):
                raise SurveyError(
                    f"{where}: {len(wording.labels)} labels, expected {size}", column=name
                )
        if any(_UNFIT.search(line) for line in each.lines()):
            raise SurveyError(f"{where}: an unprintable character")
