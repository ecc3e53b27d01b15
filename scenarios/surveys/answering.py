"""A party's side of a real survey, over TLS."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec
import trio

from parties.actor import run_machine
from parties.keeping.attempts import Allowance, Answers, OpenAnswers, answers_in, open_answers
from parties.keeping.members import Member, own_secret
from parties.keeping.paying.payers import Payers
from parties.keeping.paying.payments import Release
from parties.keeping.paying.recalling import recalled_in
from parties.keeping.purse import open_purse, usual_purse
from parties.keeping.receipts import Kept, held_in, keep_receipt, missing_from, receipt_in
from parties.keeping.remembered import (
    Memory,
    SameAgain,
    noted_in,
    noting,
    remembering,
    session_file,
)
from parties.keeping.repeating import (
    Given,
    answer_given,
    check_repeatable,
    keeping,
    note_given,
    noted_given,
)
from parties.keeping.session_keys import known_session_key, role_stream, session_key, session_mark
from parties.keeping.writing import reason
from protocol.accounting.spending import DELTA, Cost, largest
from protocol.errors import PrivacyError, ProtocolError, RemoteProtocolError, UsageError
from protocol.messages import AGGREGATOR, DONE, Envelope, Head
from protocol.session.charter import Charter
from protocol.session.machine import Machine
from protocol.session.run import machine_ending
from protocol.sharing.messages import is_summed
from protocol.surveys.records import Records
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import Consistency
from protocol.transcript.receipts import Shown
from protocol.wire.codec import encode_envelope
from scenarios.errors import StoppedError
from scenarios.surveys.endings import (
    DECLINED,
    DONE_BEFORE,
    DONE_NOW,
    FAILED,
    LOST,
    MACHINE_FAILED,
    NO_RECEIPT,
    NOT_ACKNOWLEDGED,
    STOPPED_BY_SIGNAL,
    TOO_LATE,
    TURNED_AWAY,
    UNREACHABLE,
    Ending,
    is_of_machine,
)
from scenarios.surveys.members import tls_context
from scenarios.surveys.operating.signals import heeding
from scenarios.surveys.respondents import Respondents, coding_for, read_respondents
from transports.base import Limits
from transports.dialing import StrangerError, TurnedAwayError
from transports.lasting.link import PATIENCE, LastingLink, connect_lasting
from transports.tls import client_context

SILENCE = 60.0
"""After so many seconds without a sign of life a connection is taken to be lost."""

NOT_IN_TIME = "late: the aggregator had closed the wait for a report before it came"
"""How a party ends whose answer is not counted, or not all of it, as it came too late."""

DOES_NOT_HOLD = "the aggregator's receipt does NOT hold"
"""How a party ends whose acknowledgement is not for what it said, or is not signed."""


_HEAD = Head.kind()


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """Course of a party's answer.

    Args:
        how: the kind of ending.
        ending: how it ended, in words; ``"done"`` if all went well, the party holds its receipt,
            and no report came too late.
        attempt: at the survey.
        spent: what was spent per respondent in this attempt, by whichever program.
        before: that spent in earlier ones.
        trouble: whether it ended because of the network, a disk or a signal and not by its role.
        receipt: what the aggregator has given for all that the party said, a receipt or a late
            note; None for nothing.
        repeated: whether the report was one that was given before, which costs nothing again.
        earlier: whether an earlier program has given the answer, and this one heard no more of it.
    """

    how: Ending
    ending: str
    attempt: int
    spent: Cost
    before: Cost
    trouble: bool = False
    receipt: Kept | None = None
    repeated: bool = False
    earlier: bool = False

    @property
    def code(self) -> int:
        """The exit code of its program."""
        return self.how.code


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """Answers of a party, what it may pay, and what it demands.

    Args:
        records: a CSV or Parquet file.
        plan: of the survey, which says how the file is read; None for one whose cells are the
            categories.
        budget: the most epsilon that a respondent may have spent in all surveys, in nats; by
            default, all attempts at this one may cost what one can at most, and nothing more once
            something was spent if that is unbounded.
        ids: the column of the records that says who a respondent is, which is not handed over;
            None for a file that pays as one.
        same: those whose ids read alike are one person each (``OpenPurse.settle``).
        different: the code of the question whether they are, if each is somebody else.
        purse: its folder; None for the user's (``usual_purse``).
        withstand: the fewest colluders that a secure sum must withstand; None for any number.
        honest: the fewest honest parties, this one included, that a secure sum must promise; the
            party consents to figures that take so many to be honest. None for any number, and for
            no such figure.
        delta: the most delta that a respondent may have spent so in all surveys; None for
            ``DELTA``, which is one sum's.
    """

    records: Path
    plan: Path | None = None
    budget: float | None = None
    ids: str | None = None
    same: bool = False
    different: str | None = None
    purse: Path | None = None
    withstand: int | None = None
    honest: int | None = None
    delta: float | None = None

    def people(self, member: Member) -> Respondents:
        """The records to answer with, and who they are of.

        Raises:
            UsageError: as ``answer_survey``.
        """
        charter, variant = member.charter, member.charter.variant
        if member.identity.name == AGGREGATOR:
            raise UsageError(f"{member.folder}: is the aggregator's; expected a party's folder")
        if self.ids is None and (self.same or self.different is not None):
            raise UsageError(
                f"{'--same' if self.same else '--different'}: expected --id too, the column of ids"
            )
        if self.same and self.different is not None:
            raise UsageError("--same and --different: expected one of them at most")
        for option, demand in (("--withstand", self.withstand), ("--honest", self.honest)):
            if demand is not None and not is_summed(variant, len(charter.roster) - 1):
                raise UsageError(f"{option} {demand}: the variant {variant.name!r} sums nothing")
        people = read_respondents(self.records, coding_for(variant.survey, self.plan), self.ids)
        if len(people.records) > variant.max_records:
            raise UsageError(
                f"{self.records}: {len(people.records)} records, at most {variant.max_records} "
                "allowed by the survey"
            )
        return people


async def answer_survey(
    member: Member,
    answering: Answering,
    *,
    host: str,
    port: int,
    repeat: Member | None = None,
    waiting: float = PATIENCE,
    heeds_signals: bool = False,
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
        answering: with what it answers, and on which terms.
        host, port: where the aggregator listens.
        repeat: from whose folder the report to give again was given, this member's or that of an
            earlier survey; None to draw one.
        waiting: how long to go on without a sign of life of the aggregator, in seconds: until it
            was reached, and after it was heard last. An aggregator that is alive is waited for.
        heeds_signals: whether SIGTERM, SIGHUP and Ctrl-C end it, in the main thread.

    Raises:
        UsageError: the folder is the aggregator's, its files do not belong together, or another
            program uses it; or the records are not of this survey, or not those of this attempt;
            or the survey has no secure sum to demand anything of, or there is nothing to repeat;
            or it is not said whether people whose ids read alike are one.
        PrivacyError: somebody has spent too much, or the folder knows of spending that the purse
            lacks; nobody was told anything.
        OSError: what is at the path of a file in a folder is something else; says which and why.
    """
    try:
        return await _answered(
            member,
            answering,
            host=host,
            port=port,
            repeat=repeat,
            waiting=waiting,
            heeds_signals=heeds_signals,
        )
    except OSError as error:
        if not is_of_machine(error):
            raise
        where = f"{error.filename}: " if error.filename else ""
        why = f"{where}{reason(error)}"
        return _cut_short(answers_in(member.folder), MACHINE_FAILED, why)


