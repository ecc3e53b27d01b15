"""The second verifier and the program agree on receipts: true, forged and damaged ones."""

from __future__ import annotations

import json
import random
from pathlib import Path

import msgspec
import pytest

from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.receipts import Confirmed, decode_receipt, encode_receipt, receipt_problems
from tests.protocol.transcript.test_acknowledgements import acknowledged, made_of
from tests.recorded.late import LIES as LATE_LIES
from tests.recorded.late import LOG, made, named
from tests.recorded.late import given as acknowledged_late
from tests.recorded.receipts import LIES, made_up, receipt_of, variations
from tests.recorded.signed import ONE, signed_run
from tests.recorded.splits import split
from tests.vectors.make import packed
from tests.verifier.javascript import judged, needs_node, node
from tests.verifier.mutations import damaged, retold

pytestmark = needs_node
MAGIC = b"sottovoce receipt 4\n"


def cases() -> list[tuple[bytes, SignedCheckpoint]]:
    """Receipts and the checkpoint that each is shown with; the first one holds."""
    checkpoint = signed_run().checkpoint
    assert checkpoint is not None
    right = receipt_of(signed_run())
    found = [(encode_receipt(right), checkpoint)]
    found += [(encode_receipt(other), checkpoint) for other in variations(right).values()]
    lies = [made_up(), *(made_up(change) for change, _ in LIES.values())]
    found += [(encode_receipt(receipt), signed) for receipt, signed in lies]
    given = [receipt_for_one(), late()]
    found += given
    for lie, _ in LATE_LIES.values():
        receipt, signed = made(lie)
        found.append((encode_receipt(receipt), signed))
    split_in_two = [*split().here[:1], *split().gone[:1]]
    (one, signed), (other, _) = split_in_two
    found += [(encode_receipt(receipt), signed) for receipt, signed in split_in_two]
    found += [
        (encode_receipt(receipt), signed)
        for receipt in (
            msgspec.structs.replace(one, confirmed=other.confirmed),
            msgspec.structs.replace(one, confirmed=Confirmed(b"", bytes(64))),
            msgspec.structs.replace(one, attempt=2),
        )
    ]
    given += [(encode_receipt(one), signed)]
    draw = random.Random(1)
    for _ in range(400):
        receipt, signed = draw.choice([*found[: 1 + len(LIES)], *given * 9])
        found.append((damaged(draw, receipt), signed))
        fields = msgspec.msgpack.decode(receipt.removeprefix(MAGIC))
        retold(draw, fields)
        found.append((MAGIC + packed(fields), signed))
    return found


def receipt_for_one() -> tuple[bytes, SignedCheckpoint]:
    """A receipt that a party has made of an acknowledgement."""
    receipt, checkpoint = made_of(ONE, acknowledged(5).given[ONE])
    return encode_receipt(receipt), checkpoint


def late() -> tuple[bytes, SignedCheckpoint]:
    """A late note that a party has made of an acknowledgement."""
    receipt, checkpoint = made(acknowledged_late(LOG, named()))
    return encode_receipt(receipt), checkpoint


def word(content: bytes, checkpoint: SignedCheckpoint) -> str | None:
    """What a receipt says of its party in the end; None if it does not hold."""
    try:
        receipt = decode_receipt(content)
    except ValueError:
        return None
    return None if receipt_problems(receipt, checkpoint) else receipt.word


@pytest.mark.slow
def test_they_agree_on_receipts(tmp_path: Path) -> None:
    given = tmp_path / "receipts.json"
    pairs = [(content.hex(), checkpoint.note) for content, checkpoint in cases()]
    given.write_text(json.dumps(pairs), encoding="utf-8")
    seconds = json.loads(node(Path(__file__).parent / "receipts.mjs", given))
    firsts = [word(content, checkpoint) for content, checkpoint in cases()]
    assert seconds == firsts
    assert firsts[0] == "counted"
    assert (word(*receipt_for_one()), word(*late())) == ("not yet known", "late")
    assert firsts.count(None) > len(firsts) // 2


def test_its_command_judges_a_receipt(tmp_path: Path) -> None:
    [(right, checkpoint), (wrong, _), *_] = cases()
    note = tmp_path / "checkpoint"
    note.write_text(checkpoint.note, encoding="utf-8")
    found = judged(tmp_path, [right, wrong], "--checkpoint", str(note))
    assert [second["verdict"] for second in found] == ["sound", "broken"]
    assert [second.get("word") for second in found] == ["counted", None]
