"""Damage to the bytes of a transcript, wrapped and not: flipped, taken out, moved, added."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import TranscriptError
from protocol.transcript.entries import MAGIC
from protocol.transcript.reader import RULES, TranscriptReader
from protocol.transcript.verification import verify
from tests.recorded.forgeries import Forgery, pack, plain, record_of, rules, wrapped
from tests.recorded.transcripts import ENTRIES, sample, signed_sample
from tests.vectors.make import tree_hash

START = len(MAGIC) + 32


def test_a_truncated_file_has_not_the_digest_given() -> None:
    file, digest = sample().content, sample().digest
    found = verify(file[: len(file) // 2], digest=digest)
    assert rules(found) == {"digest"}
    assert found.torn


@pytest.mark.parametrize("signed", [False, True])
def test_a_flipped_bit_is_found_at_every_byte_of_the_log(signed: bool) -> None:
    """Without a signature the last entry's ``complete`` and ``reason`` are its own word."""
    file = Forgery(signed_sample().content if signed else None).plain()
    for i in range(len(file) - (0 if signed else 2)):
        flipped = bytearray(file)
        flipped[i] ^= 1 << i % 8
        found = verify(bytes(flipped))
        assert not found.intact, i
        assert found.faults or found.torn, i


def test_a_flipped_bit_of_the_wrapper_changes_nothing_or_cannot_be_opened() -> None:
    """What is in the wrapper is what was recorded, or nobody can tell: no fault of the record."""
    file, digest = sample().content, sample().digest
    unopened = 0
    for i in range(len(file)):
        flipped = bytearray(file)
        flipped[i] ^= 1 << i % 8
        found = verify(bytes(flipped), digest=digest)
        unopened += found.unopened is not None
        if i < 4:
            assert rules(found) <= {"magic", "digest"}
        elif found.unopened is None and not found.torn:
            assert found.intact, i
        else:
            assert found.faults == () or found.torn, i
            assert not found.intact
    assert unopened > len(file) // 2


def test_reading_a_flipped_file_gives_nothing_that_was_not_recorded() -> None:
    file = sample().content
    for i in range(len(file)):
        flipped = bytearray(file)
        flipped[i] ^= 1 << i % 8
        try:
            reader = TranscriptReader(bytes(flipped))
        except TranscriptError:
            continue
        read_first = tuple(reader)
        assert read_first == ENTRIES[: len(read_first)]
        assert reader.fault is not None or reader.torn or read_first == ENTRIES


@pytest.mark.parametrize("change", ["taken out", "doubled", "moved"])
def test_entries_taken_out_doubled_or_moved_are_found(change: str) -> None:
    records = Forgery().written()
    for i in range(1, len(records) - 2):
        changed = list(records)
        match change:
            case "taken out":
                del changed[i]
            case "doubled":
                changed.insert(i, changed[i])
            case "moved":
                changed[i], changed[i + 1] = changed[i + 1], changed[i]
        found = verify(plain(changed, Forgery().secret))
        assert "ending" in rules(found) or records[i] == records[i + 1]


@pytest.mark.parametrize(
    ("tail", "says"),
    [
        (b"\0", "ending"),
        (b"\0\0\0\x09x", "ending"),
        (record_of(pack(["Refused", 1, "x", "x", b""])), "ending"),
        (record_of(b"\xc1"), "entries"),
    ],
)
def test_bytes_after_the_last_entry_are_found(tail: bytes, says: str) -> None:
    found = verify(Forgery().plain() + tail)
    assert rules(found) == {says}
    assert not found.intact
    found = verify(sample().content + wrapped([tail]))
    assert rules(found) == {says}
    found = verify(sample().content + b"more")
    assert found.unopened == f"byte {len(sample().content)}: not a zstandard frame"
    assert (found.faults, found.intact) == ((), False)


@pytest.mark.parametrize("file", [b"hello", b"sottovoce transcript 1\n" * 5, b"\0" * 4096])
def test_a_file_of_another_format_is_named(file: bytes) -> None:
    for content in (file, wrapped([file])):
        found = verify(content)
        assert found.faults[0].rule == "magic"
        assert found.header is None
        with pytest.raises(TranscriptError, match="begins with"):
            TranscriptReader(content)


def test_a_vast_length_is_refused() -> None:
    found = verify(Forgery().plain()[:START] + b"\xff\xff\xff\xff")
    assert rules(found) == {"length"}
    assert not found.torn
    vast = Forgery()
    vast.records.append(bytes((1 << 16) + 65))
    assert rules(verify(vast.write())) == {"length"}


def header_with(parameters: bytes) -> bytes:
    """A header's map whose parameters are these bytes."""
    forgery = Forgery()
    header = forgery.header
    header["parameters"] = "here"
    names = ("variant", "parameters", "survey", "analysis", "nonce", "kinds")
    terms = b"\x96" + b"".join(pack(header[name], order="deterministic") for name in names)
    agreed = hashlib.sha256(terms.replace(b"\xa4here", parameters)).digest()
    roster = tree_hash([key + name.encode() for name, key in header["roster"]])
    bound = pack([agreed, roster, len(header["roster"])])
    header["session"] = hashlib.sha256(b"sottovoce session 2\0" + bound).digest()
    return forgery.contents()[0].replace(b"\xa4here", parameters)


@pytest.mark.parametrize(
    ("parameters", "accepted"),
    [
        (b"\x82\xa1a\x01\xa1b\x02", True),
        (b"\x82\xa1b\x01\xa1a\x02", False),  # keys out of order
        (b"\x82\xa1a\x01\xa1a\x02", False),  # a key twice
        (b"\x81\xa1a\xcc\x01", False),  # a number longer than it needs to be
        (b"\x81\xa1a\xca\x3f\x80\x00\x00", False),  # a float of 32 bits
        (b"\x81\xa1a\x81\x01\x02", False),  # a key that is no text
        (b"\x81\xa1a\x82\x01\x02\xa1a\x03", False),  # keys that cannot be sorted
        (b"\x81\xa1a\xd6\xff\x00\x00\x00\x01", False),  # a timestamp
        (b"\x81\xa1a\xd4\x05\x00", False),  # an extension
        (b"\x81\xa1a\xa1\xff", False),  # text that is no UTF-8
        (b"\x90", False),  # a list
        (b"\x81\xa1a" + b"\x91" * 63 + b"\xc0", True),  # nested 64 deep
        (b"\x81\xa1a" + b"\x91" * 64 + b"\xc0", False),
        (b"\x81\xa1a" + b"\x91" * 100_000 + b"\xc0", False),
    ],
)
def test_header_has_one_encoding(parameters: bytes, accepted: bool) -> None:
    found = verify(plain([header_with(parameters)]))
    assert rules(found) == (set() if accepted else {"header"})
    assert (found.header is not None) == accepted


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 15), st.binary(max_size=60), st.integers(0, 400))
def test_no_content_makes_verification_fail(which: int, noise: bytes, start: int) -> None:
    """Noise over a part of a sound record."""
    records = Forgery().written()
    i = which % len(records)
    at = start % (len(records[i]) + 1)
    changed = list(records)
    changed[i] = records[i][:at] + noise + records[i][at + len(noise) :]
    file = plain(changed, Forgery().secret)
    found = verify(file)
    assert rules(found) <= set(RULES)
    assert found.intact == (changed == records) or i == len(records) - 1
    try:
        list(TranscriptReader(file))
    except TranscriptError:
        assert i == 0
