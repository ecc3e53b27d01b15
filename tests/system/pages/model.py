"""A model of the page that people answer from: its checks, its draw, its storage and its visits.

It draws by the program's own randomizers. What it stores, sends and shows, and when, is said here
once more, from the agreement of page and server.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from protocol import AGGREGATOR, RECORD, OneReport, PartyId, ProtocolError, Records, Request, Stream
from protocol.crypto.merkle import Tree, is_included, leaf_hash
from protocol.estimators.analysis import Analysis
from protocol.messages import NO_ROUND, Declined, Envelope, Head
from protocol.session.charter import Charter
from protocol.session.heads import Heard, SaidHead, sign_head
from protocol.session.machine import Machine
from protocol.session.roster import Excerpt, Identity, Roster, roster_leaf
from protocol.session.terms import NEIGHBOURS, Terms, session_id
from protocol.session.variant import build
from protocol.transcript.checkpoints import read_note
from protocol.transcript.receipts import (
    Acknowledgement,
    decode_receipt,
    encode_receipt,
    receipt_for,
    receipt_problems,
)
from protocol.variants import BUILT_IN
from protocol.wire.arrays import encode_message
from protocol.wire.codec import encode_envelope

PURSE = "sottovoce purse"
PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between tries."""

SIGNING = 0.01
"""How long a signature takes, in seconds."""

_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_terms = msgspec.msgpack.Decoder(tuple[bytes, int, bytes, int, str | None])
_agreed = msgspec.msgpack.Decoder(Terms)
_place = msgspec.msgpack.Decoder(tuple[int, tuple[bytes, ...], bytes, tuple[bytes, ...], bytes])
_state = msgspec.msgpack.Decoder(tuple[bool, bytes | None, str | None, bool])
_posted = msgspec.msgpack.Decoder(tuple[bytes, bytes])
_acknowledgement = msgspec.msgpack.Decoder(Acknowledgement)

T = TypeVar("T")
Words = Callable[[], int]


class RefusedError(Exception):
    """The page does not go on, for a reason of one word."""


class MovedError(Exception):
    """The server is at another attempt by now."""


class Listed(Stream):
    """A stream of words that are given out one by one; it is its own child."""

    def __init__(self, words: Words) -> None:
        super().__init__(bytes(32))
        self._next = words

    def derive(self, purpose: str) -> Stream:
        return self

    def words(self, n: int) -> NDArray[np.uint64]:
        return np.array([self._next() for _ in range(n)], np.uint64)


class Link(NamedTuple):
    """What is in a link: a place, its key, and the survey's id."""

    party: PartyId
    identity: Identity
    survey: bytes


def read_link(fragment: str) -> Link:
    """What a link says after its ``#``."""
    party, seed, survey = fragment.split(".")
    return Link(PartyId(party), Identity(PartyId(party), _plain(seed)), _plain(survey))


