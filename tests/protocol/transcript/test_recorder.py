"""Recording: when blocks are written, what the recorder refuses, how much memory it takes."""

from __future__ import annotations

import functools
import io
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from protocol import AGGREGATOR, LocalProtocolError, PartyId
from protocol.messages import SWITCH, Envelope
from protocol.transcript.entries import MAGIC, Hindered, Refused
from protocol.transcript.log import seed_log_secret
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import BLOCK_BYTES, BLOCK_ENTRIES, Recorder
from protocol.transcript.verification import verify
from tests.recorded.transcripts import (
    ANNA,
    BERT,
    DECLINED,
    HEADER,
    REPORTS,
    ROSTER,
    agreed,
    described,
    digest_of,
    envelope,
    sample,
    sent,
)
from tests.tiers import slow


def nested(depth: int) -> dict[str, Any]:
    """A map in a map, so deep."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"x": value}
    return value


def test_a_header_may_be_nested_so_deep() -> None:
    other = {"survey": nested(64), "parameters": {"x": [nested(62)]}}
    deep = agreed(msgspec.structs.replace(HEADER, **other))
    assert TranscriptReader(sample(deep).content).header == deep


def test_digest_is_known_at_any_time() -> None:
    recorder = Recorder(lambda _: None, HEADER)
    for i, item in enumerate(REPORTS, start=1):
        recorder.sent(item, now=0.0)
        assert recorder.digest() == digest_of(REPORTS[:i])


def test_a_crash_loses_nothing_that_was_flushed() -> None:
    out = io.BytesIO()
    recorder = Recorder(out.write, HEADER)
    recorder.sent(REPORTS[0], now=0.0)
    assert tuple(TranscriptReader(out.getvalue())) == ()
    recorder.flush()
    recorder.sent(REPORTS[1], now=0.0)
    assert tuple(TranscriptReader(out.getvalue())) == (sent(0, REPORTS[0]),)


def test_flushing_nothing_writes_nothing() -> None:
    out = io.BytesIO()
    recorder = Recorder(out.write, HEADER)
    before = out.getvalue()
    recorder.flush()
    assert out.getvalue() == before


def test_blocks_are_bounded() -> None:
    header = agreed(
        msgspec.structs.replace(HEADER, kinds=described("Ask", "Report", max_bytes=1 << 18))
    )
    parts: list[bytes] = []
    recorder = Recorder(parts.append, header)

    def send(sender: PartyId, seq: int, body: bytes = b"") -> None:
        item = envelope(sender, AGGREGATOR, seq, body=body)
        recorder.sent(msgspec.structs.replace(item, session=header.session), now=0.0)

    for seq in range(BLOCK_ENTRIES + 1):
        send(ANNA, seq)
    recorder.flush()
    for seq in range(9):
        send(BERT, seq, bytes(1 << 17))
    recorder.close()
    start, _, many, one, *large, rest = parts
    assert start == MAGIC + seed_log_secret(7)
    assert [part.count(b"anna") for part in (many, one)] == [2 * BLOCK_ENTRIES, 2]
    assert BLOCK_BYTES <= len(large[0]) < BLOCK_BYTES + (1 << 18)
    assert b"Ending" in rest
    assert verify(parts).intact


@pytest.mark.parametrize(
    "wrong",
    [
        envelope(ANNA, AGGREGATOR, 1),
        envelope(PartyId("carl"), AGGREGATOR, 0),
        envelope(SWITCH, AGGREGATOR, 0),
        envelope(ANNA, PartyId("carl"), 0),
        envelope(ANNA, AGGREGATOR, 0, kind="Other"),
        envelope(ANNA, AGGREGATOR, 0, body=bytes(65)),
        msgspec.structs.replace(REPORTS[0], session=bytes(16)),
    ],
)
def test_recorder_refuses_what_a_verifier_would(wrong: Envelope) -> None:
    recorder = Recorder(lambda _: None, HEADER)
    with pytest.raises(LocalProtocolError, match="invalid envelope"):
        recorder.sent(wrong, now=0.0)


def test_recorder_refuses_a_repeat_and_words_of_the_departed() -> None:
    recorder = Recorder(lambda _: None, HEADER)
    recorder.sent(REPORTS[0], now=0.0)
    with pytest.raises(LocalProtocolError):
        recorder.sent(REPORTS[0], now=0.0)
    recorder.departed(ANNA, "gone", now=0.0)
    with pytest.raises(LocalProtocolError):
        recorder.sent(REPORTS[1], now=0.0)
    with pytest.raises(LocalProtocolError, match="not on the roster"):
        recorder.departed(PartyId("carl"), "gone", now=0.0)


@pytest.mark.parametrize("unsent", [REPORTS[1], DECLINED[0], envelope(SWITCH, ANNA, 0)])
def test_recorder_refuses_a_delivery_of_what_was_not_sent(unsent: Envelope) -> None:
    recorder = Recorder(lambda _: None, HEADER)
    recorder.sent(REPORTS[0], now=0.0)
    with pytest.raises(LocalProtocolError, match="never sent"):
        recorder.delivered(unsent, now=0.0)


@pytest.mark.parametrize(
    "change",
    [
        {"survey": nested(65)},
        {"parameters": {"x": [nested(64)]}},
        {"session": b"short"},
        {"roster": ROSTER[1:]},
        {"roster": (*ROSTER, ROSTER[1])},
        {"roster": (*ROSTER, (PartyId("Carl!"), b"\x03" * 32))},
        {"roster": (*ROSTER, (PartyId("carl"), b"\x03" * 31))},
        {"kinds": HEADER.kinds[:-1]},
        {"kinds": (*HEADER.kinds, HEADER.kinds[0])},
        {"kinds": described(max_bytes=0)},
        {"kinds": described(max_bytes=1 << 40)},
        {"code": bytes(31)},
        {"neighbours": "anybody"},
        {"roles": ()},
        {"roles": ("shuffler", "helper", "another")},
        {"enrolled": (("folder", 1),)},
        {"enrolled": (("folder", 2), ("request", 0))},
        {"seed": -1},
        {"seed": 1 << 64},
        {"parameters": {"x": {1: 2}}},
        {"survey": {"x": {1, 2}}},
    ],
)
def test_recorder_refuses_a_header_that_does_not_fit(change: dict[str, Any]) -> None:
    with pytest.raises(LocalProtocolError):
        Recorder(lambda _: None, msgspec.structs.replace(HEADER, **change))


def test_nothing_follows_the_closing_record() -> None:
    recorder = Recorder(lambda _: None, HEADER)
    recorder.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        recorder.sent(REPORTS[0], now=0.0)
    with pytest.raises(LocalProtocolError, match="closed"):
        recorder.close()


def test_nothing_follows_a_block_that_could_not_be_written() -> None:
    out = io.BytesIO()

    def sink(part: bytes) -> None:
        out.write(part[: -1 if full else None])
        if full:
            raise OSError("disk full")

    full = False
    recorder = Recorder(sink, HEADER)
    full = True
    recorder.sent(REPORTS[0], now=0.0)
    with pytest.raises(OSError, match="disk full"):
        recorder.flush()
    with pytest.raises(LocalProtocolError, match="closed"):
        recorder.close()
    assert verify(out.getvalue()).torn


def test_foreign_text_and_long_excerpts_are_recorded() -> None:
    out = io.BytesIO()
    recorder = Recorder(out.write, HEADER)
    recorder.refused("link\udcff", "why\udc80", bytes(1000), now=0.0)
    recorder.close()
    assert tuple(TranscriptReader(out.getvalue())) == (
        Refused(at=0, link="link?", reason="why?", excerpt=bytes(256)),
    )
    assert verify(out.getvalue()).intact


def test_times_before_the_start_are_refused() -> None:
    recorder = Recorder(lambda _: None, HEADER)
    with pytest.raises(LocalProtocolError, match="expected at least 0"):
        recorder.sent(REPORTS[0], now=-1.0)


def many(count: int) -> Iterator[Envelope]:
    """The reports of two senders in turn."""
    for i in range(count):
        yield envelope((ANNA, BERT)[i & 1], AGGREGATOR, i >> 1, body=b"report")


def record_many(
    count: int,
    sink: Callable[[bytes], object],
    *,
    deliver: bool,
    judge_heads: bool = True,
    acknowledging: bool = False,
) -> None:
    recorder = Recorder(sink, HEADER, judge_heads=judge_heads, acknowledging=acknowledging)
    for number, item in enumerate(many(count)):
        recorder.sent(item, now=0.0)
        if deliver:
            recorder.delivered(item, now=0.0)
        if acknowledging and number % 1000 == 0:
            recorder.acknowledge()
    recorder.close()


def peak(work: Callable[[], object]) -> int:
    """The most bytes held at once."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "each"),
    [
        slow({"judge_heads": False}, 0, name="not judged"),
        pytest.param({}, 50, id="judged"),
        slow({"judge_heads": False, "acknowledging": True}, 70, name="acknowledged"),
    ],
)
def test_memory_of_recording_is_what_heads_are_judged_by(
    options: dict[str, bool], each: int
) -> None:
    few, lots = (
        peak(functools.partial(record_many, count, len, deliver=False, **options))
        for count in (20_000, 60_000)
    )
    assert lots < few + 40_000 * each + 100_000


