"""Terminal, page and JSON say the same of one statement, whatever it is of."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from protocol.estimators.inference.intervals import USUAL, Shown
from scenarios import (
    Check,
    Grid,
    Panel,
    Section,
    Statement,
    Verdict,
    statement_page,
    statement_text,
    statement_values,
)
from scenarios.report.terminal.statement import statement_report
from scenarios.statement.statement import Coverage, Fact, Place, State
from scenarios.wording.plain import printed


def section(place: Place) -> Section:
    """A section with all that one can have, each text once."""

    def word(of: str) -> str:
        return f"{of}-{place}"

    return Section(
        key=word("key"),
        title=word("title"),
        lead=word("lead"),
        notes=(word("note"),),
        code=(word("code"),),
        reasons=(word("reason"),),
        facts=((word("fact"), word("value")),),
        grids=(
            Grid(
                key=word("grid"),
                caption=word("caption"),
                columns=(word("column"), f"#{word('number')}"),
                rows=((word("row"), word("cell")),),
                more=word("left-out"),
            ),
        ),
        panels=(
            Panel(
                key=word("panel"),
                name=word("name"),
                heads=(word("head"), word("label-head"), word("figure-head")),
                labels=(word("label"), word("other-label")),
                figures=(Shown(0.25, 0.125, 0.375), Shown(0.75, 0.625, 0.875)),
                intervals=USUAL,
            ),
        ),
        total=1,
        place=place,
    )


def stated(*places: Place) -> Statement:
    return Statement(
        title="title-of-all",
        verdicts=(
            Verdict(
                about="Speed",
                word="verdict-word",
                state="care",
                says="verdict-says",
                reasons=("verdict-reason",),
                caveat="verdict-caveat",
            ),
        ),
        coverage=(Coverage("coverage-of", "", 3, 4), Coverage("other-of", "other-about", 1, 2)),
        facts=(Fact("fact-name", "fact-value", "fact-note"),),
        checks=(Check("check-about", "bad", "check-says", "key-body"),),
        sections=tuple(map(section, places)),
        values={"figure": 0.25},
    )


OF_ALL = (
    *("title-of-all", "verdict-word", "verdict-says", "verdict-reason", "verdict-caveat"),
    *("coverage-of", "3 of 4", "other-of", "other-about", "1 of 2"),
    *("fact-name", "fact-value", "fact-note", "check-about", "check-says"),
)
OF_A_SECTION = (
    *("title", "lead", "note", "code", "reason", "fact", "value", "caption", "column", "number"),
    *("row", "cell", "left-out", "name", "label"),
)


def missing(text: str, wanted: tuple[str, ...]) -> list[str]:
    return [word for word in wanted if word not in text]


@pytest.mark.parametrize("place", ["result", "body", "aside"])
def test_a_page_has_all_of_it(place: Place) -> None:
    page = statement_page(stated(place), kind="A test")
    assert missing(page, OF_ALL) == []
    assert missing(page, tuple(f"{word}-{place}" for word in OF_A_SECTION)) == []
    assert "25.0" in page
    assert "37.5" in page


def test_a_terminal_has_all_of_a_body() -> None:
    text = statement_text(stated("body"))
    assert missing(text, OF_ALL) == []
    assert missing(text, tuple(f"{word}-body" for word in OF_A_SECTION)) == []
    assert "0.3750" in text or "37.5" in text


def test_a_terminal_has_all_of_results_but_what_their_tables_and_titles_say() -> None:
    for many, left_out in ((1, {"title", "lead"}), (2, {"lead", "caption"})):
        places: list[Place] = ["result"] * many
        text = statement_text(stated(*places))
        assert missing(text, OF_ALL) == []
        found = missing(text, tuple(f"{word}-result" for word in OF_A_SECTION))
        assert found == [f"{word}-result" for word in OF_A_SECTION if word in left_out]


def test_a_terminal_has_nothing_of_an_aside() -> None:
    text = statement_text(stated("aside"))
    assert missing(text, OF_ALL) == []
    assert len(missing(text, tuple(f"{word}-aside" for word in OF_A_SECTION))) == len(OF_A_SECTION)


def briefly(said: Statement) -> str:
    return printed(statement_report(said, details=False), width=100)


def test_without_details_a_terminal_has_verdicts_and_sections_that_have_nothing_brief() -> None:
    text = briefly(stated("body"))
    assert missing(text, OF_ALL) == ["fact-name", "fact-value", "fact-note"]
    assert missing(text, tuple(f"{word}-body" for word in OF_A_SECTION)) == []
    assert text.endswith("--details prints what this rests on.\n")
    assert "--details" not in statement_text(stated("body"))


def test_without_details_a_terminal_has_what_is_bad_and_not_what_holds() -> None:
    [verdict], [whole] = stated("body").verdicts, stated("body").sections
    told = ("verdict-brief", "verdict-bad")
    states: tuple[State, ...] = ("good", "note", "bad", "care", "open")
    said = Statement(
        verdicts=(replace(verdict, brief=told),),
        coverage=(Coverage("estimate", "", 4, 4), Coverage("wait", "", 9, 9)),
        checks=tuple(Check(f"{state}-check", state, "says", "key-body") for state in states),
        sections=(replace(whole, brief=("section-brief",)), replace(whole, brief=())),
    )
    text = briefly(said)
    kept = (*told, "verdict-caveat", "section-brief", "bad-check", "care-check", "open-check")
    assert missing(text, kept) == []
    folded = ("verdict-says", "verdict-reason", "good-check", "note-check", "note-body", "9")
    assert missing(text, folded) == list(folded)
    assert "Counted: all 4 who were asked." in text
    everything = statement_text(said)
    assert missing(everything, (*folded, "note-body")) == []
    fewer = replace(said, coverage=(*said.coverage, Coverage("late", "", 8, 9)))
    assert "Counted: 4 of 4 parties, for estimate" in briefly(fewer)
    assert "late: 8 of 9" in briefly(fewer)
    assert "wait" not in briefly(fewer)


def test_json_has_verdicts_coverage_checks_and_figures() -> None:
    values = json.loads(json.dumps(statement_values(stated("body"))))
    assert values["figure"] == 0.25
    said = values["statement"]
    assert said["speed"]["verdict"] == "verdict-word"
    assert said["speed"]["says"] == "verdict-says"
    assert said["speed"]["reasons"] == ["verdict-reason"]
    assert [(each["of"], each["counted"]) for each in said["coverage"]] == [
        ("coverage-of", 3),
        ("other-of", 1),
    ]
    assert [(each["about"], each["state"]) for each in said["checks"]] == [("check-about", "bad")]
