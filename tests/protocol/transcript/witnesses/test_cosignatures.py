"""Cosignatures of checkpoints and the keys to check them by, as C2SP has them."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from protocol import PartyId
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import (
    from_base64,
    read_note,
    signature_line,
    split_note,
    to_base64,
)
from protocol.transcript.cosignatures import (
    WitnessKey,
    cosign,
    cosignature_line,
    cosigned,
    cosigned_at,
    read_witness_key,
    with_lines,
)
from protocol.transcript.verification import verify
from tests.recorded.checkpointed import checkpoints_of, record

NAME, TIME = "witness.example/w1", 1679315147
IDENTITY, OTHER = (Identity(PartyId("w"), bytes([i]) * 32) for i in (7, 8))
KEY, OTHER_KEY = WitnessKey(NAME, IDENTITY.public), WitnessKey("other.example", OTHER.public)
LAST = checkpoints_of(record())[-1]


def line(identity: Identity = IDENTITY, name: str = NAME, time: int = TIME) -> str:
    return cosign(identity, name=name, text=LAST.signed, time=time)


def test_a_cosignature_is_what_the_specification_says() -> None:
    dash, name, encoded = line().removesuffix("\n").split(" ")
    assert (dash, name) == ("\u2014", NAME)
    content = from_base64(encoded)
    digest = hashlib.sha256(NAME.encode() + b"\n\x04" + IDENTITY.public).digest()
    assert content[:4] == digest[:4] == KEY.id
    assert content[4:12] == TIME.to_bytes(8, "big")
    said = f"cosignature/v1\ntime {TIME}\n".encode() + LAST.note.encode().split(b"\n\n")[0] + b"\n"
    Ed25519PublicKey.from_public_bytes(IDENTITY.public).verify(content[12:], said)
    assert len(content) == 76


def test_a_note_with_cosignatures_is_the_same_checkpoint() -> None:
    note = with_lines(LAST.note, [line(), line(OTHER, OTHER_KEY.name), line()])
    assert note.startswith(LAST.note)
    assert len(split_note(note)[1]) == 3
    assert read_note(note) == LAST
    assert with_lines(note, [line()]) == note
    with pytest.raises(ValueError, match="signatures, at most 64 allowed"):
        with_lines(note, [line(time=i) for i in range(62)])


def test_a_verifier_key_is_read_as_it_is_written() -> None:
    name, number, key = KEY.text.split("+", 2)
    assert (name, number, key) == (
        NAME,
        KEY.id.hex(),
        to_base64(b"\4" + IDENTITY.public),
    )
    assert read_witness_key(KEY.text) == KEY


def test_only_the_witness_cosigns() -> None:
    [(_, signature)] = split_note(f"{LAST.signed.decode()}\n{line()}")[1]
    assert cosigned_at(LAST.signed, signature, KEY) == TIME
    other = checkpoints_of(record())[0]
    assert cosigned_at(other.signed, signature, KEY) is None
    assert cosigned_at(LAST.signed, signature, OTHER_KEY) is None
    later = signature[:4] + (TIME + 1).to_bytes(8, "big") + signature[12:]
    assert cosigned_at(LAST.signed, later, KEY) is None
    assert cosigned_at(LAST.signed, signature[:-1], KEY) is None
    assert cosigned_at(LAST.signed, signature + b"\0", KEY) is None
    past = IDENTITY.sign(b"cosignature/v1\ntime %d\n" % 2**63 + LAST.signed)
    far = KEY.id + (2**63).to_bytes(8, "big") + past
    assert cosigned_at(LAST.signed, far, KEY) is None


def test_so_many_witnesses_are_demanded() -> None:
    note = with_lines(LAST.note, [line(time=TIME + 5), line()])
    found = cosigned(note, [KEY])
    assert found.enough
    assert found.by == ((NAME, TIME),)
    found = cosigned(note, [KEY, OTHER_KEY])
    assert not found.enough
    assert found.missing == (OTHER_KEY.name,)
    assert cosigned(note, [KEY, OTHER_KEY], needed=1).enough
    assert not cosigned(LAST.note, [KEY]).enough
    # Another's signature under the witness's name and key id.
    forged = KEY.id + TIME.to_bytes(8, "big") + OTHER.sign(LAST.signed)
    lines = [signature_line(NAME, forged), line(OTHER, OTHER_KEY.name)]
    found = cosigned(with_lines(note, lines), [KEY, OTHER_KEY], needed=1)
    assert found.invalid == (NAME,)
    assert [name for name, _ in found.by] == [OTHER_KEY.name]
    assert not found.enough


def test_one_key_is_one_witness() -> None:
    again = WitnessKey("again.example", IDENTITY.public)
    both = with_lines(LAST.note, [line(IDENTITY, NAME), line(IDENTITY, again.name)])
    found = cosigned(both, [KEY, again])
    assert [name for name, _ in found.by] == [NAME, again.name]
    assert (found.holders, found.enough) == (1, False)
    assert cosigned(both, [KEY, again], needed=1).enough
    for needed in (0, 3):
        with pytest.raises(ValueError, match="expected 1 to 2"):
            cosigned(LAST.note, [KEY, OTHER_KEY], needed=needed)


def test_of_an_answer_only_the_witnesss_own_line_is_taken() -> None:
    assert cosignature_line(line(OTHER, OTHER_KEY.name) + line(), LAST.note, KEY) == line()
    for answer in ("", "\n", line(OTHER, NAME), line(OTHER, OTHER_KEY.name), line() + "x", "x\n\n"):
        with pytest.raises(ValueError, match=r"no valid cosignature|malformed note"):
            cosignature_line(answer, LAST.note, KEY)


def test_the_verdict_goes_by_the_witnesses() -> None:
    note = with_lines(LAST.note, [line()])
    assert verify(record(), checkpoint=LAST, cosigned=cosigned(note, [KEY])).intact
    short = verify(record(), checkpoint=LAST, cosigned=cosigned(note, [KEY, OTHER_KEY]))
    assert not short.intact
    [fault] = short.faults
    assert fault.rule == "published"
    assert "of 1 witnesses, expected 2" in fault.message
