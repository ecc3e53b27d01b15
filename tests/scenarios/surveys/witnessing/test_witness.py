"""``sottovoce witness``: its key and state, honest logs and forks, crashes and hostile requests."""

from __future__ import annotations

import functools
import signal
import socket
import stat
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from parties.keeping.checkpoints import read_checkpoint
from protocol.audit.proofs.consistency import log_hashes
from protocol.crypto.merkle import consistency_path, merkle_root
from protocol.errors import UsageError
from protocol.transcript.checkpoints import SignedCheckpoint, sign_checkpoint
from protocol.transcript.cosignatures import cosigned, read_witness_key, with_lines
from scenarios.surveys.witnessing.asking import WitnessAt, ask_witnesses, witness_at
from scenarios.surveys.witnessing.server import HEAD_BYTES
from scenarios.surveys.witnessing.state import make_witness, witnessing
from tests.recorded.checkpointed import SIGNER, checkpoints_of, record
from tests.scenarios.command import complaint, python, sottovoce
from tests.scenarios.surveys.witnessing.witnesses import Files, Running, files, origin, running
from tests.tiers import thinned
from transports.testing import HANGS

POINTS = checkpoints_of(record())
LAST = POINTS[-1]
ORIGIN = origin(LAST)


@functools.cache
def hashes() -> Sequence[bytes]:
    return log_hashes(lambda: (record(),))


def fork(size: int) -> SignedCheckpoint:
    return sign_checkpoint(
        SIGNER, session=LAST.session, size=size, root=merkle_root([b"fork"] * size)
    )


def path_to(new: SignedCheckpoint, old: int) -> tuple[bytes, ...]:
    return consistency_path(hashes()[: new.size], old)


@pytest.fixture
def made(tmp_path: Path) -> Files:
    return files(tmp_path)


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    """One for requests that leave it as it is: it has cosigned nothing."""
    with running(files(tmp_path_factory.mktemp("witness")), [ORIGIN]) as found:
        yield found


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    key, state = tmp_path / "new" / "w.key", tmp_path / "state"
    make = ("witness", "--key", key, "--state", state, "--new-key", "witness.example/w1")
    said = sottovoce(*make)
    assert said.code == 0, said.err
    assert read_witness_key(said.out.strip()).name == "witness.example/w1"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    before = key.read_bytes()
    complaint(sottovoce(*make))
    assert key.read_bytes() == before


def test_a_port_that_is_taken_is_told(made: Files) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ("witness", "--key", made.key, "--state", made.state, "--trust", ORIGIN)
        said = sottovoce(*command, "--port", port)
    assert said.code == 2
    *_, last = said.err.splitlines()
    assert last == (
        f"sottovoce: 127.0.0.1:{port}: another program listens there: end it, or choose another "
        "port"
    )


def test_a_state_that_was_changed_is_told(made: Files, tmp_path: Path) -> None:
    def told(key: Path, state: Path, *options: object) -> str:
        return complaint(sottovoce("witness", "--key", key, "--state", state, *options))

    trust = ("--trust", ORIGIN)
    assert "expected an origin" in told(made.key, made.state, "--trust", f"{ORIGIN}\n1")
    name = f"{LAST.session.hex()}-{LAST.key.hex()}.checkpoint"
    for content in (
        "",
        "x",
        LAST.note.replace(ORIGIN, ORIGIN[:-1] + "0"),
        fork(3).note[:-9] + "\n",
    ):
        (made.state / name).write_text(content)
        assert name in told(made.key, made.state, *trust)


