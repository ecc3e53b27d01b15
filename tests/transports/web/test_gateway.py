"""The gateway: what places are told, what is taken of them, and what nobody can make it record."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from functools import partial
from unittest import mock

import msgspec
import pytest
import trio
import trio.testing

from parties.keeping.packing import Unpacked
from protocol import AGGREGATOR, PartyId
from protocol.audit.audit import audit
from protocol.audit.proofs.making_receipts import prove_each
from protocol.messages import Declined, Head
from protocol.session.heads import SaidHead
from protocol.session.roster import Identity
from protocol.transcript.entries import Departed, Entry, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.receipts import (
    Acknowledgement,
    Receipt,
    encode_receipt,
    receipt_for,
    receipt_problems,
)
from protocol.transcript.verification import verify
from protocol.variants import MargHT, PrivKVVariant, RRIndependent
from protocol.wire.arrays import encode_message
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.every_variant import BITS, FILMS
from tests.recorded.signed import ONE, THREE, TWO, setting
from tests.transports.web.places import PAGE, Held, inclusion_path_at
from transports.records.commits import Commits
from transports.web.failures import EVERY, LONGEST, MOST
from transports.web.http import Response

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.decode


def entries(held: Held) -> list[Entry]:
    held.recorder.flush()
    return list(TranscriptReader(Unpacked(bytes(held.content))))


def said_by(held: Held, party: PartyId) -> list[bytes]:
    sent = [each.envelope for each in entries(held) if isinstance(each, Sent)]
    return [each for each in sent if decode_envelope(each).sender == party]


def resigned(held: Held, identity: Identity, posted: bytes, **changes: object) -> bytes:
    """A body whose answer is changed, under a head of the place's own that signs it so."""
    answer, head = map(decode_envelope, _decode(posted, type=list[bytes]))
    answer = msgspec.structs.replace(answer, **changes)
    said = _decode(head.body, type=Head)
    leaf = hashlib.sha256(b"\0" + encode_envelope(answer)).digest()
    question = held.said.questions[identity.name]
    asked = decode_envelope(question)
    heard = [(0, asked.seq, hashlib.sha256(b"\0" + question).digest())]
    waits = hashlib.sha256(b"\0" + _encode((0, asked.kind, -1, heard))).digest()
    statement = _encode((held.charter.session, identity.name, 1, leaf, waits))
    signature = identity.sign(b"sottovoce head 2\0" + statement)
    head = msgspec.structs.replace(
        head, body=encode_message(msgspec.structs.replace(said, signature=signature))
    )
    return _encode([encode_envelope(answer), encode_envelope(head)])


async def test_a_record_of_places_is_as_good_as_any() -> None:
    held = Held()
    *those, last = held.charter.roster.parties
    async with held.asking() as post:
        bodies = {name: await held.body(name) for name in those}
        for name, body in bodies.items():
            assert (await post.answer(name, body)).status == 200
    chunks = partial(Unpacked, bytes(held.content))
    checked = verify(chunks())
    assert (list(checked.faults), checked.verdict) == ([], "sound")
    assert audit(chunks, RRIndependent).completeness.counted == len(those)
    assert {name: said_by(held, name) for name in those} == {
        name: _decode(body) for name, body in bodies.items()
    }
    gone = {each.party: each.reason for each in entries(held) if isinstance(each, Departed)}
    assert gone[last] == "never came"
    each, covering = prove_each(chunks, RRIndependent, those)
    held.gateway.receipts = {
        name: (encode_receipt(found), covering.note)
        for name, found in each
        if isinstance(found, Receipt)
    }
    for name in those:
        receipt, _ = held.gateway.receipts[name]
        told = await held.post.state(held.where.identities[name])
        assert told == (True, receipt, covering.note, False)
    assert await held.post.state(held.where.identities[last]) == (False, None, None, False)


