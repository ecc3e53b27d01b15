"""The same report again, in a later attempt or another survey: one release, said twice."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from protocol.crypto.randomness import Stream
from protocol.errors import PrivacyError
from protocol.messages import RECORD, Declined, Envelope, PartyId
from protocol.session.charter import Charter
from protocol.session.variant import Variant, parameters_of
from protocol.sharing.sums import is_summed
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.variants.reports.one_report import OneReport
from protocol.wire.codec import encode_envelope
from scenarios.deployment.attempts import account_in
from scenarios.deployment.drawing import known_session_key, mark_of, role_stream
from scenarios.deployment.members import Member
from scenarios.deployment.remembered import noted_in
from scenarios.errors import UsageError
from scenarios.files.writing import write_once

GIVEN = "given"
"""What a party's file begins with that says which earlier answer it gives again in a session."""

_NOT_ASKED = ("quorum", "patience", "max_records")


class Given(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An answer that was given before.

    Args:
        session: in which it was given.
        party: who gave it, under the name that it had there.
        key: of its randomness (``drawing.session_key``).
        place: which of the parties that was, from 0: the aggregator asked it with this number.
        heard, said: the digests of all that was heard and said, in order.
    """

    session: bytes
    party: PartyId
    key: bytes
    place: int
    heard: tuple[bytes, ...]
    said: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"Given(session={self.session.hex()[:16]}, party={self.party!r})"

    @property
    def stream(self) -> Stream:
        """The randomness that the answer was drawn with."""
        return role_stream(self.key, self.session, self.party)

    def check_asked(self, envelope: Envelope, question: str) -> None:
        """Make sure that nothing is asked but what was asked before.

        Whether something is said must not depend on what would be said: that follows from records.

        Args:
            envelope: what has come.
            question: the kind of message that is answered.

        Raises:
            PrivacyError: another question is asked.
        """
        if envelope.kind != question:
            return  # No role of one report hears it.
        before = msgspec.structs.replace(
            envelope, session=self.session, recipient=self.party, seq=self.place
        )
        if _digest(before) not in self.heard:
            raise PrivacyError("this is not the question that was answered before")

    def check_said(self, envelopes: Sequence[Envelope]) -> None:
        """Make sure that nothing is said but what was said before.

        What is for the record alone, the head, is of this session. A refusal tells nothing.

        Raises:
            PrivacyError: something else would be said.
        """
        for envelope in envelopes:
            if envelope.recipient == RECORD or envelope.kind == Declined.kind():
                continue
            before = msgspec.structs.replace(envelope, session=self.session, sender=self.party)
            if self.said[envelope.seq : envelope.seq + 1] != (_digest(before),):
                raise PrivacyError(
                    "this is not the report that was given before: the program is another"
                )


def check_repeatable(variant: Variant, parties: int) -> None:
    """Refuse a variant whose answers cannot be given again.

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


def answer_given(earlier: Member, charter: Charter, records: Records) -> Given:
    """The answer that was paid for last, of those given from a folder.

    Args:
        earlier: the member whose folder it is.
        charter: of the session in which the answer is to be given again.
        records: that it is to be about.

    Raises:
        UsageError: nothing was answered from there, or another question, or with other records.
        OSError: a file cannot be read; names it.
    """
    folder, before = earlier.folder, earlier.charter
    if _asked(before.variant) != _asked(charter.variant):
        raise UsageError(f"--repeat {folder}: another question was answered there")
    account = account_in(folder)
    same = before.survey_id == charter.survey_id
    paid = [
        attempt
        for attempt in account.attempts
        if account.spent(attempt) and not (same and attempt >= charter.attempt)
    ]
    if not paid:
        raise UsageError(f"--repeat {folder}: nothing was answered from there before")
    there = before.again(paid[-1])
    key = known_session_key(folder, there, records)
    name = earlier.identity.name
    mark, said = noted_in(folder, "said", there.session)
    _, heard = noted_in(folder, "heard", there.session)
    if mark != mark_of(key, there.session):
        raise UsageError(f"--repeat {folder}: other records have answered from there")
    if not said:
        raise UsageError(f"--repeat {folder}: its last answer was paid for, but not given")
    return Given(
        session=there.session,
        party=name,
        key=key,
        place=there.roster.position[name] - 1,
        heard=heard,
        said=said,
    )


def note_given(folder: Path, session: bytes, given: Given) -> None:
    """Write down, in a party's folder, which answer it gives again in a session.

    Raises:
        OSError: it cannot be written.
    """
    write_once(_path(folder, session), msgspec.json.encode(given))


def noted_given(folder: Path, session: bytes) -> Given | None:
    """The answer that a party gives again in a session; None if it gives one of its own.

    Raises:
        UsageError: the file is malformed.
        OSError: it cannot be read.
    """
    path = _path(folder, session)
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(path.read_bytes(), type=Given)
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error


def _path(folder: Path, session: bytes) -> Path:
    return folder / f"{GIVEN}-{session.hex()}"


def _digest(envelope: Envelope) -> bytes:
    return hashlib.sha256(encode_envelope(envelope)).digest()


def _asked(variant: Variant) -> tuple[str, dict[str, Any], Survey]:
    """What a variant asks, however long its aggregator waits and for how many."""
    parameters = parameters_of(variant)
    for name in _NOT_ASKED:
        del parameters[name]
    return variant.name, parameters, variant.survey
