"""Damage to the bytes of a transcript: flipped, taken out, moved, added, hostile."""

from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import TranscriptError
from protocol.transcript.entries import MAGIC, expand, split_entries
from protocol.transcript.reader import RULES, Block, TranscriptReader, read
from protocol.transcript.verification import verify
from tests.recorded.forgeries import Forgery, chained, pack, rules
from tests.recorded.transcripts import HEADER, sample


def cut(file: bytes) -> list[bytes]:
    """The first line and the blocks of a file."""
    starts = [0, *(item.offset for item in read(file) if isinstance(item, Block)), len(file)]
    return [file[a:b] for a, b in pairwise(starts)]


def test_a_truncated_file_has_not_the_digest_given() -> None:
    file, digest = sample().content, sample().digest
    found = verify(file[: len(file) // 2], digest=digest)
    assert rules(found) == {"digest"}
    assert found.torn


def test_a_flipped_bit_is_found_at_every_byte() -> None:
    file = sample().content
    for i in range(len(file)):
        for bit in range(8):
            flipped = bytearray(file)
            flipped[i] ^= 1 << bit
            found = verify(bytes(flipped))
            assert found.faults, (i, bit)
            assert not found.intact


def test_reading_a_flipped_file_gives_nothing_that_was_not_recorded() -> None:
    file = sample().content
    entries = tuple(TranscriptReader(file))
    for i in range(len(file)):
        flipped = bytearray(file)
        flipped[i] ^= 1 << i % 8
        try:
            reader = TranscriptReader(bytes(flipped))
        except TranscriptError:
            continue
        read_first = tuple(reader)
        assert read_first == entries[: len(read_first)]
        assert reader.fault is not None
        assert reader.torn is None


def test_reading_goes_on_after_damage() -> None:
    """One byte of an entries block: the blocks around it are still judged."""
    parts = cut(sample().content)
    parts[3] = parts[3][:20] + bytes([parts[3][20] ^ 1]) + parts[3][21:]
    found = verify(b"".join(parts))
    assert {"chain", "frame", "closing-count"} <= rules(found)
    assert "guard" not in rules(found)
    assert found.ending is not None


@pytest.mark.parametrize(
    ("place", "expected"), [(5, "guard"), (-1, "chain")], ids=["guard", "chain"]
)
def test_damage_beside_the_content_costs_no_content(place: int, expected: str) -> None:
    parts = cut(sample().content)
    damaged = bytearray(parts[2])
    damaged[place] ^= 1
    parts[2] = bytes(damaged)
    found = verify(b"".join(parts), digest=sample().digest)
    assert rules(found) == {expected}
    assert found.complete
    assert found.entries == 13


@pytest.mark.parametrize(
    "order", [(0, 1, 2, 4, 5), (0, 1, 2, 2, 3, 4, 5), (0, 1, 3, 2, 4, 5), (0, 2, 3, 4, 5)]
)
def test_blocks_taken_out_doubled_or_moved_are_found(order: tuple[int, ...]) -> None:
    parts = cut(sample().content)
    assert len(parts) == 6
    found = verify(b"".join(parts[i] for i in order))
    assert {"guard", "chain"} <= rules(found)
    assert found.ending is not None or order[1:] == (1, 3, 2, 4, 5)


@pytest.mark.parametrize("tail", [b"\0", b"x" * 12, b"x" * 200])
def test_bytes_after_the_closing_record_are_found(tail: bytes) -> None:
    found = verify(sample().content + tail)
    assert rules(found) == ({"closing"} if len(tail) < 13 else {"closing", "guard"})
    assert not found.intact
    assert not found.torn


@pytest.mark.parametrize("file", [b"hello", b"sottovoce transcript 2\n", b"\0" * 4096])
def test_a_file_of_another_format_is_named(file: bytes) -> None:
    found = verify(file)
    assert found.faults[0].rule == "magic"
    assert found.header is None
    with pytest.raises(TranscriptError, match="begins with"):
        TranscriptReader(file)


def test_another_first_line_with_the_same_blocks_is_read_on() -> None:
    file, digest = sample().content, sample().digest
    found = verify(b"S" + file[1:], digest=digest)
    assert rules(found) == {"magic"}
    assert found.entries == 13


def test_a_vast_length_is_refused() -> None:
    chain = hashlib.blake2b(MAGIC, digest_size=32).digest()
    start = b"H\xff\xff\xff\xff"
    file = MAGIC + start + hashlib.blake2b(chain + start, digest_size=8).digest()
    found = verify(file)
    assert rules(found) == {"frame"}
    assert not found.torn


def header_with(parameters: bytes) -> bytes:
    """A header's map whose parameters are these bytes."""
    fields = {**Forgery().header, "parameters": "here"}
    return pack(fields).replace(b"\xa4here", parameters)


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
    ],
)
def test_header_has_one_encoding(parameters: bytes, accepted: bool) -> None:
    found = verify(chained([(b"H", header_with(parameters))]))
    assert rules(found) == (set() if accepted else {"header"})
    assert (found.header is not None) == accepted


