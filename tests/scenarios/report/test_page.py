"""Pages of audits and runs: well formed, self-contained, escaped, of bounded length, and right."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from protocol import AGGREGATOR, Attribute, Coalition, PartyId, Records, Survey, judge_coalition
from protocol.accounting.composition import Composition
from protocol.audit.completeness import Closing
from protocol.audit.findings import Finding
from protocol.audit.linkage import Linkage, Linked, Repeated
from protocol.estimators.inference.intervals import Intervals
from protocol.messages import NO_ROUND
from protocol.transcript.reader import Fault, TranscriptReader
from protocol.variants import RRIndependent
from scenarios import town
from scenarios.statement.privacy_verdict import CAVEATS
from scenarios.surveys.watching.rounds import Flow, Round
from scenarios.wording.decimals import legend_text
from scenarios.wording.formatting import cut, epsilon, odds, percent, signed
from tests.pages import (
    HOSTILE,
    Page,
    audited,
    full_page_of,
    hostile_survey,
    independent,
    page_of,
    run_page_of,
    style_of,
    summed,
    worst_of,
)
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import recorded

HOLDERS = {"script", "iframe", "object", "embed", "link", "img", "base", "form", "audio", "video"}


def pages() -> Iterator[str]:
    yield full_page_of(independent(), 1)
    yield full_page_of(summed(), 3)
    yield page_of(flipped())
    yield run_page_of("quickstart", (("residents", "40"),))


def flipped() -> bytes:
    file = bytearray(Forgery(independent()).write())
    # The name of an entry that is not one.
    file[file.index(b"Delivered", len(file) * 2 // 3)] ^= 1
    return bytes(file)


@pytest.fixture(scope="module", params=["independent", "summed", "flipped", "run"])
def text(request: pytest.FixtureRequest) -> str:
    return dict(zip(("independent", "summed", "flipped", "run"), pages(), strict=True))[
        request.param
    ]


@pytest.mark.slow
def test_well_formed(text: str) -> None:
    read = Page(text)
    ids = read.attributes("id")
    assert len(ids) == len(set(ids))
    for name in ("aria-labelledby", "aria-describedby"):
        for reference in read.attributes(name):
            assert set(reference.split()) <= set(ids)
    for target in read.attributes("href"):
        assert target.startswith("#")
        assert target[1:] in ids
    assert text.startswith("<!doctype html>\n<html lang=")


@pytest.mark.slow
def test_nothing_to_fetch_and_nothing_to_run(text: str) -> None:
    read = Page(text)
    assert not {tag for tag, _ in read.elements} & HOLDERS
    assert not any(name.startswith("on") for _, attrs in read.elements for name in attrs)
    for name in ("src", "srcset", "action", "style", "xlink:href", "http-equiv"):
        assert read.attributes(name) in ([], ["Content-Security-Policy"])
    style = style_of(text)
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in text.replace('http-equiv="Content-Security-Policy"', "")


def test_policy_allows_the_style_sheet_alone(text: str) -> None:
    [policy] = [a["content"] for a in Page(text).tags("meta") if "http-equiv" in a]
    digest = base64.b64encode(hashlib.sha256(style_of(text).encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules == {
        "default-src": "'none'",
        "style-src": f"'sha256-{digest}'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_headings_tables_and_pictures_can_be_read_aloud(text: str) -> None:
    read = Page(text)
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    tables = len(read.tags("table"))
    assert tables == len(read.tags("caption")) > 3
    assert all(attrs.get("scope") in ("col", "row") for attrs in read.tags("th"))
    for attrs in read.tags("svg"):
        named = "aria-labelledby" in attrs or "aria-label" in attrs
        assert named if attrs.get("role") == "img" else attrs["aria-hidden"] == "true"
    regions = [attrs for attrs in read.tags("div") if attrs.get("role") == "region"]
    assert all(attrs["tabindex"] == "0" and attrs["aria-labelledby"] for attrs in regions)
    assert len(read.tags("main")) == 1


@pytest.mark.slow
def test_same_audit_same_page() -> None:
    assert full_page_of(summed(), 3) == full_page_of(summed(), 3)


# What it says


def test_accepted() -> None:
    read = Page(page_of(independent()))
    assert "Record: sound" in read.texts["span"]
    assert read.texts["title"][0] == "Record sound, privacy of the design weak: audit of Town"
    assert "Privacy of the design: weak" in read.texts["span"]
    assert CAVEATS["simulation"] in read.texts["bdi"]
    assert "Privacy of the design: weak People are hardly protected." in read.said
    assert read.texts["p"][0].startswith("A simulation")
    found = audited(independent())
    loss = found.ledger.record_epsilon
    assert f"learned at most ε = {epsilon(loss)} about each respondent" in read.said
    assert "60 of 60 parties were counted for the estimate." in read.said
    assert "Findings" not in read.said
    assert "which undoes every randomization" in read.said
    assert found.verification.digest is not None
    assert found.verification.digest.hex() in read.said
    for name, each in found.ledger.attribute_epsilon.items():
        assert f"{name} {epsilon(each)} {odds(each)}" in read.said


@pytest.mark.slow
def test_estimates_are_those_of_the_result() -> None:
    found = audited(independent())
    assert found.estimate is not None
    shown: set[tuple[str, ...]] = set()
    for asked in (Intervals(), Intervals(0.8), Intervals(about="population")):
        read = Page(page_of(independent(), intervals=asked))
        assert f"{asked.says}." in read.said
        assert read.said.count(f"estimates, {legend_text(asked)}") == 4
        ends = []
        for table in found.estimate.marginals().values():
            low, high = table.interval(*asked)
            for category, value, *pair in zip(
                table.categories[0], table.values, low, high, strict=True
            ):
                one, other = (signed(100 * end, 1) for end in pair)
                assert f"{category} {percent(value)} [{one}, {other}] %" in read.said
                assert f"{signed(100 * value, 1)} [{one}, {other}]" in read.said
                ends.append(one)
        shown.add(tuple(ends))
    assert len(shown) == 3


def test_traffic_is_that_of_the_record() -> None:
    found = audited(independent())
    said = Page(page_of(independent())).said
    assert f"Messages {found.verification.messages:,}" in said
    assert re.search(r"Report parties to aggregator 60 none", said)
    assert re.search(r"Ask aggregator to parties 60 none", said)


def test_not_accepted() -> None:
    read = Page(page_of(flipped()))
    assert "Record: broken" in read.texts["span"]
    assert "Record: sound" not in read.texts["span"]
    assert "the root of the log is not that of the record" in read.said
    assert "learned at least ε" in read.said
    assert "at most ε =" not in read.said
    assert "No bound holds" in read.said


def test_findings_come_with_their_entries_and_parties() -> None:
    forgery = Forgery(independent())
    forgery.entries[forgery.place("party-01", 0)][2][5] = b"\x90"
    found = audited(forgery.write())
    assert found.findings
    said = Page(page_of(forgery.write(), found)).said
    for finding in found.findings:
        assert cut(finding.text, 400) in said
        assert all(f"{entry:,}" in said for entry in finding.entries[:12])
    entries = Finding("a planted one", (17, 4711), PartyId("party-07"))
    planted = msgspec.structs.replace(found, findings=(entries,), remarks=(entries,))
    said = Page(page_of(forgery.write(), planted)).said
    assert said.count("a planted one party-07 17, 4,711") == 2


@pytest.mark.slow
def test_claims_stand_beside_the_record() -> None:
    found = audited(independent())
    [check, *_] = found.checks
    asked = check.claim.epsilon
    assert asked is not None
    above = msgspec.structs.replace(check, record=asked * 3, factor=3.0)
    said = Page(page_of(independent(), msgspec.structs.replace(found, checks=(above,)))).said
    assert "The record shows more than is claimed: 3 times as much." in said
    assert f"{epsilon(asked)} {epsilon(asked * 3)} 3" in said
    endless = msgspec.structs.replace(check, record=math.inf, factor=math.inf)
    said = Page(page_of(independent(), msgspec.structs.replace(found, checks=(endless,)))).said
    assert "The record shows no bound where one is claimed." in said
    assert "The record shows no more than is claimed." in Page(page_of(independent())).said


def test_no_bound_is_shown_where_there_is_none() -> None:
    said = Page(page_of(summed())).said
    assert "No ε bounds what the aggregator learned about a respondent: exact counts" in said
    assert "any factor" in said
    assert "at most ε =" not in said


def test_exposed_parties_are_named_first() -> None:
    found = audited(summed())
    names = [name for name, _ in TranscriptReader([summed()]).header.roster]
    everybody_else = Coalition(tuple(names[:-1]))
    judged = judge_coalition(found.charter, TranscriptReader([summed()]), everybody_else)
    assert judged.exposed == (names[-1],)
    read = Page(page_of(summed(), coalition=judged))
    assert read.said.count(f"Exposed: {names[-1]}; its own exact counts follow.") == 2
    assert any(attrs.get("class") == "exposed" for attrs in read.tags("polygon"))
    few = judge_coalition(found.charter, TranscriptReader([summed()]), Coalition((names[0],)))
    read = Page(page_of(summed(), coalition=few))
    assert "Exposed" not in read.said
    assert "nothing beyond the exact sum over the other 12 parties" in read.said
    assert not any(attrs.get("class") == "exposed" for attrs in read.tags("polygon"))


def test_repeated_randomization_is_shown() -> None:
    again = Repeated(
        attribute="smokes", times=4, epsilon=2.0, success=0.9, chance=0.5, exact=True, method="m"
    )
    group = Linked(
        parties=(PartyId("party-01"),), linked=("Report",) * 4, unlinked=(), repeated=(again,)
    )
    found = Linkage(PartyId("aggregator"), (group,))
    said = Page(page_of(independent(), linkage=found)).said
    assert "in reports that the aggregator can link: smokes." in said
    assert "smokes 4 2 90.0 % 50.0 % exact: m" in said
    assert "4 × Report" in said  # noqa: RUF001


def test_other_compositions_carry_what_they_assume() -> None:
    other = Composition(
        epsilon=1.25, delta=1e-6, relation="rel", assumption="assu", method="meth", tight=True
    )
    said = Page(page_of(independent(), worst_respondent=worst_of(other))).said
    assert "meth 1.25 1e-06 rel assu" in said
    assert (
        "At δ = 1e-06, the aggregator learned at most ε = 1.25 about each respondent (meth)."
        in said
    )
    assert "may have told more" not in said
    alone = worst_of(other, everybody=False)
    said = Page(page_of(independent(), worst_respondent=alone, second_opinions=(other,))).said
    assert "may have told more" in said
    assert said.count("meth 1.25 1e-06 rel assu") == 2


# Hostile and large transcripts


def test_hostile_names_stay_names() -> None:
    survey = hostile_survey()
    rows = [dict.fromkeys(survey.names, name) for name in survey.names] * 5
    file = recorded(
        RRIndependent.with_keep(survey, 0.6), Records.from_rows(survey, rows), signed=True
    ).content
    found = audited(file)
    evil = " ".join(HOSTILE)
    everywhere = msgspec.structs.replace(
        found,
        verification=replace(found.verification, faults=(Fault(evil, evil, 1, 2),)),
        completeness=msgspec.structs.replace(
            found.completeness,
            departed={PartyId("party-01"): evil},
            refused={evil: 3},
            closings=tuple(
                msgspec.structs.replace(closing, kind=evil, missing=(PartyId(evil),))
                for closing in found.completeness.closings
            ),
        ),
        findings=(Finding(evil, (1,), PartyId(evil)),),
        remarks=(Finding(evil),),
    )
    said = [Round([Flow(evil, {evil}, {"aggregator"}, 2, 1, 3)], [evil])]
    text = page_of(file, everywhere, file=evil, said=said)
    read = Page(text)
    clean = Page(page_of(independent()))
    assert {tag for tag, _ in read.elements} <= {tag for tag, _ in clean.elements} | {"tspan"}
    assert not any(name.startswith("on") for _, attrs in read.elements for name in attrs)
    assert "alert(1)" in read.said
    assert "{{ 7*7 }}" in read.said
    assert all(c.isprintable() or c == "\n" for c in text)
    test_well_formed(text)
    test_nothing_to_fetch_and_nothing_to_run(text.replace("onerror", "").replace("onload", ""))


@pytest.mark.slow
def test_large_transcripts_are_summarised() -> None:
    survey = Survey(
        "large",
        tuple(
            Attribute(name=f"attribute {i}", categories=tuple(f"category {j}" for j in range(90)))
            for i in range(80)
        ),
    )
    codes = Records.from_rows(survey, [dict.fromkeys(survey.names, "category 3")] * 3)
    file = recorded(RRIndependent.with_keep(survey, 0.6), codes, parties=3, signed=True).content
    found = audited(file)
    parties = tuple(PartyId(f"somebody-{i}") for i in range(3000))
    fault = Fault("chain", "the same again " * 30, 5, 6)
    verification = found.verification
    flawed = replace(verification, faults=(fault,) * 10_000)
    closing = Closing(
        AGGREGATOR,
        "Report",
        NO_ROUND,
        3000,
        0,
        parties,
        parties,
        parties,
        entry=7,
        evidence=(8,),
        content="readable",
    )
    large = msgspec.structs.replace(
        found,
        verification=flawed,
        completeness=msgspec.structs.replace(
            found.completeness,
            closings=(closing,) * 2000,
            departed={name: f"reason {name}" for name in parties},
            refused={f"reason {i}": i for i in range(9000)},
        ),
        findings=(Finding("wrong " * 99, tuple(range(5000))),) * 5000,
        remarks=(Finding("odd"),) * 5000,
    )
    kinds = [
        Flow(f"Kind{i}", {"aggregator"}, set(parties[: i % 9 + 2]), i, i, i * 99) for i in range(70)
    ]
    talk = [Round(kinds[i % 50 : i % 50 + 20], [f"note {i}"] * 9) for i in range(900)]
    text = page_of(file, large, said=talk)
    assert len(text.encode()) < 500_000
    said = Page(text).said
    for more in (
        "and 4,960 more in the JSON report",
        "and 9,970 more faults",
        "and 8,980 more reasons",
        "and 56 more attributes in the JSON report",
        "and 65 more categories in the JSON report",
        "886 more, not drawn",
        "6,000,000",
    ):
        assert more in said


@pytest.mark.slow
def test_length_does_not_grow_with_the_parties() -> None:
    lengths = []
    # With so little kept both are too noisy to show pairs of attributes.
    for parties in (40, 400):
        records = town(parties, seed=3)
        file = recorded(
            RRIndependent.with_keep(records.survey, 0.05), records, parties=parties, signed=True
        ).content
        lengths.append(len(page_of(file)))
    assert abs(lengths[1] - lengths[0]) < 600


def test_alike_rounds_are_one() -> None:
    flow = Flow("Ask", {"aggregator"}, {"party-1", "party-2"}, 2, 1, 100)
    other = Flow("Report", {"party-1"}, {"aggregator"}, 1, 1, 40)
    talk = [Round([flow]), Round([flow]), Round([flow]), Round([other])]
    said = Page(page_of(independent(), said=talk)).said
    assert "Rounds 1 to 3" in said
    assert "1 to 3 Ask aggregator to 2 parties 6 3 300 B" in said
    assert "3 lost" in said
    assert "4 Report party-1 to aggregator 1 1 40 B" in said
