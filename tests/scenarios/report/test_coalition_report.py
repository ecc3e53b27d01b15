"""Findings of coalitions and linkage in words and as JSON: complete, short, and true."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from protocol import AGGREGATOR, Coalition, PartyId, SecureSum, judge_coalition, judge_sessions
from protocol import worst_coalition as worst_of
from protocol.audit.coalition.finding import Pair
from protocol.audit.linkage import Linkage, Linked, link
from protocol.session.charter import Charter
from protocol.transcript.entries import Entry
from protocol.variants import PairRR, RRClusters, RRIndependent, SecureSumVariant
from scenarios import Section
from scenarios.statement.audits.checks import known
from scenarios.statement.audits.coalitions import coalition, group_alike, how_found, linkage
from scenarios.statement.audits.values import LISTED_NAMES, coalition_values, linkage_values
from scenarios.wording.formatting import as_json, epsilon
from tests.protocol.sessions import SURVEY, answers, charter_of, holdings_of, read_roster, rehearsed
from tests.protocol.sharing.test_sums import vanishing

PARTIES = tuple(PartyId(f"party-{i}") for i in range(1, 8))
FEW = Coalition((AGGREGATOR, *PARTIES[:2]))
NEARLY_ALL = Coalition((AGGREGATOR, *PARTIES[:-1]))


def run(variant: Any, *, parties: int = 7) -> tuple[Charter, list[Entry]]:
    charter = charter_of(variant, parties)
    return charter, rehearsed(charter, holdings_of(charter, answers(SURVEY, parties))).entries


def said(section: Section) -> str:
    """A section's notes, then its tables, a line for each row."""
    rows = (map(str, row) for grid in section.grids for row in grid.rows)
    return "\n".join([*section.notes, *map("; ".join, rows)])


def test_a_coalition_in_words() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    found = judge_coalition(charter, entries, FEW)
    assert known(found) == (
        "note",
        "Of the secure sum, these 3 learn nothing beyond the exact sum over the other 5 parties, "
        "by adding and subtracting.",
    )
    text = said(coalition(found, "answer"))
    assert "In it: aggregator, party-1, party-2.\n" in text
    # Contributed, honest, seen, unknown masks, groups told, the smallest, the total.
    assert "1: sparse, of true counts; 7; 5; 5; 10; 1; 5; known; " in text
    assert "party-3, party-4, party-5, party-6 and 1 more; 5; exact sum" in text
    assert "no ε bounds what it learned about a respondent: exact counts of smokes" in text
    found = judge_coalition(charter, entries, NEARLY_ALL)
    assert known(found) == ("care", "Exposed: party-7; its own exact counts follow.")
    assert "Shares open all secrets of party-7." in said(coalition(found, "answer"))
    tapped = Coalition((), taps=((PARTIES[2], AGGREGATOR),), keys=(PARTIES[3],))
    found = judge_coalition(charter, entries, tapped)
    answer = known(found)[1]
    assert answer.startswith("Of the secure sum, the holder of these taps and keys learns nothing")
    text = said(coalition(found, answer))
    assert "In it: no member, reading the wire between party-3 and aggregator, " in text
    assert "with the keys of party-4." in text
    assert "1 group of 1 party: hidden by masks with parties whose contributions it" in text
    withheld = run(SecureSumVariant(survey=SURVEY, sums=SecureSum(opening="withheld")))
    text = said(coalition(judge_coalition(*withheld, tapped), answer))
    assert "1 group of 1 party: hidden by masks of their own that it cannot open." in text
    one = judge_coalition(charter, entries, Coalition((PARTIES[0],)))
    assert known(one)[1].startswith(
        "Of the secure sum, party-1 alone learns nothing beyond the exact sum over the other 6"
    )


def test_smaller_sets_may_follow_only_where_they_were_not_searched() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    finding = judge_coalition(charter, entries, FEW)
    says = "Smaller sets may follow: not all combinations of the sums were searched."
    assert says not in coalition(finding, "x").notes
    assert says in coalition(msgspec.structs.replace(finding, searched=False), "x").notes
    none = msgspec.structs.replace(finding, searched=False, sums=())
    assert says not in coalition(none, "x").notes


def test_a_reason_is_given_once() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    finding = judge_coalition(charter, entries, FEW)
    section = coalition(finding, "x", unbounded=finding.ledger.unbounded, notes=("a note",))
    assert section.notes[-1].endswith("no ε bounds what it learned about a respondent.")
    assert "A note." in section.notes
    assert coalition_values(finding, notes=("a note",))["notes"] == ["a note"]
    partial = known(finding, partial=True)[1]
    assert partial.startswith("As far as the record could be read: Of the secure sum, these 3")


def test_a_coalition_as_values() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    values = as_json(coalition_values(judge_coalition(charter, entries, FEW)))
    assert values["members"] == ["aggregator", "party-1", "party-2"]
    assert (values["smallest"], values["searched"]) == (5, True)
    assert values["exposed"] == {"size": 0, "parties": []}
    assert values["determined"] == {
        "count": 1,
        "listed": [{"size": 5, "parties": list(PARTIES[2:])}],
    }
    assert values["record_epsilon"] is None
    assert values["unbounded"]
    (found,) = values["sums"]
    assert (found["profile"], found["exact_counts"], found["smallest_component"]) == (
        "sparse",
        True,
        5,
    )
    assert len(found["masks"]) == found["unknown_masks"] == 10
    (part,) = found["components"]["listed"]
    assert (part["size"], part["determined"], part["hidden_by"]) == (5, True, None)


