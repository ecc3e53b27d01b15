"""What is recorded reaches its sink in time, and the record says how it ended."""

from __future__ import annotations

import pytest
import trio

from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from tests.recorded.transcripts import ASKS, HEADER
from transports.records.recording import recording


async def test_what_waits_is_written_within_the_interval(autojump_clock: object) -> None:
    parts: list[bytes] = []
    recorder = Recorder(parts.append, HEADER)
    async with recording(recorder, every=0.3):
        recorder.sent(ASKS[0], now=0.0)
        written = len(parts)
        await trio.sleep(0.35)
        assert len(parts) == written + 1
        assert len(list(TranscriptReader(b"".join(parts)))) == 1
        await trio.sleep(1.0)
        assert len(parts) == written + 1
    reader = TranscriptReader(b"".join(parts))
    assert len(list(reader)) == 1
    assert reader.ending is not None
    assert reader.ending.complete


async def test_an_error_closes_the_record_as_incomplete_and_comes_out_as_it_is() -> None:
    parts: list[bytes] = []
    with pytest.raises(LookupError, match="mine"):
        async with recording(Recorder(parts.append, HEADER)):
            raise LookupError("mine")
    reader = TranscriptReader(b"".join(parts))
    assert list(reader) == []
    assert reader.ending is not None
    assert not reader.ending.complete
    assert reader.ending.reason == "LookupError"


@pytest.mark.parametrize("grouped", [False, True])
async def test_an_error_that_is_not_final_closes_nothing(grouped: bool) -> None:
    parts: list[bytes] = []
    mine = LookupError("mine")

    def final(error: BaseException) -> bool:
        return error is not mine

    with pytest.raises((LookupError, ExceptionGroup), match="mine"):
        async with recording(Recorder(parts.append, HEADER), final=final):
            raise ExceptionGroup("mine", [mine]) if grouped else mine
    reader = TranscriptReader(b"".join(parts))
    assert list(reader) == []
    assert reader.ending is None


async def test_a_cancelled_run_is_incomplete() -> None:
    parts: list[bytes] = []
    with trio.CancelScope() as scope:
        async with recording(Recorder(parts.append, HEADER)):
            scope.cancel()
            await trio.sleep_forever()
    reader = TranscriptReader(b"".join(parts))
    assert list(reader) == []
    assert reader.ending is not None
    assert (reader.ending.complete, reader.ending.reason) == (False, "Cancelled")


async def test_a_sink_that_fails_ends_the_run(autojump_clock: object) -> None:
    def full(chunk: bytes) -> None:
        # There is room for the header alone.
        if len(parts) == 2:
            raise OSError("no space left")
        parts.append(chunk)

    parts: list[bytes] = []
    recorder = Recorder(full, HEADER)
    recorder.sent(ASKS[0], now=0.0)
    with pytest.raises(OSError, match="no space left"):
        async with recording(recorder):
            await trio.sleep_forever()