@pytest.mark.slow
def test_a_fork_is_refused_and_the_honest_log_is_cosigned_on(made: Files, tmp_path: Path) -> None:
    first, second = POINTS[1], POINTS[2]
    with running(made, [ORIGIN]) as witness:
        status, _, line = witness.ask(0, first.note)
        assert status == 200
        key = witness.at.key
        assert cosigned(with_lines(first.note, [line]), [key]).enough
        # A run of the survey once more, in the same session.
        assert witness.ask(0, fork(first.size).note)[:2] == (409, "text/x.tlog.size")
        assert witness.ask(first.size, fork(first.size).note)[0] == 409
        status, _, _ = witness.ask(first.size, fork(second.size).note, path_to(second, first.size))
        assert status == 422
        assert witness.ask(0, second.note) == (409, "text/x.tlog.size", f"{first.size}\n")
        status, _, line = witness.ask(first.size, second.note, path_to(second, first.size))
        assert status == 200
        assert cosigned(with_lines(second.note, [line]), [key]).enough
        assert witness.ask(second.size, first.note)[0] == 400
        assert witness.ask(first.size, first.note)[:1] == (409,)
        lines = witness.said().splitlines()
    assert len(lines) == 8
    assert [line.split(": ")[1] for line in lines] == [
        "cosigned",
        "refused (409)",
        "refused (409)",
        "refused (422)",
        "refused (409)",
        "cosigned",
        "refused (400)",
        "refused (409)",
    ]
    [evidence] = made.state.glob("*.evidence.json")
    said = sottovoce("evidence", evidence)
    assert said.code == 0
    assert f"the checkpoint of size {first.size} was signed twice" in said.out
    [kept] = made.state.glob("*.checkpoint")
    assert read_checkpoint(kept) == second
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_client_finds_its_way_from_what_the_witness_knows(made: Files) -> None:
    with running(made, [ORIGIN]) as witness:
        for point in POINTS:
            [asked] = ask_witnesses(point.note, hashes(), [witness.at])
            assert asked.line is not None, asked.why
            assert cosigned(with_lines(point.note, [asked.line]), [witness.at.key]).enough
        [again] = ask_witnesses(LAST.note, hashes(), [witness.at])
        assert again.line is not None
        for note, why in (
            (POINTS[0].note, f"it has cosigned size {LAST.size}"),
            (fork(LAST.size).note, f"another log of size {LAST.size}: a fork"),
        ):
            [asked] = ask_witnesses(note, hashes(), [witness.at])
            assert asked.line is None
            assert why in asked.why


@pytest.mark.slow
def test_one_process_at_a_time_uses_a_state(made: Files) -> None:
    with running(made, [ORIGIN]):
        options = ("--key", made.key, "--state", made.state, "--port", 0, "--trust", ORIGIN)
        said = python("-m", "scenarios", "witness", *options)
        assert "another witness is using this state" in complaint(said)


