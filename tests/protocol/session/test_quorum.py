"""How many must answer: what was agreed, or half of the parties."""

from __future__ import annotations

import msgspec
import pytest

from protocol import AGGREGATOR, PartyId, ProtocolError, Variant
from protocol.messages import Envelope
from protocol.session.exchange import Exchange
from protocol.session.fates import PASS, Fate, Verdict
from protocol.session.local import run_locally
from protocol.simulation.setting import Setting, make_setting
from protocol.transcript.header import make_header
from protocol.variants import RRJoint
from tests.every_variant import PARTIES, Example, examples
from tests.protocol.sessions import SURVEY

ALONE = [e for e in examples() if not hasattr(e.variant, "sums")]
"""Those whose parties answer by themselves: in the others, so many neighbours must be there."""


@pytest.mark.parametrize(
    ("quorum", "parties", "needed"),
    [(None, 1, 1), (None, 2, 1), (None, 3, 2), (None, 6, 3), (None, 7, 4), (1, 7, 1), (9, 7, 9)],
)
def test_half_of_the_parties_unless_it_was_agreed(
    quorum: int | None, parties: int, needed: int
) -> None:
    variant: Variant = msgspec.structs.replace(RRJoint.with_keep(SURVEY, 0.5), quorum=quorum)
    assert variant.quorum_of(parties) == needed


def run(variant: Variant, example: Example, answering: int) -> Setting:
    """A run in which so many parties answer and the others vanish."""
    setting = make_setting(variant, example.records, seed=1, parties=PARTIES)
    there = {AGGREGATOR, *setting.charter.roster.parties[:answering]}

    def vanish(item: Envelope) -> Fate:
        return PASS if item.sender in there else Fate(Verdict.CRASH)

    exchange = Exchange(setting.charter, fate=vanish)
    run_locally(exchange, setting.streams, setting.holdings, identities=setting.identities)
    return setting


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_fewer_than_half_publish_nothing(example: Example) -> None:
    assert example.variant.quorum is None
    with pytest.raises(ProtocolError):
        run(example.variant, example, PARTIES // 2 - 1)


@pytest.mark.parametrize("example", ALONE, ids=lambda example: example.name)
def test_half_are_enough(example: Example) -> None:
    run(example.variant, example, PARTIES // 2)


@pytest.mark.parametrize("example", ALONE, ids=lambda example: example.name)
def test_fewer_are_enough_where_that_was_agreed(example: Example) -> None:
    run(msgspec.structs.replace(example.variant, quorum=1), example, 1)


def test_the_number_is_in_the_header_as_it_was_given() -> None:
    [example] = [e for e in examples() if e.name == "rr-joint"]
    for quorum in (None, 2):
        variant = msgspec.structs.replace(example.variant, quorum=quorum)
        charter = make_setting(variant, example.records, seed=1, parties=PARTIES).charter
        assert make_header(charter).parameters["quorum"] == quorum
        assert charter.roster.parties[0] == PartyId("party-1")
