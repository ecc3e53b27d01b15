"""A party's side of a real survey, over TLS."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from parties.actor import Channel, run_machine
from protocol.crypto.randomness import Streams, expand
from protocol.errors import SurveyError
from protocol.messages import AGGREGATOR, DONE, ROLE_STREAM
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.run import ending_of
from protocol.sharing.sums import is_summed
from protocol.surveys.records import Records
from protocol.surveys.survey import Survey
from protocol.transcript.receipts import Acknowledgement
from scenarios.deployment.attempts import paying
from scenarios.deployment.members import Member, own_secret, tls_context
from scenarios.deployment.receipts import Kept, keep_receipt
from scenarios.deployment.remembered import Memory, SameAgain, noting, remembering
from scenarios.errors import StoppedError, UsageError
from scenarios.operation.signals import heeding
from transports.base import Limits
from transports.lasting.link import PATIENCE, connect_lasting
from transports.tls import client_context

SILENCE = 60.0
"""After so many seconds without a sign of life a connection is taken to be lost."""

AGAIN = (
    "run the same command again; in the same attempt that repeats the answer and costs nothing more"
)
"""What a party can do that does not know whether it is done."""

NOT_ACKNOWLEDGED = f"not acknowledged: {AGAIN}"
"""How a party ends that does not know whether all that it said is on the aggregator's disk."""

DOES_NOT_HOLD = "the aggregator's receipt does NOT hold"
"""How a party ends whose acknowledgement is not for what it said, or is not signed."""


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """How a party's answer went.

    Args:
        ending: how its role ended; ``"done"`` if all went well and the party holds its receipt.
        attempt: at the survey.
        spent: the epsilon spent per respondent in this attempt, by whichever program.
        before: that spent in earlier ones.
        stopped: whether a signal has ended it.
        receipt: what the aggregator has given for all that the party said; None for nothing.
    """

    ending: str
    attempt: int
    spent: float
    before: float
    stopped: bool = False
    receipt: Kept | None = None


def answer_survey(
    member: Member,
    *,
    host: str,
    port: int,
    records: Path,
    budget: float | None,
    crowd: int | None = None,
    waiting: float = PATIENCE,
    heeds_signals: bool = False,
) -> Answered:
    """Answer once with the records of a CSV file.

    It ends well once the aggregator has acknowledged that all it said is on disk, by a receipt that
    holds and is in the party's folder (``keep_receipt``). A connection that is lost is made again;
    nothing is said twice, and nothing else than before.

    A party that is asked again in the same attempt gives the same report: its randomness follows
    from the secret in its folder and from the records, and it hears and says nothing else than
    the first time (``SameAgain``). In another attempt it draws anew, which costs anew: what it has
    spent in earlier ones counts (``Purse``). What its role notes for it alone is written into its
    folder; the return value does not depend on that.

    Args:
        member: the party.
        host, port: where the aggregator listens.
        records: the CSV file.
        budget: the most epsilon to spend per respondent in all attempts, in nats; by default, once
            something was spent, the most that one attempt can cost, and nothing if that is
            unbounded.
        crowd: the smallest ``SecureSum.crowd`` to accept; None for whatever the survey promises.
        waiting: how long to try to reach the aggregator, at first and whenever it is lost, in
            seconds.
        heeds_signals: whether SIGTERM, SIGHUP and Ctrl-C end it, in the main thread.

    Raises:
        UsageError: the folder is the aggregator's, its files do not belong together, or another
            program uses it; or the records are not of this survey, or not those of this attempt;
            or the survey has no secure sum to demand a crowd of.
        StoppedError: a signal came before it was connected.
        OSError: no connection, the aggregator has begun an attempt before one that was answered, or
            a file in the folder cannot be written; says which and why.
    """
    answer = functools.partial(
        answer_survey_async,
        member,
        host=host,
        port=port,
        records=records,
        budget=budget,
        crowd=crowd,
        waiting=waiting,
        heeds_signals=heeds_signals,
    )
    return trio.run(answer)


