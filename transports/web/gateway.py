"""Answers over HTTP: one request contains all envelopes of a party with one report.

A place is a party with its key in a link. Its report and head are checked, and relayed as the
party's own envelopes, so the record is the same as for a party over TLS. Strangers cannot add
entries to the record, and the owner of a link can add only one report with its head.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from protocol.crypto.merkle import Tree, leaf_hash
from protocol.errors import RemoteProtocolError
from protocol.messages import (
    AGGREGATOR,
    LINK_CLOSED,
    NO_ROUND,
    RECORD,
    Declined,
    Envelope,
    Head,
    PartyId,
)
from protocol.session.charter import Charter
from protocol.session.heads import Heard, decode_head, head_statement
from protocol.session.roles import Seen, message_topic
from protocol.session.roster import is_signature
from protocol.session.variant import loss_bound, message_event
from protocol.transcript.entries import Entry, Sent
from protocol.wire.canonical import MALFORMED
from protocol.wire.codec import decode_envelope, encode_envelope
from transports.admission import Strangers
from transports.records.commits import Commits
from transports.switch import Switch
from transports.web.failures import Failures
from transports.web.http import Limits, Paths, Request, Response

LIMITS = Limits(head=1 << 13, body=1 << 17, seconds=15.0, connections=1024, each=512)
"""Limits on a client."""

STATE_PURPOSE = b"sottovoce state 1\0"
"""Prefix of the statement that a place signs to learn whether it has answered."""

_ANSWER, _PLACE = "/answer/", "/place/"
_MSGPACK = "application/msgpack"
_HEAD, _DECLINED = Head.kind(), Declined.kind()
_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": "max-age=31536000",
}
_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_bodies = msgspec.msgpack.Decoder(tuple[bytes, bytes])
_states = msgspec.msgpack.Decoder(tuple[PartyId, bytes])


class Page(NamedTuple):
    """The page that is served.

    Args:
        content: HTML.
        policy: its content security policy.
    """

    content: bytes
    policy: str


class OnRecord:
    """State of the places on record, from the entries of a live or a stored record.

    Args:
        places: the parties that answer over HTTP.

    Attributes:
        questions: encoded question of each place.
        asked: size of the record, with its header, after the last question.
        answers: encoded report of each place without a head.
        digests: SHA-256 of the post of each place that has answered.
    """

    def __init__(self, places: Collection[PartyId]) -> None:
        self.places = frozenset(places)
        self.questions: dict[PartyId, bytes] = {}
        self.asked = 0
        self.answers: dict[PartyId, bytes] = {}
        self.digests: dict[PartyId, bytes] = {}
        self._size = 1

    @property
    def answered(self) -> set[PartyId]:
        """Places with a report on record; a loss of power may have cost its head."""
        return self.digests.keys() | self.answers.keys()

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        self._size += 1
        if not isinstance(entry, Sent):
            return
        envelope = decode_envelope(entry.envelope)
        party = envelope.sender
        if party == AGGREGATOR:
            if envelope.recipient in self.places:
                self.questions.setdefault(envelope.recipient, entry.envelope)
                self.asked = self._size
        elif party in self.places:
            if envelope.kind != _HEAD:
                self.answers[party] = entry.envelope
            elif party in self.answers:
                self.digests[party] = answer_digest(self.answers.pop(party), entry.envelope)


def answer_digest(answer: bytes, head: bytes) -> bytes:
    """The SHA-256 of a place's post of two encoded envelopes."""
    return hashlib.sha256(_encode((answer, head))).digest()


