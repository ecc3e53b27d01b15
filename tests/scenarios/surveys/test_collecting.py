"""A survey that people answer from a page, held by a program of its own."""

from __future__ import annotations

import base64
import datetime
import hashlib
import itertools
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
import trio
import trustme

from parties.keeping.attempts import counting
from parties.keeping.members import Member
from protocol import AGGREGATOR, PartyId, Records
from protocol.errors import UsageError
from protocol.messages import CLOSED_EARLY, OUT_OF_TIME
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import read_note
from protocol.transcript.entries import Departed, Refused, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import decode_receipt, receipt_problems
from scenarios import open_transcript
from scenarios.surveys.holding import waiting
from scenarios.surveys.holding.serving import Serving
from scenarios.surveys.members import read_member
from tests.scenarios.command import complaint, sottovoce
from tests.scenarios.linked_surveys import linked_plan, linking, written_links
from tests.scenarios.programs import Program
from tests.scenarios.survey_folders import aggregating, listening, make_folders, table
from tests.scenarios.surveys.test_attempts import silent
from tests.transports.web.places import State, answer, inclusion_path_at
from transports.testing import HANGS
from transports.web.gateway import STATE_PURPOSE

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.decode


class Place(NamedTuple):
    """Somebody with a link, at a page that is served somewhere.

    Args:
        member: the aggregator, for the charter.
        identity: of the place.
        where: the address of the page.
    """

    member: Member
    identity: Identity
    where: str

    def ask(self, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """The status and the content of a response."""
        request = urllib.request.Request(self.where + path.removeprefix("/"), body)
        try:
            with urllib.request.urlopen(request, timeout=HANGS) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def body(self, draw: int = 0, codes: tuple[int, ...] = (1, 2)) -> bytes:
        """What it posts. Another draw may be another report."""
        question = _decode(self.ask(f"/place/{self.identity.name}")[1])[4]
        survey = self.member.charter.variant.survey
        records = Records(survey, np.array([codes], survey.dtype))
        secret = hashlib.sha256(f"{self.identity.name} {draw}".encode()).digest()
        return answer(self.member.charter, self.identity, records, question, secret=secret)

    def answer(self, codes: tuple[int, ...] = (1, 2)) -> int:
        """Answer; the status."""
        return self.post(self.body(codes=codes))

    def answer_otherwise(self) -> int:
        """Post another report; the status."""
        first = self.body()
        return self.post(next(b for n in itertools.count() if (b := self.body(n)) != first))

    def post(self, body: bytes) -> int:
        """Post this; the status."""
        return self.ask(inclusion_path_at(self.identity.name, body), body)[0]

    def state(self) -> State:
        """What the place is told of itself."""
        name, session = self.identity.name, self.member.charter.session
        signature = self.identity.sign(STATE_PURPOSE + _encode((session, name)))
        return State(*_decode(self.ask("/state", _encode((name, signature)))[1]))


def people(out: Path, where: str) -> dict[str, Place]:
    """Everybody who has a link."""
    member = read_member(out / AGGREGATOR)
    found = {}
    for place, link, _ in written_links(out):
        _, seed, survey = link.partition("#")[2].split(".")
        assert base64.urlsafe_b64decode(survey + "=") == member.charter.session
        identity = Identity(PartyId(place), base64.urlsafe_b64decode(seed + "="))
        found[place] = Place(member, identity, where)
    return found


@contextmanager
def collecting(out: Path, *options: object) -> Generator[tuple[Program, str]]:
    """A program that collects answers, and where; killed when the block ends."""
    listen = ("--listen", "127.0.0.1:0", "--out", out / "result", *options)
    with listening("collect", out / AGGREGATOR, *listen) as (program, where, _):
        yield program, where


def entries(out: Path) -> list[object]:
    return list(TranscriptReader(open_transcript(out / "result" / "transcript.svt.zst").chunks()))


def test_from_links_to_a_result(tmp_path: Path) -> None:
    """Killed in between, with a place withdrawn, a spare one instead, a party beside the links."""
    out = linking(tmp_path, "--count", 5, "--spare", 2, "--party", "clinic")
    folder = out / AGGREGATOR
    with collecting(out, "--parties", "127.0.0.1:0") as (_, where):
        page, comma, _ = where.partition(",")
        assert comma
        at = people(out, page)
        assert [at[name].answer() for name in ("p-1", "p-2")] == [200, 200]
        assert at["p-1"].answer_otherwise() == 409
    with collecting(out, "--parties", "127.0.0.1:0", "--resume") as (program, where):
        page, _, parties = where.removesuffix(" for parties").partition(", and ")
        at = people(out, page)
        assert at["p-1"].answer() == 200
        assert at["p-1"].answer_otherwise() == 409
        records = table(tmp_path / "clinic.csv", "yes,old")
        answering = Program(
            "answer", out / "parties" / "clinic", "--connect", parties, "--records", records
        )
        _, complained = answering.communicate(timeout=HANGS)
        assert answering.returncode == 0, complained
        withdrawing = ("withdraw", folder, "p-3", "--reason", "lost", "--instead", "p-6")
        assert sottovoce(*withdrawing).code == 0
        assert sottovoce("withdraw", folder, "p-2", "--reason", "too late").code == 0
        assert at["p-6"].answer() == 200
        patience = time.monotonic() + HANGS
        while at["p-3"].state().open:
            assert time.monotonic() < patience
            time.sleep(0.1)
        assert at["p-3"].answer() == 410
        # Also what was withdrawn just before the end.
        assert sottovoce("withdraw", folder, "p-5").code == 0
        early = sottovoce("close", folder)
        assert "--early closes it now" in complaint(early)
        assert sottovoce("close", folder, "--early").code == 0
        for line in program.stderr:
            if line.startswith("the survey is over"):
                break
        after = line.partition(" at ")[2].partition(",")[0]
        assert "with 3 receipts" in line
        at = people(out, after)
        for name in ("p-1", "p-2", "p-6"):
            answered, receipt, note, _ = at[name].state()
            assert answered
            assert receipt is not None
            assert note is not None
            shown = decode_receipt(receipt)
            assert (shown.party, shown.word) == (name, "counted")
            assert receipt_problems(shown, read_note(note)) == ()
        assert at["p-4"].state() == (False, None, None, False)
        assert at["p-4"].answer() == 410
        program.terminate()
        assert program.wait(HANGS) != 0
    found = entries(out)
    gone = {each.party: each.reason for each in found if isinstance(each, Departed)}
    assert gone["p-3"] == "withdrawn: lost"
    assert gone["p-2"] == "closed its link"
    assert (gone["p-4"], gone["p-5"]) == ("the survey was closed before its time", "withdrawn")
    spare = "withdrawn: a spare place that was not handed out"
    assert gone["p-7"] == f"{spare}; the survey was closed before its time"
    assert not [each for each in found if isinstance(each, Refused)]
    assert {each.at % 60_000_000 for each in found if isinstance(each, Sent)} == {0}
    result = json.loads((out / "result" / "result.json").read_text())
    assert result["usefulness"]["verdict"] in ("poor", "none", "unknown")
    assert result["estimate"]["respondents"] == 4
    verified = sottovoce("verify", out / "result" / "transcript.svt.zst")
    assert verified.code == 0
    assert "Record: sound" in verified.out
    # Nothing of where anybody was: no file of the organiser's has an address.
    for path in out.rglob("*"):
        assert path.is_dir() or b"127.0.0.1" not in path.read_bytes().replace(
            b"https://survey.example.org", b""
        )
    over = sottovoce("collect", folder, "--out", tmp_path / "other", "--listen", "127.0.0.1:0")
    assert "--again begins another attempt" in complaint(over)
    assert not (tmp_path / "other").exists()
    with_receipts = ("--resume", "--out", out / "result", "--listen", "127.0.0.1:0")
    again = Program("collect", folder, *with_receipts)
    line = again.stderr.readline()
    assert "with 3 receipts" in line
    at = people(out, line.partition(" at ")[2].partition(",")[0])
    assert at["p-1"].state()[0]
    again.kill()
    again.communicate()


@pytest.mark.slow
def test_nobody_answers_in_the_stead_of_who_has_answered(tmp_path: Path) -> None:
    """Whoever says that a link was lost could answer twice."""
    out = linking(tmp_path, "--count", 5, "--spare", 4)
    folder = out / AGGREGATOR
    with collecting(out) as (program, where):
        at = people(out, where)
        assert at["p-1"].answer() == 200
        said = sottovoce("withdraw", folder, "p-1", "--instead", "p-6")
        assert said.code == 0
        assert "p-6 is handed out for it, unless p-1 has answered" in said.out
        assert program.stderr.readline() == "p-1 has answered, and is not withdrawn\n"
        assert program.stderr.readline() == "p-6 takes no answer, for p-1 has answered\n"
        assert at["p-6"].answer() == 410
        although = ("--instead", "p-7", "--although-answered")
        assert sottovoce("withdraw", folder, "p-1", *although).code == 0
        assert program.stderr.readline() == "p-1 has answered, and is not withdrawn\n"
        assert at["p-7"].answer() == 200
        # Neither does it help to lose the next link, too.
        assert sottovoce("withdraw", folder, "p-6", "--instead", "p-8").code == 0
        assert program.stderr.readline() == "p-8 takes no answer, for p-1 has answered\n"
        # Who was faster than the organiser has answered.
        assert [at[name].answer() for name in ("p-3", "p-9")] == [200, 200]
        assert sottovoce("withdraw", folder, "p-3", "--instead", "p-9").code == 0
        assert program.stderr.readline() == "p-3 has answered, and is not withdrawn\n"
        assert program.stderr.readline() == "p-9 has answered, and p-3 too: both count\n"
        # What cannot be read ends nothing.
        with (folder / "withdrawn.jsonl").open("a") as file:
            file.write("garbage\n")
        assert "nobody is withdrawn until that is mended" in program.stderr.readline()
        assert at["p-2"].answer() == 200


def test_it_closes_when_it_was_said_to(tmp_path: Path) -> None:
    seconds = 8
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    out = linking(tmp_path, "--count", 6, plan=linked_plan(days=seconds / 86400))
    with collecting(out, "--leave") as (program, where):
        at = people(out, where)
        assert [at[f"p-{n}"].answer() for n in range(1, 5)] == [200] * 4
        assert program.wait(HANGS) == 0
        assert datetime.datetime.now(datetime.UTC) >= moment.replace(microsecond=0)
    gone = {each.party: each.reason for each in entries(out) if isinstance(each, Departed)}
    assert (gone["p-5"], gone["p-6"]) == (OUT_OF_TIME, OUT_OF_TIME)


def test_a_party_that_never_came_was_shut_out_by_an_early_closing(tmp_path: Path) -> None:
    out = linking(tmp_path, "--count", 4, "--party", "clinic")
    with collecting(out, "--parties", "127.0.0.1:0", "--leave") as (program, where):
        at = people(out, where.partition(",")[0])
        assert [place.answer() for place in at.values()] == [200] * 4
        assert sottovoce("close", out / AGGREGATOR, "--early").code == 0
        assert program.wait(HANGS) == 0
    gone = {each.party: each.reason for each in entries(out) if isinstance(each, Departed)}
    assert gone["clinic"] == CLOSED_EARLY


@pytest.mark.slow
def test_a_survey_without_enough_answers_fails(tmp_path: Path) -> None:
    out = linking(tmp_path, "--count", 6, plan=linked_plan(days=8 / 86400))
    with collecting(out, "--leave") as (program, where):
        assert people(out, where)["p-1"].answer() == 200
        _, said = program.communicate(timeout=HANGS)
    assert program.returncode == 1
    assert "1 of 6" in said
    assert "at least 4" in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--listen", "0.0.0.0:1"), "without --certificate, expected an address of this machine"),
        (("--listen", "127.0.0.1:1", "--key", "{pem}"), "--key: expected --certificate too"),
        (
            ("--listen", "0.0.0.0:1", "--certificate", "{pem}", "--behind-proxy"),
            "with --behind-proxy, expected an address of this machine alone",
        ),
    ],
)
def test_answers_do_not_travel_in_the_clear(
    options: tuple[str, ...], why: str, tmp_path: Path
) -> None:
    out = linking(tmp_path, "--count", 4)
    pem = tmp_path / "some.pem"
    pem.write_text("no certificate")
    given = [option.format(pem=pem) for option in options]
    assert why in complaint(sottovoce("collect", out / AGGREGATOR, "--out", tmp_path / "r", *given))