async def test_an_acknowledgement_makes_a_receipt_that_holds() -> None:
    held = Held()
    async with held.asking() as post:
        body = await held.body(ONE)
        given = _decode((await post.answer(ONE, body)).body, type=Acknowledgement)
        assert await post.answer(ONE, body) == await post.answer(ONE, body)
    answer, last = _decode(body, type=tuple[bytes, bytes])
    envelope = decode_envelope(last)
    signed = next(iter(prove_each(partial(Unpacked, bytes(held.content)), RRIndependent, [ONE])[0]))
    assert isinstance(signed[1], Receipt)
    head = signed[1].head
    assert head is not None
    said = SaidHead(envelope, head.signature, head.said, head.heard)
    receipt, checkpoint = receipt_for(held.charter, said, given, said=[answer], reports=[0])
    assert receipt_problems(receipt, checkpoint) == ()


async def test_a_second_answer_leaves_no_trace() -> None:
    """Nobody can judge it, so an entry of it would leave the place without any bound."""
    held = Held()
    async with held.asking() as post:
        one = await held.body(ONE)
        other = await held.body(ONE, secret=bytes(31) + b"\1")
        assert one != other
        await post.answer(ONE, one)
        before = entries(held)
        second = await post.answer(ONE, other)
        assert (second.status, second.body) == (409, b"this place has answered otherwise\n")
        assert entries(held) == before
        assert (await post.answer(ONE, one)).status == 200
    assert len(said_by(held, ONE)) == 2


async def test_a_stranger_is_not_told_who_has_answered() -> None:
    """Times on record are rounded; whoever asks every second would know them all the same."""
    held = Held()
    strange = [b"", b"garbage"]

    async def told(name: PartyId) -> list[tuple[int, bytes]]:
        asked = [post(f"/answer/{name}/{bytes(32).hex()}", b"")]
        asked += [post.answer(name, body) for body in strange]
        answers = [await each for each in asked]
        return [(each.status, each.body) for each in answers]

    async with held.asking() as post:
        body = await held.body(ONE)
        await post.answer(ONE, body)
        strange += [body, await held.body(THREE)]
        held.switch.detach(THREE, "withdrawn")
        assert await told(ONE) == [*(await told(TWO))[:3], (200, mock.ANY), (400, mock.ANY)]
        assert await told(TWO) == [*(await told(THREE))[:3], (400, mock.ANY), (400, mock.ANY)]
        assert (await post(f"/place/{THREE}")).status == 200
        for name in held.charter.roster.parties[3:]:
            await post.answer(name, await held.body(name))
    strange[2:] = []
    assert await told(ONE) == await told(TWO) == await told(THREE)
    statuses = [(await held.post(f"/place/{name}")).status for name in (ONE, TWO, THREE)]
    assert statuses == [200] * 3


async def test_two_answers_at_once_are_one() -> None:
    held = Held()
    bodies, statuses = [], []
    async with held.asking() as post:
        bodies = [await held.body(ONE, secret=bytes(31) + bytes([n])) for n in range(4)]
        assert len(set(bodies)) > 1

        async def send(body: bytes) -> None:
            statuses.append((await post.answer(ONE, body)).status)

        async with trio.open_nursery() as nursery:
            for body in (*bodies, bodies[0]):
                nursery.start_soon(send, body)
    assert set(statuses) == {200, 409}
    assert _encode(said_by(held, ONE)) in bodies


async def test_an_answer_without_its_head_is_an_answer() -> None:
    """A loss of power may come between the two; the place is counted all the same."""
    held = Held()
    identity = held.where.identities[ONE]
    async with held.asking() as post:
        body = await held.body(ONE)
        other = await held.body(ONE, secret=bytes(31) + b"\1")
        held.switch.taken(held.switch.attach(ONE).take_nowait())
        held.switch.relay_nowait(ONE, [decode_envelope(_decode(body)[0])])
        assert (await post.state(identity))[0]
        assert (await post.answer(ONE, other)).status == 409
        held.switch.detach(ONE, "never came")
        assert (await post.answer(ONE, body)).status == 410
        assert (await post(f"/place/{ONE}")).status == 200
        for name in held.charter.roster.parties[1:]:
            await post.answer(name, await held.body(name))
    assert (await post.answer(ONE, body)).status == 410
    assert (await post(f"/place/{ONE}")).status == 200
    assert await post.state(identity) == (True, None, None, False)
    assert held.gateway.refused == {}
    audited = audit(partial(Unpacked, bytes(held.content)), RRIndependent)
    assert audited.completeness.counted == len(held.charter.roster.parties)