def url64(content: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _plain(spelled: str) -> bytes:
    return base64.urlsafe_b64decode(spelled + "=" * (-len(spelled) % 4))


class Agreement(NamedTuple):
    """What page and server have agreed on, checked.

    Args:
        link: whose it is.
        charter: as far as one party knows it.
        asked: the encoded envelope of the question.
    """

    link: Link
    charter: Charter
    asked: bytes

    @property
    def question(self) -> Envelope:
        """What is asked."""
        return msgspec.msgpack.decode(self.asked, type=Envelope)


def agree(link: Link, terms: bytes, place: bytes) -> Agreement:
    """Check what the server says of a survey and a place of it.

    Raises:
        RefusedError: it is not what the link is about.
    """
    encoded, attempt, root, members, note = _terms.decode(terms)
    at, path, key, aggregator_path, asked = _place.decode(place)
    digest = hashlib.sha256(encoded).digest()
    if session_id(terms=digest, roster=root, members=members) != link.survey:
        raise RefusedError("survey")
    own = (link.party, link.identity.public)
    for name, public, index, proof in ((*own, at, path), (AGGREGATOR, key, 0, aggregator_path)):
        leaf = roster_leaf(name, public)
        if not is_included(leaf, index=index, count=members, root=root, path=proof):
            raise RefusedError("place")
    agreed = _agreed.decode(encoded)
    variant = build(
        BUILT_IN[agreed.variant],
        parameters=dict(agreed.parameters),
        survey=dict(agreed.survey),
    )
    two = Roster(((AGGREGATOR, key), own)).members
    charter = Charter(
        variant=variant,
        roster=Excerpt(members=two, place=at, size=members, over=root),
        nonce=agreed.nonce,
        analysis=msgspec.convert(agreed.analysis, Analysis | None),
        attempt=attempt,
        enrolled=agreed.enrolled,
    )
    if attempt > 1:
        checkpoint = None if note is None else read_note(note)
        by = None if checkpoint is None else (checkpoint.session, checkpoint.key, checkpoint.valid)
        if by != (charter.session, key, True):
            raise RefusedError("checkpoint")
    elif agreed.neighbours != NEIGHBOURS:
        raise RefusedError("survey")
    seq = msgspec.msgpack.decode(asked)[3]
    # The codes of an answer's categories would mean something else under another question.
    if question_to(charter, link.party, seq) != asked or charter.terms != digest:
        raise RefusedError("question")
    return Agreement(link, charter, asked)


def question_to(charter: Charter, party: PartyId, seq: int) -> bytes:
    """The encoded envelope of the only question that a party answers."""
    asks: Any = charter.variant
    question = asks.question() if isinstance(asks, OneReport) else Request(asks.survey.digest)
    body = encode_message(question)
    envelope = Envelope(charter.session, AGGREGATOR, party, seq, question.kind(), body)
    return encode_envelope(envelope)


def draw(agreement: Agreement, codes: list[int], words: Words) -> bytes:
    """The body of an answer, drawn now."""
    charter, link = agreement.charter, agreement.link
    records = Records(charter.variant.survey, np.array([codes], np.int64))
    stream = Listed(words)
    machine = Machine(charter, link.party, stream, records=records, identity=link.identity)
    machine.start(0.0)
    machine.receive(agreement.question, 0.0)
    if machine.failure is not None:
        raise machine.failure
    return machine.take()[0].body


def spoken(agreement: Agreement, kind: str, said: bytes) -> bytes:
    """The body of a POST: one envelope to the aggregator, and the head that signs it."""
    charter, party = agreement.charter, agreement.link.party
    answer = encode_envelope(Envelope(charter.session, party, AGGREGATOR, 0, kind, said))
    tree, heard, question = Tree(), Heard(), agreement.question
    tree.append(answer)
    heard.add(0, question.kind, NO_ROUND, [(0, question.seq, leaf_hash(agreement.asked))])
    head = sign_head(agreement.link.identity, session=charter.session, said=tree, heard=heard)
    body = encode_message(head)
    last = Envelope(charter.session, party, RECORD, 1, Head.kind(), body)
    return _encode((answer, encode_envelope(last)))


def reported(agreement: Agreement, report: bytes) -> bytes:
    """The body of a POST with a report."""
    contribution = agreement.charter.variant.contribution
    assert contribution is not None
    return spoken(agreement, contribution.kind(), report)


def receipt_of(
    agreement: Agreement, body: bytes, given: Acknowledgement
) -> tuple[bytes, str, bool]:
    """The receipt that an acknowledgement makes, its checkpoint's note, and whether it holds."""
    answer, last = _posted.decode(body)
    charter, identity = agreement.charter, agreement.link.identity
    tree, heard, question = Tree(), Heard(), agreement.question
    tree.append(answer)
    heard.add(0, question.kind, NO_ROUND, [(0, question.seq, leaf_hash(agreement.asked))])
    signed = sign_head(identity, session=charter.session, said=tree, heard=heard)
    envelope = msgspec.msgpack.decode(last, type=Envelope)
    head = SaidHead(envelope, signed.signature, tree.root(), heard.tree.root())
    kind = msgspec.msgpack.decode(answer, type=Envelope).kind
    reports = [] if kind == Declined.kind() else [0]
    receipt, checkpoint = receipt_for(charter, head, given, said=[answer], reports=reports)
    holds = receipt_problems(receipt, checkpoint) == ()
    return encode_receipt(receipt), checkpoint.note, holds


def word_of(agreement: Agreement, receipt: bytes, note: str, report: bytes | None) -> str:
    """What a receipt says: ``counted``, ``late`` or ``not yet known``; ``wrong`` if it is wrong.

    Args:
        report: what it has to be about, if that is known.
    """
    try:
        found, checkpoint = decode_receipt(receipt), read_note(note)
    except ValueError:
        return "wrong"
    session, key = agreement.charter.session, agreement.charter.roster.key(AGGREGATOR)
    own = (agreement.link.party, agreement.link.identity.public)
    right = (checkpoint.session, checkpoint.key, found.party, found.key) == (session, key, *own)
    for shown in found.reports:
        about = None if shown.envelope is None else shown.envelope.body
        right = right and report in (None, about)
    return found.word if right and not receipt_problems(found, checkpoint) else "wrong"


class Browser(Protocol):
    """What a page has of its browser."""

    words: Words

    async def fetch(self, path: str, body: bytes | None) -> tuple[int, bytes, float]:
        """A status, a body, and after how many seconds to come again; OSError if none came."""

    def get(self, name: str) -> str | None:
        """What is stored under a name."""

    def put(self, name: str, value: str) -> None:
        """Store something."""

    async def alone(self, name: str, task: Callable[[], Awaitable[T]]) -> T:
        """Run a task while no other tab of this browser runs one of this name."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def changed(self, state: State) -> None:
        """What the page shows has changed."""


Name = Literal["opening", "asking", "again", "sending", "sent", "elsewhere", "closed", "refused"]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What a page shows.

    Args:
        name: of the state.
        shown: whether a report is shown as sent.
        counted: what is known of that.
        unsent: the page says that what was drawn is not counted.
        reason: why it is refused.
    """

    name: Name = "opening"
    shown: bool = False
    counted: str | None = None
    unsent: bool = False
    reason: str = ""


class Stored(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is stored of a survey and a place, before it is sent.

    Args:
        attempt: at the survey.
        body: of the POST.
        report: that is in it, or in an earlier attempt's.
        declined: whether the body has no report.
        receipt, note: once it is acknowledged.
    """

    attempt: int
    body: str
    report: str | None = None
    declined: bool = False
    receipt: str | None = None
    note: str | None = None


class Page:
    """A page that was opened, until it is closed."""

    def __init__(self, browser: Browser) -> None:
        self.state = State()
        self.browser = browser
        self._link: Link | None = None
        self._agreement: Agreement | None = None
        self._sending = False

    async def open(self, fragment: str) -> None:
        """Go as far as can be without a person."""
        self._link = read_link(fragment)
        await self._guarded(self.arrive)

    async def send(self, codes: list[int]) -> None:
        """Draw, store and send an answer; what is stored already is sent in its place."""

        def make(kept: Stored | None) -> Stored:
            return self.made(codes, kept)

        await self._guarded(lambda: self.once(make))

    async def repeat(self) -> None:
        """Send the report of an earlier attempt again."""
        await self.send([])

    async def decline(self) -> None:
        """Say that this place does not answer."""

        def make(kept: Stored | None) -> Stored:
            body = spoken(self.agreement, Declined.kind(), encode_message(Declined("terms")))
            report = None if kept is None else kept.report
            return Stored(attempt=self.attempt, body=body.hex(), report=report, declined=True)

        await self._guarded(lambda: self.once(make))

    @property
    def agreement(self) -> Agreement:
        """Once it is checked."""
        assert self._agreement is not None
        return self._agreement

    @property
    def attempt(self) -> int:
        """Which it is."""
        return self.agreement.charter.attempt

    @property
    def link(self) -> Link:
        """Once it is read."""
        assert self._link is not None
        return self._link

    @property
    def name(self) -> str:
        """Under which the page stores."""
        return f"sottovoce {self.link.survey.hex()} {self.link.party}"

    def become(self, **fields: Any) -> None:
        """Show something else."""
        self.state = State(**fields)
        self.browser.changed(self.state)

    async def _guarded(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            try:
                await task()
            except MovedError:
                await self._guarded(self.arrive)
        except RefusedError as error:
            self.become(name="refused", reason=str(error))
        except (ProtocolError, msgspec.MsgspecError, ValueError) as error:
            self.become(name="refused", reason=f"malformed: {error}")

    async def arrive(self) -> None:
        """Find what there is to agree to, and what this browser has of it."""
        self._agreement = await self.agreed()
        kept = self.kept()
        if kept is not None and kept.attempt > self.attempt:
            raise RefusedError("attempt")
        if kept is not None and kept.attempt == self.attempt:
            return await (self.deliver(kept) if kept.receipt is None else self.acknowledged(kept))
        answered, _, _, is_open = await self._ask_state()
        if answered:
            return await self.elsewhere()
        if not is_open:
            return self.become(name="closed", unsent=self._is_unsent())
        self.become(name="asking" if kept is None or kept.report is None else "again")

    async def agreed(self) -> Agreement:
        """What was agreed."""
        for last in (False, False, True):
            status, place = await self.ask(f"/place/{self.link.party}", read=_place.decode)
            if status != 200:
                raise RefusedError("unknown")
            _, terms = await self.ask("/terms", read=_terms.decode)
            try:
                return agree(self.link, terms, place)
            except (RefusedError, ValueError):
                # Between the two, another attempt may have begun.
                if last:
                    raise
        raise AssertionError

    def kept(self) -> Stored | None:
        """What is stored."""
        text = self.browser.get(self.name)
        return None if text is None else msgspec.json.decode(text, type=Stored)

    def store(self, record: Stored) -> None:
        """Store what is to be sent."""
        self.browser.put(self.name, msgspec.json.encode(record).decode())

    def _is_unsent(self) -> bool:
        kept = self.kept()
        return kept is not None and kept.receipt is None and not kept.declined

    async def _ask_state(self) -> tuple[bool, bytes | None, str | None, bool]:
        """What the server says of this place: whether it has answered, what proves that it was
        counted, and whether it can answer."""
        charter, identity = self.agreement.charter, self.link.identity
        statement = b"sottovoce state 1\0" + _encode((charter.session, self.link.party))
        body = _encode((self.link.party, identity.sign(statement)))
        status, found = await self.ask("/state", body, _state.decode)
        if status != 200:
            await self._check_moved()
            raise RefusedError("server")
        return _state.decode(found)

    async def _check_moved(self) -> None:
        """Begin again if the server is at another attempt by now."""
        _, terms = await self.ask("/terms", read=_terms.decode)
        if _terms.decode(terms)[1] != self.attempt:
            raise MovedError

    async def once(self, make: Callable[[Stored | None], Stored]) -> None:
        """Make what is to be sent, if nothing is stored, store it, and send what is stored.

        While that goes on, nothing else is to be sent from this page.
        """
        if self._sending:
            return
        self._sending = True
        try:
            await self._once(make)
        finally:
            self._sending = False

    async def _once(self, make: Callable[[Stored | None], Stored]) -> None:

        async def stored() -> Stored:
            kept = self.kept()
            if kept is None or kept.attempt < self.attempt:
                kept = make(kept)
                # A browser signs in the background.
                await self.browser.sleep(SIGNING)
                self.store(kept)
            return kept

        self.become(name="sending")
        await self.deliver(await self.browser.alone(self.name, stored))

    def made(self, codes: list[int], kept: Stored | None) -> Stored:
        """What is to be sent: the report that there is from an earlier attempt, or a new one."""
        report = None if kept is None else kept.report
        if report is None:
            report = draw(self.agreement, codes, self.browser.words).hex()
        body = reported(self.agreement, bytes.fromhex(report))
        return Stored(attempt=self.attempt, body=body.hex(), report=report)

    def charge(self, record: Stored) -> None:
        """Add a draw to what this browser has told, once."""
        if record.report is not None and not record.declined:
            purse = json.loads(self.browser.get(PURSE) or "[]")
            epsilon = self.agreement.charter.variant.most()
            entry = [self.name, hashlib.sha256(record.report.encode()).hexdigest(), epsilon]
            if entry not in purse:
                self.browser.put(PURSE, json.dumps([*purse, entry]))

    async def deliver(self, record: Stored) -> None:
        """Send what is stored until it is acknowledged or turned away."""
        body = bytes.fromhex(record.body)
        self.become(name="sending")
        self.charge(record)
        path = f"/answer/{self.link.party}/{hashlib.sha256(body).hexdigest()}"
        status, reply = await self.ask(path, body, _acknowledgement.decode)
        if status == 200:
            given = _acknowledgement.decode(reply)
            receipt, note, holds = receipt_of(self.agreement, body, given)
            if not holds:
                raise RefusedError("receipt")
            record = msgspec.structs.replace(record, receipt=receipt.hex(), note=note)
            kept = self.kept()
            if kept is not None and kept.body == record.body:
                self.store(record)
            return await self.acknowledged(record)
        if status == 409:
            return await self.elsewhere()
        await self._check_moved()
        if status == 410:
            if (await self._ask_state())[0]:
                return await self.elsewhere()
            return self.become(name="closed", unsent=not record.declined)
        raise RefusedError("server")

    async def acknowledged(self, record: Stored) -> None:
        """Show what was sent, then ask what became of it."""
        self.become(name="sent", shown=not record.declined)
        await self._recount(self.state, record)

    async def elsewhere(self) -> None:
        """Say that this place has answered, from here or from elsewhere."""
        self.become(name="elsewhere")
        await self._recount(self.state, None)

    async def _recount(self, state: State, record: Stored | None) -> None:
        answered, receipt, note, _ = await self._ask_state()
        if not answered:
            counted = "denied"
        elif receipt is None or note is None:
            counted = "not yet known"
        else:
            report = None if record is None or not record.report else bytes.fromhex(record.report)
            counted = word_of(self.agreement, receipt, note, report)
        self.state = msgspec.structs.replace(state, counted=counted)
        self.browser.changed(self.state)

    async def ask(
        self, path: str, body: bytes | None = None, read: Callable[[bytes], object] = len
    ) -> tuple[int, bytes]:
        """Ask until an answer comes that stands.

        Args:
            read: fails for what cannot be the answer.
        """
        for tries in range(10**6):
            pause = PAUSES[min(tries, len(PAUSES) - 1)]
            try:
                status, reply, again = await self.browser.fetch(path, body)
            except OSError:
                pass
            else:
                if status < 500 and status != 429 and _is_read(status, reply, read):
                    return status, reply
                pause = again or pause
            await self.browser.sleep(pause)
        raise AssertionError


def _is_read(status: int, reply: bytes, read: Callable[[bytes], object]) -> bool:
    if status == 200:
        try:
            read(reply)
        except msgspec.MsgspecError:
            return False
    return True
