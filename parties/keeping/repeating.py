"""The same report again, in a later attempt or another survey: one release, sent twice."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import msgspec

from parties.keeping.attempts import answers_in
from parties.keeping.members import Member
from parties.keeping.paying.payments import Release
from parties.keeping.remembered import noted_in, session_file
from parties.keeping.session_keys import (
    known_session_key,
    role_stream,
    session_key,
    session_mark,
)
from parties.keeping.writing import naming, write_once
from protocol.crypto.randomness import Stream, expand
from protocol.errors import PrivacyError, RemoteProtocolError, UsageError
from protocol.messages import AGGREGATOR, Envelope
from protocol.session.charter import Charter
from protocol.session.roles import Me
from protocol.session.variant import Variant, plain_parameters
from protocol.sharing.messages import is_summed
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.reports.one_report import OneReport
from protocol.wire.codec import decode_envelope, encode_envelope
from protocol.wire.undecoded import Undecoded

GIVEN = "given"
"""First word of a party's file that names the earlier answer to repeat in a session."""

REPORT = "report"
"""First word of a party's file with the report that it gave in a session."""

_NOT_ASKED = ("quorum", "patience", "max_records")


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer that was given before.

    Args:
        release: the release that was paid for.
        masked: the key of its randomness under a mask from the secret and the records of the party
            that gives it again. The key alone would reveal the answers.
        place: the place of its party, from 0, to which the aggregator asked.
        asked: the digest of the question, the only message that the party received.
        report: its report, encoded.
        epsilon: its cost to each respondent; None is infinite.
    """

    release: Release
    masked: bytes
    place: int
    asked: bytes
    report: bytes
    epsilon: float | None

    def __repr__(self) -> str:
        return f"Given(session={self.release.session.hex()[:16]}, party={self.release.party!r})"

    def stream(self, own: bytes) -> Stream:
        """The randomness that the answer was drawn with.

        Args:
            own: the key of the party that gives it again (``session_keys.session_key``).
        """
        session = self.release.session
        return role_stream(_mask_key(self.masked, own, session), session, self.release.party)

    def check_asked(self, envelope: Envelope, question: str) -> None:
        """Refuse any other question than the earlier one.

        The decision to answer must not depend on the report, which follows from records.

        Args:
            envelope: the received envelope.
            question: the kind of message that is answered.

        Raises:
            PrivacyError: another question is asked.
        """
        if envelope.kind != question:
            return  # No role of one report hears it.
        before = msgspec.structs.replace(
            envelope, session=self.release.session, recipient=self.release.party, seq=self.place
        )
        if _digest(before) != self.asked:
            raise PrivacyError("this is not the question that was answered before")

    def role(self, charter: Charter) -> Callable[[Me, Records], Coroutine[Any, Any, None]]:
        """A party's role without a draw: receive the question, consent, report.

        Raises:
            RemoteProtocolError: the report does not fit this session.
        """
        variant = check_repeatable(charter.variant, len(charter.roster) - 1)
        report = charter.codec.decode(variant.contribution.kind(), self.report)

        async def party(me: Me, records: Records) -> None:
            question = await me.receive(variant.messages[0], AGGREGATOR)
            variant.consent(question)
            await me.send(AGGREGATOR, report)

        return party


def check_repeatable(variant: Variant, parties: int) -> OneReport[Any, Any, Any]:
    """Refuse a variant whose answers cannot be given again.

    Returns:
        The variant.

    Raises:
        UsageError: it says why.
    """
    if is_summed(variant, parties):
        raise UsageError(
            f"--repeat: {variant.name!r} makes sums, and what hides a value in one may hide it in "
            "no other"
        )
    if not (isinstance(variant, OneReport) and type(variant).party is OneReport.party):
        raise UsageError(
            f"--repeat: {variant.name!r} is not one question and one report, so what it asks "
            "later may depend on the other parties"
        )
    return variant


def keeping(folder: Path, charter: Charter) -> Callable[[Sequence[Envelope]], None]:
    """A function that keeps a party's report before it is sent, to be given again later.

    It raises OSError if it cannot be written. Other messages are not kept, nor is the report of a
    variant with answers that cannot be given again.
    """
    try:
        variant = check_repeatable(charter.variant, len(charter.roster) - 1)
    except UsageError:
        return lambda envelopes: None
    kind, path = variant.contribution.kind(), session_file(folder, REPORT, charter.session)

    def keep(envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            if envelope.kind == kind:
                # A kept report is compared with the sent one when it is needed.
                with contextlib.suppress(FileExistsError):
                    write_once(path, encode_envelope(envelope))

    return keep


def answer_given(earlier: Member, member: Member, records: Records) -> Given:
    """The last answer that was paid for, given from a folder.

    Args:
        earlier: the member of the folder.
        member: the member that is to give it again.
        records: the records that it must be about.

    Raises:
        UsageError: there is no answer, or it is to another question, or about other records.
        OSError: a file cannot be read; names it.
    """
    folder, before = earlier.folder, earlier.charter
    if _question(before.variant) != _question(member.charter.variant):
        raise UsageError(f"--repeat {folder}: another question was answered there")
    answers = answers_in(folder)
    paid = [attempt for attempt in answers.attempts if answers.spent(attempt).epsilon]
    if not paid:
        raise UsageError(f"--repeat {folder}: nothing was answered from there before")
    there = before.again(paid[-1])
    key = known_session_key(folder, there, records)
    name = earlier.identity.name
    drawn = session_mark(key, there.session)
    mark, said = noted_in(folder, "said", there.session)
    if mark != drawn:
        raise UsageError(f"--repeat {folder}: other records have answered from there")
    path = session_file(folder, REPORT, there.session)
    with naming(path):
        encoded = path.read_bytes() if path.is_file() else b""
    if hashlib.sha256(encoded).digest() not in said:
        raise UsageError(f"--repeat {folder}: its last answer was paid for, but not given")
    _, heard = noted_in(folder, "heard", there.session)
    if len(heard) != 1:
        # An aggregator that sent more could get the others answered too.
        raise UsageError(
            f"--repeat {folder}: heard more than one message there, so it is not certain which "
            "was answered"
        )
    try:
        report = decode_envelope(encoded).body
    except RemoteProtocolError as error:
        raise UsageError(f"{path}: {error}") from error
    return Given(
        release=Release(survey=before.survey_id, session=there.session, party=name, drawn=drawn),
        masked=_mask_key(key, session_key(member.folder, member.charter, records), there.session),
        place=there.roster.position[name] - 1,
        asked=heard[0],
        report=report,
        epsilon=answers.spent(paid[-1]).epsilon,
    )


def note_given(folder: Path, session: bytes, given: Given) -> None:
    """Write down, in a party's folder, which answer it gives again in a session.

    Raises:
        OSError: it cannot be written.
    """
    write_once(session_file(folder, GIVEN, session), msgspec.json.encode(given))


def noted_given(folder: Path, session: bytes) -> Given | None:
    """The answer that a party gives again in a session; None if it gives one of its own.

    Raises:
        UsageError: the file is malformed.
        OSError: it cannot be read.
    """
    path = session_file(folder, GIVEN, session)
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Given)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path}: {Undecoded.of(error)}") from error


def _mask_key(key: bytes, own: bytes, session: bytes) -> bytes:
    """Mask a key of a session with a mask of one's own; the same call removes it."""
    mask = expand(own, b"sottovoce given 1" + session)
    return bytes(one ^ other for one, other in zip(key, mask, strict=True))


def _digest(envelope: Envelope) -> bytes:
    return hashlib.sha256(encode_envelope(envelope)).digest()


def _question(variant: Variant) -> tuple[str, dict[str, Any], Survey]:
    """A variant's question, without its patience and its number of parties."""
    parameters = plain_parameters(variant)
    for name in _NOT_ASKED:
        del parameters[name]
    return variant.name, parameters, variant.survey
