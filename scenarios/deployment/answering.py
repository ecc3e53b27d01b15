"""A party's side of a real survey, over TLS."""

from __future__ import annotations

import hashlib
from pathlib import Path

import trio

from parties.actor import run_machine
from protocol.crypto.randomness import Streams, expand
from protocol.errors import SurveyError
from protocol.messages import AGGREGATOR, ROLE_STREAM
from protocol.session.machine import Machine
from protocol.session.run import ending_of
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from scenarios.deployment.members import Member, own_secret, tls_context
from scenarios.deployment.remembered import Memory, SameAgain, noting, remembering
from scenarios.errors import UsageError
from transports.base import Limits
from transports.tcp import connect_tcp
from transports.tls import client_context

SILENCE = 86_400.0
"""How long a party waits for the aggregator's next message, in seconds."""


def answer_survey(
    member: Member, *, host: str, port: int, records: Path, budget: float | None
) -> tuple[str, float]:
    """Answer once with the records of a CSV file.

    A party that is asked again in the same session gives the same report: its randomness follows
    from the secret in its folder and from the records, and it hears and says nothing else than
    the first time (``SameAgain``). What its role notes for it alone is written into its folder; the
    return value does not depend on that.

    Args:
        member: the party.
        host, port: where the aggregator listens.
        records: the CSV file.
        budget: the most epsilon to spend per respondent, in nats.

    Returns:
        How it ended, and the epsilon spent per respondent.

    Raises:
        UsageError: the folder is the aggregator's or its files do not belong together, or the
            records are not of this survey.
        OSError: no connection, or a file in the folder cannot be written; says which and why.
    """
    charter = member.charter
    if member.identity.name == AGGREGATOR:
        raise UsageError(f"{member.folder}: is the aggregator's; expected a party's folder")
    held = read_records(records, charter.variant.survey)
    if len(held) > charter.variant.max_records:
        raise UsageError(
            f"{records}: {len(held)} records, at most {charter.variant.max_records} allowed by the "
            "survey"
        )
    key = answering_key(own_secret(member.folder), held)
    tls = tls_context(member.folder, client_context)
    identity, session = member.identity, charter.session.hex()
    stream = Streams(key, charter.session).stream(identity.name, ROLE_STREAM)
    machine = Machine(
        charter, identity.name, stream, records=held, identity=identity, budget=budget
    )

    async def answered(heard: Memory, said: Memory) -> None:
        limits = Limits(idle=SILENCE)
        async with connect_tcp(
            host, port, charter=charter, identity=identity, tls=tls, limits=limits
        ) as link:
            await run_machine(machine, SameAgain(link, heard, said))

    # Derived: the file must not reveal which records it is about.
    mark = expand(key, b"heard" + charter.session)
    try:
        with (
            remembering(member.folder / f"heard-{session}", mark) as heard,
            remembering(member.folder / f"said-{session}", mark) as said,
            noting(member.folder / f"notices-{session}") as note,
        ):
            try:
                trio.run(answered, heard, said)
            finally:
                # After the link is closed, and always: others must not see whether there was one.
                note(machine.notices)
    except ConnectionError as error:
        raise ConnectionError(f"{host}:{port}: {error}") from error
    return ending_of(machine), machine.spent.record


def answering_key(secret: bytes, records: Records) -> bytes:
    """The key of a party's randomness for these records, 32 bytes."""
    about = hashlib.sha256(records.codes.tobytes()).digest()
    return expand(secret, b"sottovoce records 1" + about)


def read_records(path: Path, survey: Survey) -> Records:
    """The records in a CSV file.

    Raises:
        UsageError: the file cannot be read, or its records are not of this survey.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return Records.from_csv(survey, file)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except (SurveyError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
