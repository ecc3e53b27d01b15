"""Knowledge of a coalition about secure sums, from a transcript's entries: the sums that follow.

It is linear algebra: sums that follow by adding and subtracting what is seen. Conclusions from the
size of numbers, such as that zeros add up to a total of zero, come on top.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from protocol.accounting.events import OneOf, PrivacyEvent, Public
from protocol.audit.coalition.coalition import Coalition
from protocol.audit.coalition.elimination import Places
from protocol.audit.coalition.finding import (
    CoalitionFinding,
    Component,
    Pair,
    SumFinding,
    WorstCoalition,
)
from protocol.audit.coalition.follows import Follows
from protocol.audit.coalition.masks import Known, SumRecord
from protocol.audit.coalition.search import search
from protocol.audit.coalition.sums import SumReader
from protocol.audit.ledger import LedgerWriter, merged
from protocol.audit.walk import fold, walk
from protocol.errors import SurveyError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.surveys.limits import UNLIMITED, Held
from protocol.transcript.entries import Entry
from protocol.transcript.reader import TranscriptReader

LISTED_MASKS = 2_000
"""Maximum number of masks that a finding lists; of more it gives only the number."""

_ENTRIES = 20


def judge_coalition(
    charter: Charter,
    entries: Iterable[Entry],
    coalition: Coalition,
    *,
    heads: Mapping[PartyId, bytes] | None = None,
) -> CoalitionFinding:
    """Judge a coalition in one pass over a transcript's entries.

    A transcript of a simulation holds its seed, from which everything follows. It is judged as if
    it did not.

    Args:
        heads: the bodies of the parties' sound heads (``Verification.heads``); a party without one
            counts as unsigned.

    Raises:
        SurveyError: the coalition names a member that is not on the roster.
    """
    return judge_sessions([(charter, entries, heads or {})], coalition)


def judge_sessions(
    sessions: Sequence[tuple[Charter, Iterable[Entry], Mapping[PartyId, bytes]]],
    coalition: Coalition,
) -> CoalitionFinding:
    """Judge a coalition over several sessions about the same counts of the same parties.

    A name on several rosters is taken to be one party with the same records, so that the totals of
    two sessions may be subtracted. The ledgers add up.

    Raises:
        SurveyError: no session is given, or the coalition names a member that is on no roster.
    """
    if not sessions:
        raise SurveyError("expected at least one session")
    names = dict.fromkeys(name for charter, _, _ in sessions for name, _ in charter.roster.members)
    coalition.check(names)
    return found([_read(*session) for session in sessions], coalition)


def worst_coalition(
    charter: Charter,
    entries: Iterable[Entry],
    size: int,
    *,
    heads: Mapping[PartyId, bytes] | None = None,
) -> WorstCoalition:
    """The most damaging coalition of the aggregator and ``size`` parties.

    Args:
        heads: as ``judge_coalition`` takes them.

    Raises:
        SurveyError: ``size`` leaves no honest party, or is negative.
    """
    check_size(charter, size)
    return worst_found(_read(charter, entries, heads or {}), size)


def _read(
    charter: Charter, entries: Iterable[Entry], heads: Mapping[PartyId, bytes]
) -> LedgerWriter:
    held = Held(lambda: entries.stored) if isinstance(entries, TranscriptReader) else UNLIMITED
    writer = LedgerWriter(charter, held)
    fold(walk(charter.codec, entries, held), writer, heads=heads)
    return writer


def check_size(charter: Charter, size: int) -> None:
    """Check that some party stays honest.

    Raises:
        SurveyError: this many conspirators leave no party, or there are not as many.
    """
    parties = len(charter.roster.parties)
    if not 0 <= size < parties:
        raise SurveyError(
            f"a coalition of {size} of {parties} parties: expected 0 to {parties - 1}"
        )


def worst_found(writer: LedgerWriter, size: int) -> WorstCoalition:
    """The most damaging ``size`` parties, with the aggregator, by the steps so far."""
    parties = writer.charter.roster.parties
    sums = writer.sums
    choice = search(
        [] if sums is None else sums.records,
        threshold=0 if sums is None else sums.threshold,
        parties=len(parties),
        size=size,
    )
    coalition = Coalition((AGGREGATOR, *(parties[place] for place in choice.places)))
    return WorstCoalition(coalition, found([writer], coalition), choice.exact, choice.words)


def alone_in(writer: LedgerWriter) -> CoalitionFinding | None:
    """Knowledge of the aggregator alone by the steps so far; None if the variant sums nothing."""
    return None if writer.sums is None else found([writer], Coalition((AGGREGATOR,)))


def found(writers: Sequence[LedgerWriter], coalition: Coalition) -> CoalitionFinding:
    """Knowledge of a coalition on some sessions by the steps so far."""
    own = {id(writer): coalition.among(writer.charter.roster) for writer in writers}
    summing = [writer for writer in writers if writer.sums is not None]
    if len(writers) == 1 and summing:
        follows = writers[0].follows(own[id(writers[0])])
        ledgers = [writers[0].ledger(own[id(writers[0])])]
    else:
        follows = Follows([(w.sums, own[id(w)]) for w in summing if w.sums is not None])
        ledgers = [writer.ledger(own[id(writer)], follows) for writer in writers]
    space, exposed = follows.space, follows.exposed
    pairs = [Pair(follows.names[i], follows.names[j], "difference") for i, j in space.equal]
    pairs += [Pair(follows.names[i], follows.names[j], "sum") for i, j in space.opposite]
    return CoalitionFinding(
        coalition=coalition,
        sums=tuple(
            _finding(writer.sums, record, known, own[id(writer)].holding(writer.disclosed), exposed)
            for writer, views in zip(summing, follows.views, strict=True)
            for record, known in views
            if writer.sums is not None
        ),
        determined=tuple(map(follows.named, space.determined)),
        mixed=tuple(map(follows.named, space.mixed)),
        searched=space.searched,
        exposed=exposed,
        pairs=tuple(pairs),
        whole=all(map(_is_whole, writers)),
        ledger=merged(ledgers) if len(ledgers) > 1 else ledgers[0],
        remarks=tuple(remark for writer in writers for remark in _remarks(writer)),
    )


def _is_whole(writer: LedgerWriter) -> bool:
    """Check whether all sums on record were taken in."""
    return writer.stopped is None and (writer.sums is None or not writer.sums.misplaced)


def _remarks(writer: LedgerWriter) -> tuple[str, ...]:
    unread = () if writer.stopped is None else (f"could not finish: {writer.stopped}",)
    return (*unread, *(() if writer.sums is None else writer.sums.remarks))


def _finding(
    sums: SumReader,
    record: SumRecord,
    known: Known,
    coalition: Coalition,
    exposed: Iterable[PartyId],
) -> SumFinding:
    names, members = sums.parties, sums.flags(coalition.members)

    def named(places: Places) -> tuple[PartyId, ...]:
        return tuple([names[place] for place in places.tolist()])

    components = tuple(
        Component(named(part), known.is_open(part), _hidden_by(known, part))
        for part in known.components
    )
    shown = record.contributed_at[sums.flags(exposed) & record.contributed]
    published = [] if known.total_at is None else [known.total_at]
    numbers = sorted((*published, *np.sort(shown)[:_ENTRIES].tolist()))
    links = known.links[:LISTED_MASKS] if len(known.links) <= LISTED_MASKS else known.links[:0]
    return SumFinding(
        profile=record.profile,
        event=_one_of(tuple(record.events)),
        contributed=int(record.contributed.sum()),
        honest=int((record.contributed & ~members).sum()),
        uploads_seen=int(known.seen.sum()),
        total_known=known.total_at is not None,
        opened=named(np.flatnonzero(known.opened)),
        unknown_masks=len(known.links),
        masks=tuple((names[i], names[j]) for i, j in links.tolist()),
        components=components,
        entries=tuple(numbers),
    )


def _one_of(events: tuple[PrivacyEvent, ...]) -> PrivacyEvent:
    if len(events) > 1:
        return OneOf(events)
    return events[0] if events else Public()


def _hidden_by(known: Known, part: Places) -> str:
    if known.under_own[part].any():
        return "masks of their own that it cannot open"
    if not known.is_open(part):
        return "masks with parties whose contributions it does not see"
    return ""
