"""Evidence from two checkpoints. What proves something, and what does not, the vectors have."""

from __future__ import annotations

import msgspec
import pytest

from protocol import AGGREGATOR
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import SignedCheckpoint, sign_checkpoint
from protocol.transcript.evidence import two_checkpoints
from tests.recorded.signed import ONE, setting

SESSION = bytes(32)
SIGNER = setting().identities[ONE]


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