async def test_an_answer_that_ends_the_survey_is_acknowledged_however_often_it_comes() -> None:
    """Also while it is written: the survey is over as soon as everybody has answered."""
    held = Held()
    held.commits = Commits(held.recorder, lambda: time.sleep(0.1))
    *those, last = held.charter.roster.parties
    got: list[Response] = []
    async with held.asking() as post:
        for name in those:
            assert (await post.answer(name, await held.body(name))).status == 200
        body = await held.body(last)

        async def send() -> None:
            got.append(await post.answer(last, body))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            while not held.machine.finished:
                await trio.lowlevel.checkpoint()
            held.gateway.close()
            assert got == []
            nursery.start_soon(send)
    assert got[0] == got[1]
    assert got[0].status == 200


async def test_no_question_is_told_before_it_is_durable() -> None:
    """Else a server that lost power could ask something else of whoever has answered."""
    held, written = Held(), threading.Event()
    held.commits = Commits(held.recorder, written.wait)
    told: list[Response] = []

    async def ask() -> None:
        told.append(await held.post(f"/place/{ONE}"))

    async with held.asking(), trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        before = list(told)
        written.set()
    assert (before, [each.status for each in told]) == ([], [200])


WRONG: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda body: b"",
    "no msgpack": lambda body: b"\xc1",
    "one envelope": lambda body: _encode(_decode(body)[:1]),
    "three": lambda body: _encode([*_decode(body), b""]),
    "garbage": lambda body: _encode([b"x", b"y"]),
    "longer": lambda body: body + b"\0",
    "not canonical": lambda body: b"\xdc\0\x02" + body[1:],
    "in another order": lambda body: _encode(_decode(body)[::-1]),
    "the answer twice": lambda body: _encode([_decode(body)[0]] * 2),
    "a changed report": lambda body: _with(body, 0, lambda e: {"body": e.body[:-1] + b"\1"}),
    "a changed signature": lambda body: _with(body, 1, lambda e: {"body": _flipped(e.body)}),
    "another session": lambda body: _with(body, 0, lambda e: {"session": bytes(32)}),
    "another sender": lambda body: _with(body, 0, lambda e: {"sender": TWO}),
    "to another party": lambda body: _with(body, 0, lambda e: {"recipient": TWO}),
    "another number": lambda body: _with(body, 0, lambda e: {"seq": 1}),
    "a kind of others": lambda body: _with(body, 0, lambda e: {"kind": "Pooled"}),
    "no kind": lambda body: _with(body, 0, lambda e: {"kind": "Spam"}),
    "a head to the aggregator": lambda body: _with(body, 1, lambda e: {"recipient": AGGREGATOR}),
}


def _with(body: bytes, place: int, changes: Callable[..., dict[str, object]]) -> bytes:
    said = [decode_envelope(each) for each in _decode(body, type=list[bytes])]
    said[place] = msgspec.structs.replace(said[place], **changes(said[place]))
    return _encode([encode_envelope(each) for each in said])


def _flipped(body: bytes) -> bytes:
    return body[:-1] + bytes([body[-1] ^ 1])


async def test_what_is_not_a_place_s_own_answer_makes_no_entry() -> None:
    held = Held()
    async with held.asking() as post:
        body = await held.body(ONE)
        foreign = await held.body(TWO)
        before = entries(held)
        for number, (what, change) in enumerate(WRONG.items()):
            response = await post.answer(ONE, change(body), address=f"192.0.2.{number}")
            assert response.status == 400, what
        assert (await post.answer(ONE, foreign)).status == 400
        assert (await post(inclusion_path_at(ONE, body), foreign)).status == 400
        assert (await post.answer("nobody", body)).status == 404
        assert (await post.answer(AGGREGATOR, body)).status == 404
        assert entries(held) == before
        assert (await post.answer(ONE, body)).status == 200
    assert held.gateway.refused == {"bad request": len(WRONG) + 2, "not found": 2}


