"""Who the estimate is made of, in every variant, and who was left out of a count."""

from __future__ import annotations

import pytest

from protocol import AGGREGATOR, RECORD, Me, Message, PartyId, Variant
from protocol.audit.completeness import Completeness, CompletenessWriter
from protocol.audit.walk import Walk, steps
from protocol.messages import DONE, LINK_CLOSED, WITHDRAWN, Closed, Declined, Envelope
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.session.roles import EARLY_PER_SENDER
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.transcript.entries import Delivered, Departed, Sent
from protocol.variants import PrivKVMVariant, RRClusters
from protocol.variants.keyvalue.estimate import KeyValueTables
from protocol.variants.keyvalue.privkv import KeyReport
from protocol.wire.codec import encode_envelope
from tests.every_variant import BITS, FILMS, PARTIES, Example, examples
from tests.protocol.sessions import Turn, Word, answers, charter_of, envelope, talk
from tests.protocol.talks import ALL, ONE, THREE, TWO
from tests.recorded.runs import Run, fate_of, recorded

FLOOD = EARLY_PER_SENDER + 1


def flooding(rounds: int, *, first: int) -> Run:
    """A survey in which party-1 says many turns before the one that it will be asked for."""

    async def flood(me: Me) -> None:
        if me.id == ONE:
            for i in range(rounds):
                await me.send(AGGREGATOR, Turn(first + i, "junk"))
        await me.send(AGGREGATOR, Turn(5, me.id))
        await me.send(AGGREGATOR, Word(me.id))

    async def ask(me: Me) -> Message:
        await me.gather(Word, ALL)
        turns = await me.gather(Turn, ALL, round=5, within=5.0)
        return Word(" ".join(turns))

    return recorded(talk(party=flood, aggregator=ask), 3)


def completeness_of(outcome: Rehearsal) -> Completeness:
    writer = CompletenessWriter(outcome.charter)
    for step in steps(outcome.charter.codec, outcome.entries):
        writer.add(step)
    return writer.completeness()


@pytest.mark.parametrize("rounds", [0, EARLY_PER_SENDER - 1, EARLY_PER_SENDER, 3 * FLOOD])
def test_a_flood_of_the_aggregator_is_held_against_nobody_else(rounds: int) -> None:
    """What there is no room for is not counted, and nobody has left it out."""
    outcome = flooding(rounds, first=1000)
    full = rounds >= EARLY_PER_SENDER
    assert outcome.published == Word("party-2 party-3" if full else "party-1 party-2 party-3")
    assert set(outcome.endings.values()) == {DONE}
    _, closing = completeness_of(outcome).closings
    assert closing.missing == ((ONE,) if full else ())
    assert closing.left_out == closing.unheard == ()
    assert outcome.follows() is True


@pytest.mark.parametrize("rounds", [1, EARLY_PER_SENDER, 3 * FLOOD])
def test_whom_the_aggregator_leaves_out_after_many_rounds_is_found(rounds: int) -> None:
    """A round that was counted takes no room."""
    charter = charter_of(talk())
    everyone = charter.roster.bitmap(ALL)
    writer, walk = CompletenessWriter(charter), Walk(charter.codec)

    def add(item: Envelope) -> None:
        writer.add(walk.add(Sent(at=0, envelope=encode_envelope(item))))
        if item.recipient != RECORD:
            came = Delivered(
                at=0, sender=item.sender, recipient=AGGREGATOR, seq=item.seq, repeat=False
            )
            writer.add(walk.add(came))

    for round_ in range(rounds):
        for name in ALL:
            add(envelope(charter, name, round_, Turn(round_, "x")))
        last = round_ == rounds - 1
        counted = charter.roster.bitmap((TWO, THREE)) if last else everyone
        closed = Closed("Turn", round_, 0, everyone, counted)
        add(envelope(charter, AGGREGATOR, round_, closed, to=RECORD))
    *_, closing = writer.completeness().closings
    assert closing.left_out == (ONE,)


MOVED = f"{WITHDRAWN}: moved away"
DECLINES = "declines"


def who_left(*items: tuple[str, str] | str) -> Completeness:
    """A record of three parties.

    Args:
        items: in order: a party that says its word, a party with the reason for which it departed
            or ``DECLINES``, or ``closed``, which counts all who have said a word.
    """
    charter = charter_of(talk())
    writer, walk = CompletenessWriter(charter), Walk(charter.codec)
    heard: list[PartyId] = []
    for item in items:
        if isinstance(item, tuple) and item[1] == DECLINES:
            said = envelope(charter, item[0], 0, Declined("terms"))
            writer.add(walk.add(Sent(at=0, envelope=encode_envelope(said))))
            continue
        if isinstance(item, tuple):
            writer.add(walk.add(Departed(at=0, party=item[0], reason=item[1])))
            continue
        name = PartyId(item)
        if name == "closed":
            words = (charter.roster.bitmap(ALL), charter.roster.bitmap(tuple(heard)))
            closed = envelope(charter, AGGREGATOR, 0, Closed("Word", -1, 0, *words), to=RECORD)
            writer.add(walk.add(Sent(at=0, envelope=encode_envelope(closed))))
            continue
        said = envelope(charter, name, 0, Word("x"))
        writer.add(walk.add(Sent(at=0, envelope=encode_envelope(said))))
        came = Delivered(at=0, sender=name, recipient=AGGREGATOR, seq=0, repeat=False)
        writer.add(walk.add(came))
        heard.append(name)
    return writer.completeness()


