"""Judges a transcript: who was counted, what was learned, and does the result follow.

It works from the record alone and shares nothing with the run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

import msgspec

from protocol.charter import Charter
from protocol.codec import decode_envelope
from protocol.completeness import Completeness, CompletenessWriter
from protocol.errors import ProtocolError, RemoteProtocolError, SurveyError
from protocol.estimators.estimate import Estimate
from protocol.local import ROLE_STREAM
from protocol.messages import AGGREGATOR, RECORD, Closed, Envelope, Message, PartyId
from protocol.privacy.ledger import Ledger, LedgerWriter
from protocol.randomness import SECRET_BYTES, Streams, secret_of, session_of
from protocol.replay import Replay, replay_aggregator
from protocol.roster import Identity, Roster
from protocol.setting import IDENTITY_STREAM
from protocol.transcript.entries import Delivered, Entry, Header, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import Verification, verify
from protocol.variant import Claim, Variant, build

Chunks = Callable[[], Iterable[bytes]]
"""Opens a transcript anew: its bytes in parts, from the start."""

_LISTED = 20


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What an audit found.

    Args:
        verification: whether the record is what was recorded.
        completeness: who took part.
        ledger: what the observer learned.
        replay: whether the published result follows; None if nothing was published.
        estimate: what the result says.
        claims: what the variant's authors claim of its privacy.
        partial: the record could not be read to its end, so the ledger may lack something.
        simulated: the record names its seed, so whoever holds it can undo every randomization.
        remarks: what parties said that is malformed, and was survived.
        findings: what is wrong, in words.
    """

    verification: Verification
    completeness: Completeness
    ledger: Ledger
    replay: Replay | None
    estimate: Estimate | None
    claims: tuple[Claim, ...]
    partial: bool
    simulated: bool
    remarks: tuple[str, ...]
    findings: tuple[str, ...]

    @property
    def accepted(self) -> bool:
        """Whether the record is intact and its result follows from it."""
        return self.verification.intact and not self.findings


def charter_of(header: Header, variant: type[Variant]) -> Charter:
    """What the members knew before the first message, from a transcript's header.

    Raises:
        SurveyError: the header is not one of this variant.
    """
    if header.variant != variant.name:
        raise SurveyError(
            f"the transcript is of variant {header.variant!r}, not of {variant.name!r}"
        )
    try:
        charter = Charter(
            session=header.session,
            variant=build(variant, parameters=header.parameters, survey=header.survey),
            roster=Roster(header.roster),
        )
        # Made here, for hostile parameters may not fit together.
        codec = charter.codec
    except ValueError as error:
        raise SurveyError(f"the header is not sound: {error}") from error
    if codec.names != header.kinds or codec.max_body != header.max_body:
        raise SurveyError(
            f"the header declares kinds {', '.join(header.kinds)} of at most {header.max_body} B; "
            f"variant {variant.name!r} has {', '.join(codec.names)} "
            f"of at most {codec.max_body} B"
        )
    return charter


def audit(
    chunks: Chunks,
    variant: type[Variant],
    *,
    observer: PartyId = AGGREGATOR,
    digest: bytes | None = None,
) -> Audit:
    """Judge a transcript.

    Args:
        chunks: opens the transcript; it is read twice.
        variant: the variant's class, chosen by the auditor and never by the transcript.
        observer: whose knowledge to account for: a member, or ``record`` for the file's holder.
        digest: the canonical digest as published elsewhere.

    Raises:
        SurveyError: no readable header, one of another variant, or an observer who was not there.
    """
    verification = verify(chunks(), digest=digest)
    header = verification.header
    if header is None:
        first = f": {verification.faults[0]}" if verification.faults else ""
        raise SurveyError(f"the transcript has no readable header{first}")
    charter = charter_of(header, variant)
    if observer != RECORD and observer not in charter.roster:
        raise SurveyError(f"{observer!r} is not on the roster of {len(charter.roster)} members")
    reading = _Reading(charter, observer)
    reader = TranscriptReader(chunks())
    for entry in reader:
        # An entry whose envelope is malformed is a fault that the verification has named.
        with contextlib.suppress(RemoteProtocolError):
            reading.add(entry)
    replay = reading.replay(header.seed)
    estimate = None
    findings = [str(fault) for fault in verification.faults[:_LISTED]]
    if verification.torn or verification.ending is None:
        findings.append("the record is incomplete: it has no end")
    elif not verification.complete:
        findings.append(f"the run did not come to its end: {verification.ending.reason}")
    completeness = reading.completeness.completeness()
    for closing in completeness.closings:
        if closing.left_out:
            names = ", ".join(closing.left_out[:_LISTED])
            findings.append(f"{closing.kind!r} was delivered in time and not counted: {names}")
        if closing.unheard:
            names = ", ".join(closing.unheard[:_LISTED])
            findings.append(f"{closing.kind!r} was counted before it was delivered: {names}")
    published = reading.published()
    if published is None:
        findings.append("nothing was published")
    else:
        try:
            estimate = charter.variant.estimate(published)
        except (ProtocolError, ValueError) as error:
            findings.append(f"the published result is no result: {error}")
    if replay.follows is None and published is not None:
        findings.append(
            "whether the result follows cannot be told: it takes secrets that are not on record"
        )
    elif replay.follows is False and published is not None:
        findings += [f"the result does not follow: {why}" for why in replay.differences[:_LISTED]]
    return Audit(
        verification=verification,
        completeness=completeness,
        ledger=reading.ledger.ledger(observer),
        replay=replay if published is not None else None,
        estimate=estimate,
        claims=charter.variant.claims(),
        partial=reader.fault is not None or reader.ending is None,
        simulated=header.seed is not None,
        remarks=tuple(reading.ledger.malformed[:_LISTED]),
        findings=tuple(findings),
    )


class _Reading:
    """What one pass over the entries collects."""

    def __init__(self, charter: Charter, observer: PartyId) -> None:
        self._charter = charter
        self.ledger = LedgerWriter(charter, (observer,))
        self.completeness = CompletenessWriter(charter)
        self._under_way: dict[tuple[PartyId, int], Envelope] = {}
        self._heard: dict[PartyId, list[Envelope]] = {}
        self._said: list[Envelope] = []

    def add(self, entry: Entry) -> None:
        self.ledger.add(entry)
        self.completeness.add(entry)
        match entry:
            case Sent():
                envelope = decode_envelope(entry.envelope)
                if envelope.sender == AGGREGATOR:
                    self._said.append(envelope)
                elif envelope.recipient == AGGREGATOR:
                    self._under_way[envelope.sender, envelope.seq] = envelope
            case Delivered():
                delivered = self._under_way.pop((entry.sender, entry.seq), None)
                if delivered is not None:
                    self._heard.setdefault(entry.sender, []).append(delivered)

    def replay(self, seed: int | None) -> Replay:
        stream = identity = None
        if seed is not None:
            secret = secret_of(seed)
            streams = Streams(secret, session_of(secret))
            stream = streams.stream(AGGREGATOR, ROLE_STREAM)
            secret = streams.stream(AGGREGATOR, IDENTITY_STREAM).bytes(SECRET_BYTES)
            identity = Identity(AGGREGATOR, secret)
        return replay_aggregator(
            self._charter, heard=self._heard, said=self._said, stream=stream, identity=identity
        )

    def published(self) -> Message | None:
        """The aggregator's last entry, if it is a result."""
        if not self._said:
            return None
        last = self._said[-1]
        if last.recipient != RECORD or last.kind == Closed.kind():
            return None
        try:
            return self._charter.codec.decode(last.kind, last.body)
        except RemoteProtocolError:
            return None
