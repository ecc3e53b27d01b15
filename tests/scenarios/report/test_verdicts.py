"""What a statement begins with: what was found, two verdicts, and the scale of privacy."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from io import StringIO

import msgspec
import numpy as np
import pytest
from rich.console import Console

from protocol import (
    AGGREGATOR,
    Attribute,
    Coalition,
    PartyId,
    Plain,
    Public,
    Survey,
    judge_coalition,
    worst_coalition,
)
from protocol.accounting.accountants import Loss
from protocol.audit.coalition.finding import CoalitionFinding, Pair
from protocol.audit.ledger import Account, Ledger
from protocol.audit.passed import Charge
from protocol.estimators.inference.intervals import USUAL
from protocol.estimators.inference.intervals import Shown as Share
from protocol.transcript.reader import TranscriptReader
from protocol.variants import PairRR, RRClusters, RRIndependent, SecureSumVariant
from scenarios import Finished, simulate, statement_values, town
from scenarios.report.page.audit import audit_page
from scenarios.report.terminal.scenarios import families_report
from scenarios.report.terminal.statement import panels_report, statement_report
from scenarios.running.names import MODULES
from scenarios.statement.audits.audit import statement
from scenarios.statement.audits.checks import bounded_beside_sums
from scenarios.statement.audits.of_file import changed, signed_by_aggregator
from scenarios.statement.estimates import estimated
from scenarios.statement.found import LARGEST, _share, coverage, found_grid
from scenarios.statement.privacy_verdict import SCALE, PrivacyVerdict, on_privacy, sure
from scenarios.statement.runs import run_values
from scenarios.wording.decimals import in_percent
from scenarios.wording.formatting import as_json, epsilon
from scenarios.wording.plain import line, plain, printed, wrapped
from tests.pages import Page, audited, independent, judged_of, summed
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import recorded
from tests.tiers import thinned


def ledger_of(loss: float, reason: str = "") -> Ledger:
    """A ledger in which one party told so much."""
    reasons = (reason,) if reason else ()
    told = Loss(loss, {"a": loss}, reasons)
    charge = Charge(0, "Report", Plain(("a",)), told)
    party = PartyId("party-1")
    return Ledger(AGGREGATOR, {party: Account(party, told, (charge,))}, ("a",))


@pytest.mark.parametrize(
    ("odds", "word"),
    [
        (1, "strong"),
        (3, "strong"),
        (3.001, "moderate"),
        (30, "moderate"),
        (30.1, "weak"),
        (30_000, "weak"),
        (30_001, "none"),
        (math.inf, "none"),
    ],
)
def test_the_scale_goes_by_odds(odds: float, word: str) -> None:
    verdict = on_privacy(ledger_of(math.log(odds)), alone=None, checks=())
    assert verdict.word == word
    place = [step.name for step in SCALE].index(verdict.word)
    assert place / len(SCALE) <= verdict.place <= (place + 1) / len(SCALE)


def test_its_brief_form_leaves_out_what_reassures_alone() -> None:
    assert on_privacy(ledger_of(2.9), alone=None, checks=()).brief == (
        "The aggregator can be at most 95 % sure of a guess about a person that was 50:50 before "
        "(ε = 2.9).",
    )
    assert on_privacy(ledger_of(20.0), alone=None, checks=()).brief == (
        "The aggregator can become certain of a person's answers (ε = 20).",
    )
    assert on_privacy(ledger_of(2.9), alone=None, checks=(), doubt="why").brief == ("Why.",)


def test_of_a_ledger_that_may_lack_something_only_none_is_said() -> None:
    known = on_privacy(ledger_of(0.5), alone=None, checks=(), doubt="why")
    assert (known.word, known.state) == ("unknown", "open")
    assert known.says == "How well people are protected is not known: why."
    worst = on_privacy(ledger_of(math.inf, "because"), alone=None, checks=(), doubt="why")
    assert worst.word == "none"
    assert worst.says.endswith(": because.")


def test_of_a_broken_record_nobody_knows_how_well_people_are_protected() -> None:
    forgery = Forgery(independent())
    forgery.entries = [e for e in forgery.entries if e[0] != "Sent" or e[2][4] != "Report"]
    judged = judged_of(forgery.write())
    assert not judged.audit.partial
    said = statement(judged)
    assert (said.record.word, said.privacy.word) == ("broken", "unknown")
    assert "the record is broken, so more may have been told than it holds" in said.privacy.says
    assert not any("less exposed" in reason for reason in said.privacy.reasons)


def test_how_sure_one_can_be_is_rounded_up() -> None:
    for loss in (0.01, 0.5, 1.0, 3.0, 6.98, 10.0):
        bound = 100 / (1 + math.exp(-loss))
        said = float(sure(loss).removesuffix(" %"))
        assert bound <= said < 100
        assert (100 - said) > 0.4 * (100 - bound)
    assert sure(math.log(3)) == "75 %"


def coalition_knowledge(content: bytes) -> tuple[Ledger, CoalitionFinding]:
    """What the aggregator saw, and what it knows of secure sums."""
    judged = audited(content)
    aggregator = Coalition((AGGREGATOR,))
    return judged.passed, judge_coalition(judged.charter, TranscriptReader([content]), aggregator)


def test_a_sum_is_judged_by_how_many_parties_it_is_over() -> None:
    ledger, alone = coalition_knowledge(summed())
    verdict = on_privacy(ledger, alone=alone, checks=())
    assert (verdict.word, verdict.crowd, verdict.epsilon) == ("moderate", 12, 0.0)
    assert "over 12 parties or more" in verdict.says
    # Of whom nobody knows what the sum is over, it hides nothing.
    assert on_privacy(ledger, alone=None, checks=()).word == "none"


def test_a_sum_is_trusted_only_as_far_as_it_was_judged() -> None:
    ledger, alone = coalition_knowledge(summed())

    def judged(**other: object) -> PrivacyVerdict:
        return on_privacy(ledger, alone=msgspec.structs.replace(alone, **other), checks=())

    # What was not searched may be over three, never over fewer.
    verdict = judged(searched=False)
    assert (verdict.word, verdict.crowd) == ("weak", 3)
    assert "perhaps over 3 parties only" in verdict.says
    # Nothing is known of sums, which is worse than knowing that none is opened.
    verdict = judged(whole=False, sums=(), determined=(), mixed=())
    assert verdict.word == "unknown"
    assert judged(whole=False, determined=(alone.determined[0][:1],)).word == "none"
    first, second = alone.determined[0][:2]
    verdict = judged(pairs=(Pair(first, second, "difference"),))
    assert (verdict.word, verdict.crowd) == ("none", 2)
    assert "the exact difference between two parties is revealed" in verdict.says
    # What the ledger has of true counts decides, whatever else was summed.
    sums = tuple(msgspec.structs.replace(each, event=Public()) for each in alone.sums)
    assert judged(sums=sums).word == "moderate"


def parse_coalition(content: bytes, *others: str) -> CoalitionFinding:
    """What the aggregator and these parties know of secure sums."""
    members = Coalition((AGGREGATOR, *map(PartyId, others)))
    return judge_coalition(audited(content).charter, TranscriptReader([content]), members)


OTHERS = tuple(f"party-{place:02}" for place in range(2, 13))


def test_a_coalition_that_exposes_somebody_lowers_the_verdict() -> None:
    ledger, alone = coalition_knowledge(summed())
    found = parse_coalition(summed(), *OTHERS)
    verdict = on_privacy(ledger, alone=alone, checks=(), conspiring=[found])
    assert (verdict.word, verdict.state, verdict.crowd) == ("none", "bad", 1)
    shown = "aggregator, party-02, party-03, party-04, party-05, party-06, party-07, party-08 and "
    assert verdict.says == (
        f"People are not protected against {shown}4 more together: they can tell what party-01 "
        "put into a secure sum, exactly."
    )
    assert verdict.means == f"People are not protected against {shown}4 more together."
    assert verdict.observer == f"{shown}4 more"
    first, *others = verdict.reasons
    assert first.startswith("Against the aggregator alone: moderate. Only exact sums are revealed,")
    assert not any("no lower" in reason for reason in others)
    assert verdict.brief == (verdict.says, *verdict.reasons)
    # Whatever is found at fault with the record, this much is known.
    broken = on_privacy(ledger, alone=alone, checks=(), conspiring=[found], doubt="why")
    assert (broken.word, broken.says) == ("none", verdict.says)


@pytest.mark.parametrize(
    ("others", "word", "crowd"), thinned([(1, "moderate", 12), (2, "weak", 10)], 1)
)
def test_a_coalition_is_judged_by_how_many_parties_its_sums_are_over(
    others: int, word: str, crowd: int
) -> None:
    ledger, alone = coalition_knowledge(summed())
    found = parse_coalition(summed(), *OTHERS[:others])
    few = parse_coalition(summed())
    verdict = on_privacy(ledger, alone=alone, checks=(), conspiring=[few, found])
    assert (verdict.word, verdict.crowd) == (word, crowd)
    named = {1: "aggregator and party-02", 2: "aggregator, party-02 and party-03"}[others]
    lower = f"against {named} together: exact sums are revealed, over 10 parties or more."
    assert (lower in verdict.says) is (word == "weak")
    assert (f"It is no lower against {named} together." in verdict.reasons) is (word != "weak")
    assert "It is no lower against the aggregator." in verdict.reasons
    # What is not known whole may be worse.
    torn = msgspec.structs.replace(found, whole=False)
    assert on_privacy(ledger, alone=alone, checks=(), conspiring=[torn]).word == "unknown"


@pytest.mark.slow
def test_randomized_contributions_are_no_worse_for_a_coalition() -> None:
    records = town(24, seed=2)
    variant = PairRR.with_keep(records.survey, 0.3)
    content = recorded(variant, records, parties=12, signed=True).content
    ledger, alone = coalition_knowledge(content)
    found = parse_coalition(content, *OTHERS)
    assert found.exposed
    verdict = on_privacy(ledger, alone=alone, checks=(), conspiring=[found])
    assert verdict.word == on_privacy(ledger, alone=alone, checks=()).word
    no_lower = "It is no lower against aggregator, party-02, "
    assert any(reason.startswith(no_lower) for reason in verdict.reasons)


def test_a_headline_names_who_was_asked_about_where_nothing_is_summed() -> None:
    judged = judged_of(independent(), coalition=parse_coalition(independent(), "party-02"))
    verdict = statement(judged).privacy
    assert "It is no lower against aggregator and party-02 together." in verdict.reasons
    assert verdict.withstands is None
    assert statement_values(statement(judged))["statement"]["privacy"]["withstands"] is None


WITHSTANDS = (
    "9 of 12 parties may conspire with the aggregator or any reader of the record: of the secure "
    "sum they learn one total over at least 2 honest parties, and nothing else."
)


@pytest.mark.slow
def test_a_headline_says_how_many_may_conspire() -> None:
    judged = judged_of(summed(), alone=coalition_knowledge(summed())[1])
    said = statement(judged)
    assert WITHSTANDS in said.privacy.reasons
    assert WITHSTANDS in printed(statement_report(said)).replace("\n", " ")
    assert WITHSTANDS in Page(audit_page(judged, [])).said
    figures = {"parties": 12, "colluders": 9, "adaptive": 9, "honest": 2, "missing": 1}
    figures |= {"readers": True, "witnesses": 0, "trusted": 0, "unwitnessed": 9}
    values = as_json(statement_values(statement(judged)))
    assert values["statement"]["privacy"]["withstands"] == figures
    assert "worst" not in values
    # Of a record that is not whole, nothing is said to be protected.
    torn = replace(judged, alone=msgspec.structs.replace(judged.alone, whole=False))
    assert WITHSTANDS not in statement(torn).privacy.reasons


@pytest.mark.slow
@pytest.mark.parametrize("size", [9, 10])
def test_a_search_is_passive_and_says_what_is_withstood(size: int) -> None:
    content = summed()
    worst = worst_coalition(audited(content).charter, TranscriptReader([content]), size)
    judged = judged_of(content, alone=coalition_knowledge(content)[1], worst=worst)
    said = statement(judged)
    [section] = [each for each in said.sections if each.key == "worst"]
    passive = (
        "The search is passive: it looks only at what the record shows of a run in which the "
        "aggregator behaved."
    )
    active = f"Whatever the aggregator does, {WITHSTANDS}"
    more = f"{size} parties may learn more than was found, if the aggregator lies."
    assert {passive, active} <= set(section.notes)
    assert (more in section.notes) is (size > 9)
    for shown in (printed(statement_report(said)), Page(audit_page(judged, [])).said):
        assert passive in shown.replace("\n", " ")
        assert active in shown.replace("\n", " ")
    # A sum over three is weak, over two it protects nobody.
    assert said.privacy.word == ("none" if size > 9 else "weak")
    found = as_json(statement_values(statement(judged)))["worst"]
    assert (found["withstands"]["colluders"], found["withstands"]["honest"]) == (9, 2)
    assert passive.removesuffix(".").lower() in [note.lower() for note in found["notes"]]


def test_a_search_without_a_sum_has_nothing_to_add() -> None:
    content = independent()
    worst = worst_coalition(audited(content).charter, TranscriptReader([content]), 2)
    found = as_json(statement_values(statement(judged_of(content, worst=worst))))["worst"]
    assert (found["withstands"], found["notes"]) == (None, [])


def test_exact_sums_hide_nothing_else_that_the_unsigned_may_have_told() -> None:
    ledger, alone = coalition_knowledge(summed())
    first, *others = ledger.accounts.values()

    def judged(loss: float) -> PrivacyVerdict:
        account = msgspec.structs.replace(first, loss=Loss(loss, {}))
        accounts = {each.party: each for each in others}
        shown = msgspec.structs.replace(ledger, accounts=accounts, unsigned={first.party: account})
        return on_privacy(shown, alone=alone, checks=())

    verdict = judged(5.0)
    assert (verdict.word, verdict.epsilon) == ("weak", 5.0)
    verdict = judged(math.inf)
    assert verdict.word == "unknown"
    assert "what parties without a signature revealed beside sums" in verdict.says


@pytest.mark.slow
def test_what_is_bounded_beside_exact_sums_is_said() -> None:
    records = town(60, seed=3)
    variant = RRClusters(survey=records.survey, p=0.8, tv=12, td=0.05)
    ran = simulate(variant, records, parties=12)
    protection = run_values(Finished(outcome=ran))["privacy"]["verdict"]
    content = b"".join(ran.transcript.chunks())
    alone = judge_coalition(ran.charter, TranscriptReader([content]), Coalition((AGGREGATOR,)))
    said = statement(judged_of(content, alone=alone))
    assert said.privacy.word == protection
    assert math.isfinite(said.privacy.epsilon)
    [privacy] = [check.says for check in said.checks if check.about == "Privacy"]
    bound = f"at most ε = {epsilon(said.privacy.epsilon)} about each respondent"
    assert privacy.startswith(f"Beside exact sums, the aggregator learned {bound}. No ε bounds ")
    less = "Less private than claimed"
    [claimed] = [each for each in said.privacy.reasons if each.startswith(less)]
    assert claimed.endswith("the record shows no bound on exact sums.")
    # More may have been told by who signed nothing, or where not all sums could be judged.
    ledger = audited(content).ledger
    assert bounded_beside_sums(ledger, alone) == said.privacy.epsilon
    assert bounded_beside_sums(ledger, msgspec.structs.replace(alone, whole=False)) is None
    unsigned = msgspec.structs.replace(ledger, accounts={}, unsigned=ledger.accounts)
    assert bounded_beside_sums(unsigned, alone) is None
    # What some know of sums bounds what they learned, and what nobody else did.
    some = parse_coalition(content, "party-02")
    assert bounded_beside_sums(ledger, some) is None
    said = statement(judged_of(content, coalition=some, alone=alone))
    [privacy] = [check.says for check in said.checks if check.about == "Privacy"]
    who = "aggregator and party-02 together"
    assert privacy.startswith(f"Beside exact sums, {who} learned {bound}. No ε bounds ")
    exposing = parse_coalition(content, *OTHERS)
    said = statement(judged_of(content, coalition=exposing, alone=alone))
    [privacy] = [check.says for check in said.checks if check.about == "Privacy"]
    assert privacy.startswith("No ε bounds what aggregator, party-02, party-03, ")


def test_a_flipped_bit_is_one_finding_in_plain_words() -> None:
    plain_file = bytearray(Forgery(independent()).write())
    plain_file[len(plain_file) // 2] ^= 1
    judged = judged_of(bytes(plain_file))
    assert len(judged.audit.findings) > 1
    record = statement(judged).record
    assert record.word == "broken"
    assert record.says == changed(judged.audit.verification)
    assert record.says.startswith("The file was changed after it was recorded, or recorded wrongly")
    [more] = record.reasons
    assert more.startswith(f"{len(judged.audit.findings)} checks fail because of it")


def test_signatures_reach_as_far_as_the_entry_that_is_named() -> None:
    verification = audited(independent()).verification
    last = verification.checkpoint
    assert last is not None
    # The header is a leaf and no entry, and entries count from 0: one entry is signed.
    earlier = replace(verification, checkpoint=msgspec.structs.replace(last, size=2))
    state, says = signed_by_aggregator(earlier)
    assert state == "care"
    assert says.startswith("The record is signed up to entry 0, not to the end, ")


def test_clusters_are_named() -> None:
    records = town(400, seed=3)
    variant = RRClusters(survey=records.survey, p=0.8, tv=12, td=0.05, dependence="rr")
    estimate = audited(recorded(variant, records, parties=20, signed=True).content).estimate
    grid = found_grid(estimate, estimated(estimate, USUAL))
    assert grid is not None
    rows = {str(row[0]): str(row[1]) for row in grid.rows}
    assert rows["clusters"].startswith("randomized together: ")
    assert " with " in rows["clusters"]


def found_of(keep: float, *categories: str, respondents: int = 40) -> str:
    """What is said to be found of one attribute."""
    survey = Survey("noisy", (Attribute(name="a", categories=categories),))
    variant = RRIndependent.with_keep(survey, keep)
    content = recorded(variant, respondents, parties=4, signed=True).content
    estimate = audited(content).estimate
    assert estimate is not None
    grid = found_grid(estimate, estimated(estimate, USUAL))
    assert grid is not None
    [(_, said)] = grid.rows
    return str(said)


def test_noise_is_not_shown_as_a_finding() -> None:
    assert found_of(0.02, "x", "y", "z").startswith("nothing can be said: intervals span ")
    said = found_of(0.3, "x", "y", "z", "v", "w", respondents=400)
    points = [float(each) for each in re.findall(r" (\S+) % \[", said)]
    assert all(0 <= point <= 100 for point in points)
    least = [float(each) for each in re.findall(r"\[(\S+),", said)]
    assert least == sorted(least, reverse=True)
    assert len(least) == LARGEST


def test_a_share_out_of_range_is_shown_by_its_interval_alone() -> None:
    over, under = Share(1.454, 0.2, 1.0), Share(-0.1, 0.0, 0.3)
    percents = in_percent([over, under])
    assert _share(over, percents) == "[20.0, 100.0] %"
    assert _share(under, percents) == "[0.0, 30.0] %"
    assert _share(Share(0.5, 0.2, 0.8), percents) == "50.0 % [20.0, 80.0]"


def test_all_of_four_categories_are_listed_and_three_of_five() -> None:
    assert "more" not in found_of(0.95, "x", "y", "z", "v", respondents=400)
    assert found_of(0.95, "x", "y", "z", "v", "w", respondents=400).endswith("and 2 more")


def test_who_was_counted_is_said_wait_by_wait() -> None:
    judged = audited(independent())
    first, *waits = coverage(judged.completeness, judged.charter.codec)
    assert (first.of, first.says) == ("the estimate", "60 of 60 parties")
    [report] = waits
    assert (report.of, report.about) == (
        "Report",
        "The randomized answers of one party's respondents",
    )


def test_who_was_awaited_twice_is_not_two_parties() -> None:
    judged = audited(independent())
    often = msgspec.structs.replace(judged.completeness, closings=judged.completeness.closings * 10)
    first, wait = coverage(often, judged.charter.codec)
    assert (first.says, wait.says) == ("60 of 60 parties", "600 of 600 answers")


@pytest.mark.parametrize("last", ["[18,99)", "[18,99]"])
def test_a_bracket_in_a_category_makes_no_interval(last: str) -> None:
    survey = Survey("ages", (Attribute(name="age", categories=("[0,18)", last)),))
    content = recorded(SecureSumVariant(survey=survey), 24, parties=4, signed=True).content
    estimate = audited(content).estimate
    assert estimate is not None
    grid = found_grid(estimate, estimated(estimate, USUAL))
    assert grid is not None
    assert "[0,18)" in str(grid.rows)
    assert grid.caption == "24 respondents, counted exactly"


# On a terminal


def shown(width: int, *parts: object) -> list[str]:
    console = Console(width=width, file=StringIO(), color_system=None)
    with console.capture() as capture:
        for part in parts:
            console.print(wrapped(part))  # type: ignore[arg-type]
    return [row.rstrip() for row in capture.get().splitlines()]


def test_lines_wrap_at_words_below_where_they_begin() -> None:
    words = "every word of this sentence is whole, however narrow the terminal that it stands on"
    for begins in ("  ", "  Caution  ", "  - "):
        rows = shown(40, plain(begins + words))
        assert len(rows) > 2
        assert rows[0].startswith(begins)
        assert all(row.startswith(" " * len(begins)) for row in rows[1:])
        assert " ".join(" ".join(rows).split()) == " ".join((begins + words).split())


@pytest.mark.parametrize("width", [60, 80])
def test_a_list_of_scenarios_is_whole_on_any_terminal(width: int) -> None:
    rows = shown(width, *families_report(parameters=False))
    assert max(map(len, rows)) <= width
    said = " ".join(" ".join(rows).split())
    for summaries in MODULES.values():
        for name, summary in summaries.items():
            assert f"{name} {summary}" in said


def test_a_line_that_takes_one_line_is_cut() -> None:
    [row] = shown(20, line("  " + "word " * 20))
    assert len(row) == 20
    assert row.endswith("…")


def test_of_many_categories_the_largest_are_listed() -> None:
    survey = Survey("wide", (Attribute(name="code", categories=tuple(map(str, range(100)))),))
    estimate = audited(
        recorded(RRIndependent.with_keep(survey, 0.9), 300, parties=3, signed=True).content
    ).estimate
    assert estimate is not None
    said = printed(panels_report(estimated(estimate, USUAL)))
    listed = re.findall(r"│ (\d+) +│ +-?0\.\d+", said)
    shares = estimate.marginals()["code"].values
    assert sorted(map(int, listed)) == sorted(np.argsort(-shares, kind="stable")[:20].tolist())
    assert "and 80 more, all smaller" in said