@pytest.mark.parametrize(
    ("items", "withdrawn", "rate"),
    [
        ((ONE, THREE, (TWO, MOVED), "closed"), 1, 1),
        (((TWO, MOVED), ONE, THREE, "closed"), 1, 1),
        (((TWO, MOVED), (ONE, WITHDRAWN), THREE, "closed"), 2, 1),
        (((TWO, MOVED), ONE, "closed"), 1, 1 / 2),
        # Whoever has answered or declined was invited.
        ((ONE, TWO, THREE, (TWO, MOVED), "closed"), 0, 1),
        ((ONE, THREE, (TWO, DECLINES), (TWO, MOVED), "closed"), 0, 2 / 3),
        # A place that was waited for in vain is not withdrawn afterwards.
        ((ONE, THREE, "closed", (TWO, MOVED)), 0, 2 / 3),
        # Other reasons.
        ((ONE, THREE, (TWO, "never came"), "closed"), 0, 2 / 3),
        ((ONE, THREE, (TWO, "was withdrawn"), "closed"), 0, 2 / 3),
        ((ONE, THREE, (TWO, LINK_CLOSED), "closed"), 0, 2 / 3),
        # Whoever is counted was invited, whatever else the aggregator says.
        (((TWO, MOVED), ONE, TWO, THREE, "closed"), 0, 1),
        # Who is not on the roster.
        ((ONE, TWO, THREE, ("zoe", MOVED), "closed"), 0, 1),
    ],
)
def test_a_place_withdrawn_before_it_answered_was_not_invited(
    items: tuple[tuple[str, str] | str, ...], withdrawn: int, rate: float
) -> None:
    found = who_left(*items)
    assert found.withdrawn == withdrawn
    assert found.response.rate == pytest.approx(rate)
    assert (found.parties, found.response.asked) == (3, 3 - withdrawn)


EXAMPLES = examples()


def run(variant: Variant, fate: FateRule | None = None) -> Rehearsal:
    """One party per respondent."""
    return Rehearsal(make_setting(variant, answers(variant.survey, PARTIES), seed=1), fate=fate)


def kind_of(variant: Variant) -> str:
    assert variant.contribution is not None
    return variant.contribution.kind()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_everybody_is_counted_where_nothing_is_lost(example: Example) -> None:
    done = run(example.variant)
    estimate = example.variant.estimate(done.published)
    assert completeness_of(done).counted == estimate.n == PARTIES


def whole(variant: Variant) -> bool:
    sums = getattr(variant, "sums", None)
    return sums is None or sums.profile == "sparse"


@pytest.mark.parametrize("example", [e for e in EXAMPLES if whole(e.variant)], ids=lambda e: e.name)
def test_whose_report_was_lost_is_not_counted(example: Example) -> None:
    variant = example.variant
    if hasattr(variant, "sums"):
        # Among so few, one that vanishes has to be allowed for.
        sums = type(variant.sums)(corrupt=0.0, dropped=0.2)
        variant = type(variant)(**{**fields(variant), "sums": sums})
    done = run(variant, fate_of(Fate(Verdict.DROP), "party-2", kind_of(variant)))
    found = completeness_of(done)
    assert found.counted == variant.estimate(done.published).n == PARTIES - 1
    assert found.parties == PARTIES


def fields(variant: Variant) -> dict[str, object]:
    return {name: getattr(variant, name) for name in variant.__struct_fields__}


@pytest.mark.parametrize("dependence", ["rr", "rr-debiased"])
def test_who_was_heard_of_dependences_alone_is_counted(dependence: str) -> None:
    variant = RRClusters(survey=BITS, p=0.6, tv=4, td=0.1, dependence=dependence)
    done = run(variant, fate_of(Fate(Verdict.DROP), "party-3", "Report"))
    found = completeness_of(done)
    assert [(c.kind, c.awaited, c.counted) for c in found.closings] == [
        ("Join", PARTIES, PARTIES),
        ("PilotReport", PARTIES, PARTIES),
        ("Tags", PARTIES, PARTIES),
        ("Report", PARTIES, PARTIES - 1),
    ]
    assert found.counted == variant.estimate(done.published).n == PARTIES
    assert variant.final(done.published).n == PARTIES - 1


def test_who_misses_a_later_round_stays_in_the_frequencies() -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=4.0, rounds=3)
    heard: list[Envelope] = []

    def second(envelope: Envelope) -> Fate:
        if envelope.kind == KeyReport.kind() and envelope.sender == "party-1":
            heard.append(envelope)
            return Fate(Verdict.DROP, 0.0) if len(heard) == 2 else PASS
        return PASS

    done = run(variant, second)
    found = completeness_of(done)
    assert [c.counted for c in found.closings] == [PARTIES, PARTIES - 1, PARTIES]
    estimate = variant.estimate(done.published)
    assert isinstance(estimate, KeyValueTables)
    assert found.counted == estimate.n == PARTIES


def test_a_variant_that_does_not_say_is_taken_by_what_it_waits_for_last() -> None:
    async def party(me: Me) -> None:
        await me.send(AGGREGATOR, Turn(0, "a"))
        await me.send(AGGREGATOR, Word("b"))

    async def aggregator(me: Me) -> Word:
        first = await me.gather(Turn, me.roster.parties, round=0)
        await me.gather(Word, tuple(first)[:2])
        return Word("done")

    variant = talk(party=party, aggregator=aggregator)
    assert variant.contribution is None
    found = completeness_of(run(variant))
    assert [c.counted for c in found.closings] == [PARTIES, 2]
    assert found.counted == 2
