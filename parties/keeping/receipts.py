"""A party's receipt, or late note: in its folder, with the checkpoint to check it with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from parties.keeping.checkpoints import OLDER, read_checkpoint, read_small, write_evidence
from parties.keeping.remembered import session_file
from parties.keeping.writing import write_whole
from protocol.errors import UsageError
from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.session.heads import SaidHead
from protocol.session.roles import message_topic
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.consistency import Consistency, consistency_problems
from protocol.transcript.evidence import two_checkpoints
from protocol.transcript.receipts import (
    LATE,
    Acknowledgement,
    Counted,
    Late,
    Receipt,
    Shown,
    Word,
    decode_receipt,
    encode_receipt,
    is_restored,
    receipt_for,
    receipt_problems,
)

RECEIPT = ("receipt", "checkpoint")
LATE_NOTE = ("late-note", "late-checkpoint")
DECLINED = ("declined-receipt", "declined-checkpoint")
REFUSED = ("refused-receipt", "refused-checkpoint")
"""Prefixes of the file names of a receipt and its checkpoint, before the session's id."""

EARLIER = ("earlier-receipt", "earlier-checkpoint")
"""The names of a receipt for a record that later went on from an older copy."""

EVIDENCE = "evidence"
"""The prefix of the name of a party's file for evidence, before the session's id."""


class Kept(NamedTuple):
    """A receipt in a party's folder.

    Args:
        receipt: the file.
        checkpoint: that of its checkpoint.
        word: its conclusion about the party.
        problems: why it does not hold, in words; empty if it does.
    """

    receipt: Path
    checkpoint: Path
    word: Word
    problems: tuple[str, ...] = ()

    @property
    def late(self) -> bool:
        """True if it holds and says that the party is late."""
        return self.word == LATE and not self.problems

    @property
    def check(self) -> str:
        """The command that checks it."""
        return f"sottovoce check {self.receipt} --checkpoint {self.checkpoint}"


def keep_receipt(
    folder: Path,
    charter: Charter,
    head: SaidHead,
    given: Acknowledgement,
    *,
    said: Sequence[bytes],
    reports: Sequence[int],
    signed: Sequence[tuple[bytes, bytes]] = (),
    done: bool = True,
    restored: bool = False,
) -> Kept:
    """Keep an aggregator's acknowledgement as a receipt, after checking it.

    A valid receipt from before stays. Two kinds of receipt get file names of their own: a late
    note, for a report that came too late; and an invalid one, which the aggregator has to answer
    for. With the latter, two checkpoints of one size are kept as evidence. A receipt is invalid,
    too, if it says "late" and an earlier one did not, or the other way round: a report is late
    before its party is acknowledged, or never.

    Args:
        folder: the party's folder.
        charter: the charter of the session.
        head: the party's head.
        said, reports, signed: as for ``receipt_for``.
        done: whether it has answered all questions. If it declined, the receipt has another name,
            since ``receipt_in`` would take the party to be done.
        restored: whether the record goes on from a copy older than an existing receipt. That
            receipt then stays under another name, whatever it says.

    Raises:
        OSError: it cannot be written.
    """
    session = charter.session
    receipt, checkpoint = receipt_for(
        charter, head, given, said=said, reports=reports, signed=signed
    )
    problems = receipt_problems(receipt, checkpoint) or _other_rounds(charter, receipt)
    which = DECLINED
    if done:
        which = LATE_NOTE if receipt.word == LATE else RECEIPT
    # Receipts for the same messages with another conclusion, and with the same.
    earlier: list[Kept] = []
    others = [name for name in (RECEIPT, LATE_NOTE) if done and name != which]
    for name in (*others, which):
        there = None if problems else _read(folder, session, name)
        if there is None or not _is_for(there, receipt):
            continue
        kept, before, then = there
        if restored:
            for path, other in zip((kept.receipt, kept.checkpoint), EARLIER, strict=True):
                write_whole(session_file(folder, other, session), read_small(path), private=True)
            earlier.append(kept)
            continue
        evidence = two_checkpoints(then, checkpoint)
        if evidence is not None:
            write_evidence(evidence, session_file(folder, EVIDENCE, session))
            problems = (f"the aggregator has signed two checkpoints of size {checkpoint.size}",)
        elif name in others:
            problems = (f"it says {receipt.word!r}, where an earlier one says {before.word!r}",)
        else:
            return kept
    kept = Kept(*_paths(folder, session, REFUSED if problems else which), receipt.word, problems)
    # The receipt last: where one is, its checkpoint is.
    write_whole(kept.checkpoint, checkpoint.note, private=True)
    write_whole(kept.receipt, encode_receipt(receipt), private=True)
    for old in earlier:
        if old.receipt != kept.receipt:
            old.receipt.unlink()
    return kept


