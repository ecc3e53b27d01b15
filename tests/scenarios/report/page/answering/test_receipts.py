"""The page makes the program's receipts of acknowledgements, and finds the same wrong with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol import AGGREGATOR, PartyId
from protocol.messages import Declined, Envelope
from protocol.session.heads import SaidHead
from protocol.transcript.checkpoints import SignedCheckpoint
from protocol.transcript.receipts import (
    Acknowledgement,
    Receipt,
    encode_receipt,
    receipt_for,
    receipt_problems,
)
from protocol.wire.arrays import encode_message
from protocol.wire.codec import encode_envelope
from tests.protocol.transcript.test_acknowledgements import acknowledged, made_of
from tests.recorded import late
from tests.recorded.receipts import forged, receipt_of
from tests.recorded.signed import ONE, TWO, envelopes, setting, signed_run
from tests.vectors.pages.making import Survey, posted
from tests.verifier.bundles import needs_node, run

pytestmark = needs_node
HERE = Path(__file__).parent
CHARTER = setting().charter


def survey(party: PartyId = ONE) -> Survey:
    """The small recorded run, as a page of one of its parties sees it."""
    [question] = [each for each in signed_run().said("Ask", AGGREGATOR) if each.recipient == party]
    secret = setting().identities[party]._secret
    return Survey(CHARTER, party, dict(setting().identities), secret, question)


def body(party: PartyId = ONE) -> bytes:
    """The post that has what the party said in the run."""
    return msgspec.msgpack.encode(envelopes(signed_run(), party))


def declined() -> tuple[bytes, SaidHead, bytes]:
    """A post that declines, its head, and an acknowledgement of it."""
    about = survey()
    refusal = Envelope(
        CHARTER.session, ONE, AGGREGATOR, 0, "Declined", encode_message(Declined("terms"))
    )
    machine = about.machine(setting().streams.stream(ONE, "role"), [0] * 2, budget=0.0)
    first, last = machine.take()
    assert (first, machine.head is not None) == (refusal, True)
    log = [late.entry(encode_envelope(each)) for each in (first, last)]
    shown, signed = late.shown(log, log[1]), late.signed(log)
    given = Acknowledgement(
        size=2,
        root=signed.root,
        signature=signed.signature,
        index=1,
        at=1,
        salt=shown.salt,
        path=shown.path,
        roster=CHARTER.roster.inclusion_path_at(CHARTER.roster.position[ONE]),
    )
    assert machine.head is not None
    return posted([first, last]), machine.head, msgspec.msgpack.encode(given)


JUDGING = (HERE / "receipts.js").read_text(encoding="utf-8")


def judged(
    given: Sequence[tuple[bytes, bytes]] = (),
    kept: Sequence[tuple[bytes, str, bytes | None]] = (),
    party: PartyId = ONE,
) -> dict[str, Any]:
    """What the page makes of posts with acknowledgements, and says of receipts with notes."""
    about = survey(party)
    whole = {
        "link": about.link,
        "terms": about.terms.hex(),
        "place": about.place.hex(),
        "given": [[one.hex(), other.hex()] for one, other in given],
        "kept": [
            [receipt.hex(), note, None if sent is None else sent.hex()]
            for receipt, note, sent in kept
        ],
    }
    found: dict[str, Any] = json.loads(run(JUDGING, json.dumps(whole).encode()))
    return found


def by_the_program(receipt: Receipt, checkpoint: SignedCheckpoint) -> list[Any]:
    problems = list(receipt_problems(receipt, checkpoint))
    return [encode_receipt(receipt).hex(), checkpoint.note, problems, problems or receipt.word]


@pytest.mark.parametrize("every", [1, 5, 1000])
def test_receipts_are_the_programs(every: int) -> None:
    for party in (ONE, TWO):
        given = acknowledged(every).given[party]
        found = judged([(body(party), msgspec.msgpack.encode(given))], party=party)
        wanted = by_the_program(*made_of(party, given))
        assert found["made"] == [wanted]
        assert wanted[2:] == [[], "counted" if every == 1000 else "not yet known"]


def test_what_an_aggregator_lies_is_found() -> None:
    given = [late.given(late.LOG, late.named()), *(lie for lie, _ in late.LIES.values())]
    found = judged([(body(), msgspec.msgpack.encode(each)) for each in given])
    assert found["made"] == [by_the_program(*late.made(each)) for each in given]
    words = [each[3] for each in found["made"]]
    assert words[0] == "late"
    assert all(isinstance(word, list) for word in words[1:])


def test_a_closing_of_another_round_is_found() -> None:
    log = (late.OTHER, late.REPORT, late.closing(counted=late.EVERYBODY, round_=3), late.HEAD)
    given = late.given(log, late.counted(log, log[2]))
    receipt, checkpoint = late.made(given)
    assert receipt_problems(receipt, checkpoint) == ()
    [[_, _, problems, word]] = judged([(body(), msgspec.msgpack.encode(given))])["made"]
    assert problems == word == ["a closing is of another round than the report"]


def test_one_who_declines_has_a_receipt() -> None:
    sent, head, given = declined()
    acknowledgement = msgspec.msgpack.decode(given, type=Acknowledgement)
    first = msgspec.msgpack.decode(sent)[0]
    wanted = receipt_for(CHARTER, head, acknowledgement, said=[first], reports=())
    [found] = judged([(sent, given)])["made"]
    assert found == by_the_program(*wanted)
    assert found[3] == "not yet known"


def test_malformed_acknowledgements_are_refused() -> None:
    right = msgspec.msgpack.decode(msgspec.msgpack.encode(acknowledged(1000).given[ONE]))
    wrong: list[Any] = [[], None, right[:-1], [*right, None], [*right[:1], b"", *right[2:]]]
    given = [(body(), msgspec.msgpack.encode(each)) for each in wrong]
    assert judged([*given, (body(), b"")])["made"] == ["malformed"] * (len(wrong) + 1)


def test_receipts_that_come_later_are_judged() -> None:
    checkpoint = signed_run().checkpoint
    assert checkpoint is not None
    right = receipt_of(signed_run())
    everything = [(right, checkpoint)]
    everything += [(other, checkpoint) for other in forged(right)]
    kept = [(encode_receipt(one), signed.note, body()) for one, signed in everything]
    found = judged(kept=kept)["said"]
    assert found[0] == "counted"
    for (receipt, signed), said in zip(everything, found, strict=True):
        problems = receipt_problems(receipt, signed)
        assert said == (said if problems and isinstance(said, list) else receipt.word)
        assert set(problems) <= set(said) or not problems


def test_receipts_of_others_are_refused() -> None:
    checkpoint = signed_run().checkpoint
    assert checkpoint is not None
    own, other = receipt_of(signed_run()), receipt_of(signed_run(), TWO)
    note = checkpoint.note
    own_file = encode_receipt(own)
    foreign = msgspec.structs.replace(checkpoint, session=CHARTER.again(2).session).note
    kept = [
        (own_file, note, body()),
        (own_file, note, None),
        (encode_receipt(other), note, None),
        (own_file, note, body(TWO)),
        (own_file, foreign, None),
        (own_file, "", None),
        (b"", note, None),
        (own_file, note.replace("\n\n", "\nx\n\n"), None),
    ]
    said = judged(kept=kept)["said"]
    assert said[:2] == ["counted", "counted"]
    assert said[2] == ["the receipt is somebody else's"]
    assert said[3] == ["the receipt is about another report than the one that was sent"]
    assert said[4][0] == "the checkpoint is of another survey"
    assert said[5:] == [["the receipt or its checkpoint is malformed"]] * 3
