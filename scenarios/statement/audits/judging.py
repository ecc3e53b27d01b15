"""Judges a transcript in every way that an audit can be asked for, in one pass over it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from protocol.accounting.composition import Composition
from protocol.accounting.spending import DELTA
from protocol.audit.at_delta import WorstRespondent, worst_respondent
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.judge import alone_in, check_size, worst_found
from protocol.audit.coalition.judge import found as found_of
from protocol.audit.disclosure import Disclosure
from protocol.audit.ledger import Account, Ledger, LedgerWriter
from protocol.audit.linkage import link
from protocol.audit.walk import Fold, Step
from protocol.errors import UnsupportedEventError, UsageError
from protocol.estimators.inference.intervals import USUAL, Intervals
from protocol.messages import PartyId
from protocol.session.variant import Variant, settled
from protocol.surveys.limits import Held
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.cosignatures import Cosigned
from protocol.transcript.entries import Sent
from protocol.transcript.header import read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.signatures import Checks
from scenarios.errors import install_command
from scenarios.files.transcripts import Transcript
from scenarios.statement.audits.judged import Judged
from scenarios.statement.compositions import seconded
from scenarios.surveys.watching.rounds import Round, RoundWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Request for an audit, with its inputs besides the transcript.

    Args:
        observer: the observer to account for, in secure sums too; None for the aggregator and all
            services.
        trail: the party whose messages are to be shown one by one.
        worst: number of parties in the most damaging coalition with the aggregator.
        delta: the probability with which the tighter epsilon may not hold.
        second_opinion: whether ``dp-accounting`` is asked too.
        digest, checkpoint: values that were published elsewhere.
        cosigned: which of the witnesses demanded have cosigned that checkpoint.
        disclosed: secrets and records that members gave to the auditor.
        intervals: level and subject of the intervals.
        spot: number of counted places to draw for a spot check; None for no check.
        spot_words: the auditor's contribution to the draw.
        rounds: whether to tell the rounds; else there are none.
    """

    observer: Coalition | None = None
    trail: PartyId | None = None
    worst: int | None = None
    delta: float = DELTA
    second_opinion: bool = False
    digest: bytes | None = None
    checkpoint: SignedCheckpoint | None = None
    cosigned: Cosigned | None = None
    disclosed: Sequence[Disclosure] = ()
    intervals: Intervals = USUAL
    spot: int | None = None
    spot_words: str = ""
    rounds: bool = False


def judge(
    transcript: Transcript,
    variant: type[Variant],
    asked: Asked,
    *,
    file: str,
    reader: TranscriptReader | None = None,
    folds: Iterable[Fold] = (),
    checks: Checks | None = None,
) -> tuple[Judged, list[Round]]:
    """Judge a transcript, with all requested computations.

    Args:
        variant: the variant's class, chosen by the auditor and never by the transcript.
        asked: the requested computations.
        file: the transcript's name.
        reader: reader of this transcript, if its header has been read.
        folds: further folds over the same pass.
        checks: checks the signatures of heads; by default they are checked at once.

    Raises:
        SurveyError: the header cannot be read or is of another variant, or a member named is not
            on the roster.
        UsageError: a request cannot be met.
    """
    reader = transcript.entries() if reader is None else reader
    header = reader.header
    charter = read_charter(header, variant)
    if asked.worst is not None:
        check_size(charter, asked.worst)
    ledger = LedgerWriter(charter, Held(lambda: reader.stored))
    silent = _SilentTaps(asked.observer)
    rounds = RoundWriter(charter.roster) if asked.rounds else None
    own = (silent, rounds)
    found = transcript.audit(
        variant,
        observer=asked.observer,
        digest=asked.digest,
        checkpoint=asked.checkpoint,
        cosigned=asked.cosigned,
        disclosed=asked.disclosed,
        reader=reader,
        ledger=ledger,
        folds=[*(each for each in own if each is not None), *folds],
        checks=checks,
    )
    respondent, no_delta = None, ""
    try:
        respondent = worst_respondent(
            found.ledger, asked.delta, settled=settled(found.charter.variant)
        )
    except UnsupportedEventError as error:
        what = "not computed, nor a second opinion" if asked.second_opinion else "not computed"
        no_delta = f"at delta {asked.delta:g}: {what}: {error}"
    judged = Judged(
        file=file,
        header=header,
        audit=found,
        intervals=asked.intervals,
        account=None if asked.trail is None else _account(found.ledger, asked.trail),
        worst_respondent=respondent,
        no_delta=no_delta,
        second_opinions=_second_opinions(respondent, asked.delta) if asked.second_opinion else (),
        linkage=link(found.ledger),
        alone=alone_in(ledger),
        announced=()
        if charter.analysis is None or found.estimate is None
        else charter.analysis.announced_tables(found.estimate),
        coalition=None if asked.observer is None else found_of([ledger], asked.observer),
        worst=None if asked.worst is None else worst_found(ledger, asked.worst),
        coalition_notes=silent.notes,
        spot=None if asked.spot is None else found.spot(asked.spot, asked.spot_words),
    )
    return judged, [] if rounds is None else rounds.rounds()


class _SilentTaps(Fold):
    """Tapped wires of an observer that carried no message."""

    def __init__(self, observer: Coalition | None) -> None:
        taps = () if observer is None else observer.taps
        self._silent = {frozenset(tap): tap for tap in taps}

    def add(self, step: Step) -> None:
        if isinstance(step.entry, Sent) and step.envelope is not None:
            self._silent.pop(frozenset((step.envelope.sender, step.envelope.recipient)), None)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(
            f"nothing passed on the wire between {x} and {y}: that tap adds nothing"
            for x, y in self._silent.values()
        )


def _account(ledger: Ledger, party: PartyId) -> Account:
    account = ledger.everybody.get(party)
    if account is None:
        raise UsageError(f"{ledger.observer!r} learned nothing from a party {party!r}")
    return account


def _second_opinions(worst: WorstRespondent | None, delta: float) -> tuple[Composition, ...]:
    """The same messages judged by ``dp-accounting``, whose figures bracket the true one.

    Raises:
        UsageError: it is not installed, or does not support this delta.
    """
    from protocol.accounting.pld import opinion

    if worst is None:
        return ()
    try:
        found = opinion(worst.pairs, delta)
    except ImportError as error:
        raise UsageError(f"--pld: {error}: {install_command('accounting')}") from error
    except ValueError as error:
        raise UsageError(f"--pld: {error}") from error
    return (seconded(worst.composition, found),)
