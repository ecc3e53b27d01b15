"""Receipts of a small run, true and forged."""

from __future__ import annotations

from typing import Any

import msgspec

from parties.keeping.packing import Unpacked
from protocol import AGGREGATOR, PartyId
from protocol.audit.proofs.making_receipts import prove
from protocol.transcript.receipts import Counted, Receipt
from protocol.variants import RRIndependent
from tests.recorded.signed import ONE, TWO, setting

AGGREGATORS = setting().identities[AGGREGATOR]


def receipt_of(run: Any, party: PartyId = ONE, variant: type[Any] = RRIndependent) -> Receipt:
    return prove(lambda: Unpacked(run.content), variant, party)[0]


def forged(receipt: Receipt) -> list[Receipt]:
    """Receipts that do not hold; the vectors have many more."""
    [counted], head = receipt.counted, receipt.head
    assert head is not None
    unsigned = msgspec.structs.replace(head, signature=bytes(64))
    swapped = Counted(counted.closing, counted.report, counted.path)
    return [
        msgspec.structs.replace(receipt, party=TWO),
        msgspec.structs.replace(receipt, counted=()),
        msgspec.structs.replace(receipt, counted=(swapped,)),
        msgspec.structs.replace(receipt, head=unsigned),
    ]
