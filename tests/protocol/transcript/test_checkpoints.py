"""Checkpoints: what they say, where they come, and what a verifier holds against them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from protocol.crypto.merkle import EMPTY_ROOT, Tree
from protocol.errors import LocalProtocolError
from protocol.messages import AGGREGATOR, RECORD, PartyId
from protocol.session.roster import Identity
from protocol.transcript.checkpoints import (
    FIRST,
    Progress,
    SignedCheckpoint,
    Statement,
    decode_statement,
    encode_statement,
    ended,
    sign_statement,
    statement_hash,
)
from protocol.transcript.entries import Checkpoint, Entry, Refused, Sent, encode_header
from protocol.transcript.header import header_of
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.recorder import Recorder
from protocol.transcript.verification import Verification, verify
from protocol.wire.codec import decode_envelope
from tests.recorded.forgeries import Forgery, rules
from tests.recorded.runs import written
from tests.recorded.signed import ONE, TWO, Run, rewritten, run_of, setting, signed_run, without
from tests.recorded.transcripts import HEADER, envelope, sent
from tests.vectors.make import tree_hash

pack = msgspec.msgpack.encode
AGGREGATORS = setting().identities[AGGREGATOR]


def statements(run: Run) -> list[tuple[int, Statement]]:
    return [
        (i, decode_statement(entry.statement))
        for i, entry in enumerate(run.entries)
        if isinstance(entry, Checkpoint)
    ]


def test_a_checkpoint_says_what_the_format_says() -> None:
    """All of the last checkpoint, from the entries and the description alone."""
    run = signed_run()
    entries = run.entries
    at, last = statements(run)[-1]
    header = TranscriptReader(run.content).header
    assert at == len(entries) - 1 == last.entries
    assert last.session == header.session
    log = hashlib.blake2b(encode_header(header), digest_size=32)
    for entry in entries[:at]:
        encoded = pack(entry)
        log.update(len(encoded).to_bytes(4, "big") + encoded)
    assert last.log == log.digest()
    (_, before), _ = statements(run)
    signed = b"sottovoce checkpoint 1\0" + pack(list(msgspec.structs.astuple(before)))
    assert last.previous == hashlib.sha256(signed).digest()
    assert (before.number, before.previous) == (0, FIRST)
    assert msgspec.structs.astuple(before)[6:] == (None,) * 4
    said: dict[str, list[bytes]] = {str(name): [] for name, _ in header.roster}
    for entry in entries:
        if isinstance(entry, Sent):
            said[decode_envelope(entry.envelope).sender].append(entry.envelope)
    party = [[["Report", -1]], [], True]
    leaves = [
        pack([name, len(of), tree_hash(of), *([[], [], False] if name == AGGREGATOR else party)])
        for name, of in said.items()
    ]
    assert last.standing == tree_hash(leaves)
    assert last.result == hashlib.sha256(b"\0" + said["aggregator"][-1]).digest()
    assert (last.complete, last.reason) == (True, hashlib.sha256(b"").digest())
    assert last.digest == verify(run.content).digest
    assert SignedCheckpoint(last, AGGREGATORS.public, run.checkpoint.signature).valid


def test_checkpoints_are_found_sound() -> None:
    run = signed_run()
    found = verify(run.content)
    assert found.intact
    assert found.checkpoints == 2
    assert found.final == run.checkpoint
    assert not found.compared
    assert found.extends is None


def test_a_record_without_a_signer_has_none() -> None:
    assert written(HEADER, ()).checkpoint is None


@pytest.mark.parametrize("name", ["party-1", "aggregator"])
def test_nobody_but_the_aggregator_signs(name: str) -> None:
    header = header_of(setting().charter)
    with pytest.raises(LocalProtocolError, match="not the aggregator of the roster"):
        Recorder(lambda _: None, header, signer=Identity(PartyId(name), b"\1" * 32))


def closings(count: int, gap: int, members: int) -> list[int]:
    """The entries at which checkpoints are, of a run of closings with so many entries between."""
    names = [PartyId(f"party-{i}") for i in range(1, members)]
    signer = Identity(AGGREGATOR, bytes(32))
    header = msgspec.structs.replace(
        HEADER,
        roster=(
            (AGGREGATOR, signer.public),
            *((n, i.to_bytes(32, "little")) for i, n in enumerate(names, 2)),
        ),
    )
    noise = [Refused(at=0, link="", reason="x", excerpt=b"")] * gap
    entries = [
        entry
        for i in range(count)
        for entry in (*noise, sent(0, envelope(AGGREGATOR, RECORD, i, kind="Closed")))
    ]
    made = written(header, entries, signer=signer)
    assert verify(made.content).intact
    return [i for i, e in enumerate(made.entries) if isinstance(e, Checkpoint)]


def test_a_checkpoint_costs_no_more_than_the_entries_before_it() -> None:
    """One after every closing if there were as many entries as members; the last one always."""
    assert closings(4, 9, members=10) == [10, 21, 32, 43, 44]
    assert closings(4, 8, members=10) == [18, 37, 38]
    assert closings(20, 0, members=10) == [10, 21, 22]
    assert closings(0, 0, members=10) == [0]
    assert closings(3, 0, members=1) == [1, 3, 5, 6]


def test_a_run_that_fails_is_signed_for_too() -> None:
    header = header_of(setting().charter)
    failed = written(header, (), signer=AGGREGATORS, complete=False, reason="QuorumError")
    found = verify(failed.content)
    assert not found.faults
    assert found.final is not None
    assert found.final.statement.result is None


def test_a_result_is_the_aggregators_last_word_to_the_record() -> None:
    progress = Progress(session=bytes(16), members=(AGGREGATOR,), header=b"")
    trees = {"aggregator": Tree()}

    def result() -> bytes | None:
        ending = ended(complete=True, reason="")
        said = progress.statement(trees, entries=0, digest=lambda: EMPTY_ROOT, ending=ending)
        return said.result

    def say(recipient: PartyId, kind: str, encoded: bytes) -> None:
        progress.said(envelope(AGGREGATOR, recipient, 0, kind=kind), encoded)

    assert result() is None
    say(RECORD, "Pooled", b"word")
    assert result() == hashlib.sha256(b"\0word").digest()
    say(ONE, "Ask", b"another")
    assert result() is None
    say(RECORD, "Closed", b"closing")
    assert result() is None


Change = Callable[[Forgery], Any]


def place(forgery: Forgery, number: int = -1) -> int:
    """Where a checkpoint is."""
    return [i for i, e in enumerate(forgery.entries) if e[0] == "Checkpoint"][number]


def resigned(forgery: Forgery, which: int = -1, /, **changes: Any) -> None:
    """Another statement, with the aggregator's own signature."""
    entry = forgery.entries[place(forgery, which)]
    statement = msgspec.structs.replace(decode_statement(entry[2]), **changes)
    entry[2:] = [encode_statement(statement), sign_statement(AGGREGATORS, statement)]


