"""Findings of coalitions and linkage as text and as JSON: complete, short, and true."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.charter import Charter
from protocol.messages import AGGREGATOR, PartyId
from protocol.privacy.coalitions import Coalition, judge_coalition, judge_sessions, worst_coalition
from protocol.privacy.findings import Pair
from protocol.privacy.linkage import link
from protocol.transcript.entries import Entry
from protocol.variants import PairRR, RRClusters, RRIndependent
from protocol.variants.secure_sum import SecureSumVariant
from scenarios.report.coalition import (
    LISTED_NAMES,
    coalition_lines,
    coalition_values,
    linkage_lines,
    linkage_values,
    worst_lines,
    worst_values,
)
from tests.protocol.simulation import SURVEY, answers, charter_of, holdings_of, locally, roster_of
from tests.protocol.test_sums import vanishing

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
    text = said(coalition_lines(judge_coalition(charter, entries, FEW)))
    assert "coalition of aggregator, party-1, party-2\n" in text
    assert "7 parties contributed, 5 of them honest; 5 of their contributions are seen" in text
    assert "1 component of 5 parties: open" in text
    assert "held together by 10 masks that it does not know" in text
    assert "the exact sum over 5 honest parties follows: party-3, party-4" in text
    assert "the smallest set whose exact sum follows has 5 parties" in text
    assert "EXPOSED" not in text
    assert "epsilon infinite: exact counts of smokes, drinks, which no randomness" in text
    text = said(coalition_lines(judge_coalition(charter, entries, NEARLY_ALL)))
    assert "EXPOSED: party-7: what it contributed follows" in text
    assert "the smallest set whose exact sum follows has 1 party\n" in text
    assert "shares open all secrets of party-7" in text
    tapped = Coalition((), taps=((PARTIES[2], AGGREGATOR),), keys=(PARTIES[3],))
    text = said(coalition_lines(judge_coalition(charter, entries, tapped)))
    assert "an outsider; a tap between party-3 and aggregator; the keys of party-4" in text
    assert "1 component of 1 party: hidden by masks of their own that it cannot open" in text


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
    assert "party-8 and others, 60 parties" in text
    assert "party-9" not in text


def test_randomized_contributions_keep_their_epsilon() -> None:
    charter, entries = run(PairRR.with_keep(SURVEY, 0.6))
    finding = judge_coalition(charter, entries, NEARLY_ALL)
    assert "their epsilon holds whoever conspires" in said(coalition_lines(finding))
    values = coalition_values(finding)
    assert values["sums"][0]["exact_counts"] is False
    assert values["record_epsilon"] == finding.ledger.record_epsilon


def test_without_a_sum() -> None:
    charter, entries = run(RRIndependent.with_keep(SURVEY, 0.5))
    finding = judge_coalition(charter, entries, FEW)
    text = said(coalition_lines(finding))
    assert "no secure sum on record" in text
    assert "smallest set" not in text
    assert f"epsilon {finding.ledger.record_epsilon:.6g} per record" in text
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
    text = said(coalition_lines(finding))
    assert "the difference of party-1 and party-2 follows" in text
    assert "secure sum 2 (sparse)" in text
    assert coalition_values(finding)["pairs"] == {
        "count": 1,
        "listed": [{"first": "party-1", "second": "party-2", "relation": "difference"}],
    }


@pytest.mark.parametrize("size", [0, 2, 6])
def test_the_worst(size: int) -> None:
    charter, entries = run(SecureSumVariant(survey=SURVEY))
    worst = worst_coalition(charter, lambda: entries, size)
    first, why, *rest = worst_lines(worst)
    parties = {0: "0 parties", 2: "2 parties", 6: "6 parties"}[size]
    assert first == f"the most damaging coalition of the aggregator and {parties} (exact):"
    assert worst.search in why
    assert rest == list(coalition_lines(worst.finding))
    values = json.loads(json.dumps(worst_values(worst)))
    assert values["exact"] is True
    assert values["search"] == worst.search
    assert values["smallest"] == worst.finding.smallest


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
