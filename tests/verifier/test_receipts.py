"""The second verifier and the program agree on receipts: true, forged and damaged ones."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from protocol.transcript.checkpoints import read_note
from protocol.transcript.receipts import Confirmed, decode_receipt, encode_receipt, receipt_problems
from tests.protocol.transcript.test_acknowledgements import acknowledged, made_of
from tests.recorded.late import LOG, given, made, named
from tests.recorded.receipts import forged, receipt_of
from tests.recorded.signed import ONE, signed_run
from tests.recorded.splits import split
from tests.tiers import slow
from tests.vectors.formats import content_of, packed
from tests.vectors.test_transcripts import PROOFS
from tests.verifier.javascript import judged, needs_node, node
from tests.verifier.mutations import damaged, retold

pytestmark = needs_node
MAGIC = b"sottovoce receipt 4\n"


VECTORS = [
    (content_of(case["receipt"], PROOFS["pieces"]), case["checkpoint"])
    for case in PROOFS["cases"]
    if case["group"] == "receipts"
]
"""True and forged receipts, and the checkpoint that each is shown with."""


def from_records() -> list[tuple[bytes, str]]:
    """Receipts of real runs: of an acknowledgement, a late note, and of a log that was split."""
    pairs = [made_of(ONE, acknowledged(5).given[ONE]), made(given(LOG, named()))]
    split_in_two = [*split().here[:1], *split().gone[:1]]
    (one, signed), (other, _) = split_in_two
    pairs += split_in_two
    pairs += [
        (receipt, signed)
        for receipt in (
            msgspec.structs.replace(one, confirmed=other.confirmed),
            msgspec.structs.replace(one, confirmed=Confirmed(b"", bytes(64))),
            msgspec.structs.replace(one, attempt=2),
        )
    ]
    return [(encode_receipt(receipt), checkpoint.note) for receipt, checkpoint in pairs]


def damages(right: list[tuple[bytes, str]], number: int) -> Iterator[tuple[bytes, str]]:
    """Receipts with a byte or a value changed."""
    draw = random.Random(1)
    for _ in range(number):
        receipt, note = draw.choice(right)
        yield damaged(draw, receipt), note
        fields = msgspec.msgpack.decode(receipt.removeprefix(MAGIC))
        retold(draw, fields)
        yield MAGIC + packed(fields), note


def judgement(content: bytes, note: str) -> str | list[str] | None:
    """The word of a receipt that holds, or what is wrong; None for what is malformed."""
    try:
        receipt, checkpoint = decode_receipt(content), read_note(note)
    except ValueError:
        return None
    return list(receipt_problems(receipt, checkpoint)) or receipt.word


@pytest.mark.parametrize("number", [0, slow(400)])
def test_they_find_the_same_wrong_with_receipts(tmp_path: Path, number: int) -> None:
    right = from_records()[:2] + [pair for pair in VECTORS if isinstance(judgement(*pair), str)]
    pairs = [*from_records(), *VECTORS, *damages(right, number)]
    file = tmp_path / "receipts.json"
    file.write_text(json.dumps([(content.hex(), note) for content, note in pairs]), "utf-8")
    seconds = json.loads(node(Path(__file__).parent / "receipts.mjs", file))
    firsts = [judgement(*pair) for pair in pairs]
    assert seconds == firsts
    assert firsts[:2] == ["not yet known", "late"]
    assert "counted" in firsts
    assert sum(isinstance(one, str) for one in firsts) < len(firsts) // 2


def test_its_command_judges_a_receipt(tmp_path: Path) -> None:
    run = signed_run()
    receipts = [encode_receipt(one) for one in (receipt_of(run), *forged(receipt_of(run))[:1])]
    note = tmp_path / "checkpoint"
    note.write_text(run.checkpoint.note, encoding="utf-8")
    found = judged(tmp_path, receipts, "--checkpoint", str(note))
    assert [second["verdict"] for second in found] == ["sound", "broken"]
    assert [second.get("word") for second in found] == ["counted", None]