def edited(place_: int, value: object) -> Change:
    def change(forgery: Forgery) -> None:
        forgery.entries[place(forgery)][place_] = value

    return change


def resigning(name: str, value: object) -> Change:
    return lambda forgery: resigned(forgery, **{name: value})


CHANGES: dict[str, tuple[Change, str]] = {
    "signature": (edited(3, bytes(64)), "not signed by the aggregator"),
    "noise": (edited(2, b"\xc1"), "malformed checkpoint"),
    "trailing": (
        lambda f: f.entries[place(f)].__setitem__(2, f.entries[place(f)][2] + b"\0"),
        "malformed checkpoint",
    ),
    "removed last": (lambda f: f.entries.pop(), "closed without a valid last checkpoint"),
    "removed first": (lambda f: f.entries.pop(place(f, 0)), "number, "),
    "moved first": (
        lambda f: f.entries.insert(place(f, 0) + 1, f.entries.pop(place(f, 0))),
        "entries, log",
    ),
    "doubled first": (
        lambda f: f.entries.insert(place(f, 0), list(f.entries[place(f, 0)])),
        "it comes 0 entries after the one before",
    ),
    "doubled last": (
        lambda f: f.entries.append(list(f.entries[-1])),
        "an entry after the last checkpoint",
    ),
    "entry after": (
        lambda f: f.entries.append(["Refused", 0, "x", "x", b""]),
        "an entry after the last checkpoint",
    ),
    "entry dropped": (
        lambda f: f.entries.pop(next(i for i, e in enumerate(f.entries) if e[0] == "Departed")),
        "entries, log not as in the record",
    ),
    "time": (lambda f: f.entries[0].__setitem__(1, 1), "log not as in the record"),
    **{
        name: (resigning(name, value), f"{name} not as in the record")
        for name, value in (
            ("session", b"\1" * 16),
            ("number", 2),
            ("log", bytes(32)),
            ("digest", bytes(32)),
            ("previous", bytes(32)),
            ("standing", bytes(32)),
            ("result", bytes(32)),
        )
    },
    "nothing published": (lambda f: resigned(f, result=None), "result not as in the record"),
    "last one is none": (
        lambda f: resigned(f, standing=None, result=None),
        "it comes 2 entries after the one before",
    ),
    "first one is last": (
        lambda f: resigned(f, 0, standing=bytes(32)),
        "standing, ",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_checkpoint_that_does_not_fit_is_found(what: str) -> None:
    change, says = CHANGES[what]
    forgery = Forgery(signed_run().content)
    change(forgery)
    found = verify(forgery.write())
    assert rules(found) == {"checkpoint"}, found.faults
    assert any(says in fault.message for fault in found.faults), found.faults
    assert found.final is None or what in ("entry after", "doubled last", "doubled first")


def test_another_key_signs_no_checkpoint() -> None:
    """Whoever rewrites the file with a key of his own is not the roster's aggregator."""
    forgery = Forgery(signed_run().content)
    forgery.header["roster"][0][1] = Identity(AGGREGATOR, b"\1" * 32).public
    found = verify(forgery.write())
    assert any("not signed by the aggregator" in fault.message for fault in found.faults)


def test_hostile_checkpoints_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes too soon, is not signed, or comes after the last is refused before any hashing."""
    made: list[object] = []
    original = Progress.statement

    def counted(progress: Progress, *args: Any, **terms: Any) -> Statement:
        made.append(terms)
        return original(progress, *args, **terms)

    monkeypatch.setattr(Progress, "statement", counted)
    forgery = Forgery(signed_run().content)
    first = forgery.entries[place(forgery, 0)]
    forgery.entries[place(forgery, 0)] = [*first[:3], bytes(64)]
    forgery.entries += [list(forgery.entries[-1]) for _ in range(50)]
    assert not verify(forgery.write()).intact
    assert len(made) == 1


def given(run: Run, checkpoint: SignedCheckpoint) -> Verification:
    return verify(run.content, checkpoint=checkpoint)


def test_a_record_extends_what_was_published_of_it() -> None:
    run = signed_run()
    for entry in run.entries:
        if isinstance(entry, Checkpoint):
            statement = decode_statement(entry.statement)
            published = SignedCheckpoint(statement, AGGREGATORS.public, entry.signature)
            found = given(run, published)
            assert found.intact
            assert found.extends is True
            assert found.compared == statement.final
            assert found.equivocation is None


def test_another_record_does_not() -> None:
    run = signed_run()
    # The aggregator drops a party's report, and writes everything else afresh.
    other = rewritten(run, without(sender=ONE, but=("nothing",)))
    assert verify(other.content).faults == ()
    found = given(other, run.checkpoint)
    assert rules(found) == {"published"}
    assert found.extends is False
    assert found.equivocation is not None
    assert found.equivocation.check() == "checkpoint 1"


def test_times_are_bound_by_what_was_published() -> None:
    run = signed_run()

    def later(entries: list[Entry]) -> list[Entry]:
        return [msgspec.structs.replace(entry, at=entry.at + 1) for entry in entries]

    other = rewritten(run, later)
    assert verify(other.content, digest=run.checkpoint.statement.digest).intact
    assert "log, previous not as in the record" in str(given(other, run.checkpoint).faults)


def test_a_file_that_breaks_off_before_is_no_extension() -> None:
    run = signed_run()
    found = verify(run.content[: len(run.content) // 2], checkpoint=run.checkpoint)
    assert rules(found) == {"published"}
    assert "the record has 0" in str(found.faults)
    assert verify(b"", checkpoint=run.checkpoint).extends is False


def test_a_published_checkpoint_has_to_be_signed_by_the_rosters_aggregator() -> None:
    run = signed_run()
    for forged in (
        msgspec.structs.replace(run.checkpoint, signature=bytes(64)),
        msgspec.structs.replace(run.checkpoint, key=b"\1" * 32),
        SignedCheckpoint(
            run.checkpoint.statement,
            setting().identities[ONE].public,
            sign_statement(setting().identities[ONE], run.checkpoint.statement),
        ),
    ):
        found = given(run, forged)
        assert rules(found) == {"published"}
        assert "not signed by the roster's aggregator" in str(found.faults)


def test_a_checkpoint_of_another_session() -> None:
    other = run_of(setting(seed=2))
    found = given(signed_run(), other.checkpoint)
    assert rules(found) == {"published"}


def test_a_statement_has_one_encoding() -> None:
    statement = signed_run().checkpoint.statement
    encoded = encode_statement(statement)
    assert len(encoded) <= 300
    assert decode_statement(encoded) == statement
    assert statement_hash(encoded) == hashlib.sha256(b"sottovoce checkpoint 1\0" + encoded).digest()
    fields = list(msgspec.structs.astuple(statement))
    for i, value in ((0, b"short"), (1, -1), (2, "3"), (3, bytes(31)), (6, b""), (7, 1)):
        with pytest.raises(ValueError, match="malformed"):
            decode_statement(pack([*fields[:i], value, *fields[i + 1 :]]))
    for forged in (pack(fields[:-1]), pack([*fields, 1]), encoded + b"\0", b"", b"\xc1"):
        with pytest.raises(ValueError, match="malformed"):
            decode_statement(forged)
    longer = encoded.replace(b"\x01\x2e", b"\x01\xcc\x2e", 1)
    assert msgspec.msgpack.decode(longer) == fields
    with pytest.raises(ValueError, match="canonical"):
        decode_statement(longer)


def test_no_repr_shows_much() -> None:
    run = signed_run()
    shown = repr([e for e in run.entries if isinstance(e, Checkpoint)]) + repr(run.checkpoint)
    assert len(shown) < 500
    assert TWO not in shown