@pytest.mark.slow
def test_memory_of_verifying_is_what_heads_are_judged_by() -> None:
    peaks = []
    for count in (5_000, 20_000):
        blocks: list[bytes] = []
        record_many(count, blocks.append, deliver=True)
        peaks.append(peak(functools.partial(verify, blocks)))
    assert peaks[1] < peaks[0] + 15_000 * 50 + 50_000


@pytest.mark.parametrize("secret", [None, bytes(31)])
def test_a_record_that_is_not_a_simulations_needs_a_secret(secret: bytes | None) -> None:
    header = msgspec.structs.replace(HEADER, seed=None)
    with pytest.raises(LocalProtocolError, match="expected a secret of 32 bytes for the log"):
        Recorder(lambda _: None, header, secret=secret)


def test_only_a_simulation_holds_something_back_and_only_what_was_sent_last() -> None:
    parts: list[bytes] = []
    recorder = Recorder(parts.append, msgspec.structs.replace(HEADER, seed=1))
    for item in REPORTS:
        recorder.sent(item, now=0.0)
    first, *_, last = REPORTS
    recorder.hindered(last, now=1.0)
    recorder.close()
    hindered = TranscriptReader(b"".join(parts))
    assert [e for e in hindered if isinstance(e, Hindered)] == [
        Hindered(at=1_000_000, sender=last.sender, recipient=last.recipient, seq=last.seq)
    ]
    assert verify(b"".join(parts)).faults == ()
    recorder = Recorder(lambda _: None, msgspec.structs.replace(HEADER, seed=1))
    with pytest.raises(LocalProtocolError, match="it was not sent last"):
        recorder.hindered(first, now=0.0)
    real = Recorder(lambda _: None, msgspec.structs.replace(HEADER, seed=None), secret=bytes(32))
    real.sent(first, now=0.0)
    with pytest.raises(LocalProtocolError, match="only the network of a simulation does that"):
        real.hindered(first, now=0.0)