async def answer_survey_async(
    member: Member,
    *,
    host: str,
    port: int,
    records: Path,
    budget: float | None,
    crowd: int | None = None,
    waiting: float = PATIENCE,
    heeds_signals: bool = False,
) -> Answered:
    """``answer_survey`` inside a trio program."""
    variant = member.charter.variant
    if member.identity.name == AGGREGATOR:
        raise UsageError(f"{member.folder}: is the aggregator's; expected a party's folder")
    if crowd is not None and not is_summed(variant, len(member.charter.roster) - 1):
        raise UsageError(f"--crowd {crowd}: the variant {variant.name!r} sums nothing")
    held = read_records(records, variant.survey)
    if len(held) > variant.max_records:
        raise UsageError(
            f"{records}: {len(held)} records, at most {variant.max_records} allowed by the survey"
        )
    key = answering_key(own_secret(member.folder), held)
    tls = tls_context(member.folder, client_context)
    sittings: list[_Sitting] = []

    async def answered(join: Callable[[int], object]) -> Acknowledgement | None:
        connected = connect_lasting(
            host,
            port,
            charter=member.charter,
            identity=member.identity,
            tls=tls,
            limits=Limits(idle=SILENCE),
            patience=waiting,
            join=join,
        )
        async with connected as link:
            [sitting] = sittings
            await run_machine(sitting.machine, sitting.same_again(link))
            return None if sitting.machine.head is None else await link.acknowledgement()

    try:
        with paying(member.folder) as purse, ExitStack() as kept:

            def join(attempt: int) -> None:
                purse.check(attempt)
                left = purse.left(attempt, budget, most=variant.most())
                spend = functools.partial(purse.spend, attempt, budget=left)
                charter = member.charter.again(attempt)
                machine = _machine(member, charter, key, held, left, crowd or 0)
                sittings.append(_Sitting(machine, *_memories(kept, member, charter, key), spend))

            given: Acknowledgement | None = None
            stopped = ""
            try:
                if heeds_signals:
                    given = await heeding(answered, join)
                else:
                    given = await answered(join)
            except StoppedError as error:
                if not sittings:
                    raise
                stopped = f"{error}: {AGAIN}"
            finally:
                # After the link is closed, and always: others must not see whether there was one.
                for sitting in sittings:
                    sitting.note(sitting.machine.notices)
            [sitting] = sittings
            machine = sitting.machine
            attempt, receipt = machine.charter.attempt, None
            if machine.head is not None and given is not None:
                receipt = keep_receipt(member.folder, machine.charter, machine.head, given)
            ending = stopped or ending_of(machine)
            if ending == DONE and receipt is None:
                ending = NOT_ACKNOWLEDGED
            elif ending == DONE and receipt is not None and receipt.problems:
                ending = f"{DOES_NOT_HOLD}: {'; '.join(receipt.problems)}"
            return Answered(
                ending=ending,
                stopped=bool(stopped),
                attempt=attempt,
                spent=max(machine.spent.record, purse.spent(attempt)),
                before=purse.before(attempt),
                receipt=receipt,
            )
    except ConnectionError as error:
        raise ConnectionError(f"{host}:{port}: {error}") from error


class _Sitting(NamedTuple):
    """A party in one attempt: its role, what it keeps of it, and how it pays."""

    machine: Machine
    heard: Memory
    said: Memory
    note: Callable[[Sequence[str]], None]
    spend: Callable[..., None]

    def same_again(self, link: Channel) -> SameAgain:
        def pay() -> None:
            self.spend(epsilon=self.machine.spent.record)

        return SameAgain(link, self.heard, self.said, pay)


def _machine(
    member: Member, charter: Charter, key: bytes, records: Records, left: float, crowd: int
) -> Machine:
    identity = member.identity
    return Machine(
        charter,
        identity.name,
        Streams(key, charter.session).stream(identity.name, ROLE_STREAM),
        records=records,
        identity=identity,
        budget=None if left == math.inf else left,
        crowd=crowd,
    )


def _memories(
    kept: ExitStack, member: Member, charter: Charter, key: bytes
) -> tuple[Memory, Memory, Callable[[Sequence[str]], None]]:
    """What was heard and said in a session, and what takes the notices, until ``kept`` ends."""
    session = charter.session.hex()
    # Derived: the file must not reveal which records it is about.
    mark = expand(key, b"heard" + charter.session)
    heard, said, notices = (
        member.folder / f"{what}-{session}" for what in ("heard", "said", "notices")
    )
    return (
        kept.enter_context(remembering(heard, mark)),
        kept.enter_context(remembering(said, mark)),
        noting(notices),
    )


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
