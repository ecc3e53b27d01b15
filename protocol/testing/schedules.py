"""Fault schedules for tests: seeded fates of envelopes, and invariants under all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import msgspec

from protocol.accounting.accountants import PureAccountant
from protocol.audit.audit import audit
from protocol.errors import LocalProtocolError, ProtocolError, SurveyError
from protocol.messages import AGGREGATOR, Envelope
from protocol.session.fates import PASS, Fate, Verdict
from protocol.session.run import is_mistake
from protocol.session.variant import Variant
from protocol.simulation.mapping import Map, one_by_one
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.surveys.records import Records
from protocol.transcript.verification import verify

SCHEDULES = 20
"""The number of schedules that are tried by default."""

_STUCK = "deadlock: all members wait for each other"
_LAST_WORDS = 6
_LATE = 2.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """Schedule of faults in a run, decided by a seed; it is the same for the same envelopes.

    Args:
        seed: decides the faults.
        drop, duplicate, delay: the shares of envelopes that are lost, sent twice and delayed.
        late: the longest delay, in seconds.
        crash, cut: the shares of parties that end before one of their first envelopes, and of
            parties with a link that is cut at one. The aggregator is spared.
    """

    seed: int
    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    late: float = 0.0
    crash: float = 0.0
    cut: float = 0.0

    def __call__(self, envelope: Envelope) -> Fate:
        """The fate of an envelope."""
        if envelope.sender != AGGREGATOR:
            doomed, when = self._drawn("party", envelope.sender, 2)
            if doomed < self.crash + self.cut and envelope.seq == int(when * _LAST_WORDS):
                return Fate(Verdict.CRASH if doomed < self.crash else Verdict.CUT)
        chance, time = self._drawn("envelope", envelope.sender, envelope.recipient, envelope.seq)
        if chance < self.drop:
            return Fate(Verdict.DROP)
        chance -= self.drop
        if chance < self.duplicate:
            return Fate(Verdict.DUPLICATE)
        if chance - self.duplicate < self.delay:
            return Fate(delay=time * self.late)
        return PASS

    def _drawn(self, *about: object) -> tuple[float, float]:
        """Two numbers in [0, 1) that depend on the seed and on the subject of the decision."""
        content = repr((self.seed, *about)).encode()
        drawn = hashlib.blake2b(b"sottovoce schedule\0" + content, digest_size=16).digest()
        halves = (drawn[:8], drawn[8:])
        first, second = ((int.from_bytes(half, "big") >> 11) / 2.0**53 for half in halves)
        return first, second

    def __str__(self) -> str:
        shares = {
            name: getattr(self, name) for name in ("drop", "duplicate", "delay", "crash", "cut")
        }
        rates = ", ".join(f"{name} {share:g}" for name, share in shares.items() if share)
        return f"schedule {self.seed} ({rates or 'no faults'})"


def make_schedules(variant: Variant, count: int, *, seed: int) -> Iterator[Schedule]:
    """Schedules for a variant, each worse than the one of its sort before.

    If the aggregator waits for ever, no single envelope is lost: it notices that parties are gone,
    but not that an envelope is lost.
    """
    patient = variant.patience is None
    late = _LATE * (variant.patience or 1.0)
    for number in range(count):
        share = min(0.6, 0.05 * (1 + number // 6))
        one = Schedule(seed=seed + number)
        sorts = (
            {"duplicate": share},
            {"crash": share},
            {"delay": share, "late": late},
            {"cut": share},
            {"duplicate": share} if patient else {"drop": share},
            {
                "crash": share / 2,
                "cut": share / 2,
                "delay": share,
                "late": late,
                "duplicate": share,
                "drop": 0.0 if patient else share / 2,
            },
        )
        yield msgspec.structs.replace(one, **sorts[number % len(sorts)])


def check_under_faults(
    variant: Variant,
    records: Records,
    *,
    schedules: int = SCHEDULES,
    parties: int | None = None,
    seed: int = 1,
    carried: Map = one_by_one,
) -> None:
    """Run a variant under fault schedules and check its invariants.

    1. Every role ends, and none waits for ever.
    2. There is a result that the variant can read, or a clear error of the protocol, not of a role
       that was unprepared.
    3. The record is intact, and if there is a result it follows.
    4. The accountant knows the event of every message.
    5. No respondent is charged more than the variant's ``most``.

    Args:
        variant: the variant, with its parameters.
        records: some ten records.
        schedules: the number of schedules.
        parties: number of parties that the records are spread over; by default one each.
        seed: of the run and of the schedules.
        carried: carries out the runs, here or by workers; the first failure is the same.

    Raises:
        AssertionError: says what does not hold, and under which schedule.
    """
    runs = [
        FaultyRun(variant=variant, records=records, schedule=schedule, parties=parties, seed=seed)
        for schedule in make_schedules(variant, schedules, seed=seed)
    ]
    for run, failure in zip(runs, carried(find_failure, runs), strict=True):
        if failure:
            run.check()  # Once more, for the traceback.
            raise AssertionError(failure)


class FaultyRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run under one schedule; the fields are the arguments of ``check_under_faults``."""

    variant: Variant
    records: Records
    schedule: Schedule
    parties: int | None
    seed: int

    def check(self) -> None:
        """Run it and check what must hold.

        Raises:
            AssertionError: says what does not hold, and under which schedule.
        """
        setting = make_setting(self.variant, self.records, seed=self.seed, parties=self.parties)
        run = Rehearsal(setting, fate=self.schedule)
        try:
            _check_ends(run)
            _check_record(run)
            check_most(run)
        except AssertionError as error:
            raise AssertionError(f"{self.schedule}: {error}") from error


