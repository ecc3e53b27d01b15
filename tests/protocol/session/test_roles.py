"""A role's randomness follows from the question it answers."""

from __future__ import annotations

import msgspec
import numpy as np

from protocol import AGGREGATOR, Block, KeepUniform, Me, Message, PartyId, Stream
from protocol.session.machine import Machine
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Report
from tests.protocol.sessions import SURVEY, answers, charter_of, envelope

ONE = PartyId("party-1")
CHARTER = charter_of(RRIndependent.with_keep(SURVEY, 0.6))


def asked(p: float) -> Ask:
    blocks = CHARTER.variant.blocks  # an RRIndependent's
    milder = (Block(b.attributes, KeepUniform.with_keep(b.randomizer.size, p=p)) for b in blocks)
    return Ask(SURVEY.digest, tuple(milder))


def test_the_same_question_gets_the_same_randomness_and_another_does_not() -> None:
    me = Me(ONE, CHARTER.roster, Stream(bytes(32)), session=CHARTER.session)

    def words(question: Message, purpose: str = "answer") -> bytes:
        return me.stream_for(question, purpose).bytes(32)

    first = words(asked(0.6))
    me.stream.bytes(100)
    assert words(asked(0.6)) == first
    others = {
        words(asked(0.5)),
        words(asked(0.6), "again"),
        words(Report(np.zeros((1, 2), np.uint8))),
    }
    assert len(others | {first, me.stream.bytes(32)}) == 5


def test_reports_to_two_questions_have_nothing_in_common() -> None:
    """From the same words, whoever is kept by the milder question is kept by both: for certain."""
    me = Me(ONE, CHARTER.roster, Stream(bytes(32)), session=CHARTER.session)
    codes = np.zeros(20_000, np.uint16)
    kept = []
    for p in (0.6, 0.5):
        randomizer = KeepUniform.with_keep(1000, p=p)
        kept.append(randomizer.randomize(codes, me.stream_for(asked(p))) == 0)
    together = float(np.mean(kept[0] & kept[1]))
    # Nine standard deviations; from the same words it would be 0.5.
    assert abs(together - 0.6 * 0.5) < 0.03


def test_a_party_draws_from_the_question() -> None:
    charter = charter_of(msgspec.structs.replace(CHARTER.variant, max_records=500))
    bodies = []
    for p in (0.6, 0.6, 0.599):
        party = Machine(charter, ONE, Stream(bytes(32)), records=answers(SURVEY, 500))
        party.start(0.0)
        party.receive(envelope(charter, AGGREGATOR, 0, asked(p), to=ONE), 0.0)
        [report] = party.take()
        bodies.append(charter.codec.decode("Report", report.body))
    first, again, milder = (body.codes for body in bodies if isinstance(body, Report))
    np.testing.assert_array_equal(first, again)
    # From the same words, all but one in a hundred would be the same.
    assert np.mean(first == milder) < 0.8
