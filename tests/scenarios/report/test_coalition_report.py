"""Findings of coalitions and linkage as text and as JSON: complete, short, and true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.finding import Pair
from protocol.audit.coalition.judge import judge_coalition, judge_sessions, worst_coalition
from protocol.audit.linkage import Linkage, Linked, link
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.transcript.entries import Entry
from protocol.variants import PairRR, RRClusters, RRIndependent
from protocol.variants.sums.secure_sum import SecureSumVariant
from scenarios.report.coalition import (
    LISTED_NAMES,
    coalition_lines,
    coalition_values,
    linkage_lines,
    linkage_values,
    worst_lines,
    worst_values,
)
from tests.protocol.sessions import SURVEY, answers, charter_of, holdings_of, locally, roster_of
from tests.protocol.sharing.test_sums import vanishing

PARTIES = tuple(PartyId(f"party-{i}") for i in range(1, 8))
FEW = Coalition((AGGREGATOR, *PARTIES[:2]))
NEARLY_ALL = Coalition((AGGREGATOR, *PARTIES[:-1]))


def run(variant: Any, *, parties: int = 7) -> tuple[Charter, list[Entry]]:
    charter = charter_of(variant, parties)
    return charter, locally(charter, holdings_of(charter, answers(SURVEY, parties))).entries()


def said(lines: Any) -> str:
    return "\n".join(lines)


def test_a_coalition_in_words() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    first, *rest = coalition_lines(judge_coalition(charter, entries, FEW))
    assert first == (
        "these 3 learn of the secure sum nothing beyond the exact sum over the other 5 parties, "
        "by adding and subtracting"
    )
    text = said(rest)
    assert "coalition of aggregator, party-1 and party-2\n" in text
    assert "7 parties contributed, 5 of them honest; 5 of these are seen under masks" in text
    assert "10 masks between honest parties are not known" in text
    assert "the exact sum over 5 parties follows: party-3, party-4, party-5, party-6 and" in text
    assert "no epsilon bounds what is learned about a respondent: exact counts of smokes" in text
    first, *rest = coalition_lines(judge_coalition(charter, entries, NEARLY_ALL))
    assert first == "party-7 is exposed: its own exact counts follow"
    assert "shares open all secrets of party-7" in said(rest)
    tapped = Coalition((), taps=((PARTIES[2], AGGREGATOR),), keys=(PARTIES[3],))
    first, *rest = coalition_lines(judge_coalition(charter, entries, tapped))
    assert first.startswith("whoever has these taps and keys learns of the secure sum nothing")
    text = said(rest)
    assert "an outsider; a tap between party-3 and aggregator; the keys of party-4" in text
    assert "1 group of 1 party: hidden by masks of their own that it cannot open" in text
    one = Coalition((PARTIES[0],))
    assert next(iter(coalition_lines(judge_coalition(charter, entries, one)))).startswith(
        "party-1 alone learns of the secure sum nothing beyond the exact sum over the other 6"
    )


def test_a_reason_is_given_once() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    finding = judge_coalition(charter, entries, FEW)
    text = said(coalition_lines(finding, said=finding.ledger.unbounded, notes=("a note",)))
    assert text.endswith("no epsilon bounds what is learned about a respondent")
    assert "\n  a note\n" in text
    assert coalition_values(finding, notes=("a note",))["notes"] == ["a note"]
    partial = next(iter(coalition_lines(finding, partial=True)))
    assert partial.startswith("as far as the record could be read, these 3 learn")


def test_a_coalition_as_values() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    values = json.loads(json.dumps(coalition_values(judge_coalition(charter, entries, FEW))))
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


def test_long_lists_are_cut_and_counted() -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY), parties=60)
    values = coalition_values(judge_coalition(charter, entries, Coalition((AGGREGATOR,))))
    (whole,) = values["determined"]["listed"]
    assert (whole["size"], len(whole["parties"])) == (60, LISTED_NAMES)
    text = said(coalition_lines(judge_coalition(charter, entries, Coalition((AGGREGATOR,)))))
    assert "party-8 and 52 more" in text
    assert "party-9" not in text


def test_randomized_contributions_keep_their_epsilon() -> None:
    charter, entries = run(PairRR.with_keep(SURVEY, 0.6))
    finding = judge_coalition(charter, entries, NEARLY_ALL)
    assert "party-7 is exposed: its own counts, randomized before, follow" in said(
        coalition_lines(finding)
    )
    assert "their epsilon holds whoever conspires" in said(coalition_lines(finding))
    values = coalition_values(finding)
    assert values["sums"][0]["exact_counts"] is False
    assert values["record_epsilon"] == finding.ledger.record_epsilon


def test_without_a_sum() -> None:
    charter, entries = run(RRIndependent.with_keep(SURVEY, 0.5))
    finding = judge_coalition(charter, entries, FEW)
    text = said(coalition_lines(finding))
    assert text.startswith("there is no secure sum on record to take apart")
    assert "nothing beyond" not in text
    assert f"at most epsilon {finding.ledger.record_epsilon:.6g} about each respondent" in text
    assert coalition_values(finding)["sums"] == []


def test_differences_are_named() -> None:
    charter = charter_of(SecureSumVariant(survey=SURVEY), 7)
    other = Charter(session=bytes(16), variant=charter.variant, roster=roster_of(7))
    holdings = holdings_of(charter, answers(SURVEY, 7))
    sessions = [
        (c, locally(c, holdings, fate=vanishing({PARTIES[i]: "Upload"})).entries())
        for i, c in enumerate((charter, other))
    ]
    finding = judge_sessions(sessions, Coalition((AGGREGATOR,)))
    assert finding.pairs == (Pair(PARTIES[0], PARTIES[1], "difference"),)
    first, *rest = coalition_lines(finding)
    assert first.startswith("aggregator alone learns of the secure sums more than one exact sum")
    text = said(rest)
    assert "the difference of party-1 and party-2 follows" in text
    assert "secure sum 2 (sparse)" in text
    assert coalition_values(finding)["pairs"] == {
        "count": 1,
        "listed": [{"first": "party-1", "second": "party-2", "relation": "difference"}],
    }


@pytest.mark.parametrize("size", [0, 2, 6])
def test_the_worst(size: int) -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    worst = worst_coalition(charter, entries, size)
    parties = {0: "0 parties", 2: "2 parties", 6: "6 parties"}[size]
    first, members, why, *rest = worst_lines(worst)
    whole = list(coalition_lines(worst.finding))
    assert [first, members, *rest] == whole
    assert why == (
        f"  of all coalitions of the aggregator and {parties}, none does more damage: "
        f"{worst.search}"
    )
    values = json.loads(json.dumps(worst_values(worst)))
    assert values["exact"] is True
    assert values["search"] == worst.search
    assert values["smallest"] == worst.finding.smallest


def test_without_a_sum_there_is_no_worst() -> None:
    charter, entries = run(RRIndependent.with_keep(SURVEY, 0.5))
    worst = worst_coalition(charter, entries, 2)
    [line] = worst_lines(worst, notes=("a note",))
    assert line == "there is no secure sum on record, so there is no sum to expose"


def test_groups_that_are_alike_are_one_and_in_order() -> None:
    def group(*names: str, linked: str = "Report") -> Linked:
        parties = tuple(map(PartyId, names))
        return Linked(parties=parties, linked=(linked,), unlinked=(), repeated=())

    linkage = Linkage(AGGREGATOR, (group("b-10"), group("b-2", "b-1"), group("c", linked="Other")))
    text = said(linkage_lines(linkage))
    assert "3 parties: b-1, b-2 and b-10\n    under the sender's name: Report" in text
    assert "1 party: c\n    under the sender's name: Other" in text


def test_linkage_in_words_and_values() -> None:
    charter, entries = run(
        RRClusters(survey=SURVEY, p=0.6, tv=5, td=0.1, dependence="rr"), parties=7
    )
    linkage = link(judge_coalition(charter, entries, Coalition((AGGREGATOR,))).ledger)
    text = said(linkage_lines(linkage))
    assert "what aggregator can link" in text
    assert "under the sender's name: PilotReport, Report" in text
    assert "smokes was told 2 times: epsilon" in text
    assert "blindly with 0.5" in text
    values = json.loads(json.dumps(linkage_values(linkage)))
    (group,) = values["groups"]
    assert (values["count"], group["size"], group["linked"]) == (1, 7, ["PilotReport", "Report"])
    assert [r["attribute"] for r in group["repeated"]] == ["smokes", "drinks"]
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    hidden = link(judge_coalition(charter, entries, Coalition((AGGREGATOR,))).ledger)
    assert "hidden in a secure sum, and nobody's in particular: Upload" in said(
        linkage_lines(hidden)
    )
    nobody = link(judge_coalition(charter, entries, Coalition((AGGREGATOR, *PARTIES))).ledger)
    assert "nobody told anything that costs" in said(linkage_lines(nobody))
