"""A party's receipt: in its folder, with the checkpoint that it is to be checked with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from protocol.messages import AGGREGATOR, PartyId
from protocol.session.charter import Charter
from protocol.session.heads import SaidHead
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.evidence import two_checkpoints
from protocol.transcript.receipts import (
    Acknowledgement,
    Receipt,
    decode_receipt,
    encode_receipt,
    problems_of,
    receipt_for,
)
from scenarios.errors import UsageError
from scenarios.files.checkpoints import read_checkpoint, read_small, write_evidence
from scenarios.files.writing import write_whole


class Kept(NamedTuple):
    """A receipt in a party's folder.

    Args:
        receipt: the file.
        checkpoint: that of its checkpoint.
        problems: why it does not hold, in words; empty if it does.
    """

    receipt: Path
    checkpoint: Path
    problems: tuple[str, ...] = ()

    @property
    def check(self) -> str:
        """The command that checks it."""
        return f"sottovoce check {self.receipt} --checkpoint {self.checkpoint}"


def keep_receipt(
    folder: Path, charter: Charter, head: SaidHead, given: Acknowledgement, *, done: bool = True
) -> Kept:
    """Keep an aggregator's acknowledgement as a receipt, after checking it.

    A receipt that is there and holds stays. One that does not hold is kept under another name, as
    the aggregator has to answer for it; with two checkpoints of one size, the evidence is too.

    Args:
        folder: the party's.
        charter: of the session.
        head: what the party has ended with.
        done: whether it has answered all that it was asked; if it has declined, the receipt has
            another name, since by ``receipt_in`` it is not done.

    Raises:
        OSError: it cannot be written.
    """
    session = charter.session.hex()
    kept = _kept(folder, session, "" if done else "declined-")
    receipt, checkpoint = receipt_for(charter, head, given)
    problems = problems_of(receipt, checkpoint)
    before = _holding(kept, receipt)
    if not problems and before is not None:
        evidence = two_checkpoints(before, checkpoint)
        if evidence is None:
            return kept
        write_evidence(evidence, folder / f"evidence-{session}")
        problems = (f"the aggregator has signed two checkpoints of size {checkpoint.size}",)
    if problems:
        kept = _kept(folder, session, "refused-")._replace(problems=problems)
    # The receipt last: where one is, its checkpoint is.
    write_whole(kept.checkpoint, checkpoint.note, private=True)
    write_whole(kept.receipt, encode_receipt(receipt), private=True)
    return kept


def receipt_in(folder: Path, charter: Charter, party: PartyId) -> Kept | None:
    """The receipt that a party has been given for all that it was asked in a session.

    None without one, and if it does not hold.
    """
    kept = _kept(folder, charter.session.hex(), "")
    there = _read(kept)
    if there is None:
        return None
    receipt, checkpoint = there
    own = (receipt.party, receipt.key, receipt.session, checkpoint.key) == (
        party,
        charter.roster.key(party),
        charter.session,
        charter.roster.key(AGGREGATOR),
    )
    ended = own and receipt.ended is not None and not problems_of(receipt, checkpoint)
    return kept if ended else None


def _kept(folder: Path, session: str, which: str) -> Kept:
    return Kept(folder / f"{which}receipt-{session}", folder / f"{which}checkpoint-{session}")


def _holding(kept: Kept, receipt: Receipt) -> SignedCheckpoint | None:
    """The checkpoint of a receipt for the same words that is there and holds."""
    read = _read(kept)
    if read is None:
        return None
    there, checkpoint = read
    same = there.head == receipt.head and there.session == receipt.session
    return checkpoint if same and not problems_of(there, checkpoint) else None


def _read(kept: Kept) -> tuple[Receipt, SignedCheckpoint] | None:
    """A receipt and its checkpoint; None if they are not there, or cannot be read."""
    try:
        return decode_receipt(read_small(kept.receipt)), read_checkpoint(kept.checkpoint)
    except (UsageError, ValueError):
        return None
