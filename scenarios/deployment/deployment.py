"""A survey among real parties: its plan, everybody's keys, and the two sides over TLS."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import os
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import trio
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec import Meta

from parties.actor import run_aggregator, run_machine
from parties.session import LINGER
from protocol.crypto.randomness import SECRET_BYTES, Streams, expand
from protocol.errors import SurveyError
from protocol.messages import (
    AGGREGATOR,
    DONE,
    LINK_CLOSED,
    ROLE_STREAM,
    SESSION_BYTES,
    PartyId,
    party_id,
)
from protocol.session.charter import Charter
from protocol.session.exchange import Exchange
from protocol.session.machine import Machine
from protocol.session.roster import Identity, Roster
from protocol.session.run import ending_of, outcome_of
from protocol.session.variant import Variant, build, parameters_of
from protocol.surveys.records import Records
from protocol.surveys.survey import Attribute, Survey
from protocol.transcript.entries import MAX_BODY
from protocol.transcript.header import header_of
from protocol.transcript.recorder import Recorder
from protocol.variants import RRIndependent, RRJoint
from protocol.wire.codec import Codec
from scenarios.deployment.notices import Notebook, noting
from scenarios.deployment.retries import Memory, SameAgain, remembering
from scenarios.files.transcripts import Transcript, growing
from scenarios.files.writing import (
    PRIVATE_FOLDER,
    make_folder,
    naming,
    not_regular,
    open_private,
    write_once,
)
from scenarios.running.errors import UsageError
from scenarios.running.loading import built_in_variant
from scenarios.running.outcomes import Outcome
from scenarios.running.scenario import parameters_checked
from scenarios.running.simulation import allow_connections, program
from transports.base import Limits
from transports.certificates import Authority, private_pem
from transports.recording import recording
from transports.switch import Switch
from transports.tcp import connect_tcp, open_tcp
from transports.tls import client_context, server_context

SILENCE = 86_400.0
"""How long a party waits without a word from the aggregator, in seconds."""

CHARTER, AUTHORITY = "charter.json", "authority.pem"
CERTIFICATE, KEY, SECRET = "certificate.pem", "identity.key", "secret"


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a survey's TOML file says: what is asked, by which protocol, on what terms."""

    title: str
    attributes: tuple[Attribute, ...]
    variant: str = RRIndependent.name
    p: Annotated[float, Meta(gt=0, lt=1)] | None = None
    epsilon: Annotated[float, Meta(gt=0)] | None = None
    quorum: Annotated[int, Meta(ge=1)] | None = None
    patience: Annotated[float, Meta(gt=0)] = 60.0
    max_records: Annotated[int, Meta(ge=1)] = 1

    def build(self) -> Variant:
        """The variant that the plan describes."""
        cls = built_in_variant(self.variant)
        if not issubclass(cls, RRIndependent | RRJoint):
            raise UsageError(f"variant {self.variant!r} cannot be planned in TOML")
        if (self.p is None) == (self.epsilon is None):
            raise UsageError("a plan sets p or epsilon, one of them")
        with parameters_checked():
            survey = Survey(self.title, self.attributes)
            if self.p is not None:
                variant = cls.with_keep(survey, self.p)
            else:
                variant = cls.with_epsilon(survey, self.epsilon or 0.0)
            return msgspec.structs.replace(
                variant, quorum=self.quorum, patience=self.patience, max_records=self.max_records
            )


