"""Two receipts prove that parties have unmasked one sum over two survivor sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from protocol import PartyId, SecureSum
from protocol.transcript.receipts import (
    Confirmed,
    Confirming,
    Receipt,
    decode_receipt,
    encode_receipt,
    receipt_problems,
    split_between,
)
from protocol.variants import SecureSumVariant
from tests.protocol.sessions import SURVEY, charter_of, identities_of
from tests.recorded.splits import split
from tests.scenarios.command import complaint, sottovoce


def test_a_receipt_says_over_which_survivors_its_party_has_unmasked() -> None:
    for receipt, checkpoint in (*split().here, *split().gone):
        assert receipt_problems(receipt, checkpoint) == ()
        assert decode_receipt(encode_receipt(receipt)) == receipt
    sets = [{each.confirmed.statement for each, _ in half} for half in split()]
    assert [len(half) for half in sets] == [1, 1]
    assert sets[0] != sets[1]


def test_two_halves_that_were_told_two_sets_prove_it() -> None:
    """Whoever finds them, and without a checkpoint; receipts of one half prove nothing."""
    (one, _), (two, _), *_ = split().gone
    for other, _ in split().here:
        assert split_between(one, other) == (
            f"{one.party} and {other.party} have signed different survivor sets of one secure sum: "
            "the aggregator has told them so, or one of the two conspires with it"
        )
    assert split_between(one, two) is None
    assert split_between(one, one) is None


def plain(receipt: Confirming) -> Receipt:
    """The receipt without what its party has confirmed."""
    fields = {name: getattr(receipt, name) for name in Receipt.__struct_fields__}
    return Receipt(**fields)


def confirming(receipt: Confirming, **changes: Any) -> Confirming:
    confirmed = msgspec.structs.replace(receipt.confirmed, **changes)
    return msgspec.structs.replace(receipt, confirmed=confirmed)


def test_what_is_not_signed_proves_nothing() -> None:
    (one, checkpoint), (other, _) = split().gone[0], split().here[0]
    statement = other.confirmed.statement
    forged = {
        "another's statement": confirming(one, statement=statement),
        "another's word": msgspec.structs.replace(one, confirmed=other.confirmed),
        "no signature": confirming(one, signature=bytes(64)),
        "cut short": confirming(one, statement=one.confirmed.statement[:-1]),
        "another session": msgspec.structs.replace(one, attempt=2),
    }
    for what, receipt in forged.items():
        assert split_between(receipt, other) is None, what
        assert receipt_problems(receipt, checkpoint), what
    assert split_between(plain(one), other) is None
    assert receipt_problems(plain(one), checkpoint) == ()


def test_a_party_that_signs_two_sets_is_named_alone() -> None:
    (one, _), (other, _) = split().gone[0], split().here[0]
    # As one that has conspired would: the keys of simulated parties are known.
    sums = SecureSum(dropped=0.25, corrupt=0)
    charter = charter_of(SecureSumVariant(survey=SURVEY, sums=sums), 12)
    key = identities_of(charter)[PartyId(one.party)]
    statement = other.confirmed.statement
    both = msgspec.structs.replace(one, confirmed=Confirmed(statement, key.sign(statement)))
    assert split_between(one, both) == (
        f"{one.party} has signed two different survivor sets of one secure sum"
    )


def test_the_command_says_so_by_name(tmp_path: Path) -> None:
    (one, checkpoint), (two, _), (other, _) = *split().gone[:2], split().here[0]
    paths = {}
    for receipt in (one, two, other):
        paths[receipt.party] = tmp_path / receipt.party
        paths[receipt.party].write_bytes(encode_receipt(receipt))
    said = sottovoce("evidence", paths[one.party], paths[other.party])
    assert said.code == 0
    assert said.out.startswith(f"{one.party} and {other.party} have signed different survivor sets")
    assert f"the key of {other.party} is {other.key.hex()}" in said.out
    found = sottovoce("evidence", paths[one.party], paths[other.party], "--json").json
    assert found["holds"] is True
    assert found["keys"] == {each.party: each.key.hex() for each in (one, other)}
    said = sottovoce("evidence", paths[one.party], paths[two.party])
    assert (said.code, said.out[:14]) == (1, "not evidence: ")
    note = tmp_path / "checkpoint"
    note.write_text(checkpoint.note)
    assert sottovoce("check", paths[one.party], "--checkpoint", note).code == 0
    assert "it is for 'sottovoce check'" in complaint(sottovoce("evidence", paths[one.party]))
    assert "it is for 'sottovoce evidence'" not in sottovoce("evidence", note, note).err


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_receipt_that_is_damaged_is_refused(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "receipt"
    path.write_bytes(encode_receipt(split().here[0][0])[:-cut])
    assert "malformed receipt" in complaint(sottovoce("evidence", path, path), code=2)