async def _answered(
    member: Member,
    answering: Answering,
    *,
    host: str,
    port: int,
    repeat: Member | None,
    waiting: float,
    heeds_signals: bool,
) -> Answered:
    """Answer once, as ``answer_survey``, while the party's disks do as they should."""
    people = answering.people(member)
    held = people.records
    given: Given | None = None
    if repeat is not None:
        check_repeatable(member.charter.variant, len(member.charter.roster) - 1)
        given = answer_given(repeat, member, held)
    own_secret(member.folder)  # A full disk shows before anybody is connected to.
    purse = answering.purse or usual_purse()
    with open_purse(purse) as before:
        payers = before.settle(
            people.ids, same=answering.same, different=answering.different
        ).asked(
            member.charter.variant,
            budget=answering.budget,
            honest=answering.honest,
            delta=answering.delta,
        )
        if given is None:
            before.check(payers, member.charter.survey_id)
        else:
            before.check_paid(payers, given.release, given.epsilon)
    tls = tls_context(member.folder, client_context)
    with open_answers(member.folder) as answers, ExitStack() as kept:
        with open_purse(purse) as before:
            before.check_knows(recalled_in(member), member.folder)
        earlier = _done_before(member, answers, held)
        sitting = Sitting(
            member=member,
            records=held,
            answers=answers,
            purse=purse,
            payers=payers,
            repeat=given,
            withstand=answering.withstand or 0,
            honest=answering.honest or 0,
            kept=kept,
        )

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
                holding=sitting,
            )
            async with connected as link:
                return await sitting.speak(link)

        receipt: Kept | None = None
        stopped = ""
        try:
            if heeds_signals:
                receipt = await heeding(answered, sitting.open)
            else:
                receipt = await answered(sitting.open)
        except StoppedError as error:
            stopped = str(error)
        except ConnectionError as error:
            sitting.lost = error
        finally:
            # After the link is closed, and always: others must not see whether there was one.
            sitting.note()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return sitting.settle(receipt, stopped, earlier, where)


