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
    is_local_failure,
)
from scenarios.surveys.members import tls_context
from scenarios.surveys.operating.signals import heeding
from scenarios.surveys.respondents import Respondents, coding_for, read_respondents
from transports.base import Limits
from transports.dialing import StrangerError, TurnedAwayError
from transports.lasting.link import PATIENCE, LastingLink, connect_lasting
from transports.tls import client_context

SILENCE = 60.0
"""Seconds of silence after which a connection counts as lost."""

NOT_IN_TIME = "late: the aggregator had closed the wait for a report before it came"
"""Ending of a party if some or all of its answer came too late to count."""

DOES_NOT_HOLD = "the aggregator's receipt does NOT hold"
"""Ending of a party if its acknowledgement is unsigned, or is for other messages."""

_HEAD = Head.kind()


class Answered(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a party's answer.

    Args:
        how: the kind of ending.
        ending: the ending in words; ``"done"`` if the party holds its receipt and every report was
            in time.
        attempt: number of the attempt at the survey.
        spent: cost per respondent in this attempt, over all programs that took part.
        before: cost per respondent in earlier attempts.
        trouble: whether the network, a disk or a signal ended it.
        receipt: the aggregator's receipt or late note; None if it gave neither.
        repeated: whether an earlier report was given again, at no further cost.
        earlier: whether an earlier program gave the answer, and this one received nothing new.
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
    """Records, budget and demands of a party.

    Args:
        records: a CSV or Parquet file.
        plan: describes the file's columns; None if its cells are the categories.
        budget: limit on a respondent's epsilon over all surveys, in nats. By default, all attempts
            at this survey together may cost as much as one attempt can; if that is unbounded,
            nothing more is spent once something was.
        ids: the column of respondents' ids, which is never sent; None if the whole file pays as one
            person.
        same: similar ids belong to one person (``OpenPurse.settle``).
        different: similar ids belong to different people: the code that confirms this.
        purse: the purse's folder; None for the user's (``usual_purse``).
        withstand: the fewest colluders that a secure sum must withstand; None for any number.
        honest: the fewest honest parties, this one included, that a secure sum must promise; the
            party accepts figures that rest on so many. None demands nothing, and accepts only
            figures that hold whoever conspires.
        delta: limit on a respondent's delta over all surveys; None for ``DELTA``, the delta of
            one sum.
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
        """The records to answer with, and their respondents.

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

    A party is done once it holds a valid receipt in its folder (``keep_receipt``): the aggregator's
    acknowledgement that all its messages are on disk. If a report was too late, the party gets a
    late note instead; it stays charged and is not done. Receipts and late notes from an earlier
    program count, also if the aggregator cannot be reached. A lost connection is made again, and
    no message is sent twice.

    In the same attempt, a party always gives the same report: its randomness follows from the
    secret in its folder and from the records (``SameAgain``). In another attempt it draws and pays
    anew, unless it is to ``repeat`` a report. Everything that respondents have spent in any survey
    counts (``Purse``). Notices of its role go to its folder and do not affect the return value.

    Args:
        answering: its records, budget and demands.
        host, port: the aggregator's address.
        repeat: the member whose report is given again: this one, or one of an earlier survey. None
            draws a new report.
        waiting: seconds to keep trying without a sign of life of the aggregator. While the
            aggregator shows one, the party waits without limit.
        heeds_signals: whether SIGTERM, SIGHUP and Ctrl-C end it, in the main thread.

    Raises:
        UsageError: the folder is the aggregator's, its files do not belong together, or another
            program uses it; the records are of another survey, or not those of this attempt; a
            demand on a secure sum that does not exist; a report that cannot be repeated; or similar
            ids without ``same`` or ``different``.
        PrivacyError: a respondent has spent too much, or the folder knows of spending that the
            purse lacks. Nothing was sent.
        OSError: a path in a folder holds something else than the expected file.
    """
    try:
        return await _answer_once(
            member,
            answering,
            host=host,
            port=port,
            repeat=repeat,
            waiting=waiting,
            heeds_signals=heeds_signals,
        )
    except OSError as error:
        if not is_local_failure(error):
            raise
        where = f"{error.filename}: " if error.filename else ""
        why = f"{where}{reason(error)}"
        return _cut_short(answers_in(member.folder), MACHINE_FAILED, why)


async def _answer_once(
    member: Member,
    answering: Answering,
    *,
    host: str,
    port: int,
    repeat: Member | None,
    waiting: float,
    heeds_signals: bool,
) -> Answered:
    """Answer once; ``answer_survey`` handles failing disks."""
    people = answering.people(member)
    held = people.records
    given: Given | None = None
    if repeat is not None:
        check_repeatable(member.charter.variant, len(member.charter.roster) - 1)
        given = answer_given(repeat, member, held)
    own_secret(member.folder)  # Created now: a full disk must fail before any connection.
    purse = answering.purse or usual_purse()
    payers = _check_payers(member, answering, people.ids, purse, given)
    tls = tls_context(member.folder, client_context)
    with open_answers(member.folder) as answers, ExitStack() as kept:
        with open_purse(purse) as opened:
            opened.check_knows(recalled_in(member), member.folder)
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
            # Always, and after the link is closed: others must not see whether there are notices.
            sitting.note()
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return sitting.settle(receipt, stopped, earlier, where)


def _check_payers(
    member: Member,
    answering: Answering,
    ids: Sequence[str] | None,
    folder: Path,
    given: Given | None,
) -> Payers:
    """The respondents who pay; refuses those who cannot, before anything is sent."""
    with open_purse(folder) as purse:
        settled = purse.settle(ids, same=answering.same, different=answering.different)
        payers = settled.asked(
            member.charter.variant,
            budget=answering.budget,
            honest=answering.honest,
            delta=answering.delta,
        )
        if given is None:
            purse.check(payers, member.charter.survey_id)
        else:
            purse.check_paid(payers, given.release, given.epsilon)
    return payers


def _done_before(member: Member, answers: Answers, records: Records) -> Answered | None:
    """Outcome of the party's last attempt with these records, by its receipt or late note.

    None without either: the party may be done without knowing.
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
    """Outcome of a party that could not go on; its folder tells the cost."""
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
    """A party in one attempt: its role, its files, and its payment.

    Args:
        left: the most that a respondent may still spend.
        given: the earlier answer to repeat, if any.
        words: encoded envelopes sent before the head, by number.
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
    """A party's part in a survey: it opens an attempt, answers in it, and settles.

    Args:
        member: the party.
        records: the answers.
        answers: the attempts noted in its locked folder.
        purse: folder of the purse that pays.
        payers: the respondents, with their budgets.
        repeat: the earlier answer to repeat; None to draw one.
        withstand: the fewest colluders that a secure sum must withstand.
        honest: as in ``Answering``; 0 for None.
        kept: closes the files of this attempt.
        attempt: the open attempt; None before.
        paid: the cost and the question that were paid last; None before.
        lost: why the aggregator is out of reach; None while it can be reached.
        restored: whether the aggregator's record was restored from a copy that lacks acknowledged
            messages of this party.
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
    def _open_attempt(self) -> _Attempt:
        if self.attempt is None:
            raise RuntimeError("no attempt was opened")
        return self.attempt

    def open(self, attempt: int) -> None:
        """Take part in an attempt; refuse an earlier one, and one beyond the budget.

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
        given = _fixed_repeat(self.member, charter, self.repeat)
        heard, said = (
            self.kept.enter_context(remembering(session_file(folder, what, charter.session), mark))
            for what in ("heard", "said")
        )
        release = Release(survey=charter.survey_id, session=charter.session, party=name, drawn=mark)
        payers = self.payers
        with open_purse(self.purse) as purse:
            if given is not None:
                # A repeated answer is paid for already.
                purse.check_paid(payers, given.release, given.epsilon)
                payers = payers.up_to(math.inf, payers.most, delta=math.inf)
            left = purse.left(payers, release, heard=heard.noted)
        # Without a budget, all attempts together may cost as much as one can.
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
        """The newest checkpoint that the party holds; see ``Holding``."""
        attempts = {*self.answers.attempts}
        if self.attempt is not None:
            attempts.add(self.attempt.machine.charter.attempt)
        charter = self.member.charter
        held = (held_in(self.member.folder, charter.again(number)) for number in attempts)
        return max(filter(None, held), key=lambda each: each.session[-1], default=None)

    def missing(self, log: Consistency | None, restored: Shown | None) -> str | None:
        """Reason why the aggregator's record lacks acknowledged messages; see ``Holding``."""
        charter = self._open_attempt.machine.charter
        self.restored = restored is not None
        return missing_from(self.member.folder, charter, log, restored)

    async def speak(self, link: LastingLink) -> Kept | None:
        """Answer over a link; return the aggregator's receipt or late note, if it gave one."""
        here = self._open_attempt
        machine = here.machine
        await run_machine(machine, SameAgain(link, here.heard, here.said, self._pay, self._check))
        acknowledged = None if machine.head is None else await link.acknowledgement()
        if machine.failure is None or not _has_declined(machine.failure):
            self.lost = link.lost
        if machine.head is None or acknowledged is None:
            return None
        # Before the goodbye, after which nobody could be asked again.
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
        """Write the role's private notices to the folder."""
        if self.attempt is not None:
            self.attempt.note(self.attempt.machine.notices)

    def settle(
        self, receipt: Kept | None, stopped: str, earlier: Answered | None, where: str
    ) -> Answered:
        """Outcome of the answer.

        Args:
            receipt: the aggregator's receipt or late note; None without one.
            stopped: the signal that ended it, in words; empty if none did.
            earlier: outcome of an earlier program, if known.
            where: the aggregator's address.
        """
        lost, answers = self.lost, self.answers
        if self.attempt is None:
            # Only being turned away is news; otherwise the earlier outcome stands.
            if earlier is not None and not isinstance(lost, TurnedAwayError) and not stopped:
                return earlier
            if lost is None:
                return _cut_short(answers, STOPPED_BY_SIGNAL, stopped)
            how = _unreached_ending(lost, said=bool(answers.attempts))
            return _cut_short(answers, how, f"{where}: {lost}")
        machine = self.attempt.machine
        attempt = machine.charter.attempt
        how, ending = self._ending(machine, receipt, stopped, where)
        if how in (UNREACHABLE, LOST, TURNED_AWAY, NOT_ACKNOWLEDGED) and (
            earlier is not None and earlier.attempt == attempt
        ):
            return earlier
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

    def _ending(
        self, machine: Machine, receipt: Kept | None, stopped: str, where: str
    ) -> tuple[Ending, str]:
        if stopped:
            return STOPPED_BY_SIGNAL, stopped
        if receipt is None and self.lost is not None:
            said = machine.charter.attempt in self.answers.attempts
            return _unreached_ending(self.lost, said=said), f"{where}: {self.lost}"
        if machine.failure is not None:
            how = DECLINED if _has_declined(machine.failure) else FAILED
            return how, machine_ending(machine)
        if receipt is None:
            return NOT_ACKNOWLEDGED, NOT_ACKNOWLEDGED.name
        if receipt.problems:
            return NO_RECEIPT, f"{DOES_NOT_HOLD}: {'; '.join(receipt.problems)}"
        return (TOO_LATE, NOT_IN_TIME) if receipt.late else (DONE_NOW, DONE)

    def _pay(self, envelopes: Sequence[Envelope]) -> None:
        """Pay for envelopes and keep a copy, before they are sent."""
        here = self._open_attempt
        spent, heard = now = here.spent, here.heard.noted
        if now != self.paid:
            with _as_lost_link(), open_purse(self.purse) as purse:
                purse.pay(here.payers, here.release, cost=spent, heard=heard)
            self.paid = now
        self.answers.note(here.machine.charter.attempt, allowed=here.left, cost=spent)
        here.words.update(
            (each.seq, encode_envelope(each)) for each in envelopes if each.kind != _HEAD
        )
        if here.given is None:
            here.keep(envelopes)

    def _check(self, envelope: Envelope) -> None:
        """Refuse any question but the one that the repeated answer belongs to."""
        here = self._open_attempt
        if here.given is not None:
            asked = here.machine.charter.variant.messages[0].kind()
            with _as_lost_link():
                here.given.check_asked(envelope, asked)


def _has_declined(failure: ProtocolError) -> bool:
    return isinstance(failure, PrivacyError | RemoteProtocolError)


def _unreached_ending(lost: ConnectionError, *, said: bool) -> Ending:
    """Ending of a party that cannot reach its aggregator.

    Args:
        lost: the reason.
        said: whether any program of the party has sent something in this attempt.
    """
    if isinstance(lost, TurnedAwayError) and not isinstance(lost, StrangerError):
        return TURNED_AWAY
    return LOST if said else UNREACHABLE


@contextmanager
def _as_lost_link() -> Generator[None]:
    """Turn a refusal into a lost link, so that others see nothing else."""
    try:
        yield
    except PrivacyError as error:
        raise trio.BrokenResourceError(str(error)) from error


def _fixed_repeat(member: Member, charter: Charter, given: Given | None) -> Given | None:
    """The answer to repeat in a session, fixed for the whole session."""
    noted = noted_given(member.folder, charter.session)
    if noted is not None or given is None:
        return noted
    _, said = noted_in(member.folder, "said", charter.session)
    if said:
        raise UsageError(f"--repeat: a report of its own was given in attempt {charter.attempt}")
    note_given(member.folder, charter.session, given)
    return given