def test_only_a_survey_with_links_is_collected(tmp_path: Path) -> None:
    keys = make_folders(tmp_path)
    listen = ("--listen", "127.0.0.1:0", "--out", tmp_path / "result")
    said = complaint(sottovoce("collect", keys / AGGREGATOR, *listen))
    assert "nobody has a link to this survey" in said


def test_ordinary_parties_need_an_address(tmp_path: Path) -> None:
    """They would be counted out, and nobody told."""
    out = linking(tmp_path, "--count", 4, "--party", "clinic")
    listen = ("--listen", "127.0.0.1:0", "--out", tmp_path / "result")
    said = complaint(sottovoce("collect", out / AGGREGATOR, *listen))
    assert said.endswith(
        "expected --parties HOST:PORT, where those connect who have no link: clinic"
    )


def test_no_attempt_begins_after_the_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = linking(tmp_path, "--count", 4)
    monkeypatch.setattr(waiting, "seconds_left", lambda charter: -1.0)
    listen = ("--listen", "127.0.0.1:0", "--out", tmp_path / "result")
    said = complaint(sottovoce("collect", out / AGGREGATOR, *listen))
    assert "the survey closed at " in said
    assert not (tmp_path / "result").exists()


@pytest.mark.slow
def test_an_attempt_ends_though_it_is_gone_on_with_after_the_closing(tmp_path: Path) -> None:
    out = linking(tmp_path, "--count", 5, plan=linked_plan(days=4 / 86400))
    with collecting(out) as (_, where):
        at = people(out, where)
        assert [at[f"p-{n}"].answer() for n in range(1, 5)] == [200] * 4
    time.sleep(4)
    with collecting(out, "--resume", "--leave") as (program, _):
        assert program.wait(HANGS) == 0
    assert json.loads((out / "result" / "result.json").read_text())["estimate"]["respondents"] == 4


