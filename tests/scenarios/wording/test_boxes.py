"""Check boxes: what is said of them, and of what they cost, before a survey and after it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest

from protocol import Attribute, KeepUniform, Records, Survey, UnsupportedEventError, Variant
from protocol.simulation.setting import make_setting
from protocol.surveys.texts import Group, Texts, Wording
from protocol.variants import BUILT_IN, RRIndependent, RRJoint
from scenarios import read_plan
from scenarios.wording.boxes import ONCE, box_sentences
from tests.recorded.runs import Run
from tests.scenarios.command import sottovoce
from tests.scenarios.survey_folders import plan_file

OWNED = ("car", "bike", "bus pass")
BOXES = tuple(Attribute(name=name, categories=("no", "yes")) for name in OWNED)
AGE = Attribute(name="age", categories=("young", "middle", "old"))
GROUP = Group(attributes=OWNED, ask="Which of these have you?", help="In working order.")
ENGLISH = Texts(language="en", questions=(Wording(attribute="car", ask="A car"),), groups=(GROUP,))
GERMAN = Texts(language="de", groups=(Group(attributes=OWNED, ask="Was haben Sie davon?"),))
CLOSES = "2026-12-15T18:00:00Z"
SURVEY = Survey("Ways", (*BOXES, AGE), (ENGLISH, GERMAN), CLOSES)
BINARY = Survey("Ways", BOXES, (ENGLISH,))
PLAN = """
title = "Ways"
variant = "spl"
epsilon = 3.0
closes = 2999-12-15T18:00:00Z

[[attributes]]
name = "car"
categories = ["no", "yes"]

[[attributes]]
name = "bike"
categories = ["no", "yes"]

[[attributes]]
name = "age"
categories = ["young", "middle", "old"]

[[texts]]
language = "en"

[[texts.groups]]
attributes = ["car", "bike"]
ask = "Which of these have you?"
help = "In working order."
"""


def variant(name: str, survey: Survey, epsilon: float = 3.0) -> Variant:
    cls = BUILT_IN[name]
    if hasattr(cls, "with_epsilon"):
        made: Variant = cls.with_epsilon(survey, epsilon)
        return made
    return cls(survey=survey, epsilon=epsilon)  # type: ignore[call-arg]


HEAD = "Check boxes car, bike, bus pass: "


@pytest.mark.parametrize(
    ("name", "survey", "says"),
    [
        ("rr-independent", SURVEY, "each of 3 costs ε 0.75, all together 2.25."),
        ("spl", SURVEY, "each of 3 costs ε 0.75, all together 2.25."),
        ("rr-joint", SURVEY, "all 3 together cost at most ε 3."),
        ("smp", SURVEY, "all 3 together cost at most ε 3."),
        ("inp-ht", BINARY, "all 3 together cost at most ε 3."),
        ("marg-ps", BINARY, "all 3 together cost at most ε 3."),
        ("secure-sum", SURVEY, "no ε bounds what they tell."),
    ],
)
def test_what_boxes_cost(name: str, survey: Survey, says: str) -> None:
    asked = BUILT_IN[name](survey=survey) if name == "secure-sum" else variant(name, survey)
    assert list(box_sentences(asked)) == [HEAD + says]


def test_boxes_that_cost_differently() -> None:
    keeps = ("1/2", "3/5", "4/5")
    made = tuple(KeepUniform.with_keep(2, p=Fraction(p)) for p in keeps)
    uneven = RRIndependent(survey=BINARY, randomizers=made)
    # Their logarithms: of 3, of 4 and of 9.
    assert list(box_sentences(uneven)) == [
        f"{HEAD}they cost ε 1.099, 1.387, 2.198, one by one, all together 4.683.",
        ONCE,
    ]


def test_where_every_question_has_two_categories_others_pay_once() -> None:
    for name in ("rr-independent", "spl"):
        assert list(box_sentences(variant(name, BINARY)))[1:] == [ONCE]
        assert ONCE not in box_sentences(variant(name, SURVEY))
    assert ONCE not in box_sentences(variant("rr-joint", BINARY))
    # The claim that it makes of the others.
    for name in ("marg-ps", "inp-ht"):
        few = Survey("Ways", BOXES[:2])
        assert variant(name, BINARY).most() == pytest.approx(variant(name, few).most()) == 3.0


def test_a_survey_without_boxes_says_nothing_of_them() -> None:
    assert list(box_sentences(variant("spl", Survey("Ways", BOXES)))) == []


def test_a_variant_of_ones_own_that_cannot_say_what_it_costs() -> None:
    class Odd(RRJoint, frozen=True):
        name = "odd"

        def most(self) -> float:
            raise UnsupportedEventError("nobody knows")

        @property
        def report_event(self) -> None:  # type: ignore[override]
            return None

    odd = Odd(survey=BINARY, randomizer=RRJoint.with_epsilon(BINARY, 1.0).randomizer)
    assert list(box_sentences(odd)) == [f"{HEAD}what they cost is not known (nobody knows)."]


def test_a_plan_with_boxes(tmp_path: Path) -> None:
    plan = plan_file(tmp_path, PLAN)
    [texts] = read_plan(plan).variant.survey.texts
    assert texts.groups == (msgspec.structs.replace(GROUP, attributes=("car", "bike")),)
    said = sottovoce("preflight", plan)
    assert said.code == 0, said.err
    for line in (
        'wording    en, check boxes car, bike: "Which of these have you?" "In working order."',
        "cost       Check boxes car, bike: each of 2 costs ε 1, all together 2.",
    ):
        assert line in said.out.splitlines()
    plan = plan_file(tmp_path, PLAN.replace('["car", "bike"]', '["car", "age"]', 1))
    said = sottovoce("preflight", plan)
    assert (said.code, len(said.err.splitlines())) == (2, 1)
    assert "group 1: 3 categories, expected 2: not ticked, ticked" in said.err


def test_a_party_that_joins_is_shown_the_boxes(tmp_path: Path) -> None:
    plan, out = plan_file(tmp_path, PLAN), tmp_path / "enrolment"
    assert sottovoce("invite", plan, "--party", "anna", "--party", "bert", "--out", out).code == 0
    said = sottovoce("join", out / "invitations" / "anna.json", "--out", tmp_path / "anna").out
    assert 'en, check boxes car, bike: "Which of these have you?"' in said
    assert "Check boxes car, bike: each of 2 costs ε 1, all together 2." in said
    assert "answers are taken until 2999-12-15 18:00:00 UTC." in said


def test_an_audit_shows_the_boxes_and_when_the_survey_closed(tmp_path: Path) -> None:
    codes = np.array([[0, 1, 0, 2], [1, 1, 0, 0], [0, 0, 1, 1]], np.uint8)
    run = Run(make_setting(variant("spl", SURVEY), Records(SURVEY, codes), seed=1))
    assert run.result is not None
    record, page = tmp_path / "a.svt", tmp_path / "a.html"
    record.write_bytes(run.content)
    said = sottovoce("audit", record, "--html", page, "--details")
    assert said.code == 0, said.err
    wanted = (
        "Which of these have you? In",
        "Was haben Sie davon?",
        "check boxes",
        "Check boxes car, bike, bus pass: each of 3 costs ε 0.75, all together 2.25.",
        "2026-12-15 18:00:00 UTC",
    )
    for text in (said.out, page.read_text(encoding="utf-8")):
        for words in wanted:
            assert words in " ".join(text.split()), words
