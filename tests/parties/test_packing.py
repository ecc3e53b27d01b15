"""Packed files: what is in frames comes out, and what cannot be unpacked is said."""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Callable
from random import Random

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from parties.keeping.packing import (
    MAX_FRAME,
    MAX_WINDOW,
    PART_BYTES,
    SECTOR,
    Packer,
    Unpacked,
    whole_length,
)
from protocol import TranscriptError
from protocol.errors import UnopenedError
from protocol.transcript.entries import MAGIC
from protocol.transcript.log import LOG_SECRET_BYTES
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from tests.recorded.forgeries import Forgery, compress, packed, rules
from tests.recorded.transcripts import ENTRIES, sample
from tests.tiers import slow


def options(**terms: bool | int) -> Callable[[bytes], bytes]:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, **terms)
    return zstandard.ZstdCompressor(compression_params=parameters).compress


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=5), st.integers(1, 50))
def test_what_was_packed_comes_out(parts: list[bytes], cut: int) -> None:
    packer = Packer()
    file = b"".join(map(packer.pack, parts))
    chunks = [file[i : i + cut] for i in range(0, len(file), cut)]
    unpacked = Unpacked(chunks)
    assert list(unpacked) == parts
    assert (unpacked.torn, unpacked.stored) == (False, len(file))


def test_large_content_is_cut_into_frames() -> None:
    content = bytes(2 * PART_BYTES + 1)
    assert list(map(len, Unpacked(Packer().pack(content)))) == [PART_BYTES, PART_BYTES, 1]
    assert Packer().pack(b"") == b""


@pytest.mark.parametrize(
    "content",
    [b"x", bytes(300), bytes(MAX_WINDOW), hashlib.shake_256(b"").digest(300_000)],
    ids=["a byte", "a run", "a long run", "noise in three blocks"],
)
def test_a_frame_cut_anywhere_is_torn(content: bytes) -> None:
    whole, frame = Packer().pack(b"before"), compress(content)
    for end in range(1, len(frame), 1 + len(frame) // 99):
        torn = Unpacked(whole + frame[:end])
        assert list(torn) == [b"before"]
        assert (torn.torn, torn.stored) == (True, len(whole))
    assert list(Unpacked(whole + frame)) == [b"before", content]


def test_a_file_that_is_not_packed_is_what_is_in_it() -> None:
    file = Forgery().write()
    assert b"".join(Unpacked(file)) == file
    assert list(Unpacked(b"")) == []


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (compress(b"x") + b"y" * 8, "malformed"),
        (compress(bytes(MAX_FRAME + 1)), "holds more than"),
        (b"\x28\xb5\x2f\xfd\x20\x02\x06\x00\x00", "malformed"),
        (b"\x28\xb5\x2f\xfd\x20\x02\x07\x00\x00", "malformed"),
        # Blocks of 64 KiB, and none is the last.
        (
            b"\x28\xb5\x2f\xfd\x00\x58" + (b"\x00\x00\x08" + bytes(1 << 16)) * 1200,
            "holds more than",
        ),
        (options(window_log=24, write_content_size=False)(bytes(1 << 24)), "memory"),
    ],
)
def test_what_cannot_be_unpacked_is_said(frame: bytes, message: str) -> None:
    whole = Packer().pack(b"before")
    with pytest.raises(UnopenedError, match=message):
        list(Unpacked(whole + frame))


@pytest.mark.parametrize(
    "frame",
    [
        compress(b"some words"),
        options(write_content_size=False)(b"some words"),
        zstandard.compress(b"some words" * 99),
        compress(b"some ") + compress(b"") + compress(b"words"),
    ],
    ids=["checksum", "no size", "no checksum", "several"],
)
def test_what_other_tools_pack_is_unpacked(frame: bytes) -> None:
    assert b"".join(Unpacked(frame)).startswith(b"some words")


def test_a_checksum_that_is_wrong_is_found() -> None:
    frame = bytearray(Packer().pack(b"some content"))
    frame[-1] ^= 1
    with pytest.raises(UnopenedError, match="malformed zstandard frame"):
        list(Unpacked(bytes(frame)))


def test_a_record_that_cannot_be_unpacked_has_no_verdict() -> None:
    """Also not against what was published: nobody can tell what is in it."""
    parts = Forgery().write()[:1500], b"\x28\xb5\x2f\xfd\x20\x02\x07\x00\x00"
    found = verify(Unpacked(packed(parts[:1]) + parts[1]), digest=sample().digest)
    assert found.unopened is not None
    assert (found.faults, found.intact, found.complete) == ((), False, False)
    assert found.header is not None