def _done_before(member: Member, answers: Answers, records: Records) -> Answered | None:
    """Ending of a party in the last attempt that it answered, with these records.

    None if it has neither receipt nor late note of it: perhaps it is done, and does not know.
    """
    attempt = max(answers.attempts, default=0)
    if not attempt:
        return None
    charter = member.charter.again(attempt)
    receipt = receipt_in(member.folder, charter, member.identity.name)
    if receipt is None:
        return None
    mark, _ = noted_in(member.folder, "said", charter.session)
    if mark != session_mark(known_session_key(member.folder, charter, records), charter.session):
        return None
    return Answered(
        how=TOO_LATE if receipt.late else DONE_BEFORE,
        ending=NOT_IN_TIME if receipt.late else DONE,
        attempt=attempt,
        spent=answers.spent(attempt),
        before=answers.before(attempt),
        repeated=noted_given(member.folder, charter.session) is not None,
        receipt=receipt,
        earlier=True,
    )


def _cut_short(answers: Answers, how: Ending, why: str) -> Answered:
    """The ending of a party whose program could not go on, by what its folder says it spent."""
    attempt = max(answers.attempts, default=0)
    return Answered(
        how=how,
        ending=why,
        attempt=attempt,
        spent=answers.spent(attempt),
        before=answers.before(attempt),
        trouble=True,
    )


class _Attempt(NamedTuple):
    """A party in one attempt: its role, what it keeps of it, and how it pays.

    ``left`` is the most that may be spent per respondent; ``given``, the answer that is given
    again, if one is; ``words``, what was sent before the head, encoded, by number.
    """

    machine: Machine
    release: Release
    payers: Payers
    left: Allowance
    heard: Memory
    said: Memory
    note: Callable[[Sequence[str]], None]
    keep: Callable[[Sequence[Envelope]], None]
    given: Given | None
    words: dict[int, bytes]

    def __repr__(self) -> str:
        return f"<attempt {self.machine.charter.attempt}>"

    @property
    def spent(self) -> Cost:
        """Cost of this answer so far, per respondent; nothing if it was given before."""
        return Cost() if self.given is not None else self.machine.cost


