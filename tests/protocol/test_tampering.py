"""Damage to the bytes of a transcript: flipped, taken out, moved, added, hostile."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import TranscriptError
from protocol.transcript.entries import MAGIC
from protocol.transcript.reader import RULES, Block, TranscriptReader, read
from protocol.transcript.verification import verify
from tests.forgeries import Forgery, chained, pack, rules
from tests.transcripts import HEADER, sample


def cut(file: bytes) -> list[bytes]:
    """The first line and the blocks of a file."""
    starts = [0, *(item.offset for item in read(file) if isinstance(item, Block)), len(file)]
    return [file[a:b] for a, b in zip(starts, starts[1:], strict=False)]


def test_a_truncated_file_has_not_the_digest_given() -> None:
    file, digest = sample()
    found = verify(file[: len(file) // 2], digest=digest)
    assert rules(found) == {"digest"}
    assert found.torn


def test_a_flipped_bit_is_found_at_every_byte() -> None:
    file, _ = sample()
    for i in range(len(file)):
        for bit in range(8):
            flipped = bytearray(file)
            flipped[i] ^= 1 << bit
            found = verify(bytes(flipped))
            assert found.faults, (i, bit)
            assert not found.intact


def test_reading_a_flipped_file_gives_nothing_that_was_not_recorded() -> None:
    file, _ = sample()
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
    parts = cut(sample()[0])
    parts[3] = parts[3][:20] + bytes([parts[3][20] ^ 1]) + parts[3][21:]
    found = verify(b"".join(parts))
    assert {"chain", "frame", "closing-count"} <= rules(found)
    assert "guard" not in rules(found)
    assert found.ending is not None


@pytest.mark.parametrize(
    ("place", "expected"), [(5, "guard"), (-1, "chain")], ids=["guard", "chain"]
)
def test_damage_beside_the_content_costs_no_content(place: int, expected: str) -> None:
    parts = cut(sample()[0])
    damaged = bytearray(parts[2])
    damaged[place] ^= 1
    parts[2] = bytes(damaged)
    found = verify(b"".join(parts), digest=sample()[1])
    assert rules(found) == {expected}
    assert found.complete
    assert found.entries == 13


@pytest.mark.parametrize(
    "order", [(0, 1, 2, 4, 5), (0, 1, 2, 2, 3, 4, 5), (0, 1, 3, 2, 4, 5), (0, 2, 3, 4, 5)]
)
def test_blocks_taken_out_doubled_or_moved_are_found(order: tuple[int, ...]) -> None:
    parts = cut(sample()[0])
    assert len(parts) == 6
    found = verify(b"".join(parts[i] for i in order))
    assert {"guard", "chain"} <= rules(found)
    assert found.ending is not None or order[1:] == (1, 3, 2, 4, 5)


@pytest.mark.parametrize("tail", [b"\0", b"x" * 12, b"x" * 200])
def test_bytes_after_the_closing_record_are_found(tail: bytes) -> None:
    found = verify(sample()[0] + tail)
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
    file, digest = sample()
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


def test_deep_nesting_is_refused() -> None:
    nested = b"\x91" * 100_000 + b"\xc0"
    header = pack({**Forgery().header, "parameters": {"x": 1}}, order="sorted")
    header = header.replace(b"\xa1x\x01", b"\xa1x" + nested)
    assert rules(verify(chained([(b"H", header)]))) == {"header"}


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
        list(TranscriptReader(chained(changed)).sent())
    except TranscriptError:
        assert kind == b"H"
