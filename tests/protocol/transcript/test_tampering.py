"""Damage to the bytes of a transcript: flipped, taken out, moved, added."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import TranscriptError
from protocol.transcript.reader import RULES, TranscriptReader
from protocol.transcript.verification import verify
from tests.recorded.forgeries import Forgery, plain, rules
from tests.recorded.transcripts import signed_sample
from tests.tiers import slow


@pytest.mark.slow
@pytest.mark.parametrize("signed", [slow(False), True])
def test_a_flipped_bit_is_found_at_every_byte_of_the_log(signed: bool) -> None:
    """Without a signature the last entry's ``complete`` and ``reason`` are its own word."""
    file = Forgery(signed_sample().content if signed else None).write()
    for i in range(len(file) - (0 if signed else 2)):
        flipped = bytearray(file)
        flipped[i] ^= 1 << i % 8
        found = verify(bytes(flipped))
        assert not found.intact, i
        assert found.faults or found.torn, i


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


@pytest.mark.parametrize("file", [b"hello", b"sottovoce transcript 1\n" * 5, b"\0" * 4096])
def test_a_file_of_another_format_is_named(file: bytes) -> None:
    found = verify(file)
    assert found.faults[0].rule == "magic"
    assert found.header is None
    with pytest.raises(TranscriptError, match="begins with"):
        TranscriptReader(file)


@pytest.mark.slow
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