async def test_a_certificate_is_read_again_when_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    """Certificates for pages are renewed while a survey goes on."""
    authority = trustme.CA()
    file = tmp_path / "page.pem"

    def issue() -> None:
        file.unlink(missing_ok=True)
        authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(file))

    issue()
    serving = Serving("127.0.0.1", 0, file)
    context = serving.context()
    assert isinstance(context, ssl.SSLContext)
    loaded: list[Path] = []
    monkeypatch.setattr(Serving, "_load", lambda self, _: loaded.append(self.certificate))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serving._renew, context)
        await trio.sleep(200)
        assert loaded == []
        issue()
        await trio.sleep(200)
        assert loaded == [file]
        nursery.cancel_scope.cancel()


def greeted(server: ssl.SSLContext, authority: trustme.CA) -> bytes:
    """The certificate that a browser is shown.

    Raises:
        ssl.SSLError: it gets none.
    """
    client = ssl.create_default_context()
    authority.configure_trust(client)
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (
        client.wrap_bio(back, there, server_hostname="localhost"),
        server.wrap_bio(there, back, server_side=True),
    )
    for _ in range(3):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    shown = sides[0].getpeercert(binary_form=True)
    assert shown is not None
    return shown


@pytest.mark.parametrize("what", ["another's key", "no key", "no certificate"])
def test_a_certificate_that_does_not_fit_takes_the_place_of_none(what: str, tmp_path: Path) -> None:
    """It is read in the midst of a change, or it was changed for a wrong one."""
    authority = trustme.CA()
    one, other = (authority.issue_cert("localhost") for _ in range(2))
    certificate, key = tmp_path / "page.pem", tmp_path / "page.key"
    certificate.write_bytes(one.cert_chain_pems[0].bytes())
    key.write_bytes(one.private_key_pem.bytes())
    serving = Serving("127.0.0.1", 0, certificate, key)
    context = serving.context()
    assert isinstance(context, ssl.SSLContext)
    before = greeted(context, authority)
    certificate.write_bytes(other.cert_chain_pems[0].bytes())
    if what == "no key":
        key.write_text("x")
    if what == "no certificate":
        certificate.write_text("x")
    with pytest.raises(UsageError, match="expected a certificate and its key"):
        serving._load(context)
    assert greeted(context, authority) == before
    certificate.write_bytes(other.cert_chain_pems[0].bytes())
    key.write_bytes(other.private_key_pem.bytes())
    serving._load(context)
    assert greeted(context, authority) != before