class _CharterFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    variant: str
    parameters: dict[str, Any]
    survey: dict[str, Any]
    session: Annotated[bytes, Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
    roster: tuple[tuple[PartyId, bytes], ...]


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member's folder, read."""

    folder: Path
    charter: Charter
    identity: Identity


def read_plan(path: Path | str) -> Plan:
    """A survey's plan.

    Raises:
        UsageError: the file is missing, is not TOML, or is not a plan; says which field.
    """
    try:
        return msgspec.toml.decode(Path(path).read_bytes(), type=Plan)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from error


def make_keys(plan: Plan, parties: Sequence[str], out: Path | str, *, days: int) -> int:
    """Make every member's folder: charter, authority, certificate and identity key.

    Whoever runs this has seen all private keys. Nothing is overwritten. All folders appear at the
    end, for their owner alone.

    Raises:
        UsageError: a bad id, an id twice, reports that no transcript can hold, or a folder that
            is there already.
        OSError: a file cannot be written; none is left.
    """
    out = Path(out)
    try:
        names = [AGGREGATOR, *(party_id(name) for name in parties)]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if len(set(names)) != len(names):
        raise UsageError("parties: a name is repeated, or is the aggregator's")
    if plan.quorum is not None and plan.quorum >= len(names):
        raise UsageError(
            f"quorum = {plan.quorum}: expected at most {len(names) - 1}, the number of parties"
        )
    variant = plan.build()
    size = Codec(variant.kinds(len(names) - 1), members=len(names)).max_body
    if size > MAX_BODY:
        raise UsageError(
            f"max_records = {plan.max_records}: a message could have {size:,} bytes, more than the "
            f"{MAX_BODY:,} that a transcript allows"
        )
    if out.exists() and any(out.iterdir()):
        raise UsageError(f"{out}: exists and is not empty; keys are never overwritten")
    identities = [Identity(name, os.urandom(SECRET_BYTES)) for name in names]
    charter = _CharterFile(
        variant.name,
        parameters_of(variant),
        msgspec.to_builtins(variant.survey),
        os.urandom(SESSION_BYTES),
        tuple((identity.name, identity.public) for identity in identities),
    )
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority(Ed25519PrivateKey.generate(), now=now, days=days)
    encoded = msgspec.json.format(msgspec.json.encode(charter), indent=1)
    make_folder(out)
    with naming(out):
        new = Path(tempfile.mkdtemp(dir=out, prefix=".new."))
        try:
            for identity in identities:
                folder = new / identity.name
                folder.mkdir(PRIVATE_FOLDER)
                _write_private(folder / CHARTER, encoded)
                _write_private(folder / AUTHORITY, authority.pem)
                _write_private(folder / CERTIFICATE, authority.issue(identity))
                _write_private(folder / KEY, private_pem(identity.private_key))
            for name in names:
                os.rename(new / name, out / name)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return len(identities)


def read_member(folder: Path | str) -> Member:
    """A member's folder.

    Raises:
        UsageError: a file is missing, or they do not belong together.
    """
    folder = Path(folder)
    try:
        read = msgspec.json.decode((folder / CHARTER).read_bytes(), type=_CharterFile)
        charter = Charter(
            session=read.session,
            variant=build(
                built_in_variant(read.variant), parameters=read.parameters, survey=read.survey
            ),
            roster=Roster(read.roster),
        )
    except FileNotFoundError as error:
        raise UsageError(
            f"{error.filename}: no such file, so {folder} is not a member's folder"
        ) from error
    except (msgspec.DecodeError, ValueError) as error:
        raise UsageError(f"{folder / CHARTER}: {error}") from error
    return Member(folder=folder, charter=charter, identity=_read_identity(folder, charter.roster))


def aggregate_survey(
    member: Member,
    *,
    host: str,
    port: int,
    transcript: Path,
    joining: float,
    listening: Callable[[str], object],
    publish: Callable[[Outcome], object] | None = None,
) -> Outcome:
    """Wait for the parties over TLS, ask, publish, and record it all.

    Args:
        joining: how long to wait for parties to connect, in seconds.
        listening: is told where the aggregator listens.
        publish: is handed what it came to while nobody else can write beside the transcript.

    Raises:
        UsageError: the folder is a party's, or its files do not belong together; or the transcript
            has the name of a real survey's record, which is never replaced.
        OSError: one cannot listen there, or not write the transcript.
        ProtocolError: the survey failed, for example for want of a quorum.
    """
    check_aggregator(member)
    return trio.run(_aggregate, member, host, port, transcript, joining, listening, publish)


def check_aggregator(member: Member) -> None:
    """Make sure that a folder is the aggregator's.

    Raises:
        UsageError: it is a party's.
    """
    if member.identity.name != AGGREGATOR:
        raise UsageError(f"{member.folder}: is {member.identity.name}'s, not the aggregator's")


async def _aggregate(
    member: Member,
    host: str,
    port: int,
    path: Path,
    joining: float,
    listening: Callable[[str], object],
    publish: Callable[[Outcome], object] | None,
) -> Outcome:
    started = time.perf_counter()
    charter = member.charter
    allow_connections(len(charter.roster))
    tls = _tls_context(member, server_context)
    with growing(path) as record:
        header = header_of(charter, transport="tls", program=program())
        recorder = Recorder(record.write, header, signer=member.identity)
        exchange = Exchange(charter, recorder=recorder)
        async with recording(recorder):
            # Whoever has come or answered early is silent until the others have.
            silence = joining + (charter.variant.patience or SILENCE)
            switch = Switch(exchange, Limits(idle=max(Limits().idle, silence)))
            opened = open_tcp(switch, member.identity, host=host, port=port, tls=tls)
            async with opened as (hub, bound):
                record.keep()
                listening(f"{host}:{bound}")
                async with hub.connect(AGGREGATOR) as link:
                    await hub.joined(charter.roster.parties, within=joining)
                    streams = Streams(os.urandom(SECRET_BYTES), charter.session)
                    machine = await run_aggregator(
                        charter, link, streams=streams, identity=member.identity
                    )
                with trio.move_on_after(LINGER):
                    await hub.emptied()
            result = outcome_of(machine)
        record.finish(recorder.checkpoint)
        gone = {name: why for name, why in machine.departed.items() if why != LINK_CLOSED}
        outcome = Outcome(
            charter=charter,
            result=result,
            transcript=Transcript(path),
            digest=recorder.digest(),
            endings={name: gone.get(name, DONE) for name in charter.roster.parties},
            records=None,
            seed=None,
            transport="tls",
            messages=exchange.messages,
            bytes=exchange.bytes,
            seconds=time.perf_counter() - started,
        )
        if publish is not None:
            publish(outcome)
    return outcome


def answer_survey(
    member: Member, *, host: str, port: int, records: Path, budget: float | None
) -> tuple[str, float]:
    """Answer once with the records of a CSV file.

    A party that is asked again in the same session, with the same records, gives the same report:
    its randomness follows from a secret that stays in its folder, and from the records. It hears
    nothing else the second time than it heard the first (``SameAgain``). What its role notes for it
    alone goes into its folder, and what is returned does not depend on it.

    Returns:
        How it ended, and the epsilon that was spent per respondent.

    Raises:
        UsageError: the folder is the aggregator's or its files do not belong together, or the
            records are not of this survey.
        OSError: no connection; it says to where, and why. Or a file in the folder cannot be
            written; it says which one.
    """
    charter = member.charter
    if member.identity.name == AGGREGATOR:
        raise UsageError(f"{member.folder}: is the aggregator's, who has no answers")
    try:
        with records.open(encoding="utf-8", newline="") as file:
            held = Records.from_csv(charter.variant.survey, file)
    except (SurveyError, UnicodeDecodeError) as error:
        raise UsageError(f"{records}: {error}") from error
    if len(held) > charter.variant.max_records:
        raise UsageError(
            f"{records}: {len(held)} records, at most {charter.variant.max_records} allowed by the "
            "survey"
        )
    key = answering_key(_own_secret(member.folder), held)
    streams = Streams(key, charter.session)
    # A key of its own: the file must not tell which records it is about.
    mark = expand(key, b"heard" + charter.session)
    session = charter.session.hex()
    try:
        with (
            remembering(member.folder / f"heard-{session}", mark) as memory,
            noting(member.folder / f"notices-{session}") as notebook,
        ):
            return trio.run(_answer, member, host, port, held, streams, memory, notebook, budget)
    except ConnectionError as error:
        raise ConnectionError(f"{host}:{port}: {error}") from error


def answering_key(secret: bytes, records: Records) -> bytes:
    """The secret that a party's randomness follows from, 32 bytes: other records have another."""
    about = hashlib.sha256(records.codes.tobytes()).digest()
    return expand(secret, b"sottovoce records 1" + about)


async def _answer(
    member: Member,
    host: str,
    port: int,
    held: Records,
    streams: Streams,
    memory: Memory,
    notebook: Notebook,
    budget: float | None,
) -> tuple[str, float]:
    charter, identity = member.charter, member.identity
    tls = _tls_context(member, client_context)
    limits = Limits(idle=SILENCE)
    stream = streams.stream(identity.name, ROLE_STREAM)
    machine = Machine(
        charter, identity.name, stream, records=held, identity=identity, budget=budget
    )
    try:
        async with connect_tcp(
            host, port, charter=charter, identity=identity, tls=tls, limits=limits
        ) as link:
            await run_machine(machine, SameAgain(link, memory))
    finally:
        # After the link, and whatever there is: others must not see whether it is anything.
        notebook.write(machine.notices)
    return ending_of(machine), machine.spent.record


def _tls_context(member: Member, make: Callable[..., ssl.SSLContext]) -> ssl.SSLContext:
    folder = member.folder
    files = {"authority": AUTHORITY, "certificate": CERTIFICATE, "key": KEY}
    for file in files.values():
        if not (folder / file).is_file():
            raise UsageError(f"{folder / file}: no such file, so {folder} is not a member's folder")
    try:
        return make(**{what: folder / file for what, file in files.items()})
    except OSError as error:
        what = ", ".join(files.values())
        raise UsageError(f"{folder}: {what} do not belong together: {error}") from error


def _read_identity(folder: Path, roster: Roster) -> Identity:
    path = folder / KEY
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file, so {folder} is not a member's folder") from error
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UsageError(f"{path}: expected a private key in PEM without a password") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path}: expected an Ed25519 key")
    secret = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    anonymous = Identity(AGGREGATOR, secret)
    for name, public in roster.members:
        if public == anonymous.public:
            return Identity(name, secret)
    raise UsageError(f"{path}: its public key is not on the roster")


def _own_secret(folder: Path) -> bytes:
    path = folder / SECRET
    if not path.exists():
        # Half a secret would lock the party out.
        with contextlib.suppress(FileExistsError):
            write_once(path, os.urandom(SECRET_BYTES))
    elif not path.is_file():
        raise not_regular(path)
    secret = path.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise UsageError(f"{path}: expected {SECRET_BYTES} bytes")
    return secret


def _write_private(path: Path, content: bytes) -> None:
    descriptor = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