def find_failure(run: FaultyRun) -> str:
    """Failure of a run, in words; empty if everything holds."""
    try:
        run.check()
    except AssertionError as error:
        return str(error)
    return ""


def _check_ends(run: Rehearsal) -> None:
    failure = run.failure
    for party, ending in run.endings.items():
        if is_mistake(party, ending):
            raise AssertionError(f"{party} fails under faults: {ending}")
    if isinstance(failure, LocalProtocolError):
        raise AssertionError(f"the aggregator's role fails under faults: {failure}") from failure
    endings = {**run.endings, AGGREGATOR: str(failure or "")}
    for member, ending in endings.items():
        if _STUCK in ending and run.charter.variant.patience is not None:
            raise AssertionError(
                f"{member}: {ending}; a wait for what may be lost says `within`"
            ) from failure


def _check_record(run: Rehearsal) -> None:
    verification = verify(run.content)
    for fault in verification.faults:
        raise AssertionError(f"the record is not intact: {fault}")
    check_judged(run)
    if run.failure is not None:
        return
    try:
        run.charter.variant.estimate(run.published)
        judged = audit(lambda: [run.content], type(run.charter.variant))
    except (ProtocolError, ValueError) as error:
        prefix = "the audit refuses the record" if isinstance(error, SurveyError) else "the result"
        raise AssertionError(f"{prefix}: {error}") from error
    if judged.verdict != "sound":
        raise AssertionError(f"the audit does not accept the record: {judged.findings[0]}")


def check_judged(run: Rehearsal) -> None:
    """Check that the accountant knows the event of every message.

    Raises:
        AssertionError: it does not know one; names the envelope.
    """
    accountant = PureAccountant()
    for (sender, seq), event in run.events.items():
        try:
            accountant.judge(event)
        except ProtocolError as error:
            raise AssertionError(f"{sender} #{seq}: {error}") from error


def check_most(run: Rehearsal) -> None:
    """Compare the ledger's charges with the variant's ``most``.

    Raises:
        AssertionError: a respondent was charged more.
    """
    most, ledger = run.charter.variant.most(), run.ledger(run.serving)
    for account in ledger.everybody.values():
        if not account.loss.record <= most:
            raise AssertionError(
                f"{account.party} is charged epsilon {account.loss.record:.6g}, and the variant's "
                f"most() is {most:.6g}: any run must cost a respondent at most that"
            )