async def test_who_has_a_link_cannot_take_the_bound_away() -> None:
    """What is well signed but no answer to the question would be charged without a bound."""
    for variant, lies in (
        (PrivKVVariant(survey=FILMS, epsilon=1.0), {"of another round": {0: 7}}),
        (MargHT(survey=BITS, epsilon=1.0), {"more than was": {1: ["u1", [1], b"\xff"]}}),
    ):
        held = Held(setting(variant))
        identity = held.where.identities[ONE]
        async with held.asking() as post:
            body = await held.body(ONE)
            assert resigned(held, identity, body) == body
            fields = _decode(decode_envelope(_decode(body)[0]).body)
            for why, changes in lies.items():
                report = [changes.get(place, field) for place, field in enumerate(fields)]
                lie = await post.answer(ONE, resigned(held, identity, body, body=_encode(report)))
                assert lie.status == 400
                assert why in lie.body.decode()
            assert (await post.answer(ONE, body)).status == 200
        found = audit(partial(Unpacked, bytes(held.content)), type(variant))
        assert found.ledger.record_epsilon <= variant.most()


async def test_a_place_may_decline() -> None:
    held = Held()
    async with held.asking() as post:
        body = await held.body(ONE, budget=0.0)
        assert decode_envelope(_decode(body)[0]).kind == Declined.kind()
        assert (await post.answer(ONE, body)).status == 200
        assert (await post.state(held.where.identities[ONE]))[0]
        assert (await post.answer(TWO, await held.body(TWO))).status == 200
    gone = {each.party: each.reason for each in entries(held) if isinstance(each, Departed)}
    assert gone[ONE] == "closed its link"


async def test_what_is_told_is_what_a_link_can_be_checked_with() -> None:
    held = Held()
    async with held.asking() as post:
        terms, attempt, root, members, note = _decode((await post("/terms")).body)
        assert hashlib.sha256(terms).digest() == held.charter.terms
        roster = held.charter.roster
        assert (attempt, root, members, note) == (1, roster.root, len(roster), None)
        place, path, key, other, question = _decode((await post(f"/place/{TWO}")).body)
        assert (place, key) == (roster.position[TWO], roster.key(AGGREGATOR))
        assert (tuple(path), tuple(other)) == (
            roster.inclusion_path_at(place),
            roster.inclusion_path_at(0),
        )
        assert decode_envelope(question).recipient == TWO
        assert (await post("/place/nobody")).status == 404
        assert (await post(f"/place/{AGGREGATOR}")).status == 404


async def test_a_place_that_is_gone_is_told_so() -> None:
    held = Held()
    early = held.gateway
    assert (await held.post(f"/place/{ONE}")).status == 503
    async with held.asking() as post:
        body, late = await held.body(ONE), await held.body(THREE)
        for name in held.charter.roster.parties[3:]:
            await post.answer(name, await held.body(name))
        assert (await post.state(held.where.identities[ONE])).open
        held.switch.detach(ONE, "withdrawn: the link was lost")
        assert not (await post.state(held.where.identities[ONE])).open
        assert (await post.answer(ONE, body)).status == 410
        assert (await post.answer(TWO, await held.body(TWO))).status == 200
    assert early is held.gateway
    assert (await held.post.answer(THREE, late)).status == 410
    assert not (await held.post.state(held.where.identities[THREE])).open


async def test_state_is_for_who_has_the_key() -> None:
    held = Held()
    async with held.asking() as post:
        own, other = (held.where.identities[name] for name in (ONE, TWO))
        statement = b"sottovoce state 1\0" + _encode((held.charter.session, ONE))
        assert (await post("/state", _encode((ONE, own.sign(statement))))).status == 200
        for body, status in (
            (b"", 400),
            (b"\x92\xa1\xff\xc4\x00", 400),
            (b"\x92\xa3\xed\xa0\x80\xc4\x00", 400),
            (_encode((ONE, bytes(64))), 403),
            (_encode((ONE, other.sign(statement))), 403),
            (_encode((TWO, own.sign(statement))), 403),
            (_encode((AGGREGATOR, own.sign(statement))), 403),
            (_encode((ONE, own.sign(statement[:-1]))), 403),
        ):
            assert (await post("/state", body)).status == status


