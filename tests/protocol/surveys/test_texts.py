"""The wording of a survey: what it may be, and that the session binds every letter of it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from protocol import AGGREGATOR, Attribute, PartyId, Records, Survey, SurveyError
from protocol.session.charter import Charter
from protocol.session.roster import Identity, Roster
from protocol.simulation.setting import make_setting
from protocol.surveys.texts import Group, Texts, Wording
from protocol.transcript.verification import verify
from protocol.variants import RRIndependent
from tests.every_variant import Example, examples
from tests.recorded.runs import Run
from tests.tiers import thinned

LEAVES = Attribute(name="would leave", categories=("no", "yes"))
WORDS = Wording(
    attribute="would leave", ask="Are you thinking of leaving within a year?", labels=("No", "Yes")
)
ENGLISH = Texts(language="en", consent="I take part.\nI may stop.", questions=(WORDS,))
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
    changed = msgspec.structs.replace(ENGLISH, questions=(other,))
    consent = msgspec.structs.replace(ENGLISH, consent="I take part.\nI may stop")
    found = {session_of(asked(*texts)) for texts in ((), (ENGLISH,), (changed,), (consent,))}
    assert len(found) == 4
    assert len({asked(texts).digest for texts in (ENGLISH, changed, consent)}) == 3


def other(**changes: Any) -> tuple[Texts, ...]:
    wording = msgspec.structs.replace(WORDS, **changes)
    return (msgspec.structs.replace(ENGLISH, questions=(wording,)),)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ((ENGLISH, ENGLISH), "each once"),
        ((Texts(language="english (UK)"),), "expected a tag"),
        ((Texts(language="en", questions=(WORDS, WORDS)),), "more than one question"),
        (other(attribute="leaves"), "no attribute 'leaves'"),
        (other(labels=("No",)), "expected 2 different labels"),
        (other(labels=("Yes", "Yes")), "expected 2 different labels"),
        (other(ask=" "), "the question is empty"),
        ((Texts(language="en", contact="a\x00b"),), "does not show"),
        (other(ask="a\ud800"), "does not show"),
        (other(help="turned \u202e around"), "does not show"),
        (other(labels=("No\u200b", "No")), "does not show"),
    ],
)
def test_other_texts_are_refused(texts: tuple[Texts, ...], message: str) -> None:
    with pytest.raises(SurveyError, match=message):
        asked(*texts)


BOXES = tuple(Attribute(name=name, categories=("no", "yes")) for name in "abcd")
TICKED = Survey("Boxes", (*BOXES, Attribute(name="e", categories=("x", "y", "z"))))


def grouped(*groups: Group, language: str = "en") -> Survey:
    texts = (ENGLISH_ALONE, Texts(language=language, groups=groups))
    return Survey(TICKED.title, TICKED.attributes, texts)


ENGLISH_ALONE = Texts(language="pt-BR", title="Caixas")


def group(names: str, ask: str = "Which?", hint: str = "") -> Group:
    return Group(attributes=tuple(names), ask=ask, help=hint)


def test_groups_travel_with_the_words() -> None:
    survey = grouped(group("ab", hint="Tick all."), group("cd"))
    texts = json.loads(msgspec.json.encode(survey))["texts"]
    assert texts[1]["groups"] == [
        {"attributes": ["a", "b"], "ask": "Which?", "help": "Tick all."},
        {"attributes": ["c", "d"], "ask": "Which?"},
    ]
    assert "groups" not in texts[0]
    assert msgspec.convert(msgspec.to_builtins(survey), Survey) == survey
    assert len({each.digest for each in (TICKED, survey, grouped(group("abcd")))}) == 3


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((group("a"),), "group 1: expected at least 2 attributes"),
        ((group(""),), "group 1: expected at least 2 attributes"),
        ((group("ax"),), "group 1: no attribute 'x'"),
        ((group("de"),), "column 'e': texts in 'en': group 1: 3 categories, expected 2"),
        ((group("ab"), group("bc")), "column 'b': texts in 'en': group 2: already in a group"),
        ((group("aa"),), "group 1: already in a group"),
        ((group("ac"),), "group 1: expected attributes that follow each other"),
        ((group("ba"),), "in the survey's order"),
        ((group("ab", ask=" "),), "group 1: the heading is empty"),
        ((group("ab", ask="a\u202eb"),), "does not show"),
        ((group("ab", hint="\u200b"),), "does not show"),
    ],
)
def test_other_groups_are_refused(groups: tuple[Group, ...], message: str) -> None:
    with pytest.raises(SurveyError, match=message) as refused:
        grouped(*groups)
    assert len(str(refused.value).splitlines()) == 1


def test_a_field_that_there_is_not_is_refused() -> None:
    given = {"attribute": "would leave", "ask": "?", "lables": ["No", "Yes"]}
    with pytest.raises(msgspec.ValidationError, match="lables"):
        msgspec.convert({"language": "en", "questions": [given]}, Texts)


@pytest.mark.parametrize("example", thinned(examples(), 12), ids=lambda example: example.name)
def test_every_variant_can_be_worded(example: Example) -> None:
    survey = example.variant.survey
    worded = Survey(survey.title, survey.attributes, (Texts(language="en", title="In words"),))
    variant = msgspec.structs.replace(example.variant, survey=worded)
    records = Records(worded, example.records.codes)
    run = Run(make_setting(variant, records, seed=1))
    assert run.result is not None or run.failure is None
    assert verify(run.content).header is not None
