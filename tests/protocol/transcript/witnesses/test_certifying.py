"""Certificates: which witnesses are named, and what an honest one never gives twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from protocol import AGGREGATOR, PartyId, Witnesses
from protocol.messages import Left
from protocol.session.roster import Identity
from protocol.transcript.certifying import (
    certificate_fault,
    certified_leaf,
    certified_log,
    to_cosign,
)
from protocol.transcript.checkpoints import read_note
from protocol.transcript.evidence import two_checkpoints
from tests.protocol.cosigners import Cosigner, certificate, named

SIGNER = Identity(AGGREGATOR, bytes([9]) * 32)
SESSION = bytes([1]) * 32
ONE, OTHER = (Left(PartyId("party-1"), why) for why in ("here", "gone"))


def test_a_witness_certifies_one_message_and_keeps_the_evidence_of_another() -> None:
    witness = Cosigner()
    first = certificate(SIGNER, SESSION, certified_leaf(ONE), [witness])
    second = certificate(SIGNER, SESSION, certified_leaf(OTHER), [witness])
    how = {"session": SESSION, "key": SIGNER.public}
    assert certificate_fault(first, ONE, named(witness), **how) is None
    assert "0 of 1 witnesses" in (certificate_fault(second, OTHER, named(witness), **how) or "")
    # Asked again, after a crash say, it gives the same.
    again = certificate(SIGNER, SESSION, certified_leaf(ONE), [witness])
    assert certificate_fault(again, ONE, named(witness), **how) is None
    found = two_checkpoints(read_note(first.note), read_note(second.note))
    assert found is not None
    assert found.check() == "the checkpoint of size 1"


def test_every_number_and_every_session_has_a_log_of_its_own() -> None:
    logs = [
        certified_log(session, number) for session in (SESSION, bytes(32)) for number in range(3)
    ]
    assert len(set(logs)) == 6
    signed = to_cosign(SIGNER, session=SESSION, number=2, statement=b"x")
    assert (signed.session, signed.size, signed.valid) == (logs[2], 1, True)


def test_a_cosignature_that_is_forged_certifies_nothing() -> None:
    one, two = Cosigner(1), Cosigner(2)
    found = certificate(SIGNER, SESSION, certified_leaf(ONE), [one])
    how = {"session": SESSION, "key": SIGNER.public}
    assert certificate_fault(found, ONE, named(two), **how) is not None
    unsigned = found.note.replace(found.note.split("\n\n")[1].split("\n")[0] + "\n", "")
    assert "malformed" in (
        certificate_fault(type(found)(0, unsigned), ONE, named(one), **how) or ""
    )


@pytest.mark.parametrize(
    ("keys", "needed", "why"),
    [
        ([], None, "0 witnesses"),
        ([1, 1], None, "the same key"),
        ([1, 2], 1, "more than half"),
        ([1, 2, 3], 4, "more than half"),
    ],
)
def test_witnesses_that_could_certify_two_things_are_refused(
    keys: Sequence[int], needed: int | None, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        Witnesses(keys=tuple(Cosigner(key).key.text for key in keys), needed=needed)
    with pytest.raises(ValueError, match="expected NAME"):
        Witnesses(keys=("nobody",))


@pytest.mark.parametrize(
    ("names", "needed", "honest"), [(1, None, 1), (3, None, 1), (3, 2, 3), (5, 4, 3), (5, 3, 5)]
)
def test_how_many_must_be_honest(names: int, needed: int | None, honest: int) -> None:
    """Two groups that are enough have in common at least one of so many."""
    found = named(*map(Cosigner, range(1, names + 1)), needed=needed)
    assert found.honest == honest
    shared = 2 * found.quorum - names
    assert shared > names - honest
    assert shared <= names - (honest - 1)
