"""The wording of a survey: what it may be, and that the session binds every letter of it."""

from __future__ import annotations

import msgspec
import pytest

from protocol.errors import SurveyError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.session.roster import Identity, Roster
from protocol.surveys.survey import Attribute, Survey
from protocol.surveys.texts import Texts, Wording
from protocol.variants import RRIndependent

LEAVES = Attribute(name="would leave", categories=("no", "yes"))
WORDS = Wording(ask="Are you thinking of leaving within a year?", labels=("No", "Yes"))
ENGLISH = Texts(
    language="en", consent="I take part.\nI may stop.", questions={"would leave": WORDS}
)
ROSTER = Roster(
    tuple(
        (name, Identity(name, bytes([n]) * 32).public)
        for n, name in enumerate((AGGREGATOR, PartyId("anna")), 1)
    )
)


def asked(*texts: Texts) -> Survey:
    return Survey("Staff", (LEAVES,), texts)


def session_of(survey: Survey) -> bytes:
    return Charter(variant=RRIndependent.with_epsilon(survey, 1.0), roster=ROSTER).session


def test_a_survey_without_texts_travels_without_them() -> None:
    assert set(msgspec.to_builtins(asked())) == {"title", "attributes"}
    assert msgspec.convert(msgspec.to_builtins(asked(ENGLISH)), Survey) == asked(ENGLISH)


def test_one_letter_of_wording_is_another_session() -> None:
    other = msgspec.structs.replace(WORDS, ask=WORDS.ask.replace("a year", "1 year"))
    changed = msgspec.structs.replace(ENGLISH, questions={"would leave": other})
    consent = msgspec.structs.replace(ENGLISH, consent="I take part.\nI may stop")
    found = {session_of(asked(*texts)) for texts in ((), (ENGLISH,), (changed,), (consent,))}
    assert len(found) == 4
    assert len({asked(texts).digest for texts in (ENGLISH, changed, consent)}) == 3


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((ENGLISH, ENGLISH), "each once"),
        ((Texts(language="english (UK)"),), "expected a tag"),
        ((Texts(language="en", questions={"leaves": WORDS}),), "no attribute 'leaves'"),
        (
            (Texts(language="en", questions={"would leave": Wording(ask="?", labels=("No",))}),),
            "1 labels, expected 2",
        ),
        ((Texts(language="en", contact="a\x00b"),), "unprintable"),
        ((Texts(language="en", questions={"would leave": Wording(ask="a\ud800")}),), "unprintable"),
    ],
)
def test_other_texts_are_refused(texts: tuple[Texts, ...], message: str) -> None:
    with pytest.raises(SurveyError, match=message):
        asked(*texts)
