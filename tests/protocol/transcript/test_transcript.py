"""Reading transcripts: what is read, what the digest binds, what a crash leaves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import AGGREGATOR, PartyId, TranscriptError
from protocol.transcript.entries import MAGIC, Ending
from protocol.transcript.log import LOG_SECRET_BYTES, seed_log_secret
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import verify
from tests.recorded.forgeries import Forgery
from tests.recorded.transcripts import (
    ANNA,
    ASKS,
    BERT,
    DECLINED,
    ENTRIES,
    HEADER,
    REPORTS,
    ROSTER,
    SESSION,
    agreed,
    described,
    digest_of,
    sample,
    signed_sample,
)
from tests.vectors.formats import tree_hash

GOLDEN = Path(__file__).parents[2] / "golden" / "transcript-3.hex"
GOLDEN_DIGEST = "d5604f25eef8c3bd7c96db3418c5f9c930b8c05fb820a894f4652861190eb38e"
SIGNED = GOLDEN.with_name("transcript-3-signed.hex")


def ends_of(file: bytes) -> list[int]:
    """Where the records of a file end."""
    at = len(MAGIC) + LOG_SECRET_BYTES
    ends = [at]
    while at < len(file):
        at += 4 + int.from_bytes(file[at : at + 4], "big")
        ends.append(at)
    return ends


def test_what_was_recorded_is_read() -> None:
    file = sample().content
    reader = TranscriptReader(file)
    assert reader.header == HEADER
    assert tuple(reader) == ENTRIES
    assert reader.ending == Ending(
        log=Forgery().root(Forgery().contents()[:-1]),
        complete=True,
        reason="",
    )
    assert reader.secret == seed_log_secret(7)
    assert reader.fault is None
    assert not reader.torn


def test_a_sound_file_is_intact() -> None:
    file, digest = sample().content, sample().digest
    found = verify(file, digest=digest)
    assert found.intact
    assert found.faults == ()
    assert found.compared
    assert (found.complete, found.torn, found.digest) == (True, False, digest)
    assert (found.entries, found.messages, found.undelivered) == (13, 6, 1)
    assert found.sent_by == ((AGGREGATOR, 3), (ANNA, 2), (BERT, 1))
    assert found.header == HEADER
    assert not verify(file).compared


def test_digest_is_what_the_format_says() -> None:
    digest = sample().digest
    said = {AGGREGATOR: ASKS, ANNA: REPORTS, BERT: DECLINED}
    leaves = [msgspec.msgpack.encode([SESSION, HEADER.seed])]
    for name, _ in ROSTER:
        encoded = [msgspec.msgpack.encode(item) for item in said[name]]
        leaves.append(msgspec.msgpack.encode([name, len(encoded), tree_hash(encoded)]))
    assert digest == tree_hash(leaves)


@settings(deadline=None, max_examples=40)
@given(st.permutations([0, 0, 0, 1, 1, 2]))
def test_digest_does_not_depend_on_interleaving(order: list[int]) -> None:
    turns = [iter(ASKS), iter(REPORTS), iter(DECLINED)]
    assert digest_of([next(turns[i]) for i in order]) == sample().digest


@pytest.mark.parametrize(
    "change",
    [
        {"transport": "tcp"},
        {"transport": None},
        {"program": "2.0"},
        {"parameters": {"quorum": 2, "epsilon": 1.5}},
    ],
)
def test_digest_does_not_bind(change: dict[str, Any]) -> None:
    assert sample(agreed(msgspec.structs.replace(HEADER, **change))).digest == sample().digest


@pytest.mark.parametrize(
    "change",
    [
        {"variant": "rr-joint"},
        {"parameters": {"epsilon": 1.25, "quorum": 2}},
        {"survey": {}},
        {"roster": (*ROSTER[:2], (BERT, b"\x03" * 32))},
        {"roster": (ROSTER[0], ROSTER[2], ROSTER[1])},
        {"roster": (*ROSTER, (PartyId("carl"), b"\x03" * 32))},
        {"kinds": described("Ask", "Report", "More")},
        {"kinds": described("Ask", "Report", max_bytes=65)},
        {"seed": None},
    ],
)
def test_digest_binds(change: dict[str, Any]) -> None:
    assert sample(agreed(msgspec.structs.replace(HEADER, **change))).digest != sample().digest


def test_digest_binds_session_body_order_and_number() -> None:
    other = agreed(msgspec.structs.replace(HEADER, nonce=bytes(16)))
    moved = [msgspec.structs.replace(item, session=other.session) for item in REPORTS]
    swapped = [
        msgspec.structs.replace(item, body=REPORTS[1 - i].body) for i, item in enumerate(REPORTS)
    ]
    digests = {
        digest_of(REPORTS),
        digest_of(REPORTS[:1]),
        digest_of(moved, other),
        digest_of(swapped),
        digest_of([msgspec.structs.replace(item, recipient=BERT) for item in REPORTS]),
        digest_of([msgspec.structs.replace(item, sender=BERT) for item in REPORTS]),
    }
    assert len(digests) == 6


def test_a_crash_at_any_byte_leaves_a_readable_prefix() -> None:
    file, digest = sample().content, sample().digest
    boundaries = ends_of(file)
    for size in range(len(file)):
        found = verify(file[:size])
        assert found.faults == (), size
        assert not found.complete, size
        assert not found.intact, size
        assert found.torn == (size not in boundaries), size
        assert found.verdict == "incomplete"
        try:
            reader = TranscriptReader(file[:size])
        except TranscriptError:
            assert found.header is None
            continue
        entries = tuple(reader)
        assert entries == ENTRIES[: len(entries)]
        assert len(entries) == found.entries
        assert reader.torn == found.torn
        assert reader.fault is None
        assert (reader.ending is None) == (len(entries) < len(ENTRIES) or size < boundaries[-1])
    assert verify(file, digest=digest).intact


def test_an_aborted_run_is_closed_but_not_complete() -> None:
    out = io.BytesIO()
    recorder = Recorder(out.write, HEADER)
    recorder.close(complete=False, reason="too few reports")
    found = verify(out.getvalue())
    assert found.faults == ()
    assert not found.complete
    assert not found.intact
    assert found.ending is not None
    assert found.ending.reason == "too few reports"


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(min_value=0, max_value=200), max_size=30))
def test_chunks_may_be_cut_anywhere(cuts: list[int]) -> None:
    file, digest = sample().content, sample().digest

    def chunks() -> Iterator[bytes]:
        start = 0
        for cut in cuts:
            yield file[start : start + cut]
            start += cut
        yield file[start:]

    assert tuple(TranscriptReader(chunks())) == ENTRIES
    assert verify(chunks(), digest=digest).intact


def test_no_repr_shows_a_seed_or_a_body() -> None:
    seeded = agreed(msgspec.structs.replace(HEADER, seed=987_654_321))
    file = sample(seeded).content
    shown = repr((seeded, ENTRIES, verify(file)))
    assert "987654321" not in shown
    assert "anna 0" not in shown
    assert "GET /" not in shown


def test_golden_file_is_read_and_written_the_same() -> None:
    file = bytes.fromhex(GOLDEN.read_text())
    written, digest = sample().content, sample().digest
    assert digest.hex() == GOLDEN_DIGEST
    assert verify(file, digest=digest).intact
    assert tuple(TranscriptReader(file)) == ENTRIES
    assert written == file
    assert written.startswith(b"sottovoce transcript 3\n")


def test_golden_signed_file_is_read_and_written_the_same() -> None:
    """A head and three checkpoints: Ed25519 signs the same content with the same bytes."""
    file = bytes.fromhex(SIGNED.read_text())
    checkpoint = signed_sample().checkpoint
    assert signed_sample().content == file
    found = verify(file, checkpoint=checkpoint)
    assert found.intact
    assert (found.signed, found.signed_by) == ("all", (ANNA,))
    assert (found.checkpoints, found.final) == (3, checkpoint)
