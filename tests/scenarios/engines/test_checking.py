"""Signatures that are checked in processes come out as they do here."""

from __future__ import annotations

import pytest

from protocol.messages import PartyId
from protocol.session.roster import Identity, Signed
from scenarios.engines import checking
from scenarios.engines.checking import ChecksMeanwhile

ONE = Identity(PartyId("party-1"), bytes(32))
FORGED = (2, 7)


@pytest.mark.parametrize("worth", [4, 1000])
def test_each_signature_is_answered_for_in_its_place(
    worth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "WORTH", worth)
    said = [f"word {i}".encode() for i in range(11)]
    claims = [
        Signed(ONE.sign(word), b"another" if i in FORGED else word, ONE.public)
        for i, word in enumerate(said)
    ]
    with ChecksMeanwhile() as checks:
        for i in range(0, len(claims), 3):
            checks.begin(claims[i : i + 3])
        assert checks.found() == [i not in FORGED for i in range(len(claims))]


def test_no_signature_at_all() -> None:
    with ChecksMeanwhile() as checks:
        assert checks.found() == []
