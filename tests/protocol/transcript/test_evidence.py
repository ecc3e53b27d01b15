"""Evidence: two signatures for one slot, and all that proves nothing."""

from __future__ import annotations

import msgspec
import pytest

from protocol.messages import AGGREGATOR, PartyId
from protocol.session.heads import HEAD_PURPOSE, head_statement
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint, sign_checkpoint
from protocol.transcript.evidence import Equivocation, contradiction, two_checkpoints
from tests.recorded.signed import ONE, TWO, setting

SESSION = bytes(32)
SIGNER = setting().identities[ONE]


def statement(
    *, sender: PartyId = ONE, session: bytes = SESSION, count: int = 3, root: int = 0
) -> bytes:
    said, heard = bytes([root]) * 32, bytes(32)
    return head_statement(session=session, sender=sender, count=count, said=said, heard=heard)


def evidence(first: bytes, second: bytes, **changes: bytes) -> Equivocation:
    found = Equivocation(
        key=SIGNER.public,
        first=first,
        first_signature=SIGNER.sign(first),
        second=second,
        second_signature=SIGNER.sign(second),
    )
    return msgspec.structs.replace(found, **changes)


def test_two_heads_over_as_many_envelopes() -> None:
    assert evidence(statement(), statement(root=1)).check() == (
        "the head of 'party-1' over 3 envelopes"
    )


@pytest.mark.parametrize(
    "second",
    [
        statement(),
        statement(count=4, root=1),
        statement(session=b"\1" * 32, root=1),
        statement(sender=TWO, root=1),
        statement(root=1) + b"\0",
        HEAD_PURPOSE,
        HEAD_PURPOSE + b"\xc1",
        # The same number, not in its shortest form.
        statement(root=1).replace(b"\x03\xc4", b"\xcc\x03\xc4"),
        b"something else",
        b"",
    ],
)
def test_heads_that_may_both_be_true(second: bytes) -> None:
    assert evidence(statement(), second).check() is None
    assert evidence(second, statement()).check() is None


def test_both_have_to_be_signed_by_the_key() -> None:
    first, second = statement(), statement(root=1)
    stranger = setting().identities[TWO]
    for changes in (
        {"first_signature": bytes(64)},
        {"second_signature": bytes(64)},
        {"second_signature": stranger.sign(second)},
        {"key": stranger.public},
        {"key": b"short"},
    ):
        assert evidence(first, second, **changes).check() is None


def checkpoint(
    size: int = 5, root: int = 0, session: bytes = SESSION, signer: Identity = SIGNER
) -> SignedCheckpoint:
    return sign_checkpoint(signer, session=session, size=size, root=bytes([root]) * 32)


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (checkpoint(root=1), "the checkpoint of size 5"),
        (checkpoint(), None),
        (checkpoint(6, 1), None),
        (checkpoint(root=1, session=b"\1" * 32), None),
        (checkpoint(root=1, signer=setting().identities[AGGREGATOR]), None),
        (msgspec.structs.replace(checkpoint(root=1), signature=bytes(64)), None),
    ],
)
def test_two_checkpoints(second: SignedCheckpoint, says: str | None) -> None:
    for pair in ((checkpoint(), second), (second, checkpoint())):
        found = two_checkpoints(*pair)
        assert (found is None) == (says is None)
        assert found is None or found.check() == says


def test_a_head_does_not_contradict_a_checkpoint() -> None:
    signed = checkpoint().signed
    assert contradiction(statement(), signed) is None
    assert contradiction(signed, signed + b"more\n") is None
    assert contradiction(signed, b"\xff") is None
