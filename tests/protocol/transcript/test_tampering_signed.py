"""What somebody who holds the file, and the aggregator's key too, can do to a signed record.

Each test is one line of the threat model: who can do it, and what finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pytest

from protocol import AGGREGATOR, RECORD, PartyId, Records
from protocol.session.roster import Identity, Signed
from protocol.transcript.entries import Delivered, Departed, Entry, Refused, Sent
from protocol.transcript.evidence import Equivocation, two_checkpoints
from protocol.transcript.signatures import ChecksHere
from protocol.transcript.verification import verify
from protocol.wire.codec import decode_envelope
from tests.recorded.forgeries import Forgery, rules
from tests.recorded.runs import SURVEY
from tests.recorded.signed import (
    ONE,
    PARTIES,
    TWO,
    Run,
    changed_report,
    finished_run,
    rewritten,
    setting,
    signed_run,
    without,
)

Change = Callable[[list[Entry]], list[Entry]]


def places(entries: list[Entry], sender: PartyId, kind: str) -> list[int]:
    """Where a member's envelopes of a kind are."""
    found = []
    for i, entry in enumerate(entries):
        if isinstance(entry, Sent):
            envelope = decode_envelope(entry.envelope)
            if (envelope.sender, envelope.kind) == (sender, kind):
                found.append(i)
    return found


def one_more(entries: list[Entry]) -> list[Entry]:
    """Says something more for a party, after its head."""
    [report], [head] = (places(entries, ONE, kind) for kind in ("Report", "Head"))
    copied = entries[report]
    assert isinstance(copied, Sent)
    # It is numbered anew when it is written.
    return [
        *entries[: head + 1],
        Sent(at=copied.at, envelope=copied.envelope),
        *entries[head + 1 :],
    ]


def heads_swapped(entries: list[Entry]) -> list[Entry]:
    """Gives a party its head before its report."""
    [report], [head] = (places(entries, ONE, kind) for kind in ("Report", "Head"))
    changed = list(entries)
    changed[report], changed[head] = entries[head], entries[report]
    return [e for e in changed if not (isinstance(e, Delivered) and e.sender == ONE)]


REWRITTEN: dict[str, tuple[Change, set[str]]] = {
    # What the aggregator can do with its own key, everything made to fit: what heads still find.
    "nothing": (lambda entries: entries, set()),
    "another report": (changed_report(ONE), {"head"}),
    "another report without its head": (changed_report(ONE, head=False), set()),
    "a report dropped": (without(sender=ONE, kinds=("Report",)), {"head"}),
    "a party dropped": (without(sender=ONE, but=("none",)), set()),
    "a head dropped": (without(sender=ONE, kinds=("Head",)), set()),
    "more in a party's name": (one_more, {"head"}),
    "another order": (heads_swapped, {"head"}),
}


@pytest.mark.parametrize("what", REWRITTEN)
def test_a_record_written_afresh_by_its_aggregator(what: str) -> None:
    """Without the party's key no head fits other words; without the head nobody signs for them."""
    change, broken = REWRITTEN[what]
    run = signed_run()
    found = verify(rewritten(run, change).content)
    assert rules(found) == broken, found.faults
    assert found.final is not None
    if what == "nothing":
        assert found.signed == "all"
    else:
        assert ONE not in found.signed_by
        assert len(found.signed_by) == PARTIES - 1


@pytest.mark.parametrize("what", sorted(set(REWRITTEN) - {"nothing"}))
def test_what_was_published_finds_every_rewriting(what: str) -> None:
    run = signed_run()
    other = rewritten(run, REWRITTEN[what][0])
    assert "digest" in rules(verify(other.content, digest=run.digest))
    found = verify(other.content, checkpoint=run.checkpoint)
    assert "published" in rules(found)
    assert found.extends is False
    if what == "another report":
        # The log is as long, so the two signatures prove that its aggregator told two stories.
        assert found.equivocation is not None
        assert found.equivocation.check() is not None
        assert found.equivocation.key == setting().identities[AGGREGATOR].public


