"""The wrapper: what is in frames comes out, and what cannot be opened is said."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.transcript.verification import verify
from protocol.transcript.wrapper import MAX_CONTENT, PART_BYTES, UnopenedError, Unwrapped, Wrapper
from tests.recorded.forgeries import Forgery, compress, wrapped
from tests.recorded.transcripts import sample

SKIPPABLE = b"\x50\x2a\x4d\x18\x01\x00\x00\x00x"


def options(**terms: bool | int) -> Callable[[bytes], bytes]:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, **terms)
    return zstandard.ZstdCompressor(compression_params=parameters).compress


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=300), max_size=5), st.integers(1, 50))
def test_what_was_wrapped_comes_out(parts: list[bytes], cut: int) -> None:
    wrapper = Wrapper()
    file = b"".join(map(wrapper.wrap, parts))
    chunks = [file[i : i + cut] for i in range(0, len(file), cut)]
    unwrapped = Unwrapped(chunks)
    assert list(unwrapped) == parts
    assert (unwrapped.torn, unwrapped.stored) == (False, len(file))


def test_large_content_is_cut_into_frames() -> None:
    content = bytes(2 * PART_BYTES + 1)
    assert list(map(len, Unwrapped(Wrapper().wrap(content)))) == [PART_BYTES, PART_BYTES, 1]
    assert Wrapper().wrap(b"") == b""


@pytest.mark.parametrize(
    "content",
    [b"x", bytes(300), bytes(MAX_CONTENT), hashlib.shake_256(b"").digest(300_000)],
    ids=["a byte", "a run", "a long run", "noise in three blocks"],
)
def test_a_frame_cut_anywhere_is_torn(content: bytes) -> None:
    whole, frame = Wrapper().wrap(b"before"), compress(content)
    for end in range(1, len(frame), 1 + len(frame) // 99):
        torn = Unwrapped(whole + frame[:end])
        assert list(torn) == [b"before"]
        assert (torn.torn, torn.stored) == (True, len(whole))
    assert list(Unwrapped(whole + frame)) == [b"before", content]


def test_without_a_wrapper_a_file_is_what_is_in_it() -> None:
    forgery = Forgery()
    found = verify(forgery.plain(), digest=sample().digest)
    assert found.intact
    assert found == verify(forgery.write(), digest=sample().digest)
    assert list(Unwrapped(b"")) == []


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (SKIPPABLE, "not a zstandard frame"),
        (options(write_content_size=False)(b"x" * 9), "states a size or a window"),
        (zstandard.compress(b"words " * 99), "without a checksum"),
        (compress(b""), "states a size or a window"),
        (compress(bytes(MAX_CONTENT + 1)), "states a size or a window"),
        (compress(b"x") + b"y", "not a zstandard frame"),
        (b"\x28\xb5\x2f\xfd\x20\x02\x06\x00\x00", "not a zstandard frame|malformed"),
        (b"\x28\xb5\x2f\xfd\x20\x02\x07\x00\x00", "malformed or too long"),
        # Blocks of 64 KiB, and none is the last.
        (b"\x28\xb5\x2f\xfd\x20\x02" + (b"\x00\x00\x08" + bytes(1 << 16)) * 192, "too long"),
        # A window of 16 MiB, whatever is in it.
        (b"\x28\xb5\x2f\xfd\x80\x70\x02\x00\x00\x00\x11\x00\x00xx", "states a size or a window"),
    ],
)
def test_what_cannot_be_opened_is_said(frame: bytes, message: str) -> None:
    whole = Wrapper().wrap(b"before")
    unwrapped = Unwrapped(whole + frame)
    with pytest.raises(UnopenedError, match=message):
        list(unwrapped)


def test_a_checksum_that_is_wrong_is_found() -> None:
    frame = bytearray(Wrapper().wrap(b"some content"))
    frame[-1] ^= 1
    with pytest.raises(UnopenedError, match="malformed zstandard frame"):
        list(Unwrapped(bytes(frame)))


def test_a_record_whose_wrapper_cannot_be_opened_has_no_verdict() -> None:
    """Also not against what was published: nobody can tell what is in it."""
    parts = Forgery().plain()[:900], b"\x28\xb5\x2f\xfd\x20\x02\x07\x00\x00"
    found = verify(wrapped(parts[:1]) + parts[1], digest=sample().digest)
    assert found.unopened is not None
    assert (found.faults, found.intact, found.complete) == ((), False, False)
    assert found.header is not None
