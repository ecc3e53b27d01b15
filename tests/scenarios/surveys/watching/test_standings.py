"""Standings: a run that goes on and its transcript lead to the same ones, at every step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from protocol import (
    AGGREGATOR,
    Attribute,
    Estimate,
    Message,
    PartyId,
    Records,
    SoFar,
    Survey,
    Variant,
    Waiting,
)
from protocol.audit.audit import audit
from protocol.session.charter import Charter
from protocol.surveys.limits import Held
from protocol.transcript.entries import Entry
from protocol.transcript.header import read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.variants import RRBA, PrivKVMVariant, RRClusters, RRIndependent, SecureSumVariant
from protocol.variants.keyvalue.estimate import KeyValueTables
from protocol.variants.keyvalue.privkv import KeyReport
from scenarios import Fault, Outcome, crash, delay, drop, duplicate, simulate, town
from scenarios.data.town import TOWN
from scenarios.surveys.watching import standings
from scenarios.surveys.watching.standing_words import event, lost, sentence
from scenarios.surveys.watching.standings import LINES, MOST, Standing, StandingWriter
from tests.every_variant import FILMS, Example, examples
from tests.protocol.sessions import answers
from tests.protocol.sharing.test_opening import failed
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import recorded
from tests.tiers import thinned


def followed(
    variant: Variant, records: Records, *rules: Fault
) -> tuple[Outcome, list[Standing], tuple[Standing, ...]]:
    """A run, what was told while it went on, and how it stood step by step in the end."""
    told: list[Standing] = []
    followers: list[StandingWriter] = []

    def watch(charter: Charter) -> Callable[[Entry], object]:
        followers.append(StandingWriter(charter))

        def add(entry: Entry) -> None:
            standing = followers[-1].take(entry)
            if standing is not None:
                told.append(standing)

        return add

    outcome = simulate(variant, records, watch=watch, rules=rules)
    return outcome, told, followers[-1].standings()


def replayed(outcome: Outcome) -> tuple[Standing, ...]:
    """How it stood by the transcript alone, as an audit reads it."""
    writer = StandingWriter(outcome.charter)
    found = outcome.transcript.audit(type(outcome.variant), folds=[writer])
    assert found.verdict == "sound"
    return writer.standings()


def widest(standing: Standing) -> float:
    """The width of the widest interval."""
    return max((line.high or 0.0) - (line.low or 0.0) for line in standing.lines)


@pytest.mark.parametrize("example", thinned(examples(), 6), ids=lambda example: example.name)
def test_a_run_and_its_transcript_stand_alike_at_every_step(example: Example) -> None:
    outcome, told, live = followed(*example)
    assert live == replayed(outcome)
    assert [*live[:-1]] == told
    last = live[-1]
    assert (last.cause, last.respondents) == ("result", outcome.estimate.n)
    assert last.messages == outcome.messages
    assert last.done == last.parties == len(outcome.endings)
    assert last.sums or last.epsilon == pytest.approx(outcome.ledger.record_epsilon, rel=1e-9)
    # Once all have been counted, the estimate is that of the result.
    before = [standing.lines for standing in told if standing.lines]
    if before:
        assert before[-1] == last.lines
    else:
        assert {standing.why for standing in told} == {"none before the result"}


@pytest.mark.slow
def test_intervals_shrink_block_by_block() -> None:
    variant = RRBA(survey=TOWN, p=0.6, block=20)
    outcome, told, live = followed(variant, town(100, seed=2))
    assert live == replayed(outcome)
    waits = [standing for standing in told if standing.cause == "wait"]
    assert [standing.respondents for standing in waits] == [20, 40, 60, 80, 100]
    widths = [widest(standing) for standing in waits]
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.7 * widths[0]
    # Five answers are a step, and what has not been counted changes no estimate.
    assert [standing.answered for standing in told[:4]] == [5, 10, 15, 20]
    assert {standing.lines for standing in told[:4]} == {()}
    assert {standing.why for standing in told[:4]} == {"none yet"}


@pytest.mark.slow
def test_epsilon_is_spent_round_by_round() -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=2.0, rounds=3)
    outcome, told, live = followed(variant, answers(FILMS, 8))
    assert live == replayed(outcome)
    waits = [standing for standing in told if standing.cause == "wait"]
    assert [standing.wait.name for standing in waits if standing.wait is not None] == [
        f"KeyReport, round {number}" for number in range(3)
    ]
    spent = [standing.epsilon for standing in waits]
    assert spent == pytest.approx([1 + 1 / 3, 1 + 2 / 3, 2.0], rel=1e-6)
    assert {line.of for line in live[-1].lines} == {"Held by", "Mean"}


def test_of_a_record_with_too_many_rounds_no_more_are_kept() -> None:
    following = PrivKVMVariant(survey=FILMS, epsilon=2.0, rounds=3).so_far(bytes(32))
    keys, party = np.zeros(1, np.uint8), PartyId("party-1")
    for number in range(6):
        following.closed((KeyReport.kind(), number), {party: KeyReport(number, keys, keys)})
    found = following.estimate({})
    assert isinstance(found, KeyValueTables)
    assert len(found.counts) == 3


@pytest.mark.slow
def test_who_is_gone_is_counted() -> None:
    variant = RRIndependent.with_keep(TOWN, 0.6)
    outcome, _, live = followed(variant, town(40, seed=2), crash(0.3, kind="Report"))
    assert live == replayed(outcome)
    assert live[-1].gone == 40 - outcome.counted > 0
    assert live[-1].contributed == outcome.counted
    assert live[0].asked == 40


@pytest.mark.slow
def test_of_many_steps_every_second_is_dropped() -> None:
    variant = RRBA(survey=TOWN, p=0.6, mode="sequential")
    outcome, told, live = followed(variant, town(70, seed=2))
    assert live == replayed(outcome)
    assert MOST / 2 <= len(live) <= MOST + 1 < len(told)
    assert {standing.entry for standing in live[:-1]} < {standing.entry for standing in told}
    # Of waits as many stay as there is room for.
    assert [standing.cause for standing in live] == ["wait"] * (len(live) - 1) + ["result"]


@pytest.mark.slow
def test_of_many_figures_the_first_attributes_are_followed() -> None:
    names = [f"a{place}" for place in range(5)]
    survey = Survey(
        "wide", tuple(Attribute(name=name, categories=tuple("abcdefghijklm")) for name in names)
    )
    _, _, live = followed(RRIndependent.with_keep(survey, 0.6), answers(survey, 30))
    assert [line.of for line in live[-1].lines] == [name for name in names[:2] for _ in range(13)]
    assert len(live[-1].lines) == LINES
    assert live[-1].more == 3


class Hasty(SoFar):
    """Fails with what is said."""

    def said(self, message: Message) -> None:
        raise KeyError(message.kind())

    def estimate(self, waiting: Waiting) -> Estimate | None:
        raise AssertionError("it is not asked")


class Faulty(RRIndependent, frozen=True):
    """Cannot follow its own survey."""

    def so_far(self, session: bytes) -> SoFar:
        return Hasty()


class Unwilling(RRIndependent, frozen=True):
    """Does not even begin to follow its survey."""

    def so_far(self, session: bytes) -> SoFar:
        raise ValueError("not this one")


@pytest.mark.parametrize(("cls", "why"), [(Faulty, "KeyError: 'Ask'"), (Unwilling, "not this one")])
def test_a_variant_that_fails_to_follow_ends_no_run(cls: type[RRIndependent], why: str) -> None:
    outcome, told, live = followed(cls.with_keep(TOWN, 0.6), town(8, seed=2))
    assert {standing.why for standing in told} == {why}
    assert live[-1].lines
    assert live[-1].respondents == outcome.counted == 8


@pytest.mark.slow
def test_a_record_without_a_result_says_so() -> None:
    outcome, _, live = followed(RRIndependent.with_keep(TOWN, 0.6), town(8, seed=2))
    entries = list(outcome.transcript.entries())
    follower = StandingWriter(outcome.charter)
    for entry in entries[: live[-2].entry]:
        follower.take(entry)
    last = follower.standings()[-1]
    assert (last.cause, last.respondents) == ("end", 8)
    assert last.lines == live[-1].lines


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [
        RRIndependent.with_keep(TOWN, 0.6),
        RRClusters(survey=TOWN, p=0.6, tv=50, td=0.1, dependence="secure-sum"),
    ],
    ids=lambda variant: variant.name,
)
def test_of_a_file_from_others_no_more_is_kept_than_there_may_be(variant: Variant) -> None:
    outcome, _, live = followed(variant, town(40, seed=2))
    kept = [held for held in (Held(lambda: 0, free=free) for free in (2**40, 5_000))]
    writers = [StandingWriter(outcome.charter, held=held) for held in kept]
    found = outcome.transcript.audit(type(variant), folds=writers)
    assert found.verdict == "sound"
    assert [writer.stopped is None for writer in writers] == [True, False]
    steps = writers[1].standings()
    assert len(steps) < len(live)
    assert steps[:-1] == live[: len(steps) - 1]
    assert steps[-1].cause == "stopped"


class Noted(Held):
    """Notes the sizes that it is to count."""

    __slots__ = ("sizes",)

    def __init__(self) -> None:
        super().__init__(lambda: 0, free=2**40)
        self.sizes: list[int] = []

    def take(self, size: int) -> None:
        super().take(size)
        self.sizes.append(size)


@pytest.mark.slow
def test_reports_by_cluster_are_counted_as_held() -> None:
    variant = RRClusters(survey=TOWN, p=0.6, tv=50, td=0.1, dependence="secure-sum")
    outcome = simulate(variant, town(20_000, seed=2), parties=4)
    held = Noted()
    outcome.transcript.audit(RRClusters, folds=[StandingWriter(outcome.charter, held=held)])
    assert len([size for size in held.sizes if size >= 5_000]) == 4


def test_the_first_message_of_a_topic_counts_and_an_early_one_stays() -> None:
    variant = RRBA(survey=TOWN, p=0.6, block=3, quorum=1)
    forgery = Forgery(recorded(variant, town(6, seed=2), signed=True).content)
    first_closing = next(
        place
        for place, entry in enumerate(forgery.entries)
        if entry[0] == "Sent" and entry[2][4] == "Closed"
    )
    # An answer to the second block comes while the first one is awaited.
    entries = forgery.entries
    sent = next(
        place
        for place, entry in enumerate(entries)
        if place > first_closing and entry[0] == "Sent" and entry[2][4] == "Answers"
    )
    _, sender, _, number, *_ = entries[sent][2]
    delivered = next(
        place
        for place, entry in enumerate(entries)
        if entry[0] == "Delivered" and (entry[2], entry[4]) == (sender, number)
    )
    early = [entries[sent], entries[delivered]]
    rest = [entry for place, entry in enumerate(entries) if place not in (sent, delivered)]
    forgery.entries[:] = [*rest[:first_closing], *early, *rest[first_closing:]]
    forgery.notes.clear()
    content = forgery.write()
    writer = StandingWriter(read_charter(TranscriptReader([content]).header, RRBA))
    assert audit(lambda: [content], RRBA, folds=[writer]).verdict == "sound"
    waits = [standing for standing in writer.standings() if standing.cause == "wait"]
    assert [standing.respondents for standing in waits] == [3, 6]
    assert waits[-1].lines == writer.standings()[-1].lines


def test_estimates_of_a_large_survey_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = RRBA(survey=TOWN, p=0.6, block=4)
    cells = variant.workload().cells
    monkeypatch.setattr(standings, "FOLLOWED", cells - 1)
    outcome, _, live = followed(variant, town(8, seed=2))
    assert live == replayed(outcome)
    assert {standing.respondents for standing in live} == {None}
    assert {standing.why for standing in live} == {
        f"too large to follow: {cells:,} cells, at most {cells - 1:,}"
    }
    monkeypatch.setattr(standings, "FOLLOWED", cells)
    assert followed(variant, town(8, seed=2))[2][-1].respondents == 8


def test_too_many_closings_end_the_estimates_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    variant = RRBA(survey=TOWN, p=0.6, block=4)
    each = standings._EACH + variant.workload().cells
    monkeypatch.setattr(standings, "WORK", 6 * each)
    outcome, _, live = followed(variant, town(40, seed=2))
    # A closing and an estimate are as much work.
    waits = [standing for standing in live if standing.cause == "wait"]
    assert [standing.respondents for standing in waits] == [4, 8, 12, *[None] * 7]
    assert waits[-1].why == "too much work to follow"
    assert live[-1].respondents == 40
    assert live == replayed(outcome)


@pytest.mark.slow
def test_intervals_shrink_while_reports_by_cluster_arrive() -> None:
    variant = RRClusters(survey=TOWN, p=0.6, tv=50, td=0.1, dependence="rr")
    _, told, live = followed(variant, town(40, seed=2))
    drawn = [standing for standing in told if standing.cause == "answers" and standing.lines]
    assert len(drawn) == 20
    assert widest(drawn[-1]) < widest(drawn[0])
    assert drawn[-1].lines == live[-1].lines


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", thinned([drop(0.2, kind="Report"), duplicate(0.5), delay(0.5, share=0.5)], 2)
)
def test_faults_on_the_way_change_nothing_in_what_is_replayed(rule: Fault) -> None:
    variant = replace(RRIndependent.with_keep(TOWN, 0.6), patience=1.0, quorum=1)
    outcome, _, live = followed(variant, town(40, seed=2), rule)
    assert live == replayed(outcome)
    assert live[-1].contributed == live[-2].respondents == outcome.counted


@pytest.mark.slow
def test_late_answers_are_told_apart() -> None:
    variant = RRBA(survey=TOWN, p=0.6, block=10, patience=1.0, quorum=1)
    outcome, told, live = followed(variant, town(60, seed=2), delay(1.5, share=0.5, kind="Answers"))
    assert live == replayed(outcome)
    assert all(standing.answered <= standing.asked for standing in told)
    assert max(standing.late for standing in told) > 0
    assert live[-1].contributed == live[-1].respondents == outcome.counted
    for late in filter(lambda standing: standing.late, told):
        assert event(late).endswith(f", and {late.late} late")


def test_a_result_that_cannot_be_read_is_not_a_missing_one() -> None:
    forgery = Forgery(recorded(RRIndependent.with_keep(TOWN, 0.6), town(8, seed=2)).content)
    place = max(place for place, entry in enumerate(forgery.entries) if entry[0] == "Sent")
    forgery.entries[place][2][5] = forgery.entries[place][2][5][:-1]
    content = forgery.write()
    writer = StandingWriter(read_charter(TranscriptReader([content]).header, RRIndependent))
    assert audit(lambda: [content], RRIndependent, folds=[writer]).verdict == "broken"
    assert writer.standings()[-1].cause == "unreadable"


def test_a_line_says_who_is_lost_if_anybody_is() -> None:
    _, told, _ = followed(RRIndependent.with_keep(TOWN, 0.6), town(5, seed=2))
    standing = replace(told[-1], gone=0, declined=0)
    assert "gone" not in sentence(standing)
    for lost_ in ({"gone": 2}, {"declined": 2}):
        changed = replace(standing, **lost_)
        assert lost(changed) in sentence(changed).split("; ")


def test_parties_that_have_put_in_their_values_count_as_answers() -> None:
    """Of a sum, which follows from no single one of them."""
    variant = SecureSumVariant(survey=TOWN.project(TOWN.names[:1]))
    records = Records(variant.survey, town(4, seed=2).codes[:, :1])
    _, _, live = followed(variant, records)
    assert "answers" in {standing.cause for standing in live}


def test_what_opens_a_sum_that_fails_is_no_result() -> None:
    run = failed()
    assert run.said(sender=AGGREGATOR)[-1].kind == "Opening"
    writer = StandingWriter(run.charter)
    found = audit(lambda: [run.content], SecureSumVariant, folds=[writer])
    assert found.estimate is None
    assert writer.standings()[-1].cause == "end"