def _other_rounds(charter: Charter, receipt: Receipt) -> tuple[str, ...]:
    """Problems of closings of another round than their report's.

    A receipt alone does not show the round of a report, but its party knows it.
    """
    shown: tuple[Counted | Late, ...] = (*receipt.counted, *receipt.late)
    return tuple(
        f"a closing is of {each.topic}, and the report shown with it of {topic}"
        for each in shown
        if each.report.envelope is not None
        and (topic := message_topic(charter.codec.open(each.report.envelope))) != each.topic
    )


def receipt_in(folder: Path, charter: Charter, party: PartyId) -> Kept | None:
    """The receipt, or late note, that a party has for all that it was asked in a session.

    None without one, and if it does not hold.
    """
    for which in (RECEIPT, LATE_NOTE):
        there = _read(folder, charter.session, which)
        if there is None:
            continue
        kept, receipt, checkpoint = there
        own = (receipt.party, receipt.key, receipt.session, checkpoint.key) == (
            party,
            charter.roster.key(party),
            charter.session,
            charter.roster.key(AGGREGATOR),
        )
        named = (receipt.word == LATE) == (which == LATE_NOTE)
        if (
            own
            and named
            and receipt.ended is not None
            and not receipt_problems(receipt, checkpoint)
        ):
            return kept
    return None


def held_in(folder: Path, charter: Charter) -> SignedCheckpoint | None:
    """The newest checkpoint of a session that the party was acknowledged at; None if it was not."""
    found: list[SignedCheckpoint] = []
    for which in (RECEIPT, LATE_NOTE, DECLINED):
        with suppress(UsageError):
            found.append(read_checkpoint(_paths(folder, charter.session, which)[1]))
    key, session = charter.roster.key(AGGREGATOR), charter.session
    own = [each for each in found if (each.key, each.session) == (key, session) and each.valid]
    return max(own, key=attrgetter("size"), default=None)


def missing_from(
    folder: Path, charter: Charter, log: Consistency | None, restored: Shown | None
) -> str | None:
    """The reason why an aggregator's record lacks messages that it has acknowledged to a party.

    None if it lacks none, or says that it was restored from a copy without them. The signed
    checkpoint of such a record is kept next to the earlier one, and with two of one size the
    evidence.

    Args:
        folder: the party's folder.
        charter: the charter of the session.
        log: the record, as the aggregator compares it with the checkpoint of ``held_in``.
        restored: the ``Restored`` entry of the record, if there is one.

    Raises:
        OSError: it cannot be written.
    """
    held = held_in(folder, charter)
    if held is None:
        return None
    if log is None:
        return "the aggregator does not show that it still has what it acknowledged"
    if not consistency_problems(log, held):
        return None
    later = log.later
    if (later.key, later.session) != (held.key, held.session) or not later.valid:
        return "the aggregator shows a checkpoint that it has not signed for this survey"
    if restored is not None and is_restored(restored, later, held):
        return None
    path = session_file(folder, OLDER, held.session)
    write_whole(path, later.note, private=True)
    evidence = two_checkpoints(held, later)
    if evidence is not None:
        write_evidence(evidence, session_file(folder, EVIDENCE, held.session))
    if later.size < held.size:
        how = f"it has {later.size} entries, and had {held.size}"
    else:
        how = f"its first {held.size} entries are others"
    return (
        f"the aggregator's record is older than what this party was acknowledged at: {how}; what "
        f"the aggregator has signed of it is kept in {path}"
    )


def _paths(folder: Path, session: bytes, which: tuple[str, str]) -> tuple[Path, Path]:
    receipt, checkpoint = which
    return session_file(folder, receipt, session), session_file(folder, checkpoint, session)


class _There(NamedTuple):
    kept: Kept
    receipt: Receipt
    checkpoint: SignedCheckpoint


def _is_for(there: _There, receipt: Receipt) -> bool:
    """Check whether a stored receipt is for the same messages as another one, and holds."""
    same = (there.receipt.head, there.receipt.session) == (receipt.head, receipt.session)
    return same and not receipt_problems(there.receipt, there.checkpoint)


def _read(folder: Path, session: bytes, which: tuple[str, str]) -> _There | None:
    """A stored receipt and its checkpoint; None if missing or unreadable."""
    paths = _paths(folder, session, which)
    try:
        receipt, checkpoint = decode_receipt(read_small(paths[0])), read_checkpoint(paths[1])
    except (UsageError, ValueError):
        return None
    return _There(Kept(*paths, receipt.word), receipt, checkpoint)