@pytest.mark.slow
def test_long_lists_are_cut_and_counted() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY), parties=60)
    values = coalition_values(judge_coalition(charter, entries, Coalition((AGGREGATOR,))))
    (whole,) = values["determined"]["listed"]
    assert (whole["size"], len(whole["parties"])) == (60, LISTED_NAMES)
    text = said(coalition(judge_coalition(charter, entries, Coalition((AGGREGATOR,))), "x"))
    assert "party-4 and 56 more" in text
    assert "party-5" not in text


def test_randomized_contributions_keep_their_epsilon() -> None:
    charter, entries = run(PairRR.with_keep(SURVEY, 0.6))
    finding = judge_coalition(charter, entries, NEARLY_ALL)
    assert known(finding)[1] == "Exposed: party-7; its own counts, randomized before, follow."
    assert "their epsilon holds whoever conspires" in said(coalition(finding, "x"))
    values = coalition_values(finding)
    assert values["sums"][0]["exact_counts"] is False
    assert values["record_epsilon"] == finding.ledger.record_epsilon


def test_without_a_sum() -> None:
    charter, entries = run(RRIndependent.with_keep(SURVEY, 0.5))
    finding = judge_coalition(charter, entries, FEW)
    assert known(finding) == ("note", "There is no secure sum on record to take apart.")
    loss = epsilon(finding.ledger.record_epsilon)
    assert f"it learned at most ε = {loss} about each respondent" in said(coalition(finding, "x"))
    assert coalition_values(finding)["sums"] == []


def test_differences_are_named() -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=SecureSum(dropped=0.2)), 7)
    other = Charter(variant=charter.variant, roster=read_roster(7))
    holdings = holdings_of(charter, answers(SURVEY, 7))
    sessions = [
        (c, rehearsed(c, holdings, fate=vanishing({PARTIES[i]: "Upload"})).entries, {})
        for i, c in enumerate((charter, other))
    ]
    finding = judge_sessions(sessions, Coalition((AGGREGATOR,)))
    assert finding.pairs == (Pair(PARTIES[0], PARTIES[1], "difference"),)
    state, answer = known(finding)
    assert state == "note"
    assert answer.startswith(
        "Of the secure sums, the aggregator alone learns more than one exact sum"
    )
    text = said(coalition(finding, answer))
    assert "party-1, party-2; 2; exact difference" in text
    assert "\n2: sparse, of true counts" in text
    assert as_json(coalition_values(finding)["pairs"]) == {
        "count": 1,
        "listed": [{"first": "party-1", "second": "party-2", "relation": "difference"}],
    }


@pytest.mark.parametrize("size", [0, 2, 6])
def test_the_worst(size: int) -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    worst = worst_of(charter, entries, size)
    parties = {0: "0 parties", 2: "2 parties", 6: "6 parties"}[size]
    assert how_found(worst) == (
        f"of all coalitions of the aggregator and {parties}, none does more damage: {worst.search}"
    )
    assert "there may be worse" in how_found(worst, partial=True)


def test_groups_that_are_alike_are_one_and_in_order() -> None:
    def group(*names: str, linked: str = "Report") -> Linked:
        parties = tuple(map(PartyId, names))
        return Linked(parties=parties, linked=(linked,), unlinked=(), repeated=())

    found = Linkage(AGGREGATOR, (group("b-10"), group("b-2", "b-1"), group("c", linked="Other")))
    text = said(linkage(found, "x"))
    assert "b-1, b-2, b-10; 3; 1 × Report; none" in text  # noqa: RUF001
    assert "c; 1; 1 × Other; none" in text  # noqa: RUF001
    (mixed,) = group_alike([group("b-02", "a10", "7", "c", "a1b", "b-1", "a1b2", "a")])
    assert mixed.parties == ("7", "a", "a1b", "a1b2", "a10", "b-1", "b-02", "c")


def test_linkage_in_words_and_values() -> None:
    charter, entries = run(
        RRClusters(survey=SURVEY, p=0.6, tv=5, td=0.1, dependence="rr"), parties=7
    )
    found = link(judge_coalition(charter, entries, Coalition((AGGREGATOR,))).ledger)
    text = said(linkage(found, "x"))
    assert "7; 1 × PilotReport, 1 × Report; none" in text  # noqa: RUF001
    assert re.search(r"^smokes; 2; [0-9.]+; [0-9.]+ %; 50.0 %; ", text, re.MULTILINE)
    values = as_json(linkage_values(found))
    (group,) = values["groups"]
    assert (values["count"], group["size"], group["linked"]) == (1, 7, ["PilotReport", "Report"])
    assert [r["attribute"] for r in group["repeated"]] == ["smokes", "drinks"]
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    hidden = link(judge_coalition(charter, entries, Coalition((AGGREGATOR,))).ledger)
    assert "7; none; 1 × Upload" in said(linkage(hidden, "x"))  # noqa: RUF001
    nobody = link(judge_coalition(charter, entries, Coalition((AGGREGATOR, *PARTIES))).ledger)
    assert linkage(nobody, "x").grids == ()