def test_closing_record_has_one_encoding() -> None:
    empty = Forgery()
    empty.header["parameters"] = {}
    empty.entries = []
    digest = empty.digest()
    for count, expected in ((b"\x00", set()), (b"\xcc\x00", {"closing"})):
        ending = b"\x95\xa6Ending" + count + b"\xc4\x20" + digest + b"\xc3\xa0"
        found = verify(chained([(b"H", header_with(b"\x80")), (b"C", ending)]))
        assert rules(found) == expected
        assert found.intact == (not expected)


def test_an_unreadable_closing_record_is_still_the_last_block() -> None:
    """A broken frame is a closing record all the same: nothing may come after it."""
    parts = cut(sample().content)
    parts[-1] = parts[-1][:20] + bytes([parts[-1][20] ^ 1]) + parts[-1][21:]
    assert rules(verify(b"".join(parts))) == {"chain", "frame"}
    assert rules(verify(b"".join(parts) + b"more")) == {"chain", "frame", "closing"}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (b"", "not a zstandard frame"),
        (b"\x50\x2a\x4d\x18\x01\x00\x00\x00x", "not a zstandard frame"),
        (zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 9), "not state"),
        (zstandard.compress(b""), "the block is empty"),
        (zstandard.compress(bytes(101)), "at most 100"),
        (zstandard.compress(b"x")[:-1], "malformed zstandard"),
        (zstandard.compress(b"x") + b"x", "malformed zstandard"),
    ],
)
def test_expanding_refuses(stored: bytes, message: str) -> None:
    assert expand(zstandard.compress(bytes(100)), limit=100) == bytes(100)
    with pytest.raises(TranscriptError, match=message):
        expand(stored, limit=100)


@pytest.mark.parametrize("content", [b"", b"\0\0\0", b"\0\0\0\2x"])
def test_splitting_refuses_what_is_no_list_of_entries(content: bytes) -> None:
    with pytest.raises(TranscriptError):
        list(split_entries(content))


def test_deep_nesting_is_refused() -> None:
    nested = b"\x91" * 100_000 + b"\xc0"
    assert rules(verify(chained([(b"H", header_with(b"\x81\xa1x" + nested))]))) == {"header"}


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([b"H", b"E", b"C"]), st.binary(max_size=60), st.integers(0, 400))
def test_no_content_makes_verification_fail(kind: bytes, noise: bytes, start: int) -> None:
    """Noise over a part of a sound block's content, with the chain made to fit."""
    blocks = [
        (item.kind, item.content(HEADER))
        for item in read(Forgery().write())
        if isinstance(item, Block)
    ]
    changed = []
    for block_kind, content in blocks:
        if block_kind == kind:
            at = start % (len(content) + 1)
            content = content[:at] + noise + content[at + len(noise) :]
        changed.append((block_kind, content))
    found = verify(chained(changed))
    assert rules(found) <= set(RULES)
    assert found.intact or changed != blocks
    try:
        list(TranscriptReader(chained(changed)))
    except TranscriptError:
        assert kind == b"H"
