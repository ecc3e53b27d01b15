"""What is counted of a survey, and in which words."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

import pytest
import trio
import trio.testing

from protocol import AGGREGATOR, RECORD
from protocol.messages import LINK_CLOSED, NO_ROUND, Closed, Declined, Envelope
from protocol.session.exchange import Delivery, Exchange
from protocol.simulation.setting import Setting, make_setting
from protocol.transcript.header import make_header
from protocol.transcript.reader import Records
from protocol.transcript.receipts import Acknowledgement
from protocol.transcript.recorder import Recorder
from protocol.transcript.resuming import Past
from scenarios.surveys.operating.progress import Field, Phase, Progress
from tests.every_variant import examples
from transports.admission import Strangers
from transports.background import running
from transports.records.commits import Commits
from transports.switch import Switch

A = "party-1"


class Watched:
    """A survey of six parties that can be poked."""

    def __init__(self) -> None:
        [example, *_] = examples()
        self.where: Setting = make_setting(example.variant, example.records, seed=1, parties=6)
        self.events: list[tuple[str, Mapping[str, Field]]] = []
        self.progress = Progress(lambda event, fields: self.events.append((event, fields)))
        charter = self.where.charter
        self.record = b""
        watch = self.progress.follow(charter)
        self.recorder = Recorder(self._write, make_header(charter, seed=1), watch=watch)
        self.switch = Switch(Exchange(charter, recorder=self.recorder))
        self.progress.opened(self.switch)
        self._said: dict[str, int] = {}

    def _write(self, content: bytes) -> None:
        self.record += content

    def resumed(self) -> Progress:
        """What a program tells that goes on with what is on record."""
        self.recorder.flush()
        charter, progress = self.where.charter, Progress()
        records = Records([self.record])
        header = records.header(next(iter(records)))
        recorder = Recorder(self._write, header, watch=progress.follow(charter), resumed=True)
        exchange = Exchange(charter, recorder=recorder)
        past = Past(charter, recorder, exchange)
        past.read(records)
        progress.opened(Switch(exchange))
        return progress

    def say(self, sender: str, recipient: str, message: Closed | Declined) -> Envelope:
        charter = self.where.charter
        body = charter.codec.encode(message)
        seq = self._said.get(sender, 0)
        self._said[sender] = seq + 1
        said = Envelope(charter.session, sender, recipient, seq, message.kind(), body)
        self.switch.relay_nowait(sender, [said])
        return said


@pytest.fixture
async def watched() -> Watched:
    return Watched()


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("never came", "never came"),
        ("refused: field: something that a caller has said", "broke a rule"),
        ("does not read its mail", "did not read"),
        ("withdrawn: moved away", "withdrawn"),
        (LINK_CLOSED, "left"),
        ("the connection ended", "lost"),
        ("\x1b[31mwhatever a caller has said", "lost"),
    ],
)
async def test_who_is_gone_is_counted_by_a_word(watched: Watched, reason: str, word: str) -> None:
    watched.switch.attach(A)
    watched.switch.detach(A, reason)
    watched.switch.detach(AGGREGATOR, LINK_CLOSED)
    assert watched.progress.counts().gone == {word: 1}


async def test_who_declines_is_counted(watched: Watched) -> None:
    watched.switch.attach(A)
    watched.say(A, AGGREGATOR, Declined("terms"))
    assert watched.progress.counts().declined == 1
    assert watched.progress.counts().messages == 1


async def test_a_closing_is_told_of_the_aggregator_alone(watched: Watched) -> None:
    closed = Closed("Report", NO_ROUND, 0, b"\x7e", b"\x16")
    watched.switch.attach(A)
    watched.switch.attach(AGGREGATOR)
    watched.say(A, RECORD, closed)
    assert watched.progress.counts().closed == {}
    watched.say(AGGREGATOR, RECORD, closed)
    assert watched.progress.counts().closed == {"Report": 1}
    assert watched.events[-1] == (
        "wait closed",
        {"kind": "Report", "round": NO_ROUND, "awaited": 6, "counted": 3},
    )


async def test_a_range_whose_beginning_was_recorded_before_is_not_counted(
    watched: Watched,
) -> None:
    watched.switch.attach(AGGREGATOR)
    watched.say(AGGREGATOR, RECORD, Closed("Report", NO_ROUND, 8, b"", b""))
    assert watched.progress.counts().closed == {}


async def test_counts_go_on_with_what_is_on_record(watched: Watched) -> None:
    for name in (AGGREGATOR, A, "party-2", "party-3", "party-4"):
        watched.switch.attach(name)
    closed = Closed("Report", NO_ROUND, 0, b"\x7e", b"\x16")
    watched.switch.taken([Delivery(watched.say(AGGREGATOR, A, closed))])
    watched.say("party-2", AGGREGATOR, Declined("terms"))
    watched.say(AGGREGATOR, RECORD, closed)
    watched.switch.detach("party-3", LINK_CLOSED)
    watched.switch.detach("party-6", "never came")
    before, after = watched.progress.counts(), watched.resumed().counts()
    assert (before.declined, before.closed) == (1, {"Report": 1})
    assert before.gone == {"left": 1, "never came": 1}
    names = ("declined", "closed", "gone", "messages")
    assert [getattr(after, name) for name in names] == [getattr(before, name) for name in names]
    # Neither by party-3 and party-4 nor to them was anything said.
    assert (before.joined, after.joined) == (4, 2)


async def test_connected_and_joined(watched: Watched) -> None:
    for name in (AGGREGATOR, A, "party-2"):
        watched.switch.attach(name)
    watched.switch.lose(A)
    counts = watched.progress.counts()
    assert (counts.parties, counts.joined, counts.connected) == (6, 2, 1)


async def test_time_is_left_while_parties_join(
    watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    assert watched.progress.counts().left is None
    watched.progress.joining(10.0)
    await trio.sleep(4.0)
    assert watched.progress.counts().left == pytest.approx(6.0)
    await trio.sleep(8.0)
    assert watched.progress.counts().left == 0.0
    watched.progress.stopping("SIGTERM")
    assert watched.progress.phase is Phase.STOPPING
    assert watched.progress.counts().left is None


class Growing:
    """A recorder with something to write."""

    size = 2

    def flush(self) -> None:
        pass

    def acknowledge(self) -> Mapping[str, Acknowledgement]:
        return {}


async def test_a_write_that_hangs_is_seen(
    watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    let_go = threading.Event()
    commits = Commits(Growing(), let_go.wait)
    watched.progress.opened(watched.switch, None, commits)
    async with running(commits.run):
        assert watched.progress.counts().writing == 0.0
        await trio.sleep(30.0)
        assert 20.0 < watched.progress.counts().writing <= 30.0
        assert watched.progress.counts().durable == 0
        let_go.set()
        await commits.caught_up()
        counts = watched.progress.counts()
        assert (counts.durable, counts.writing) == (2, 0.0)


async def test_changes_are_told_and_nothing_else(
    watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    watched.events.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched.progress.tell_changes)
        await trio.sleep(5.5)
        watched.switch.attach(A)
        await trio.sleep(5.5)
        nursery.cancel_scope.cancel()
    assert [(event, fields["joined"]) for event, fields in watched.events] == [
        ("progress", 0),
        ("progress", 1),
    ]


class Door:
    """Where strangers knock."""

    def __init__(self) -> None:
        self.refused: Counter[str] = Counter()
        self.strangers = Strangers()

    async def be_knocked_at(self) -> None:
        """Ten times a second, from three addresses in turn."""
        while True:
            for last in range(3):
                self.refused["too slow"] += 1
                self.strangers.note(f"192.0.2.{last}")
                await trio.sleep(0.1)


async def test_strangers_are_summed_up_and_tell_nothing_else(
    watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    door = Door()
    watched.progress.opened(watched.switch, door)
    watched.events.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched.progress.tell_changes)
        nursery.start_soon(door.be_knocked_at)
        await trio.sleep(250.05)
        watched.switch.attach(A)
        await trio.sleep(5.0)
        nursery.cancel_scope.cancel()
    events = [event for event, _ in watched.events]
    # A minute each, and what was left at the end.
    assert events == ["progress", *["strangers"] * 4, "progress", "strangers"]
    summed = [fields for event, fields in watched.events if event == "strangers"]
    assert {fields["addresses"] for fields in summed} == {3}
    assert sum(int(str(fields["connections"])) for fields in summed) == door.refused.total()
    # All that changes is told together.
    assert watched.events[-2][1]["refused"] != {}


async def test_what_runs_short_is_told_once(
    watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    door = Door()
    watched.progress.opened(watched.switch, door)
    watched.events.clear()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched.progress.tell_changes)
        door.strangers.scarce = True
        await trio.sleep(200.0)
        nursery.cancel_scope.cancel()
    assert [fields for event, fields in watched.events if event == "strangers"] == [
        {"connections": 0, "addresses": 0, "scarce": 1}
    ]


async def test_witnesses_are_waited_for(
    watched: Watched, autojump_clock: trio.testing.MockClock
) -> None:
    progress = Progress(lambda event, fields: watched.events.append((event, fields)))
    watched.events.clear()
    progress.witnessing(1, 2, 50.4)
    assert watched.events == [("witnesses", {"cosigned": 1, "needed": 2, "left": 50})]
    await trio.sleep(10.0)
    counts = progress.counts()
    assert (counts.phase, counts.cosigned, counts.needed) == (Phase.BEGINNING, 1, 2)
    assert counts.left == pytest.approx(40.4)
    progress.opened(watched.switch)
    assert progress.counts().left is None