class Gateway:
    """Serves the page and public data of every place, and accepts one answer of each.

    It accepts answers between ``open`` and ``close``.

    Args:
        charter: the charter of the attempt.
        said: the places on record, kept up to date.
        page: the page for browsers.
        proxied: whether requests come through a proxy that sets X-Forwarded-For.

    Attributes:
        receipts: encoded receipt and checkpoint's note of each counted place, after the survey.
        refused: number of refused requests, by status.
        strangers: counts connections that ended without a whole request.
    """

    def __init__(
        self, charter: Charter, said: OnRecord, page: Page, *, proxied: bool = False
    ) -> None:
        self.receipts: Mapping[PartyId, tuple[bytes, str]] = {}
        self.refused: Counter[str] = Counter()
        self.strangers = Strangers()
        self._charter = charter
        self._said = said
        self._proxied = proxied
        self._failures = Failures()
        self._switch: Switch | None = None
        self._commits: Commits | None = None
        self._over = False
        self._note: str | None = None
        self._terms = charter.agreed.encoded()
        # Both are sums of the same floats, perhaps in another order.
        self._bound = loss_bound(charter.variant).record * (1 + 1e-9)
        etag = f'"{hashlib.sha256(page.content).hexdigest()}"'
        self._page = Response(
            200,
            page.content,
            {
                **_HEADERS,
                "Content-Type": "text/html; charset=utf-8",
                "Content-Security-Policy": page.policy,
                "Cache-Control": "no-cache",
                "ETag": etag,
            },
        )
        self._unchanged = Response(304, headers={**_HEADERS, "ETag": etag})

    @property
    def paths(self) -> Paths:
        """Handlers by path and method."""
        return {
            "/": {"GET": self._get_page},
            "/terms": {"GET": self._get_terms},
            _PLACE: {"GET": self._get_place},
            "/state": {"POST": self._post_state},
            _ANSWER: {"POST": self._post_answer},
        }

    def open(self, switch: Switch, commits: Commits, note: str | None) -> None:
        """Start to accept answers.

        Args:
            switch: relays the answers.
            commits: commits of the record; only durable answers are acknowledged.
            note: a checkpoint of this attempt that is on disk.
        """
        self._switch, self._commits, self._note = switch, commits, note

    def close(self, note: str | None = None) -> None:
        """Stop accepting answers: the survey is over.

        Args:
            note: a checkpoint of this attempt, if there was none before.
        """
        self._over, self._note = True, self._note or note

    def early(self, request: Request) -> Response | None:
        """Refuse a client with too many failures before reading the request's body."""
        wait = self._failures.wait(self._client_address(request))
        return _text(429, "too many requests that failed", wait=wait) if wait else None

    def fail(self, address: str, status: int, reason: str) -> None:
        """Count a request that was refused before its handler; 429 and 503 are not failures."""
        self._count(status)
        if status not in (429, 503) and not self._proxied:
            self._failures.add(address)

    async def _get_page(self, request: Request) -> Response:
        asked = request.headers.get(b"if-none-match", b"").decode("latin-1")
        return self._unchanged if asked == self._page.headers["ETag"] else self._page

    async def _get_terms(self, request: Request) -> Response:
        charter = self._charter
        members = len(charter.roster)
        return _pack((self._terms, charter.attempt, charter.roster.root, members, self._note))

    async def _get_place(self, request: Request) -> Response:
        party, roster = PartyId(request.path.removeprefix(_PLACE)), self._charter.roster
        if party not in self._said.places:
            return self._refuse(request, 404, "no such place")
        # Departed places are answered too: only the place itself may learn of its departure.
        question = self._said.questions.get(party)
        if question is None:
            return _text(503, "nobody is asked yet", wait=1.0)
        if self._commits is not None and not self._over:
            await self._commits.caught_up(self._said.asked)
        place = roster.position[party]
        return _pack(
            (
                place,
                roster.inclusion_path_at(place),
                roster.key(AGGREGATOR),
                roster.inclusion_path_at(0),
                question,
            )
        )

    async def _post_state(self, request: Request) -> Response:
        """Tell a place, by its signature, whether it has answered, was counted or can answer."""
        try:
            party, signature = _states.decode(request.body)
        except MALFORMED:
            return self._refuse(request, 400, "expected a place and a signature")
        statement = STATE_PURPOSE + _encode((self._charter.session, party))
        roster, places = self._charter.roster, self._said.places
        if party not in places or not is_signature(signature, statement, key=roster.key(party)):
            return self._refuse(request, 403, "not signed by the place's key")
        receipt, note = self.receipts.get(party, (None, None))
        answered = party in self._said.answered
        return _pack((answered, receipt, note, not answered and self._can_answer(party)))

    async def _post_answer(self, request: Request) -> Response:
        """Accept a place's answer. Without its key, replies do not depend on earlier answers."""
        party, digest = _place_and_digest(request.path)
        if party not in self._said.places:
            return self._refuse(request, 404, "no such place")
        if party not in self._said.questions:
            return _text(503, "nobody is asked yet", wait=1.0)
        known = self._said.digests.get(party)
        if known is None or known.hex() != digest:
            if hashlib.sha256(request.body).hexdigest() != digest:
                return self._refuse(request, 400, "another body than the path says")
            try:
                said = self._check(party, request.body)
            except Exception as error:  # An untrusted body must not end the survey.
                return self._refuse(request, 400, str(error))
            refusal = self._take(party, said)
            if refusal is not None:
                return refusal
        return await self._acknowledge(party)

    def _take(self, party: PartyId, said: Sequence[Envelope]) -> Response | None:
        """Relay a place's answer and end its part; return a response if that is impossible.

        A different second answer is not relayed, as on record it would leave the place's privacy
        loss unbounded.
        """
        switch, answer = self._switch, encode_envelope(said[0])
        if party in self._said.digests or self._said.answers.get(party, answer) != answer:
            return _text(409, "this place has answered otherwise")
        if not self._can_answer(party):
            return _text(410, "the survey is closed for this place")
        if switch is None or not switch.has_room(AGGREGATOR):
            return _text(503, "not now", wait=1.0)
        # Without a checkpoint: one step on record, which a cancelled request cannot interrupt.
        try:
            switch.taken(switch.attach(party).take_nowait())
        except RemoteProtocolError:  # The party is connected over TLS.
            return _text(503, "not now", wait=1.0)
        switch.relay_nowait(party, said[switch.exchange.accepted(party) :])
        switch.detach(party, LINK_CLOSED)
        return None

    def _check(self, party: PartyId, body: bytes) -> list[Envelope]:
        """The answer and the head in a place's post.

        Raises:
            ProtocolError, MsgspecError, ValueError: not one report or refusal to the question, with
                a head signed by the place.
        """
        encoded = _bodies.decode(body)
        answer, head = said = [*map(decode_envelope, encoded)]
        if (_encode(encoded), [*map(encode_envelope, said)]) != (body, [*encoded]):
            raise ValueError("not the one encoding of what it says")
        charter, question = self._charter, self._said.questions[party]
        if [(e.session, e.sender, e.seq) for e in said] != [
            (charter.session, party, seq) for seq in (0, 1)
        ]:
            raise ValueError("of another session or sender, or out of order")
        if (answer.recipient, head.recipient, head.kind) != (AGGREGATOR, RECORD, _HEAD):
            raise ValueError("expected an answer to the aggregator, and a head")
        said_tree, heard, asked = Tree(), Heard(), decode_envelope(question)
        said_tree.append(encoded[0])
        heard.add(0, asked.kind, NO_ROUND, [(0, asked.seq, leaf_hash(question))])
        statement = head_statement(
            session=charter.session,
            sender=party,
            count=1,
            said=said_tree.root(),
            heard=heard.tree.root(),
        )
        signed = decode_head(head)
        if (
            signed is None
            or signed.waits != heard.waits()
            or not is_signature(signed.signature, statement, key=charter.roster.key(party))
        ):
            raise ValueError("its head does not sign this answer to this question")
        self._check_answer(answer, asked)
        return said

    def _check_answer(self, answer: Envelope, question: Envelope) -> None:
        """Check that an answer fits the question and costs no more than agreed.

        Raises:
            ProtocolError, ValueError: it does not.
        """
        codec, variant = self._charter.codec, self._charter.variant
        expected = variant.contribution
        if expected is None or answer.kind not in (expected.kind(), _DECLINED):
            raise ValueError(f"a {answer.kind!r:.80} is not an answer")
        message = codec.open(answer)
        if message_topic(message)[1] not in (NO_ROUND, 0):
            raise ValueError("an answer of another round")
        seen = Seen()
        seen.add(AGGREGATOR, codec.open(question))
        event = message_event(variant, message, seen, answer.recipient)
        told = self._charter.accountant.judge(event).record
        if told > self._bound:
            raise ValueError("a report that tells more than was agreed")

    async def _acknowledge(self, party: PartyId) -> Response:
        """The acknowledgement of an answer, once the answer is durable."""
        if self._commits is None:
            return _text(410, "the survey is closed")
        # The survey may have ended with this answer before it was durable.
        if party not in self._commits.acknowledged:
            await self._commits.caught_up()
        given = self._commits.acknowledged.get(party)
        return _text(503, "not now", wait=1.0) if given is None else _pack(given)

    def _can_answer(self, party: PartyId) -> bool:
        """Check whether a place that has not answered still can."""
        gone = self._switch is not None and party in self._switch.exchange.departed
        return not (self._over or gone)

    def _refuse(self, request: Request, status: int, reason: str) -> Response:
        self._count(status)
        self._failures.add(self._client_address(request))
        return _text(status, reason)

    def _count(self, status: int) -> None:
        self.refused[HTTPStatus(status).phrase.lower()] += 1

    def _client_address(self, request: Request) -> str:
        """Address of a request's client; behind a proxy, the last entry of X-Forwarded-For."""
        if not self._proxied:
            return request.address
        forwarded = request.headers.get(b"x-forwarded-for", b"").decode("latin-1")
        return forwarded.rpartition(",")[2].strip()


def _place_and_digest(path: str) -> tuple[PartyId, str]:
    """The place and the digest in the path of an answer."""
    party, _, digest = path.removeprefix(_ANSWER).partition("/")
    return PartyId(party), digest


def _pack(value: object) -> Response:
    return Response(200, _encode(value), {**_HEADERS, "Content-Type": _MSGPACK})


def _text(status: int, reason: str, *, wait: float = 0.0) -> Response:
    headers = {**_HEADERS, "Retry-After": str(math.ceil(wait))} if wait else _HEADERS
    return Response(status, f"{reason}\n".encode(), headers)