def test_a_flipped_bit_of_a_packed_file_changes_nothing_or_cannot_be_unpacked() -> None:
    """What is in the file is what was recorded, or nobody can tell: no fault of the record."""
    file, digest = packed([sample().content]), sample().digest
    unopened = 0
    for i in range(len(file)):
        flipped = bytearray(file)
        flipped[i] ^= 1 << i % 8
        found = verify(Unpacked(bytes(flipped)), digest=digest)
        unopened += found.unopened is not None
        if i < 4:
            assert rules(found) <= {"magic", "digest"}
        elif found.unopened is None and not found.torn:
            assert found.intact, i
        else:
            assert found.faults == () or found.torn, i
            assert not found.intact
    assert unopened > len(file) // 2


def test_reading_a_flipped_packed_file_gives_nothing_that_was_not_recorded() -> None:
    file = packed([sample().content])
    for i in range(len(file)):
        flipped = bytearray(file)
        flipped[i] ^= 1 << i % 8
        try:
            reader = TranscriptReader(Unpacked(bytes(flipped)))
        except TranscriptError:
            continue
        read_first = tuple(reader)
        assert read_first == ENTRIES[: len(read_first)]
        assert reader.fault is not None or reader.torn or read_first == ENTRIES


def test_what_a_crash_leaves_of_a_write_is_cut_off() -> None:
    packer = Packer()
    records = [bytes([i]) * (i * 37) for i in range(1, 6)]
    lengths = [struct.pack(">I", len(record)) for record in records]
    start = packer.pack(MAGIC + bytes(LOG_SECRET_BYTES))
    first = packer.pack(lengths[0] + records[0])
    # The second record is in two frames, as a long one is.
    half = packer.pack(lengths[1][:2])
    rest = packer.pack(lengths[1][2:] + records[1] + lengths[2] + records[2])
    file = start + first + half + rest
    ends = {len(start), len(start + first), len(file)}
    for length in range(len(file) + 1):
        whole = max((end for end in ends if end <= length), default=0)
        assert length_of(file[:length], 7) == whole


def long_file() -> tuple[bytes, list[int]]:
    """A file of three frames, of which only the first ends within a sector, and their ends."""
    packer, random = Packer(), Random(5)
    contents = [MAGIC + bytes(LOG_SECRET_BYTES)]
    contents += [struct.pack(">I", size) + random.randbytes(size) for size in (2000, 3000)]
    frames = [*map(packer.pack, contents)]
    return b"".join(frames), [*itertools.accumulate(map(len, frames))]


def length_of(content: bytes, size: int = 700) -> int:
    """The same in one part and in parts of this size."""
    parts = [content[i : i + size] for i in range(0, len(content), size)]
    found = whole_length(lambda: [content])
    assert whole_length(lambda: parts) == found
    return found


@pytest.mark.parametrize("zeros", [1, 2, 3, 4, 5, 40, 512, 6000, slow(MAX_FRAME + 1000)])
def test_zeros_in_the_place_of_a_write_are_cut_off(zeros: int) -> None:
    file, ends = long_file()
    for end in ends:
        assert length_of(file[:end] + bytes(zeros)) == end
    first, second, third = ends
    for cut in range(SECTOR, third, SECTOR):
        whole = first if cut < second else second
        assert length_of(file[:cut] + bytes(zeros)) == whole
        assert length_of(file[:cut] + bytes(third - cut)) == whole


def test_what_no_crash_leaves_is_refused() -> None:
    file, (first, second, third) = long_file()
    inside = second - 40
    flipped = file[:inside] + bytes([file[inside] ^ 1]) + file[inside + 1 :]
    last = third - 40
    damaged = {
        "other bytes after the end": file + bytes(40) + b"?",
        "other bytes and zeros after the end": file + b"?" + bytes(4000),
        "a bit, and zeros after the end": flipped + bytes(4000),
        "a bit, and the last frame cut short by zeros": flipped[:4608] + bytes(4000),
        "a bit of the last frame, and zeros after it": (
            file[:last] + bytes([file[last] ^ 1]) + file[last + 1 :] + bytes(4000)
        ),
        "zeros in the middle": file[:512] + bytes(512) + file[1024:],
        "a frame of zeros before another": file[:first] + bytes(second - first) + file[second:],
        "zeros that begin within a sector": file[: third - 4] + bytes(4),
    }
    assert second < 4608 < third
    assert (third - 4) // SECTOR == (third - 1) // SECTOR
    for what, content in damaged.items():
        with pytest.raises(UnopenedError):
            pytest.fail(f"{what}: {length_of(content)}")
