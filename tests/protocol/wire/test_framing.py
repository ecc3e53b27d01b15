"""Frames: whole whatever the cuts, bounded whatever the length."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import RemoteProtocolError
from protocol.wire.framing import FrameReader, frames

payloads = st.lists(st.binary(max_size=30), max_size=10)


@settings(deadline=None, max_examples=150)
@given(sent=payloads, cuts=st.lists(st.integers(0, 400), max_size=12))
def test_cut_anywhere(sent: list[bytes], cuts: list[int]) -> None:
    stream = frames(sent)
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    reader = FrameReader(30)
    received: list[bytes] = []
    for start, stop in pairwise(places):
        received += reader.feed(stream[start:stop])
    assert received == sent
    assert not reader.in_frame


def test_payloads_do_not_change_with_what_follows() -> None:
    reader = FrameReader(10)
    chunk = bytearray(frames([b"abc"]))
    (payload,) = reader.feed(chunk)
    chunk[:] = bytes(len(chunk))
    reader.feed(frames([b"xyz"]))
    assert payload == b"abc"


@pytest.mark.parametrize("length", [101, 2**31, 2**32 - 1])
def test_an_oversize_frame_is_refused_by_its_announcement_alone(length: int) -> None:
    reader = FrameReader(100)
    reader.feed(frames([b"x"]))
    with pytest.raises(RemoteProtocolError):
        reader.feed(struct.pack(">I", length))
    with pytest.raises(RemoteProtocolError):
        reader.feed(b"")


def test_a_raised_cap_holds_from_the_next_frame() -> None:
    reader = FrameReader(2)
    assert reader.feed(frames([b"ab"])) == [b"ab"]
    reader.cap = 4
    assert reader.cap == 4
    assert reader.feed(frames([b"abcd"])) == [b"abcd"]


def test_the_buffer_is_bounded_by_one_frame() -> None:
    reader = FrameReader(100)
    for _ in range(1000):
        reader.feed(frames([b"x" * 100]) + frames([b"y" * 100])[:50])
        reader.feed(frames([b"y" * 100])[50:])
    assert len(reader._buffer) == 0
    reader.feed(frames([b"x" * 100])[:-1])
    assert len(reader._buffer) == 103
