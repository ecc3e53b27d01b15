"""Every ending of ``answer``, of a real party over TLS: its exit code and its last lines."""

from __future__ import annotations

import os
import queue
import re
import resource
import signal
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
import trio

from parties.keeping.attempts import Allowance, open_answers
from parties.keeping.members import Member
from parties.keeping.remembered import KEY_BYTES
from protocol import AGGREGATOR, RECORD, PartyId
from protocol.accounting.spending import Cost
from protocol.messages import Closed, Envelope
from protocol.session.exchange import Exchange
from protocol.transcript.header import make_header
from protocol.transcript.recorder import Recorder
from scenarios.surveys import answering
from scenarios.surveys.endings import (
    BAD_INPUT,
    DECLINED,
    DONE_BEFORE,
    DONE_NOW,
    ENDINGS,
    FAILED,
    LOST,
    MACHINE_FAILED,
    NO_BUDGET,
    NO_RECEIPT,
    NOT_ACKNOWLEDGED,
    NOTHING,
    STOPPED_BY_SIGNAL,
    TOO_LATE,
    TURNED_AWAY,
    UNREACHABLE,
    Ending,
)
from scenarios.surveys.members import read_member, tls_context
from tests.scenarios.command import Said, sottovoce
from tests.scenarios.survey_folders import ROWS, make_folders, people_table, table
from tests.scenarios.surveys.test_deployment import question
from transports.background import running
from transports.base import Limits, Link
from transports.lasting import link as lasting_link
from transports.lasting.hub import LastingHub, open_lasting
from transports.records.commits import Commits
from transports.switch import Switch
from transports.testing import HANGS
from transports.tls import server_context

ANNA = PartyId("anna")
LOOPBACK = "127.0.0.1"
NOBODY = f"{LOOPBACK}:1"
WAITING = 0.3
"""How long a party goes without a sign of life, in seconds."""


class Aggregator:
    """An aggregator that does as a test says; it has the survey's keys, and keeps its record.

    Attributes:
        hub, link, switch, recorder: its own.
        asks: its question to anna.
    """

    hub: LastingHub
    link: Link
    switch: Switch
    recorder: Recorder

    def __init__(self, asks: Envelope) -> None:
        self.asks = asks

    async def joined(self) -> None:
        """Wait until anna is there."""
        await self.hub.joined([ANNA], within=HANGS)

    async def heard(self) -> Envelope:
        """Anna's answer to the question."""
        await self.joined()
        await self.link.send(self.asks)
        return await self.link.receive()


Does = Callable[[Aggregator], Awaitable[object]]
"""What an aggregator does while it listens; it is gone once that returns."""


@asynccontextmanager
async def _listening(
    member: Member, asks: Envelope, *, durable: bool
) -> AsyncIterator[tuple[Aggregator, int]]:
    found = Aggregator(asks)
    recorder = found.recorder = Recorder(
        lambda _: None,
        make_header(member.charter),
        signer=member.identity,
        secret=bytes(32),
        acknowledging=True,
    )
    found.switch = Switch(Exchange(member.charter, recorder=recorder), Limits(idle=60.0))
    commits = Commits(recorder, lambda: None) if durable else None
    tls = tls_context(member.folder, server_context)
    async with (
        open_lasting(found.switch, member.identity, tls=tls, commits=commits) as (hub, port),
        running(*((commits.run,) if commits else ())),
        hub.connect(AGGREGATOR) as link,
    ):
        found.hub, found.link = hub, link
        yield found, port


@contextmanager
def aggregator(keys: Path, does: Does, *, durable: bool = True) -> Generator[str]:
    """Where an aggregator listens that does this, in a thread of its own, until the block ends."""
    where: queue.Queue[int] = queue.Queue()
    over = threading.Event()

    async def live() -> None:
        async with _listening(read_member(keys / AGGREGATOR), question(keys), durable=durable) as (
            there,
            port,
        ):
            where.put(port)
            await does(there)

    async def until_over() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(live)
            await trio.to_thread.run_sync(over.wait)
            nursery.cancel_scope.cancel()

    thread = threading.Thread(target=trio.run, args=(until_over,))
    thread.start()
    try:
        yield f"{LOOPBACK}:{where.get(timeout=HANGS)}"
    finally:
        over.set()
        thread.join(HANGS)
        assert not thread.is_alive()


