"""A witness that strangers crowd: surveys begin, and its log stays short."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from protocol import AGGREGATOR
from protocol.transcript.checkpoints import log_origin, split_note
from protocol.transcript.header import make_header
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.recorder import Recorder
from scenarios.errors import WitnessError
from scenarios.surveys.members import read_member
from scenarios.surveys.operating.operation import Operation
from scenarios.surveys.operating.progress import Field
from scenarios.surveys.witnessing import asking, server
from scenarios.surveys.witnessing.asking import ask_witnesses, begin, witness_at
from scenarios.surveys.witnessing.state import Witness, witnessing
from tests.recorded.checkpointed import checkpoints_of, record
from tests.scenarios.command import sottovoce
from tests.scenarios.survey_folders import make_folders
from tests.scenarios.surveys.witnessing.witnesses import Files, files, origin, running
from tests.tiers import slow
from transports import background
from transports.admission import LINES, Network, Strangers, trusted_network
from transports.testing import HANGS

POINTS = checkpoints_of(record())
IDLE = 72


@contextmanager
def idle(port: int, count: int = IDLE, said: bytes = b"") -> Generator[None]:
    """So many connections of strangers that say no whole request; half come again at once."""
    over = threading.Event()
    with ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(count)
        ]
        for each in held:
            each.sendall(said)

        def call_again() -> None:
            while not over.wait(0.005):
                for place in range(count // 2):
                    held[place].close()
                    held[place] = socket.create_connection(("127.0.0.1", port))

        caller = threading.Thread(target=call_again)
        caller.start()
        try:
            yield
        finally:
            over.set()
            caller.join()
            for each in held:
                each.close()


@pytest.fixture
def made(tmp_path: Path) -> Files:
    return files(tmp_path)


@pytest.mark.parametrize("said", [b"", slow(b"P"), b"POST /add-checkpoint HTTP/1.1\r\nHost: h\r\n"])
def test_a_witness_answers_while_strangers_are_idle(made: Files, said: bytes) -> None:
    with running(made, [origin(POINTS[0])]) as witness, idle(witness.port, said=said):
        for _ in range(3):
            [asked] = ask_witnesses(POINTS[0].note, (), [witness.at])
            assert asked.line is not None, asked.why


@pytest.mark.slow
def test_witnessed_surveys_begin_while_strangers_are_idle(tmp_path: Path, made: Files) -> None:
    """Three of three; each is another attempt, which nobody joins."""
    keys = make_folders(tmp_path)
    charter = read_member(keys / AGGREGATOR).charter
    known = log_origin(charter.session, charter.roster.key(AGGREGATOR))
    with running(made, [known]) as witness:
        with idle(witness.port):
            for attempt in range(3):
                out = tmp_path / f"out-{attempt}"
                said = sottovoce(
                    *("aggregate", keys / AGGREGATOR, "--listen", "127.0.0.1:0", "--out", out),
                    *("--witness", witness.at.url, made.vkey, "--joining", 0),
                )
                # It has begun, and nobody has come.
                assert "0 of 3 sent 'Report'" in said.err
        lines = witness.said().splitlines()
    assert len(lines) <= 3 * 3


def test_few_file_descriptors_are_left_to_the_state(made: Files) -> None:
    """Strangers want more than there are; the witness writes its state, and cosigns."""
    resource = pytest.importorskip("resource")
    with running(made, [origin(POINTS[0])]) as witness:
        resource.prlimit(witness.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        with idle(witness.port, count=100):
            [asked] = ask_witnesses(POINTS[0].note, (), [witness.at])
            assert asked.line is not None, asked.why
        assert witness.process.poll() is None
        assert "Traceback" not in witness.said()


class Said:
    """What a witness in this process has said, and where it listens."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.port = 0

    async def heard(self, pattern: str) -> str:
        """Wait for a line that has this pattern."""
        with trio.fail_after(HANGS):
            while True:
                for line in self.lines:
                    if re.search(pattern, line):
                        return line
                await trio.testing.wait_all_tasks_blocked(0.01)

    async def ask(self, body: str, address: str = "127.0.0.1") -> int:
        """Post a request from an address; the status of the answer."""
        with trio.fail_after(HANGS):
            wire = trio.socket.socket()
            await wire.bind((address, 0))
            await wire.connect(("127.0.0.1", self.port))
            async with trio.SocketStream(wire) as stream:
                content = body.encode()
                head = (
                    "POST /add-checkpoint HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
                    f"Content-Length: {len(content)}\r\n\r\n"
                )
                await stream.send_all(head.encode() + content)
                answer = await stream.receive_some()
        return int(answer.split()[1])


@asynccontextmanager
async def serving(witness: Witness, trusted: Network | None = None) -> AsyncGenerator[Said]:
    said = Said()
    listening = trio.Event()

    def heard(where: str) -> None:
        said.port = int(where.rpartition(":")[2])
        listening.set()

    serve = partial(
        *(server.serve, witness),
        host="127.0.0.1",
        port=0,
        listening=heard,
        said=said.lines.append,
        trusted=() if trusted is None else (trusted,),
    )
    async with background.running(serve):
        await listening.wait()
        yield said


