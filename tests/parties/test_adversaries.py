"""No party can end a survey, whatever it says or does not say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from protocol import AGGREGATOR, RECORD, PartyId
from protocol.messages import DONE, Closed, Envelope, Head
from protocol.simulation.setting import Setting
from protocol.transcript.entries import Sent
from tests.live import Live, run_live, town
from tests.parties.adversaries import Flooder, Forger, Mute, Quitter
from tests.tiers import paired, thinned
from transports.base import Limits

EVIL = PartyId("party-3")
TRANSPORTS = ("memory", "tcp", "tls")


def counted(done: Live) -> int:
    return int(done.published.counts.sum())


def check_others(done: Live, where: Setting) -> None:
    """Everybody else did what they should, and the closing says that they were counted."""
    others = {name: why for name, why in done.endings.items() if name != EVIL}
    assert set(others.values()) == {DONE}
    closings = [
        entry for entry in done.entries if isinstance(entry, Sent) and b"Closed" in entry.envelope
    ]
    assert len(closings) == 1


def counted_names(done: Live, where: Setting) -> set[PartyId]:
    for entry in done.entries:
        if isinstance(entry, Sent) and b"Closed" in entry.envelope:
            body = msgspec.msgpack.decode(entry.envelope, type=Envelope).body
            closed = where.charter.codec.decode("Closed", body)
            assert isinstance(closed, Closed)
            return set(where.charter.roster.members_in(closed.counted))
    raise AssertionError("no closing was recorded")


@pytest.mark.parametrize("transport", thinned(TRANSPORTS, 2))
async def test_a_report_that_is_sent_twice_counts_once(transport: str, tmp_path: Path) -> None:
    where = town(8)
    done = await run_live(
        where, transport, folder=tmp_path, adversaries={EVIL: partial(Flooder, times=2)}
    )
    check_others(done, where)
    assert counted(done) == 8
    assert done.endings[EVIL] == DONE
    honest = await run_live(where)
    assert done.result_bytes == honest.result_bytes
    assert done.digest != honest.digest


FORGERIES: dict[str, tuple[Callable[[Envelope], Envelope], str]] = {
    "sender": (lambda e: msgspec.structs.replace(e, sender=PartyId("party-4")), "sender"),
    "aggregator": (lambda e: msgspec.structs.replace(e, sender=AGGREGATOR), "sender"),
    "seq": (lambda e: msgspec.structs.replace(e, seq=7), "seq"),
    "session": (lambda e: msgspec.structs.replace(e, session=bytes(16)), "session"),
    "recipient": (lambda e: msgspec.structs.replace(e, recipient=PartyId("nobody")), "recipient"),
    "kind": (lambda e: msgspec.structs.replace(e, kind="Gift"), "kind"),
    "size": (lambda e: msgspec.structs.replace(e, body=bytes(4300)), "Report"),
    "head": (
        lambda e: msgspec.structs.replace(
            e,
            recipient=RECORD,
            kind="Head",
            body=msgspec.msgpack.encode(Head((), bytes(64))),
        ),
        "Head: its sender has not signed",
    ),
    "frame": (lambda e: msgspec.structs.replace(e, body=bytes(1 << 18)), ""),
}


@pytest.mark.parametrize(("what", "transport"), paired([*FORGERIES], TRANSPORTS))
async def test_a_forged_envelope_ends_the_forgers_link_and_is_recorded(
    what: str, transport: str, tmp_path: Path
) -> None:
    forge, field = FORGERIES[what]
    where = town(8)
    disguise = partial(Forger, forge=forge)
    done = await run_live(where, transport, folder=tmp_path, adversaries={EVIL: disguise})
    check_others(done, where)
    assert counted_names(done, where) == set(where.holdings) - {EVIL}
    [refused] = done.refused()
    assert refused.link == EVIL
    assert refused.reason.startswith(field)
    assert done.departed()[EVIL].startswith("refused")


def out_of_range(envelope: Envelope) -> Envelope:
    return msgspec.structs.replace(envelope, body=envelope.body[:-1] + b"\x77")


def cut_short(envelope: Envelope) -> Envelope:
    return msgspec.structs.replace(envelope, body=envelope.body[:-1])


def trailing(envelope: Envelope) -> Envelope:
    return msgspec.structs.replace(envelope, body=envelope.body + b"\0")


def another_kind(envelope: Envelope) -> Envelope:
    return msgspec.structs.replace(envelope, kind="Left")


@pytest.mark.parametrize(
    ("forge", "transport"), paired([out_of_range, cut_short, trailing, another_kind], TRANSPORTS)
)
async def test_a_forged_report_is_recorded_and_not_counted(
    forge: Callable[[Envelope], Envelope], transport: str, tmp_path: Path
) -> None:
    where = town(8)
    disguise = partial(Forger, forge=forge)
    done = await run_live(where, transport, folder=tmp_path, adversaries={EVIL: disguise})
    check_others(done, where)
    assert counted_names(done, where) == set(where.holdings) - {EVIL}
    said = [entry.envelope for entry in done.entries if isinstance(entry, Sent)]
    assert sum(b"party-3\xaaaggregator" in envelope for envelope in said) == 1


@pytest.mark.parametrize("transport", thinned(TRANSPORTS, 2))
async def test_a_flood_is_cut_off_and_recorded(transport: str, tmp_path: Path) -> None:
    where = town(8)
    done = await run_live(
        where,
        transport,
        folder=tmp_path,
        limits=Limits(envelopes=100, mailbox=4),
        adversaries={EVIL: partial(Flooder, times=2000)},
    )
    check_others(done, where)
    # Its first report was in order.
    assert counted(done) == 8
    assert sum(isinstance(entry, Sent) for entry in done.entries) == 8 + 2 * 7 + 100 + 2
    [refused] = done.refused()
    assert (refused.link, refused.reason) == (EVIL, "more than 100 envelopes of one party")


async def test_a_mute_party_costs_the_patience_and_no_more(autojump_clock: object) -> None:
    where = town(8, patience=25.0)
    started = trio.current_time()
    done = await run_live(where, adversaries={EVIL: Mute, PartyId("party-4"): Mute})
    assert trio.current_time() - started == 25.0
    assert counted(done) == 6
    assert counted_names(done, where) == set(where.holdings) - {EVIL, PartyId("party-4")}


@pytest.mark.parametrize("transport", ["tcp", "tls"])
async def test_a_mute_party_over_sockets(transport: str, tmp_path: Path) -> None:
    where = town(8, patience=0.5)
    done = await run_live(where, transport, folder=tmp_path, adversaries={EVIL: Mute})
    check_others(done, where)
    assert counted_names(done, where) == set(where.holdings) - {EVIL}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("after", [0, 1])
async def test_a_quitter_is_counted_if_it_had_answered(
    after: int, transport: str, tmp_path: Path
) -> None:
    where = town(8)
    disguise = partial(Quitter, after=after)
    done = await run_live(where, transport, folder=tmp_path, adversaries={EVIL: disguise})
    check_others(done, where)
    assert counted(done) == 7 + after
    assert done.endings[EVIL] == (DONE if after else "party 'party-3': its link broke: quit")