async def asks(there: Aggregator) -> None:
    """It asks, and goes on."""
    await there.heard()
    await trio.sleep_forever()


async def hangs_up(there: Aggregator) -> None:
    """It asks, and is gone once it has heard the answer."""
    await there.heard()


class Party:
    """Anna, who answers from her folder.

    Attributes:
        keys: the members' folders.
    """

    def __init__(self, keys: Path, folder: Path) -> None:
        self.keys = keys
        self.folder = folder
        self.records = people_table(
            folder / "r.csv", *(f"p{i},{row}" for i, row in enumerate(ROWS))
        )

    def answers(self, where: str, *options: object, waiting: float = WAITING) -> Said:
        return sottovoce(
            *("answer", self.keys / ANNA, "--connect", where, "--waiting", waiting),
            *("--records", self.records, "--id", "who", "--purse", self.folder / "purse"),
            *options,
        )

    def paid(self, attempt: int, epsilon: float) -> None:
        """Have her folder and her purse say that she has answered an attempt."""
        with open_answers(self.keys / ANNA) as answers:
            answers.note(attempt, allowed=Allowance(), cost=Cost(epsilon))
        purse = ("purse", "--purse", self.folder / "purse")
        assert sottovoce(*purse, "--merge", self.keys / ANNA).code == 0