@dataclass(slots=True, kw_only=True, repr=False)
class Sitting:
    """A party's part in a survey: it opens the attempt that is begun, speaks in it, and settles.

    Args:
        member: the party.
        records: what it answers with.
        answers: in its folder, which is locked.
        purse: the folder of the one that is paid from.
        payers: who pays for an answer, and how much at most.
        repeat: the answer to give again; None to draw one.
        withstand: the fewest colluders that a secure sum must withstand.
        honest: the fewest honest parties that a secure sum must promise, as ``Answering`` has it.
        kept: closes the files of what is remembered.
        attempt: the attempt that was opened; None before.
        paid: the cost and the question that were paid for last; None before.
        lost: why the aggregator could not be reached, or not any more; None while it can.
        restored: whether the aggregator's record goes on from a copy that lacks what the party was
            acknowledged at.
    """

    member: Member
    records: Records
    answers: OpenAnswers
    purse: Path
    payers: Payers
    repeat: Given | None
    withstand: int
    honest: int
    kept: ExitStack
    attempt: _Attempt | None = None
    paid: tuple[Cost, bytes] | None = None
    lost: ConnectionError | None = None
    restored: bool = False

    @property
    def _opened(self) -> _Attempt:
        if self.attempt is None:
            raise RuntimeError("no attempt was opened")
        return self.attempt

    def open(self, attempt: int) -> None:
        """Take part in an attempt, which must be neither an earlier one nor too dear.

        Raises:
            PrivacyError, UsageError, OSError: as ``answer_survey``.
        """
        if self.attempt is not None:
            raise RuntimeError("an attempt was opened already")
        self.answers.check(attempt)
        folder, name = self.member.folder, self.member.identity.name
        charter = self.member.charter.again(attempt)
        key = session_key(folder, charter, self.records)
        mark = session_mark(key, charter.session)
        given = _given(self.member, charter, self.repeat)
        heard, said = (
            self.kept.enter_context(remembering(session_file(folder, what, charter.session), mark))
            for what in ("heard", "said")
        )
        release = Release(survey=charter.survey_id, session=charter.session, party=name, drawn=mark)
        payers = self.payers
        with open_purse(self.purse) as purse:
            if given is not None:
                # What was paid for before needs no budget again.
                purse.check_paid(payers, given.release, given.epsilon)
                payers = payers.up_to(math.inf, payers.most, delta=math.inf)
            left = purse.left(payers, release, heard=heard.noted)
        # Without a budget, all attempts at this survey may cost what one can at most.
        rest = left if payers.budget is not None else None
        allowed = self.answers.allowed(attempt, rest, most=payers.most.epsilon)
        left = Allowance(allowed.epsilon, min(allowed.delta, left.delta))
        machine = Machine(
            charter,
            name,
            role_stream(key, charter.session, name),
            records=self.records,
            identity=self.member.identity,
            budget=None if left.epsilon == math.inf else left.epsilon,
            withstand=self.withstand,
            honest=self.honest,
            delta=left.delta if math.isfinite(left.delta) else DELTA,
            instead=None if given is None else given.role(charter),
        )
        note = noting(session_file(folder, "notices", charter.session))
        keep = keeping(folder, charter)
        self.attempt = _Attempt(machine, release, payers, left, heard, said, note, keep, given, {})

    def newest(self) -> SignedCheckpoint | None:
        """The newest checkpoint that the party holds; as ``Holding``."""
        attempts = {*self.answers.attempts}
        if self.attempt is not None:
            attempts.add(self.attempt.machine.charter.attempt)
        charter = self.member.charter
        held = (held_in(self.member.folder, charter.again(number)) for number in attempts)
        return max(filter(None, held), key=lambda each: each.session[-1], default=None)

    def missing(self, log: Consistency | None, restored: Shown | None) -> str | None:
        """The reason why the aggregator's record lacks what it has acknowledged; as ``Holding``."""
        charter = self._opened.machine.charter
        self.restored = restored is not None
        return missing_from(self.member.folder, charter, log, restored)

    async def speak(self, link: LastingLink) -> Kept | None:
        """Answer over a link; return what the aggregator acknowledged it with, if it did."""
        here = self._opened
        machine = here.machine
        await run_machine(machine, SameAgain(link, here.heard, here.said, self._pay, self._check))
        acknowledged = None if machine.head is None else await link.acknowledgement()
        if machine.failure is None or not _refuses(machine.failure):
            self.lost = link.lost
        if machine.head is None or acknowledged is None:
            return None
        # Before the goodbye: whoever is killed after it finds nobody to ask again.
        return keep_receipt(
            self.member.folder,
            machine.charter,
            machine.head,
            acknowledged,
            said=[here.words[seq] for seq in range(len(here.words))],
            reports=machine.reports,
            signed=machine.signed,
            done=machine.failure is None,
            restored=self.restored,
        )

    def note(self) -> None:
        """Write down what the role found for the party alone, if an attempt was opened."""
        if self.attempt is not None:
            self.attempt.note(self.attempt.machine.notices)

    def settle(
        self, receipt: Kept | None, stopped: str, earlier: Answered | None, where: str
    ) -> Answered:
        """Say how the answer went.

        Args:
            receipt: what the aggregator acknowledged it with; None for nothing.
            stopped: how a signal ended it; empty if none did.
            earlier: how an earlier program has ended, if that is known.
            where: the address of the aggregator.
        """
        lost, answers = self.lost, self.answers
        if self.attempt is None:
            # Whoever is turned away is told something new; else all is as it was.
            if earlier is not None and not isinstance(lost, TurnedAwayError) and not stopped:
                return earlier
            if lost is None:
                return _cut_short(answers, STOPPED_BY_SIGNAL, stopped)
            how = _without(lost, said=bool(answers.attempts))
            return _cut_short(answers, how, f"{where}: {lost}")
        machine = self.attempt.machine
        attempt = machine.charter.attempt
        if receipt is None and lost is not None and not stopped:
            if earlier is not None and earlier.attempt == attempt:
                return earlier
            how, ending = _without(lost, said=attempt in answers.attempts), f"{where}: {lost}"
        elif stopped:
            how, ending = STOPPED_BY_SIGNAL, stopped
        elif machine.failure is not None:
            how = DECLINED if _refuses(machine.failure) else FAILED
            ending = machine_ending(machine)
        elif receipt is None:
            if earlier is not None and earlier.attempt == attempt:
                return earlier
            how, ending = NOT_ACKNOWLEDGED, NOT_ACKNOWLEDGED.name
        elif receipt.problems:
            how, ending = NO_RECEIPT, f"{DOES_NOT_HOLD}: {'; '.join(receipt.problems)}"
        elif receipt.late:
            how, ending = TOO_LATE, NOT_IN_TIME
        else:
            how, ending = DONE_NOW, DONE
        return Answered(
            how=how,
            ending=ending,
            trouble=how in (UNREACHABLE, LOST, TURNED_AWAY),
            attempt=attempt,
            spent=largest((self.attempt.spent, answers.spent(attempt))),
            before=answers.before(attempt),
            repeated=self.attempt.given is not None,
            receipt=receipt,
        )

    def _pay(self, envelopes: Sequence[Envelope]) -> None:
        """Note what these cost, and keep them, before they leave."""
        here = self._opened
        spent, heard = now = here.spent, here.heard.noted
        if now != self.paid:
            with _silently(), open_purse(self.purse) as purse:
                purse.pay(here.payers, here.release, cost=spent, heard=heard)
            self.paid = now
        self.answers.note(here.machine.charter.attempt, allowed=here.left, cost=spent)
        here.words.update(
            (each.seq, encode_envelope(each)) for each in envelopes if each.kind != _HEAD
        )
        if here.given is None:
            here.keep(envelopes)

    def _check(self, envelope: Envelope) -> None:
        """Refuse another question than the one that the given answer is to."""
        here = self._opened
        if here.given is not None:
            asked = here.machine.charter.variant.messages[0].kind()
            with _silently():
                here.given.check_asked(envelope, asked)


def _refuses(failure: ProtocolError) -> bool:
    """Return whether a role has declined by itself."""
    return isinstance(failure, PrivacyError | RemoteProtocolError)


def _without(lost: ConnectionError, *, said: bool) -> Ending:
    """The ending of a party that cannot reach its aggregator.

    Args:
        lost: why not.
        said: whether it has said anything in this attempt, by whichever program.
    """
    if isinstance(lost, TurnedAwayError) and not isinstance(lost, StrangerError):
        return TURNED_AWAY
    return LOST if said else UNREACHABLE


@contextmanager
def _silently() -> Generator[None]:
    """Make of a refusal a link that is lost, which is all that others see."""
    try:
        yield
    except PrivacyError as error:
        raise trio.BrokenResourceError(str(error)) from error


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
