"""Contributions on record that a closing does not count: who was dropped for what was said."""

from __future__ import annotations

import msgspec
import pytest

from protocol.audit.audit import Audit, audit
from protocol.audit.findings import Finding
from protocol.messages import AGGREGATOR, Closed, Envelope, Message, PartyId
from protocol.session.fates import PASS, Fate, Verdict
from protocol.session.roles import Me
from protocol.session.variant import Variant
from protocol.surveys.survey import Attribute, Survey
from protocol.transcript.entries import Delivered, Departed, Entry, Header, Sent
from protocol.transcript.header import header_of
from protocol.variants import RRIndependent
from protocol.wire.codec import decode_envelope
from tests.protocol.sessions import Turn, Word, talk
from tests.recorded.runs import Run, Written, recorded, written

PARTIES = 12
QUESTION = Survey("plain", (Attribute(name="smokes", categories=("no", "yes")),))
VARIANT = RRIndependent.with_keep(QUESTION, 0.6)
SEED = 1


def says_yes(run: Run, envelope: Envelope) -> bool:
    return envelope.kind == "Report" and bool(run.message(envelope).codes.any())


@pytest.fixture(scope="module")
def honest() -> Run:
    return recorded(VARIANT, PARTIES, seed=SEED)


@pytest.fixture(scope="module")
def yes(honest: Run) -> tuple[PartyId, ...]:
    return tuple(e.sender for e in honest.said("Report") if says_yes(honest, e))


def without(names: tuple[PartyId, ...], variant: Variant = VARIANT, kind: str = "Report") -> Run:
    """The run of an aggregator that hears everything but what these say."""

    def decide(envelope: Envelope) -> Fate:
        dropped = envelope.kind == kind and envelope.sender in names
        return Fate(Verdict.DROP) if dropped else PASS

    return recorded(variant, PARTIES, seed=SEED, fate=decide, signed=True)


def said(entry: Entry, kind: str) -> Envelope | None:
    """What is sent of a kind."""
    if not isinstance(entry, Sent):
        return None
    envelope = decode_envelope(entry.envelope)
    return envelope if envelope.kind == kind else None


def plain(run: Run) -> list[Entry]:
    """The record of a hub that says nothing of a network that drops or delays."""
    return [entry for entry in run.entries if type(entry).__name__ != "Hindered"]


def closing_in(entries: list[Entry]) -> int:
    [place] = [i for i, entry in enumerate(entries) if said(entry, "Closed")]
    return place


def with_deliveries_after(entries: list[Entry]) -> list[Entry]:
    """What the closing did not wait for is handed over after it, and ignored."""
    handed = {(e.sender, e.seq) for e in entries if isinstance(e, Delivered)}
    at = entries[closing_in(entries)].at
    late: list[Entry] = [
        Delivered(at=at, sender=e.sender, recipient=AGGREGATOR, seq=e.seq, repeat=False)
        for e in map(lambda entry: said(entry, "Report"), entries)
        if e is not None and (e.sender, e.seq) not in handed
    ]
    place = closing_in(entries) + 1
    return [*entries[:place], *late, *entries[place:]]


def header(run: Run, *, simulated: bool) -> Header:
    return header_of(run.charter, seed=run.setting.seed if simulated else None)


def file_of(run: Run, entries: list[Entry], *, simulated: bool = False) -> Written:
    signer = run.setting.identities[AGGREGATOR]
    return written(header(run, simulated=simulated), entries, signer=signer)


def audited(file: Written, variant: Variant = VARIANT) -> Audit:
    return audit(lambda: [file.content], type(variant), checkpoint=file.checkpoint)


def left_out(found: Audit) -> Finding:
    """The one finding of an audit, of a record without other fault."""
    assert found.verification.intact
    assert found.replay is not None
    assert found.replay.follows is True
    [finding] = found.findings
    return finding


READ = (
    "'Report' was on record before the closing and was not counted; the aggregator could read it "
    "before it decided: "
)


@pytest.mark.parametrize("simulated", [False, True])
@pytest.mark.parametrize("delivered", [False, True])
def test_reports_that_are_dropped_for_what_they_say(
    yes: tuple[PartyId, ...], simulated: bool, delivered: bool
) -> None:
    """12 are recorded, the 6 that say yes are not handed over before the wait is closed."""
    assert len(yes) == 6
    run = without(yes)
    entries = plain(run)
    entries = with_deliveries_after(entries) if delivered else entries
    found = audited(file_of(run, entries, simulated=simulated))
    finding = left_out(found)
    assert str(finding) == READ + ", ".join(yes)
    closed, *reports = (entries[place] for place in finding.entries)
    assert said(closed, "Closed")
    assert [e.sender for r in reports if (e := said(r, "Report"))] == list(yes)
    assert finding.party is None
    assert found.verdict == "broken"
    [closing] = found.completeness.closings
    assert closing.missing == closing.left_out == yes
    assert closing.unheard == ()
