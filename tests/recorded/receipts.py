"""Receipts of a small run, true and forged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from parties.keeping.packing import Unpacked
from protocol import AGGREGATOR, RECORD, PartyId
from protocol.audit.proofs.making_receipts import prove
from protocol.crypto.merkle import inclusion_path, leaf_hash, tree_levels
from protocol.transcript.checkpoints import SignedCheckpoint, sign_checkpoint
from protocol.transcript.entries import Sent, decode_item, encode_item
from protocol.transcript.receipts import Counted, Receipt, Shown
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope, encode_envelope
from tests.recorded.signed import ONE, TWO, setting, signed_run
from tests.vectors.formats import log_leaves

AGGREGATORS = setting().identities[AGGREGATOR]


def receipt_of(run: Any, party: PartyId = ONE, variant: type[Any] = RRIndependent) -> Receipt:
    return prove(lambda: Unpacked(run.content), variant, party)[0]


def with_envelope(shown: Shown, **changes: Any) -> Shown:
    """The entry with another envelope."""
    item = decode_item(shown.content)
    assert isinstance(item, Sent)
    envelope = msgspec.structs.replace(decode_envelope(item.envelope), **changes)
    sent = msgspec.structs.replace(item, envelope=encode_envelope(envelope))
    return msgspec.structs.replace(shown, content=encode_item(sent))


LONG = (bytes(32),)
"""A path of one vertex."""


def variations(receipt: Receipt) -> dict[str, Receipt]:
    """The receipt with one thing changed in each."""

    def replaced(**changes: Any) -> Receipt:
        return msgspec.structs.replace(receipt, **changes)

    [counted], head = receipt.counted, receipt.head
    assert head is not None
    report, closing = counted.report, counted.closing
    other = receipt_of(signed_run(), TWO)

    def reported(**changes: Any) -> Receipt:
        changed = msgspec.structs.replace(report, **changes)
        return replaced(counted=(Counted(changed, closing, counted.path),))

    return {
        "party": replaced(party=TWO),
        "key": replaced(key=other.key),
        "place": replaced(place=other.place),
        "another's place and path": replaced(place=other.place, roster=other.roster),
        "another's name, key and place": replaced(
            party=other.party, key=other.key, place=other.place, roster=other.roster
        ),
        "aggregator": replaced(place=0),
        "members": replaced(members=receipt.members + 9),
        "roster": replaced(roster=receipt.roster[::-1]),
        "terms": replaced(terms=bytes(32)),
        "nothing counted": replaced(counted=()),
        "counted twice": replaced(counted=(counted, counted)),
        "another's report": replaced(counted=other.counted),
        "index": reported(index=report.index + 1),
        "salt": reported(salt=bytes(16)),
        "path": reported(path=report.path[1:]),
        "report": reported(content=closing.content),
        "malformed": reported(content=b"\xc1"),
        "body": reported(content=with_envelope(report, body=b"\x91").content),
        "closing": replaced(
            counted=(Counted(report, with_envelope(closing, body=b"\x94"), counted.path),)
        ),
        "report for closing": replaced(counted=(Counted(report, report, counted.path),)),
        "another's head": replaced(head=other.head),
        "count": replaced(head=msgspec.structs.replace(head, count=2)),
        "heard": replaced(head=msgspec.structs.replace(head, heard=bytes(32))),
        "signature": replaced(head=msgspec.structs.replace(head, signature=bytes(64))),
        "said": replaced(head=msgspec.structs.replace(head, said=bytes(32))),
        "path without head": replaced(head=None, counted=(Counted(report, closing, LONG),)),
        "path of the head": replaced(counted=(Counted(report, closing, LONG),)),
        "salt of the closing": replaced(
            counted=(
                Counted(report, msgspec.structs.replace(closing, salt=bytes(16)), counted.path),
            )
        ),
    }


Change = Callable[[list[bytes]], Any]
REPORT, CLOSING = range(2)


def made_up(change: Change = list) -> tuple[Receipt, SignedCheckpoint]:
    """A receipt over a log of two other contents that the aggregator signs."""
    receipt = receipt_of(signed_run())
    [counted] = receipt.counted
    contents = [counted.report.content, counted.closing.content]
    change(contents)
    leaves = log_leaves(bytes(32), contents)
    hashes = [leaf_hash(leaf) for leaf in leaves]
    report, closing = (
        Shown(index=i, salt=leaf[:16], content=contents[i], path=inclusion_path(hashes, i))
        for i, leaf in enumerate(leaves)
    )
    forged = msgspec.structs.replace(receipt, counted=(Counted(report, closing, counted.path),))
    root, session = tree_levels(hashes)[-1][0], setting().charter.session
    return forged, sign_checkpoint(AGGREGATORS, session=session, size=2, root=root)


def lying(place: int, **changes: Any) -> Change:
    def change(contents: list[bytes]) -> None:
        shown = Shown(index=0, salt=bytes(16), content=contents[place], path=())
        contents[place] = with_envelope(shown, **changes).content

    return change


def closing(
    of: str = "Report", counted: bytes = b"\xfe", round_: int = -1, first: int = 0
) -> Change:
    return lying(CLOSING, body=msgspec.msgpack.encode([of, round_, first, b"\xfe", counted]))


def of_kernel_kind(contents: list[bytes]) -> None:
    lying(REPORT, kind="Left")(contents)
    closing("Left")(contents)


def swapped(contents: list[bytes]) -> None:
    contents[REPORT], contents[CLOSING] = contents[CLOSING], contents[REPORT]


NOT_COUNTED = "a report was not counted"
UNSIGNED = "signed head does not match"
LIES: dict[str, tuple[Change, str]] = {
    "another session": (lying(REPORT, session=bytes(16)), "of another session"),
    "a number below all": (lying(REPORT, seq=-1), "of another session"),
    "in another's name": (lying(REPORT, sender=TWO), NOT_COUNTED),
    "to the record": (lying(REPORT, recipient=RECORD), NOT_COUNTED),
    "a kernel kind": (of_kernel_kind, NOT_COUNTED),
    "of another kind": (closing("More"), NOT_COUNTED),
    "not counted": (closing(counted=b"\xfc"), NOT_COUNTED),
    "a round beyond reading": (closing(round_=1 << 63), NOT_COUNTED),
    "a round below none": (closing(round_=-2), NOT_COUNTED),
    "a range of others": (closing(first=4096), NOT_COUNTED),
    "a range from the middle": (closing(first=1), NOT_COUNTED),
    "a range beyond reading": (closing(first=1 << 63), NOT_COUNTED),
    "a bitmap too long": (closing(counted=b"\xfe\0"), NOT_COUNTED),
    "closed by a party": (lying(CLOSING, sender=TWO), NOT_COUNTED),
    "closed in place of the report": (swapped, NOT_COUNTED),
    "another report": (lying(REPORT, body=b"\x91\x91\x00"), UNSIGNED),
    "another number": (lying(REPORT, seq=1), UNSIGNED),
}