def _done(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    with aggregator(anna.keys, asks) as where:
        return anna.answers(where)


def _done_before(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    assert _done(anna, patch).code == 0
    return anna.answers(NOBODY)


def _late(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    async def too_early(there: Aggregator) -> None:
        charter = there.switch.exchange.charter
        everybody = charter.roster.bitmap(charter.roster.parties)
        others = charter.roster.bitmap(charter.roster.parties[1:])
        body = charter.codec.encode(Closed("Report", -1, 0, everybody, others))
        await there.joined()
        await there.link.send(there.asks)
        closed = Envelope(charter.session, AGGREGATOR, RECORD, 1, "Closed", body)
        await there.link.send(closed)
        await trio.sleep_forever()

    with aggregator(anna.keys, too_early) as where:
        return anna.answers(where)


def _declined(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    with aggregator(anna.keys, asks) as where:
        return anna.answers(where, "--budget", 0.5)


def _failed(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    async def ends(there: Aggregator) -> None:
        await there.joined()
        there.switch.detach(ANNA, "the survey is over")
        await trio.sleep_forever()

    with aggregator(anna.keys, ends) as where:
        return anna.answers(where)


def _no_budget(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    other = Party(make_folders(_made(anna.folder / "other")), anna.folder)
    assert _done(other, patch).code == 0
    return anna.answers(NOBODY, "--budget", 3)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _no_receipt(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    async def lies(there: Aggregator) -> None:
        made = there.recorder.acknowledge

        def other() -> dict[PartyId, object]:
            return {
                party: msgspec.structs.replace(given, root=bytes(32))
                for party, given in made().items()
            }

        there.recorder.acknowledge = other
        await asks(there)

    with aggregator(anna.keys, lies) as where:
        return anna.answers(where)


def _bad_input(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    anna.records = table(anna.folder / "r.csv", "no,ancient")
    return sottovoce(
        *("answer", anna.keys / ANNA, "--connect", NOBODY, "--records", anna.records),
        *("--purse", anna.folder / "purse"),
    )


def _unreachable(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    return anna.answers(NOBODY)


def _machine(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with aggregator(anna.keys, asks) as where:
        resource.setrlimit(resource.RLIMIT_FSIZE, (KEY_BYTES + 8, before[1]))
        try:
            return anna.answers(where)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _lost(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    with aggregator(anna.keys, hangs_up, durable=False) as where:
        return anna.answers(where)


def _unacknowledged(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    # How long it waits for one that is alive.
    patch.setattr(answering, "Limits", lambda **limits: Limits(goodbye=0.5, **limits))
    with aggregator(anna.keys, asks, durable=False) as where:
        return anna.answers(where)


def _stopped(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    async def stops(there: Aggregator) -> None:
        await there.heard()
        os.kill(os.getpid(), signal.SIGTERM)
        await trio.sleep_forever()

    with aggregator(anna.keys, stops, durable=False) as where:
        return anna.answers(where)


def _turned_away(anna: Party, patch: pytest.MonkeyPatch) -> Said:
    anna.paid(2, 2.0)
    with aggregator(anna.keys, asks) as where:
        return anna.answers(where)


WALKS: dict[Ending, Callable[[Party, pytest.MonkeyPatch], Said]] = {
    DONE_NOW: _done,
    DONE_BEFORE: _done_before,
    TOO_LATE: _late,
    DECLINED: _declined,
    FAILED: _failed,
    NO_BUDGET: _no_budget,
    NO_RECEIPT: _no_receipt,
    BAD_INPUT: _bad_input,
    UNREACHABLE: _unreachable,
    MACHINE_FAILED: _machine,
    LOST: _lost,
    NOT_ACKNOWLEDGED: _unacknowledged,
    STOPPED_BY_SIGNAL: _stopped,
    TURNED_AWAY: _turned_away,
}

FIRST_WORDS = {
    DONE_NOW: "done; epsilon 2 spent per respondent",
    DONE_BEFORE: "done; epsilon 2 spent per respondent",
    TOO_LATE: "late: the aggregator had closed the wait for a report before it came; epsilon 2 ",
    DECLINED: "'Report' costs 2 per respondent; 0.5 of 0.5 is left; epsilon 0 spent per respondent",
    FAILED: "party 'anna': its link has ended; epsilon 0 spent per respondent",
    NO_BUDGET: "3 of 3 respondents have too little left: up to 2 of 3 spent elsewhere, 2 needed",
    NO_RECEIPT: "the aggregator's receipt does NOT hold: ",
    BAD_INPUT: "{records}: row 1, column 'age': unknown category 'ancient'",
    UNREACHABLE: f"{NOBODY}: nobody listens there: ",
    MACHINE_FAILED: "{folder}/purse/paid: File too large; nothing spent",
    LOST: f"{LOOPBACK}:",
    NOT_ACKNOWLEDGED: "not acknowledged; epsilon 2 spent per respondent",
    STOPPED_BY_SIGNAL: "stopped by SIGTERM; epsilon 2 spent per respondent",
    TURNED_AWAY: f"{LOOPBACK}:",
}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence is noticed soon, and the last try is short."""
    monkeypatch.setattr(lasting_link, "SHORTEST", 0.3)
    monkeypatch.setattr(lasting_link, "LAST", 0.5)


def test_every_ending_is_walked() -> None:
    assert {*WALKS} == {*ENDINGS} == {*FIRST_WORDS}
    assert len({ending.name for ending in ENDINGS}) == len(ENDINGS)


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.name)
def test_an_ending(
    ending: Ending, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna = Party(keys, tmp_path)
    said = WALKS[ending](anna, monkeypatch)
    assert said.code == ending.code, said
    first = FIRST_WORDS[ending].format(records=anna.records, folder=tmp_path)
    if said.out:
        assert said.out.startswith(first)
        all_lines = said.out
    else:
        assert said.err.startswith(f"sottovoce: {first}")
        assert said.err.count("\n") == 1
        all_lines = said.err.replace("; acknowledged: ", "\nacknowledged: ").replace(
            "; next: ", "\nnext: "
        )
    if ending is BAD_INPUT:
        # As of every command: one line says what was wrong.
        return
    spent = re.findall(r"epsilon (\S+) spent per respondent|nothing (?:more )?spent", all_lines)
    assert len(spent) == 1
    if ending.paid == NOTHING:
        assert spent[0] in ("", "0")
    lines = all_lines.splitlines()
    receipts = [line for line in lines if line.startswith(("receipt: ", "late note: ", "kept as "))]
    if ending in (DONE_NOW, DONE_BEFORE, TOO_LATE, NO_RECEIPT):
        assert len(receipts) == 1
        assert any(line.startswith("check it with: sottovoce check ") for line in lines)
    elif ending is not DECLINED:
        assert f"acknowledged: {ending.acknowledged}" in lines
    assert (f"next: {ending.following}" in lines) == (ending.code != 0)


def test_who_has_answered_before_and_finds_nobody_has_paid(keys: Path, tmp_path: Path) -> None:
    anna = Party(keys, tmp_path)
    anna.paid(1, 2.0)
    said = anna.answers(NOBODY)
    assert (said.code, said.out) == (LOST.code, "")
    assert said.err.startswith(f"sottovoce: {NOBODY}: nobody listens there: ")
    assert said.err.endswith(
        f"; epsilon 2 spent per respondent; acknowledged: {LOST.acknowledged}; "
        f"next: {LOST.following}\n"
    )


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("heard", [True, False])
def test_an_aggregator_that_freezes(heard: bool, durable: bool, keys: Path, tmp_path: Path) -> None:
    """Its system takes connections on, and it does nothing any more."""
    over = threading.Event()

    async def freezes(there: Aggregator) -> None:
        await (there.heard() if heard else there.joined())
        over.wait(HANGS)

    with aggregator(keys, freezes, durable=durable) as where:
        try:
            said = Party(keys, tmp_path).answers(where)
        finally:
            over.set()
    assert (said.code, said.out) == ((LOST if heard else UNREACHABLE).code, "")
    if heard:
        assert f"sottovoce: {where}: silent for too long; takes connections and " in said.err
        assert "; epsilon 2 spent per respondent; " in said.err
    else:
        assert "; epsilon 0 spent per respondent; acknowledged: nothing was said; " in said.err


def test_something_else_is_at_the_port(keys: Path, tmp_path: Path) -> None:
    """It takes connections: nobody, a web server, or the aggregator of another survey."""
    anna = Party(keys, tmp_path)
    with socket.create_server((LOOPBACK, 0)) as mute:
        said = anna.answers(f"{LOOPBACK}:{mute.getsockname()[1]}")
    assert said.code == UNREACHABLE.code
    assert ": takes connections and says nothing: it hangs, or is not the aggregator; " in said.err
    with ThreadingHTTPServer((LOOPBACK, 0), Silent) as web:
        threading.Thread(target=web.serve_forever).start()
        said = anna.answers(f"{LOOPBACK}:{web.server_port}")
        web.shutdown()
    assert said.code == UNREACHABLE.code
    assert ": the other side does not speak TLS: a web server or another program " in said.err
    other = make_folders(_made(tmp_path / "other"))
    with aggregator(other, asks) as where:
        said = anna.answers(where, waiting=HANGS)
    assert said.code == UNREACHABLE.code
    assert (
        f"{where}: the other side's certificate is not one that is trusted for this address: "
        in said.err
    )


class Silent(BaseHTTPRequestHandler):
    """A web server that logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


def test_a_signal_before_anybody_is_there(keys: Path, tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as mute:

        def stop() -> None:
            caller, _ = mute.accept()
            os.kill(os.getpid(), signal.SIGTERM)
            caller.recv(1)
            over.wait(HANGS)
            caller.close()

        over = threading.Event()
        thread = threading.Thread(target=stop)
        thread.start()
        said = Party(keys, tmp_path).answers(f"{LOOPBACK}:{mute.getsockname()[1]}", waiting=HANGS)
        over.set()
        thread.join()
    assert (said.code, said.out) == (STOPPED_BY_SIGNAL.code, "")
    assert said.err.startswith("sottovoce: stopped by SIGTERM; nothing spent; acknowledged: ")
