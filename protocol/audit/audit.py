"""Judges a transcript: the parties counted, what was learned, and whether the result follows.

It works from the record and from members' disclosures alone, and shares no state with the run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from protocol.audit.claims import ClaimCheck, check_claims
from protocol.audit.coalition.coalition import Coalition, Observer, parse_coalition, serving
from protocol.audit.completeness import Closing, Completeness, CompletenessWriter
from protocol.audit.design_effects import PartWriter
from protocol.audit.disclosure import Disclosure, disclosed_by_seed
from protocol.audit.findings import Finding
from protocol.audit.inside import InsideWriter, SealedFor
from protocol.audit.ledger import Ledger, LedgerWriter
from protocol.audit.proofs.spot import Spot, draw_places
from protocol.audit.replay import Replay, ReplayWriter
from protocol.audit.walk import Fold, Step, fold, walk
from protocol.errors import ProtocolError, SurveyError
from protocol.estimators.design_effects import DesignEffects
from protocol.estimators.estimate import Estimate
from protocol.messages import AGGREGATOR, RECORD, Closed, Message, PartyId
from protocol.session.charter import Charter
from protocol.session.variant import Variant
from protocol.sharing.messages import OPENED, Opening
from protocol.surveys.limits import Held
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.cosignatures import Cosigned
from protocol.transcript.entries import WITHHELD, Header, Restored, Sent
from protocol.transcript.header import read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.signatures import Checks
from protocol.transcript.verification import Verification, verify

Chunks = Callable[[], Iterable[bytes]]
"""Opens a transcript and returns its bytes in parts, from the start, at every call."""

Verdict = Literal["sound", "unchecked", "incomplete", "broken", "unfinished"]
"""Verdict on a record and its result. ``unchecked``: the record is intact, but its result could not
be checked. ``incomplete``: nothing that was read is wrong, but it is cut short or its run failed.
``unfinished``: not all could be read or judged."""

Source = Literal["survey", "simulation", "trial"]
"""The kinds of run that a record may be of."""

UNTOLD = "whether the result follows is unknown: it takes secrets that are not on record"
"""The finding if a result cannot be compared with the messages on record."""

NOTHING_PUBLISHED = "nothing was published"
"""The finding if a record has no result."""

_LISTED = 20
_SUBSETS = 4


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """Result of an audit.

    Args:
        charter: the terms and the roster, known before the first message.
        verification: whether the record is as it was recorded.
        completeness: the parties that took part.
        counted: the parties in the estimate, as ``Roster.bitmap``.
        ledger: what the observer learned.
        passed: what the aggregator and all services learned together: more than any other member,
            and more than an observer of the network.
        apart: what subsets of those learned, if the others keep to the protocol; empty without
            services.
        disclosed: in a survey with sums, the parties whose keys and records the audit uses, so that
            they hide nobody else.
        sealed: the sealed messages, and how many of them the audit has opened.
        replay: whether the published result follows; None if nothing was published.
        replays: for each party that disclosed its keys and records, whether its messages follow.
        estimate: the estimate from the result.
        design: the design effects, as the respondents of one party may be alike; None if unknown,
            or if every party holds one record.
        no_design: why they are unknown.
        checks: the claims and the configuration's promises, next to what the record shows.
        partial: the record could not be read whole, so the ledger may lack something.
        finished: whether the file could be unpacked and all messages be judged.
        simulated: the record holds its seed, by which its holder can undo every randomization.
        trial: one program had all answers, and a seed that the record does not hold.
        remarks: remarks that do not make the record unsound: malformed messages of parties, and
            accusations that no check looked at.
        findings: faults and doubts.
    """

    charter: Charter
    verification: Verification
    completeness: Completeness
    counted: bytes
    ledger: Ledger
    passed: Ledger
    apart: tuple[Ledger, ...]
    disclosed: tuple[PartyId, ...]
    sealed: tuple[SealedFor, ...]
    replay: Replay | None
    replays: tuple[Replay, ...]
    estimate: Estimate | None
    design: DesignEffects | None
    no_design: str
    checks: tuple[ClaimCheck, ...]
    partial: bool
    finished: bool
    simulated: bool
    trial: bool
    remarks: tuple[Finding, ...]
    findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        name = self.charter.variant.name
        findings = len(self.verification.faults) + len(self.findings)
        return f"<Audit: {name}, {self.verdict}, {findings} faults and findings>"

    def spot(self, number: int, words: str = "") -> Spot:
        """Draw counted places for a spot check.

        Args:
            number: the number of places.
            words: words that the auditor chooses after the record was published.
        """
        counted = self.charter.roster.members_in(self.counted)
        final = self.verification.final
        return Spot(
            asked=number,
            counted=len(counted),
            root=None if final is None else final.root,
            size=0 if final is None else final.size,
            words=words,
            places=() if final is None else draw_places(counted, final.root, number, words),
        )

    @property
    def source(self) -> Source:
        """The kind of run: a survey among people, a simulation or a trial."""
        if self.trial:
            return "trial"
        return "simulation" if self.simulated else "survey"

    @property
    def verdict(self) -> Verdict:
        """Verdict on the record and its result."""
        found, excused = self.verification.verdict, {UNTOLD}
        # A broken record is broken, even if some of it could not be judged.
        if not self.finished and found != "broken":
            return "unfinished"
        if found == "incomplete":
            excused.update(each.text for each in _record_findings(self.verification))
            excused.add(NOTHING_PUBLISHED)
        if found == "broken" or {each.text for each in self.findings} - excused:
            return "broken"
        if found == "incomplete":
            return "incomplete"
        return "unchecked" if self.findings else "sound"


def audit(
    chunks: Chunks,
    variant: type[Variant],
    *,
    observer: Observer | None = None,
    digest: bytes | None = None,
    checkpoint: SignedCheckpoint | None = None,
    cosigned: Cosigned | None = None,
    disclosed: Iterable[Disclosure] = (),
    reader: TranscriptReader | None = None,
    ledger: LedgerWriter | None = None,
    folds: Iterable[Fold] = (),
    checks: Checks | None = None,
) -> Audit:
    """Judge a transcript.

    Args:
        chunks: opens the transcript; it is read twice.
        variant: the variant's class, chosen by the auditor and never by the transcript.
        observer: the observer of the ledger: a member, ``record`` for the file's holder, or several
            together; by default the aggregator and all services.
        digest: the canonical digest as published elsewhere.
        checkpoint: the aggregator's checkpoint as published elsewhere.
        cosigned: the witnesses demanded, and which of them have cosigned that checkpoint.
        disclosed: keys and records that members disclose to the auditor, to replay their messages.
            The aggregator is replayed in any case, as far as that is possible. In a survey's sums
            those that disclose their records hide nobody else. A simulation is judged as if nobody
            had disclosed any.
        reader: a reader of this transcript, if its header has been read already.
        ledger: a ledger writer for this charter, to ask about further observers afterwards.
        folds: further folds over the steps, in the same pass.
        checks: checks the signatures of heads; by default they are checked at once.

    Raises:
        SurveyError: the header cannot be read or is of another variant, or a member named is not
            on the roster.
    """
    verification = verify(
        chunks(), digest=digest, checkpoint=checkpoint, cosigned=cosigned, checks=checks
    )
    header = verification.checked_header()
    charter = read_charter(header, variant)
    known = _disclosed(charter, header, disclosed)
    asked = parse_coalition(serving(charter.roster) if observer is None else observer)
    asked.check(charter.roster.position)
    reader = TranscriptReader(chunks()) if reader is None else reader
    held = Held(lambda: reader.stored)
    reading = _Reading(
        charter, ledger or LedgerWriter(charter, held), known.values(), held, header=header
    )
    walked = walk(charter.codec, reader, held, handed=verification.handed)
    fold(walked, reading, *folds, heads=verification.heads)
    reading.ledger.stopped = reading.stopped
    return _conclude(charter, verification, reading, reader, asked)


def _conclude(
    charter: Charter,
    verification: Verification,
    reading: _Reading,
    reader: TranscriptReader,
    asked: Coalition,
) -> Audit:
    """Draw the conclusions from a record, as far as it could be read."""
    everybody, seed = serving(charter.roster), reader.header.seed
    completeness = reading.completeness.completeness()
    replays = reading.replays.replays()
    replay = replays.pop(AGGREGATOR)
    published = reading.published()
    ended = verification.read_whole and reader.ending is not None
    estimate, doubts = reading.result(published, replay, ended=ended)
    design, no_design = reading.parts.found(estimate)
    passed = reading.ledger.ledger(everybody)
    return Audit(
        charter=charter,
        verification=verification,
        completeness=completeness,
        counted=charter.roster.bitmap(reading.completeness.counted),
        ledger=reading.ledger.ledger(asked),
        passed=passed,
        apart=tuple(map(reading.ledger.ledger, _subsets(everybody))),
        disclosed=reading.ledger.disclosed,
        sealed=reading.inside.found,
        replay=replay if published is not None else None,
        replays=tuple(replays.values()),
        estimate=estimate,
        design=design,
        no_design=no_design,
        checks=check_claims(charter.variant, passed),
        partial=not reading.whole(reader),
        finished=verification.unopened is None and reading.stopped is None,
        simulated=isinstance(seed, int),
        trial=seed == WITHHELD,
        remarks=(*reading.restored, *reading.remarks, *reading.accusations),
        findings=(
            *_record_findings(verification),
            *reading.unread,
            *_closing_findings(completeness.closings),
            *doubts,
            *_party_findings(replays.values()),
        ),
    )


def _disclosed(
    charter: Charter, header: Header, disclosed: Iterable[Disclosure]
) -> dict[PartyId, Disclosure]:
    """Disclosures by member, the aggregator first, from the seed and from members.

    Raises:
        SurveyError: a member is not on the roster.
    """
    serving: Iterable[Disclosure] = (Disclosure(member=AGGREGATOR),)
    if isinstance(header.seed, int):
        serving = disclosed_by_seed(charter, header.seed)
    found = {known.member: known for known in (*serving, *disclosed)}
    for name in found:
        if name not in charter.roster:
            raise SurveyError(f"{name!r} is not on the roster of {len(charter.roster)} members")
    return found


def _subsets(everybody: Coalition) -> Iterator[Coalition]:
    """Proper subsets of the members: all if they are few, else single members and all but one."""
    members = everybody.members
    sizes = range(1, len(members)) if len(members) <= _SUBSETS else (1, len(members) - 1)
    for size in sizes:
        for some in itertools.combinations(members, size):
            yield Coalition(some)


def _record_findings(verification: Verification) -> list[Finding]:
    findings = [
        Finding(str(fault), () if fault.entry is None else (fault.entry,))
        for fault in verification.faults[:_LISTED]
    ]
    if verification.unopened is not None:
        findings.append(Finding(f"could not finish: {verification.unopened}"))
    elif verification.torn or verification.ending is None:
        findings.append(Finding("the record is incomplete: it has no end"))
    elif not verification.ending.complete:
        reason = verification.ending.reason
        findings.append(Finding(f"the run did not come to its end: {reason}"))
    elif not verification.complete:
        findings.append(Finding("the record is incomplete: no checkpoint is of all of it"))
    return findings


_COULD = {
    "readable": "the aggregator could read it before it decided",
    "masked": "before it decided the aggregator could see that it was there, and no value in it: "
    "they are masked",
    "sealed": "before it decided the aggregator could read what in it is not sealed for other "
    "parties",
}


def _closing_findings(closings: Iterable[Closing]) -> Iterator[Finding]:
    for closing in closings:
        could = _COULD[closing.content]
        left_out = f"was on record before the closing and was not counted; {could}"
        about = (
            (left_out, closing.left_out, closing.evidence),
            ("was counted before it was delivered", closing.unheard, ()),
        )
        for what, names, evidence in about:
            if names:
                text = f"{closing.kind!r} {what}: {_listed(names)}"
                yield Finding(text, (closing.entry, *evidence[:_LISTED]), _only(names))


def _listed(names: Sequence[PartyId]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more:,} more" if more > 0 else "")


def _only(names: Sequence[PartyId]) -> PartyId | None:
    return names[0] if len(names) == 1 else None


def _party_findings(replays: Iterable[Replay]) -> Iterator[Finding]:
    for other in replays:
        for found in other.differences:
            yield Finding(f"{other.member} {found}", found.entries, found.party)


def _replay_findings(replay: Replay) -> list[Finding]:
    if replay.follows is None:
        return [Finding(UNTOLD)]
    return _prefixed("the result does not follow", replay.differences)


def _prefixed(what: str, differences: Sequence[Finding]) -> list[Finding]:
    return [
        Finding(f"{what}: {found}", found.entries, found.party) for found in differences[:_LISTED]
    ]


RESTORED = "the record goes on from an older copy of itself, of what is before this entry"
"""The remark if a record was restored."""


class _Reading(Fold):
    """Folds of an audit, in one pass over the entries.

    Attributes:
        garbled: an envelope could not be decoded, so its sender is unknown.
    """

    def __init__(
        self,
        charter: Charter,
        ledger: LedgerWriter,
        disclosed: Iterable[Disclosure],
        held: Held,
        *,
        header: Header,
    ) -> None:
        self._charter = charter
        self.ledger = ledger
        seed = header.seed if isinstance(header.seed, int) else None
        self.completeness = CompletenessWriter(charter, held, seed=seed)
        self.parts = PartWriter(charter, held)
        disclosed = tuple(disclosed)
        if seed is None and ledger.sums is not None:
            # A simulation's seed discloses everybody: it is judged as a survey of the same course.
            ledger.disclosed = tuple(of.member for of in disclosed if of.records is not None)
        self.replays = ReplayWriter(charter, disclosed, held)
        self.inside = InsideWriter(charter, disclosed)
        self.remarks: list[Finding] = []
        self.restored: list[Finding] = []
        self.accusations: list[Finding] = []
        self._keyed = any(known.member == AGGREGATOR and known.identity for known in disclosed)
        self._malformed = self.ledger.malformed
        self.last_entry = 0
        self._last: Step | None = None
        self._number = 0
        self.garbled = False

    @property
    def unread(self) -> tuple[Finding, ...]:
        """The reason why reading stopped before the end; empty if it did not."""
        if self.stopped is None:
            return ()
        return (Finding(f"could not finish: {self.stopped}", (self._number,)),)

    def start(self, heads: Mapping[PartyId, bytes]) -> None:
        self.ledger.start(heads)

    def add(self, step: Step) -> None:
        self._number = step.number
        self.completeness.add(step)
        self.parts.add(step)
        self.replays.add(step)
        self.ledger.add(step)
        self.inside.add(step)
        if isinstance(step.entry, Restored):
            self._note_restored(step.entry, step.number)
        if not isinstance(step.entry, Sent):
            return
        if step.envelope is None:
            self.garbled = True
            return
        if step.envelope.sender == AGGREGATOR:
            self._last, self.last_entry = step, step.number
            if isinstance(step.message, Opening) and not self._keyed:
                self._note_accused(step.message)
        malformed = self._malformed
        if len(malformed) > len(self.remarks) and len(self.remarks) < _LISTED:
            self.remarks.append(Finding(malformed[-1], (step.number,), step.envelope.sender))

    def _note_restored(self, entry: Restored, number: int) -> None:
        if len(self.restored) == _LISTED:
            return
        text = RESTORED
        if names := list(map(PartyId, entry.without)):
            text += f", and without {_listed(names)}: what they may hold receipts of is not counted"
        self.restored.append(Finding(text, (number,), _only(names)))

    def _note_accused(self, opening: Opening) -> None:
        first = max(0, opening.round) * OPENED
        parties = self._charter.roster.parties[first : first + OPENED]
        flags = opening.accused.tolist()
        names = [name for name, accused in zip(parties, flags, strict=False) if accused]
        if names and len(self.accusations) < _LISTED:
            text = (
                f"the aggregator found boxes or shares of {_listed(names)} invalid; no check "
                "looked at that, for it takes the aggregator's key"
            )
            self.accusations.append(Finding(text, (self.last_entry,), _only(names)))

    def whole(self, reader: TranscriptReader) -> bool:
        """Check whether the record could be taken in to its end."""
        cut_short = self.stopped is not None or self.garbled
        return not cut_short and reader.fault is None and reader.ending is not None

    def result(
        self, published: Message | None, replay: Replay, *, ended: bool
    ) -> tuple[Estimate | None, list[Finding]]:
        """The estimate from a published result, if any, and the findings about it."""
        if published is None:
            # The messages on record must follow all the same. Others may have been cut off.
            wrong = [found for found in replay.differences if found.entries]
            if replay.failed and not wrong:
                text = f"by what is on record, the aggregator's role ends so: {replay.failed}"
                self.remarks.append(Finding(text, (self.last_entry,), AGGREGATOR))
            # A record that breaks off does not show whether something was published.
            whole = ended and self.stopped is None
            missing = [Finding(NOTHING_PUBLISHED)] if whole else []
            return None, [*missing, *_prefixed("what the aggregator sent does not follow", wrong)]
        estimate, unreadable = None, []
        try:
            estimate = self._charter.variant.estimate(published)
        except Exception as error:
            # A user's own variant may not be prepared for such a result.
            known_error = isinstance(error, ProtocolError | ValueError)
            why = str(error) if known_error else f"{type(error).__name__}: {error}"
            text = f"the published result cannot be read: {why}"
            unreadable.append(Finding(text, (self.last_entry,), AGGREGATOR))
        return estimate, [*unreadable, *_replay_findings(replay)]

    def published(self) -> Message | None:
        """The aggregator's last message, if it is a published result."""
        envelope = None if self._last is None else self._last.envelope
        if self._last is None or envelope is None or envelope.recipient != RECORD:
            return None
        return None if isinstance(self._last.message, Closed | Opening) else self._last.message