@pytest.mark.slow
def test_any_survey_closes_when_it_was_said_to(tmp_path: Path) -> None:
    """Also one without links, of which a party has joined and says nothing. Its joining can end."""
    plan = linked_plan(days=6 / 86400).replace("quorum = 4", "quorum = 2")
    keys = make_folders(tmp_path, plan)
    with aggregating(keys, tmp_path / "out", "--joining", 60) as (aggregator, where, _):
        with silent(keys / "carl", where):
            connect = ("--connect", where, "--waiting", 60, "--records")
            programs = [
                Program("answer", keys / name, *connect, table(tmp_path / f"{name}.csv", row))
                for name, row in (("anna", "no,young"), ("bert", "yes,old"))
            ]
            for program in programs:
                _, said = program.communicate(timeout=HANGS)
                assert program.returncode == 0, said
            said, _ = aggregator.communicate(timeout=HANGS)
        assert json.loads(said)["estimate"]["respondents"] == 2


def test_what_cannot_be_served_begins_nothing(tmp_path: Path) -> None:
    out = linking(tmp_path, "--count", 4)
    pem = tmp_path / "some.pem"
    pem.write_text("no certificate")
    to = ("collect", out / AGGREGATOR, "--out", out / "result", "--listen")
    said = complaint(sottovoce(*to, "127.0.0.1:0", "--certificate", pem))
    assert "some.pem and its key: expected a certificate and its key" in said
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = "{}:{}".format(*taken.getsockname())
        assert "another program listens there" in complaint(sottovoce(*to, where))
    assert not list(out.glob("result/*"))
    with counting(out / AGGREGATOR) as counter:
        assert counter.last is None or counter.last.state == "taken"
    with collecting(out) as (_, where):
        assert people(out, where)["p-1"].answer() == 200