async def test_only_failures_count_against_an_address(autojump_clock: object) -> None:
    held = Held()
    async with held.asking() as post:
        for _ in range(3 * MOST):
            assert (await post("/terms", address="2001:db8::1")).status == 200
        for number in range(MOST):
            wrong = await post("/state", b"", address=f"2001:db8::{number:x}")
            assert wrong.status == 400
        refused = await post("/terms", address="2001:db8::ffff")
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert (await post("/terms", address="2001:db8:0:1::1")).status == 200
        await trio.sleep(EVERY)
        assert (await post("/terms", address="2001:db8::1")).status == 200


async def test_nobody_shuts_out_an_address_for_long(autojump_clock: object) -> None:
    """What is refused before it is known to come from an address that has to wait counts, too."""
    held = Held()
    async with held.asking() as post:
        for _ in range(100 * MOST):
            held.gateway.fail("192.0.2.1", 404, "expected another path")
        refused = await post("/terms")
        assert (refused.status, refused.headers["Retry-After"]) == (429, f"{LONGEST:.0f}")
        await trio.sleep(LONGEST)
        assert (await post("/terms")).status == 200


async def test_who_finds_no_room_has_not_failed() -> None:
    held = Held()
    async with held.asking() as post:
        for _ in range(MOST):
            held.gateway.fail("192.0.2.1", 503, "more connections than allowed")
        assert (await post("/terms")).status == 200
        for _ in range(MOST):
            held.gateway.fail("192.0.2.1", 400, "malformed request")
        assert (await post("/terms")).status == 429
    assert held.gateway.refused == {"service unavailable": MOST, "bad request": MOST}


@pytest.mark.parametrize("proxied", [False, True])
async def test_whose_failures_they_are_says_a_proxy_only_where_there_is_one(proxied: bool) -> None:
    held = Held(proxied=proxied)
    async with held.asking() as post:
        for _ in range(MOST):
            # A client may say anything; what the proxy adds comes last.
            said = {"x-forwarded-for": "192.0.2.7, 192.0.2.9"}
            assert (await post("/state", b"", address="127.0.0.1", **said)).status == 400
        of_client = await post("/terms", address="127.0.0.1", **{"x-forwarded-for": "192.0.2.9"})
        of_other = await post("/terms", address="127.0.0.1", **{"x-forwarded-for": "192.0.2.7"})
        assert [of_client.status, of_other.status] == ([429, 200] if proxied else [200, 200])


@pytest.mark.parametrize("proxied", [False, True])
async def test_failures_count_against_nobody_where_nobody_can_be_told_apart(proxied: bool) -> None:
    held = Held(proxied=proxied)
    async with held.asking() as post:
        for _ in range(MOST):
            assert (await post("/state", b"", address="127.0.0.1")).status == 400
        assert (await post("/terms", address="127.0.0.1")).status == 200


async def test_the_page_is_the_same_for_all_and_stays_in_caches() -> None:
    held = Held()
    page = await held.post("/")
    assert (page.status, page.body) == (200, PAGE.content)
    assert page.headers["Content-Security-Policy"] == PAGE.policy
    tag = page.headers["ETag"]
    same = await held.post("/", **{"if-none-match": tag})
    assert (same.status, same.body, same.headers["ETag"]) == (304, b"", tag)


async def test_times_on_record_do_not_tell_who_came_when(
    mock_clock: trio.testing.MockClock,
) -> None:
    held = Held(grain=60.0)
    async with held.asking() as post:
        mock_clock.jump(7)
        await post.answer(ONE, await held.body(ONE))
        mock_clock.jump(20)
        await post.answer(TWO, await held.body(TWO))
        mock_clock.jump(2)
        for name in held.charter.roster.parties[2:]:
            await post.answer(name, await held.body(name))
    minute = 60_000_000
    times = [each.at for each in entries(held) if isinstance(each, Sent)]
    assert set(times) <= {0, minute}
    assert times[-1] == minute
    assert verify(Unpacked(bytes(held.content))).verdict == "sound"
