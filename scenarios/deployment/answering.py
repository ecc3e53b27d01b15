"""A party's side of a real survey, over TLS."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from parties.actor import Channel, run_machine
from protocol.errors import PrivacyError
from protocol.messages import AGGREGATOR, DONE, Envelope, Head
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.run import ending_of
from protocol.session.variant import Variant
from protocol.sharing.messages import is_summed
from protocol.surveys.records import Records
from protocol.wire.codec import encode_envelope
from scenarios.deployment.attempts import Account, nats_of, open_account
from scenarios.deployment.members import Member, own_secret, tls_context
from scenarios.deployment.purse import Payers, Purse, Release, usual_purse
from scenarios.deployment.receipts import Kept, keep_receipt, receipt_in
from scenarios.deployment.remembered import (
    Memory,
    SameAgain,
    memory_in,
    noted_in,
    noting,
    remembering,
)
from scenarios.deployment.repeating import (
    Given,
    answer_given,
    check_repeatable,
    keeping,
    note_given,
    noted_given,
)
from scenarios.deployment.respondents import coding_for, read_respondents
from scenarios.deployment.session_keys import (
    known_session_key,
    mark_of,
    role_stream,
    session_key,
)
from scenarios.errors import LATE, STOPPED, StoppedError, UsageError
from scenarios.operation.signals import heeding
from transports.base import Limits
from transports.dialing import TurnedAwayError
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

NOT_IN_TIME = "late: the aggregator had closed the wait for a report before it came"
"""How a party ends whose answer is not counted, or not all of it, as it came too late."""

DOES_NOT_HOLD = "the aggregator's receipt does NOT hold"
"""How a party ends whose acknowledgement is not for what it said, or is not signed."""


_HEAD = Head.kind()


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """How a party's answer went.

    Args:
        ending: how its role ended; ``"done"`` if all went well, the party holds its receipt, and no
            report came too late.
        attempt: at the survey.
        spent: the epsilon spent per respondent in this attempt, by whichever program.
        before: that spent in earlier ones.
        stopped: whether a signal has ended it.
        receipt: what the aggregator has given for all that the party said, a receipt or a late
            note; None for nothing.
        repeated: whether the report was one that was given before, which costs nothing again.
        earlier: whether an earlier program has given the answer, and this one heard no more of it.
    """

    ending: str
    attempt: int
    spent: float
    before: float
    stopped: bool = False
    receipt: Kept | None = None
    repeated: bool = False
    earlier: bool = False

    @property
    def code(self) -> int:
        """The exit code of its program."""
        if self.stopped:
            return STOPPED
        if self.ending == NOT_IN_TIME:
            return LATE
        return 0 if self.ending == DONE else 1


async def answer_survey(
    member: Member,
    *,
    host: str,
    port: int,
    records: Path,
    budget: float | None,
    withstand: int | None = None,
    crowd: int | None = None,
    waiting: float = PATIENCE,
    heeds_signals: bool = False,
    purse: Path | None = None,
    ids: str | None = None,
    repeat: Member | None = None,
    plan: Path | None = None,
) -> Answered:
    """Answer once with the records of a table.

    It ends well once the aggregator has acknowledged that all it said is on disk, by a receipt that
    holds and is in the party's folder (``keep_receipt``). If by that a report came too late, it is
    no receipt but a late note: the party stays charged and is not done. A connection that is lost
    is made again; nothing is said twice, and nothing else than before. A party that has a receipt
    from before is done, also if nobody can be reached: the survey may be over, or wait for another
    attempt. One that has a late note is late.

    A party that is asked again in the same attempt gives the same report: its randomness follows
    from the secret in its folder and from the records, and it hears and says nothing else than
    the first time (``SameAgain``). In another attempt it draws anew, which costs anew, unless it is
    to ``repeat``. All that its respondents have spent, in whichever survey, counts (``Purse``).
    What its role notes for it alone is written into its folder; the return value does not depend on
    that.

    Args:
        member: the party.
        host, port: where the aggregator listens.
        records: a CSV or Parquet file.
        budget: the most epsilon that a respondent may have spent in all surveys, in nats; by
            default, all attempts at this one may cost what one can at most, and nothing more once
            something was spent if that is unbounded.
        withstand: the fewest colluders that a secure sum must withstand; None for any number.
        crowd: the fewest honest others, beside those colluders, that a secure sum must promise;
            None for any number.
        waiting: how long to try to reach the aggregator, at first and whenever it is lost, in
            seconds.
        heeds_signals: whether SIGTERM, SIGHUP and Ctrl-C end it, in the main thread.
        purse: its folder; None for the user's (``usual_purse``).
        ids: the column of the records that says who a respondent is, which is not handed over;
            None for a file that pays as one.
        repeat: from whose folder the report to give again was given, this member's or that of an
            earlier survey; None to draw one.
        plan: of the survey, which says how the file is read; None for one whose cells are the
            categories.

    Raises:
        UsageError: the folder is the aggregator's, its files do not belong together, or another
            program uses it; or the records are not of this survey, or not those of this attempt;
            or the survey has no secure sum to demand anything of, or there is nothing to repeat.
        PrivacyError: somebody has spent too much; nobody was told anything.
        StoppedError: a signal came before it was connected.
        OSError: no connection, the aggregator has begun an attempt before one that was answered, or
            a file in a folder cannot be written; says which and why.
    """
    variant = member.charter.variant
    if member.identity.name == AGGREGATOR:
        raise UsageError(f"{member.folder}: is the aggregator's; expected a party's folder")
    for option, demand in (("--withstand", withstand), ("--crowd", crowd)):
        if demand is not None and not is_summed(variant, len(member.charter.roster) - 1):
            raise UsageError(f"{option} {demand}: the variant {variant.name!r} sums nothing")
    people = read_respondents(records, coding_for(variant.survey, plan), ids)
    held = people.records
    if len(held) > variant.max_records:
        raise UsageError(
            f"{records}: {len(held)} records, at most {variant.max_records} allowed by the survey"
        )
    given: Given | None = None
    if repeat is not None:
        check_repeatable(variant, len(member.charter.roster) - 1)
        given = answer_given(repeat, member, held)
    own_secret(member.folder)  # A full disk shows before anybody is connected to.
    paying = _Paying.by(purse, people.ids, variant, budget=budget)
    if given is None:
        paying.check(member.charter.survey_id)
    else:
        paying.check_paid(given)
    tls = tls_context(member.folder, client_context)
    sittings: list[_Sitting] = []

    async def answered(join: Callable[[int], object]) -> Kept | None:
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
            machine = sitting.machine
            await run_machine(machine, sitting.same_again(link))
            acknowledged = None if machine.head is None else await link.acknowledgement()
            if machine.head is None or acknowledged is None:
                return None
            # Before the goodbye: whoever is killed after it finds nobody to ask again.
            return keep_receipt(
                member.folder,
                machine.charter,
                machine.head,
                acknowledged,
                said=[sitting.words[seq] for seq in range(len(sitting.words))],
                reports=machine.reports,
                done=machine.failure is None,
            )

    try:
        with open_account(member.folder) as account, ExitStack() as kept:
            before_this = _done_before(member, account, held)

            def join(attempt: int) -> None:
                account.check(attempt)
                charter, name = member.charter.again(attempt), member.identity.name
                key = session_key(member.folder, charter, held)
                mark = mark_of(key, charter.session)
                repeats = _given(member, charter, given)
                heard, said, note = _memories(kept, member, charter, mark)
                release = Release(
                    survey=charter.survey_id, session=charter.session, party=name, drawn=mark
                )
                # What was paid for before needs no budget again.
                pays = paying
                if repeats is not None:
                    paying.check_paid(repeats)
                    pays = paying.anything()
                before = {
                    charter.again(earlier).session: account.spent(earlier)
                    for earlier in account.attempts
                    if earlier < attempt
                }
                left = pays.left(release, attempt, account, before=before, heard=heard.noted)
                stream = role_stream(key, charter.session, name)
                machine = Machine(
                    charter,
                    name,
                    stream,
                    records=held,
                    identity=member.identity,
                    budget=None if left == math.inf else left,
                    withstand=withstand or 0,
                    crowd=crowd or 0,
                    instead=None if repeats is None else repeats.role(charter),
                )
                pay = functools.partial(pays.pay, release)
                spend = functools.partial(account.spend, attempt, budget=left)
                keep = keeping(member.folder, charter)
                sittings.append(_Sitting(machine, heard, said, note, repeats, pay, spend, keep, {}))

            receipt: Kept | None = None
            stopped = ""
            try:
                if heeds_signals:
                    receipt = await heeding(answered, join)
                else:
                    receipt = await answered(join)
            except StoppedError as error:
                if not sittings:
                    raise
                stopped = f"{error}: {AGAIN}"
            except TurnedAwayError:
                raise
            except ConnectionError:
                if before_this is None:
                    raise
                return before_this
            finally:
                # After the link is closed, and always: others must not see whether there was one.
                for sitting in sittings:
                    sitting.note(sitting.machine.notices)
            [sitting] = sittings
            machine = sitting.machine
            attempt = machine.charter.attempt
            ending = stopped or ending_of(machine)
            if ending == DONE and receipt is None:
                if before_this is not None and before_this.attempt == attempt:
                    return before_this
                ending = NOT_ACKNOWLEDGED
            elif ending == DONE and receipt is not None and receipt.problems:
                ending = f"{DOES_NOT_HOLD}: {'; '.join(receipt.problems)}"
            elif ending == DONE and receipt is not None and receipt.late:
                ending = NOT_IN_TIME
            return Answered(
                ending=ending,
                stopped=bool(stopped),
                attempt=attempt,
                spent=max(sitting.spent, account.spent(attempt)),
                before=account.before(attempt),
                repeated=sitting.given is not None,
                receipt=receipt,
            )
    except ConnectionError as error:
        raise ConnectionError(f"{host}:{port}: {error}") from error


def _done_before(member: Member, account: Account, records: Records) -> Answered | None:
    """How a party has ended in the last attempt that it answered, with these records.

    None if it has neither receipt nor late note of it: perhaps it is done, and does not know.
    """
    attempt = max(account.attempts, default=0)
    if not attempt:
        return None
    charter = member.charter.again(attempt)
    receipt = receipt_in(member.folder, charter, member.identity.name)
    if receipt is None:
        return None
    mark, _ = noted_in(member.folder, "said", charter.session)
    if mark != mark_of(known_session_key(member.folder, charter, records), charter.session):
        return None
    return Answered(
        ending=NOT_IN_TIME if receipt.late else DONE,
        attempt=attempt,
        spent=account.spent(attempt),
        before=account.before(attempt),
        repeated=noted_given(member.folder, charter.session) is not None,
        receipt=receipt,
        earlier=True,
    )


class _Paying(NamedTuple):
    """Who pays for an answer, and how much at most.

    Args:
        purse: that is paid from.
        payers: who pays.
        limit: the most that each may have spent; infinite for any amount.
        by_attempts: whether all attempts at this survey may cost what one can at most.
        most: that.
    """

    purse: Purse
    payers: Payers
    limit: float
    by_attempts: bool
    most: float

    @classmethod
    def by(
        cls,
        folder: Path | None,
        ids: Sequence[str] | None,
        variant: Variant,
        *,
        budget: float | None,
    ) -> _Paying:
        """As ``answer_survey`` is told to; raises what it does."""
        purse = Purse(folder or usual_purse())
        payers = purse.payers(ids)
        limit = math.inf if budget is None else budget
        return cls(purse, payers, limit, budget is None, variant.most())

    def anything(self) -> _Paying:
        """The same without a limit."""
        return self._replace(limit=math.inf, by_attempts=False)

    def check(self, survey: bytes) -> None:
        """Refuse a survey that somebody cannot pay, as ``Purse.check``."""
        self.purse.check(self.payers, survey, budget=self.limit, most=self.most)

    def check_paid(self, given: Given) -> None:
        """Refuse an answer that not all of them have paid for, as ``Purse.check_paid``."""
        self.purse.check_paid(self.payers, given.release, nats_of(given.epsilon))

    def left(
        self,
        release: Release,
        attempt: int,
        account: Account,
        *,
        before: Mapping[bytes, float],
        heard: bytes,
    ) -> float:
        """What may be spent on a release, per respondent, as ``Purse.left`` and the folder say."""
        rest = self.purse.left(
            self.payers, release, budget=self.limit, most=self.most, before=before, heard=heard
        )
        return account.left(attempt, None if self.by_attempts else rest, most=self.most)

    def pay(self, release: Release, *, epsilon: float, heard: bytes) -> None:
        """Note what a release has cost, as ``Purse.pay``."""
        self.purse.pay(self.payers, release, budget=self.limit, epsilon=epsilon, heard=heard)


class _Sitting(NamedTuple):
    """A party in one attempt: its role, what it keeps of it, and how it pays.

    ``words`` holds what it has said before its head, encoded, by number.
    """

    machine: Machine
    heard: Memory
    said: Memory
    note: Callable[[Sequence[str]], None]
    given: Given | None
    pay: Callable[..., None]
    spend: Callable[..., None]
    keep: Callable[[Sequence[Envelope]], None]
    words: dict[int, bytes]

    @property
    def spent(self) -> float:
        """What this answer has cost so far, per respondent: nothing if it was given before."""
        return 0.0 if self.given is not None else self.machine.spent.record

    def same_again(self, link: Channel) -> SameAgain:
        paid: list[tuple[float, bytes]] = []

        def pay(envelopes: Sequence[Envelope]) -> None:
            with _silently():
                now = (self.spent, self.heard.noted)
                if paid[-1:] != [now]:
                    self.pay(epsilon=self.spent, heard=self.heard.noted)
                    paid[:] = [now]
            self.spend(epsilon=self.spent)
            for each in envelopes:
                if each.kind != _HEAD:
                    self.words[each.seq] = encode_envelope(each)
            if self.given is None:
                self.keep(envelopes)

        def check(envelope: Envelope) -> None:
            if self.given is not None:
                with _silently():
                    asked = self.machine.charter.variant.messages[0].kind()
                    self.given.check_asked(envelope, asked)

        return SameAgain(link, self.heard, self.said, pay, check)


@contextmanager
def _silently() -> Generator[None]:
    """Make of a refusal a link that is lost, which is all that others see."""
    try:
        yield
    except PrivacyError as error:
        raise trio.BrokenResourceError(str(error)) from error


def _memories(
    kept: ExitStack, member: Member, charter: Charter, mark: bytes
) -> tuple[Memory, Memory, Callable[[Sequence[str]], None]]:
    """What was heard and said in a session, and what takes the notices, until ``kept`` ends."""
    heard, said, notices = (
        memory_in(member.folder, what, charter.session) for what in ("heard", "said", "notices")
    )
    return (
        kept.enter_context(remembering(heard, mark)),
        kept.enter_context(remembering(said, mark)),
        noting(notices),
    )


def _given(member: Member, charter: Charter, given: Given | None) -> Given | None:
    """The answer that is to be given again in a session, which stays the same in it."""
    noted = noted_given(member.folder, charter.session)
    if noted is not None or given is None:
        return noted
    _, said = noted_in(member.folder, "said", charter.session)
    if said:
        raise UsageError(f"--repeat: a report of its own was given in attempt {charter.attempt}")
    note_given(member.folder, charter.session, given)
    return given