# Ends the process where the witness is about to write its state, or has and is about to cosign.
KILLED = """
import os, signal
import scenarios.surveys.witnessing.state as state

def killed(*arguments, **options):
    os.kill(os.getpid(), signal.SIGKILL)

state.{what} = killed
from scenarios.cli import main
import sys
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "kept"),
    [("write_whole", False), ("cosign", True)],
)
def test_a_kill_between_state_and_answer_leads_to_no_two_forks(
    made: Files, what: str, kept: bool
) -> None:
    first, second = POINTS[1], POINTS[2]
    with running(made, [ORIGIN]) as witness:
        assert witness.ask(0, first.note)[0] == 200
    program = KILLED.format(what=what)
    with running(made, [ORIGIN], ("-c", program)) as witness:
        with pytest.raises(ConnectionError):
            witness.ask(first.size, second.note, path_to(second, first.size))
        assert witness.process.wait(HANGS) == -signal.SIGKILL
    known = second if kept else first
    with running(made, [ORIGIN]) as witness:
        assert witness.ask(0, fork(known.size).note)[0] == 409
        assert witness.ask(known.size, fork(known.size).note)[2] == f"{known.size}\n"
        path = path_to(second, known.size)
        assert witness.ask(known.size, second.note, path)[0] == 200


def test_what_cannot_be_kept_is_not_cosigned(made: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    with witnessing(made.key, made.state, [ORIGIN], lambda: 0.0) as witness:
        with monkeypatch.context() as patch:
            patch.setattr("scenarios.surveys.witnessing.state.write_whole", full)
            with pytest.raises(OSError, match="No space"):
                witness.answer(f"old 0\n\n{LAST.note}".encode())
        # Nothing was cosigned, so anything may be first.
        decision, line = witness.answer(f"old 0\n\n{POINTS[0].note}".encode())
    assert decision.status == 200
    assert line


def exchange(witness: Running, *parts: bytes) -> bytes:
    """What comes back when these bytes are sent, up to the end."""
    with socket.create_connection(("127.0.0.1", witness.port), timeout=HANGS) as link:
        try:
            for part in parts:
                link.sendall(part)
            link.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # It has heard enough.
        back = b""
        try:
            while part := link.recv(1 << 16):
                back += part
        except ConnectionResetError:
            pass
        return back


def posted(body: bytes, **headers: str) -> bytes:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    fields = {"Host": "w", "Content-Length": str(len(body)), **given}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST /add-checkpoint HTTP/1.1\r\n{lines}\r\n".encode() + body


def bodiless(line: str) -> bytes:
    return f"{line} HTTP/1.1\r\nHost: w\r\n\r\n".encode()


HOSTILE = [
    (b"\r\n\r\n", 400),
    (b"\x16\x03\x01\x00\xa5\x01\r\n\r\n", 400),
    (bodiless("GET /"), 404),
    (bodiless("GET /add-checkpoint"), 405),
    (b"POST /add-checkpoint HTTP/2.0\r\n\r\n", 400),
    (bodiless("POST /../add-checkpoint"), 404),
    (bodiless("POST /add-checkpoint"), 411),
    (b"POST /add-checkpoint HTTP/1.1\r\nHost: w\r\nno header\r\n\r\n", 400),
    (b"POST /add-checkpoint HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400),
    (posted(b"", A="\x00"), 400),
    (posted(b"", Transfer_Encoding="chunked"), 501),
    (posted(b"", Content_Length="-1"), 400),
    (posted(b"", Content_Length="+1"), 400),
    (posted(b"", Content_Length="1e3"), 400),
    (posted(b"", Content_Length="99999999"), 413),
    (posted(b"", Content_Length="9" * 400), 400),
    (posted(b"", content_length="1"), 400),
    (posted(b"x", Content_Length="2"), 400),
    (b"POST /add-checkpoint HTTP/1.1\r\nA: b", 400),
    (b"A" * (HEAD_BYTES + (1 << 15)), 431),
    (b"POST /add-checkpoint HTTP/1.1\r\n" + b"A: b\r\n" * HEAD_BYTES, 431),
    (posted(b""), 400),
    (posted(bytes(1000)), 400),
]


@pytest.mark.parametrize(("sent", "status"), HOSTILE)
def test_hostile_requests_are_refused(witness: Running, sent: bytes, status: int) -> None:
    assert exchange(witness, sent).startswith(f"HTTP/1.1 {status} ".encode())


@pytest.mark.slow
def test_a_refusal_is_one_line(made: Files) -> None:
    with running(made, [ORIGIN], trusted=["127.0.0.1"]) as witness:
        for sent, _ in HOSTILE:
            exchange(witness, sent)
        exchange(witness, b"")
        lines = witness.said().splitlines()
    assert len(lines) == len(HOSTILE)
    assert all(line.startswith("127.0.0.1: refused (") for line in lines)
    assert all(line.isprintable() for line in lines)


def test_requests_may_follow_each_other_and_come_in_pieces(witness: Running) -> None:
    body = f"old 3\n\n{LAST.note}".encode()
    request = posted(body)
    pieces = (request + request[:20], request[20:], posted(body, Connection="close"), request)
    back = exchange(witness, *pieces)
    assert back.count(b"HTTP/1.1 409 ") == 3
    assert back.count(b"\r\n\r\n0\n") == 3


def test_the_silent_do_not_keep_others_out(witness: Running) -> None:
    silent = [socket.create_connection(("127.0.0.1", witness.port)) for _ in range(80)]
    silent[0].sendall(b"POST /add")
    assert witness.ask(3, LAST.note)[0] == 409
    for link in silent:
        link.close()
    assert witness.ask(3, LAST.note)[0] == 409


@pytest.mark.parametrize(
    "url",
    thinned(
        [
            "",
            "w.example",
            "ftp://w",
            "http://",
            "http://u:p@w",
            "http://w/?q",
            "http://w:x",
            "http://w:1/a b",
        ],
        7,
    ),
)
def test_a_malformed_url_is_told(url: str, made: Files) -> None:
    with pytest.raises(UsageError, match="--witness: "):
        witness_at(url, made.vkey)


@pytest.mark.slow
def test_witnesses_that_fail_are_told_and_hold_up_nobody(made: Files, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        closed = gone.getsockname()[1]
    other = make_witness(tmp_path / "other.key", tmp_path / "other", "other.example")
    with (
        socket.create_server(("127.0.0.1", 0)) as deaf,
        running(made, [ORIGIN]) as witness,
    ):
        asked = ask_witnesses(
            LAST.note,
            hashes(),
            [
                witness_at(f"http://127.0.0.1:{deaf.getsockname()[1]}", made.vkey),
                witness_at(f"http://127.0.0.1:{closed}", made.vkey),
                WitnessAt(witness.at.url, other),
                witness_at(f"{witness.at.url}/elsewhere", made.vkey),
                witness.at,
            ],
            within=2,
        )
    assert [each.line is None for each in asked] == [True, True, True, True, False]
    assert asked[0].why.startswith("no answer")
    assert asked[1].why.startswith("nobody listens there: ")
    assert "no valid cosignature" in asked[2].why
    assert "it answered 404" in asked[3].why