class Late(ChecksHere):
    """Says of all signatures at the end whether they hold, as processes do."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Signed] = []

    def begin(self, claims: Sequence[Signed]) -> None:
        self.waiting += claims

    def found(self) -> list[bool]:
        super().begin(self.waiting)
        return super().found()


@pytest.mark.parametrize("what", REWRITTEN)
def test_signatures_may_be_checked_meanwhile(what: str) -> None:
    content = rewritten(signed_run(), REWRITTEN[what][0]).content
    checks = Late()
    assert verify(content, checks=checks) == verify(content)
    assert len(checks.waiting) in (PARTIES - 1, PARTIES)


def test_faults_stand_in_the_order_of_the_file_whenever_they_are_found() -> None:
    """A head that does not fit shows after all others; the fault after it was seen before."""

    def change(entries: list[Entry]) -> list[Entry]:
        [again] = [e for e in entries if isinstance(e, Delivered) and e.sender == TWO]
        return [*changed_report(ONE)(entries), again]

    faults = verify(rewritten(signed_run(), change).content, checks=Late()).faults
    assert [fault.rule for fault in faults] == ["head", "delivered-twice"]
    assert faults[0].entry < faults[1].entry  # type: ignore[operator]  # both are of entries


def left_out(kind: type[Entry]) -> Change:
    return lambda entries: [entry for entry in entries if not isinstance(entry, kind)]


def unheard_left_out(entries: list[Entry]) -> list[Entry]:
    """Leaves out what was delivered to the aggregator, which signs no head."""
    return [e for e in entries if not (isinstance(e, Delivered) and e.recipient == AGGREGATOR)]


@pytest.mark.parametrize("change", [unheard_left_out, left_out(Departed)])
def test_what_the_digest_does_not_bind_the_checkpoint_does(change: Change) -> None:
    """Deliveries to the aggregator, departures: the digest is the same, the log is not."""
    run = signed_run()
    other = rewritten(run, change)
    assert verify(other.content, digest=run.digest).intact
    assert rules(verify(other.content, checkpoint=run.checkpoint)) == {"published"}


def test_a_refusal_put_in_is_found() -> None:
    run = signed_run()
    invented = Refused(at=0, link=ONE, reason="late", excerpt=b"")
    other = rewritten(run, lambda entries: [invented, *entries])
    assert verify(other.content, digest=run.digest).intact
    assert rules(verify(other.content, checkpoint=run.checkpoint)) == {"published"}


def test_two_transcripts_of_one_session() -> None:
    """A fork: told apart by whoever sees what both published, from the checkpoints alone."""
    run = signed_run()
    fork = rewritten(run, changed_report(TWO))
    evidence = two_checkpoints(run.checkpoint, fork.checkpoint)
    assert evidence is not None
    assert evidence.check() == f"the checkpoint of size {run.checkpoint.size}"
    # Another session is no fork.
    assert two_checkpoints(run.checkpoint, finished_run(setting(seed=2)).checkpoint) is None


def head_evidence(run: Run, other: Run) -> Equivocation:
    """What the heads of one party in two transcripts come to."""
    first, second = [record.message(record.said("Head", TWO)[0]) for record in (run, other)]
    return Equivocation(
        key=setting().charter.roster.key(TWO),
        first=run.statement(TWO),
        first_signature=first.signature,
        second=other.statement(TWO),
        second_signature=second.signature,
    )


def test_a_party_that_tells_two_stories() -> None:
    """With other records in the same session: two heads over one message each."""
    where = setting()
    other = Records(SURVEY, (where.holdings[TWO].codes + 1) % SURVEY.sizes)
    changed = msgspec.structs.replace(where, holdings={**where.holdings, TWO: other})
    evidence = head_evidence(signed_run(), finished_run(changed))
    assert evidence.check() == "the head of 'party-2' over 1 envelopes"
    assert head_evidence(signed_run(), signed_run()).check() is None


def test_whoever_has_no_key_can_only_leave_out() -> None:
    """A holder of the file: log and digest can be made to fit, signatures cannot."""
    run = signed_run()
    mallory = Identity(AGGREGATOR, b"\7" * 32)
    forgery = Forgery(run.content)
    forgery.entries[forgery.place("party-1", 0)][2][5] = b"\x91\x91\x00"
    assert rules(verify(forgery.write())) == {"head", "checkpoint"}
    forgery.notes.clear()
    assert rules(verify(forgery.write())) == {"head"}
    forgery.entries = [e for e in forgery.entries if e[0] != "Sent" or e[2][4] != "Head"]
    found = verify(forgery.write())
    assert found.faults == ()
    assert (found.signed, found.checkpoints, found.final) == ("none", 0, None)
    # A roster of one's own keys is another survey, which whoever knows the roster sees.
    forgery.header["roster"][0][1] = mallory.public
    assert verify(forgery.write(), digest=run.digest).faults != ()


def test_a_record_cut_short_keeps_what_was_signed_so_far() -> None:
    run = signed_run()
    for size in range(0, len(run.content), 97):
        found = verify(run.content[:size])
        assert found.faults == ()
        assert not found.intact
        assert rules(verify(run.content[:size], checkpoint=run.checkpoint)) <= {"published"}
    assert RECORD not in found.signed_by


@pytest.mark.slow
def test_every_change_of_a_note_is_found_with_all_else_made_to_fit() -> None:
    run = signed_run()
    note = run.checkpoint.note
    for i in range(len(note)):
        forgery = Forgery(run.content)
        forgery.notes[forgery.size] = note[:i] + chr(ord(note[i]) ^ 1) + note[i + 1 :]
        assert rules(verify(forgery.write())) == {"checkpoint"}, i