@pytest.fixture
def witness(made: Files) -> Generator[Witness]:
    with witnessing(made.key, made.state, [origin(POINTS[0])], time.time) as opened:
        yield opened


def body_of(old: int, note: str) -> str:
    return f"old {old}\n\n{note}"


async def test_lines_of_strangers_are_few_and_those_of_surveys_are_never_left_out(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SUMMED_SECONDS", 5.0)
    async with serving(witness) as said:
        for place in range(2 * LINES):
            assert await said.ask("rubbish", f"127.0.5.{1 + place % 50}") == 400
        assert len(said.lines) == LINES
        # The survey's aggregator may come from an address that has had its lines.
        note = POINTS[0].note
        assert await said.ask(body_of(0, note), "127.0.5.1") == 200
        assert "cosigned: size 1" in said.lines[-1]
        known = len(said.lines)
        # What anybody can send again gets no line again.
        for _ in range(10):
            assert await said.ask(body_of(1, note)) == 200
        assert len(said.lines) == known
        line = await said.heard("more answers")
        assert line == f"{LINES + 10} more answers to 51 addresses in the last 5 s"


async def test_trusted_addresses_have_all_their_lines(witness: Witness) -> None:
    async with serving(witness, trusted_network("127.0.9.0/24")) as said:
        for place in range(2 * LINES):
            assert await said.ask("rubbish", f"127.0.9.{1 + place}") == 400
        assert len(said.lines) == 2 * LINES


async def test_connections_without_a_request_are_summed_up(
    witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "SUMMED_SECONDS", 2.0)
    async with serving(witness) as said:
        for place in range(6):
            with socket.socket() as made:
                made.bind((f"127.0.5.{1 + place % 3}", 0))
                made.connect(("127.0.0.1", said.port))
                await trio.testing.wait_all_tasks_blocked(0.01)
        await said.heard("more connections from 3 addresses without a whole request in the last 2")
    assert sum(int(line.split()[0]) for line in said.lines) == 6


def test_what_is_summed_up() -> None:
    strangers, requests = Strangers(), Strangers()
    assert [*server.summed_up(strangers, requests)] == []
    strangers.note("192.0.2.1")
    requests.note("192.0.2.1")
    requests.note("192.0.2.2")
    strangers.scarce = True
    assert [*server.summed_up(strangers, requests)] == [
        "file descriptors ran short (ulimit -n) in the last 60 s: connections have made room",
        "1 more connection from 1 address without a whole request in the last 60 s",
        "2 more answers to 2 addresses in the last 60 s",
    ]
    assert [*server.summed_up(strangers, requests)] == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


Tell = Callable[[str, Mapping[str, Field]], None]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    member = read_member(make_folders(tmp_path) / AGGREGATOR)
    header = make_header(member.charter, transport="tls")
    secret = bytes(LOG_SECRET_BYTES)
    return Recorder(lambda content: None, header, signer=member.identity, secret=secret)


def test_a_witness_that_is_away_is_asked_again(
    recorder: Recorder,
    made: Files,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It comes once the aggregator has said that it waits."""
    monkeypatch.setattr(asking, "SOON", 0.1)
    first = recorder.checkpoint
    assert first is not None
    at = witness_at(f"http://127.0.0.1:{(port := free_port())}", made.vkey)
    told: list[Mapping[str, Field]] = []
    with ExitStack() as stack:

        def tell(event: str, fields: Mapping[str, Field]) -> None:
            assert event == "witnesses"
            if not told:
                stack.enter_context(running(made, [origin(first)], port=port))
            told.append(fields)

        note = begin(recorder, [at], needed=1, within=HANGS, operation=Operation(tell=tell))
    assert [name for name, _ in split_note(note)[1]][1:] == [at.key.name]
    assert told[0] == {"cosigned": 0, "needed": 1, "left": told[0]["left"]}
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("0 of 1 witnesses have cosigned the first checkpoint, expected 1: ")
    assert "asked again for" in said


def test_a_witness_that_refuses_is_not_asked_again(recorder: Recorder, made: Files) -> None:
    """It does not know the survey, and will not in a minute."""
    told: list[str] = []
    operation = Operation(tell=lambda event, fields: told.append(event))
    with running(made, [origin(POINTS[0])]) as witness:
        with pytest.raises(WitnessError, match="it answered 404: unknown origin"):
            begin(recorder, [witness.at], needed=1, within=HANGS, operation=operation)
        lines = witness.said().splitlines()
    assert len(lines) == 1
    assert told == []


def test_asking_ends_in_time(recorder: Recorder, made: Files) -> None:
    told: list[str] = []
    operation = Operation(tell=lambda event, fields: told.append(event))
    at = witness_at(f"http://127.0.0.1:{free_port()}", made.vkey)
    with pytest.raises(WitnessError, match="0 of 1 witnesses have cosigned"):
        begin(recorder, [at], needed=1, within=1.5, operation=operation)
    assert told == ["witnesses"] * 2
