"""Audits of a run in every way, with their reports as text, JSON and page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, TypedDict

import msgspec

from protocol.audit.coalition.coalition import Coalition, Observer
from protocol.messages import AGGREGATOR, RECORD, PartyId
from protocol.simulation.rehearsal import Rehearsal
from protocol.transcript.verification import verify

Form = Literal["text", "json", "page"]
"""Form of an audit's report."""


class _Arguments(TypedDict, total=False):
    """Arguments of ``Audited.audit_reports``."""

    observer: Observer
    trail: PartyId
    worst: int
    delta: float
    replay: bool


class _Asked(NamedTuple):
    """Request for an audit: options of the command line, and the same as arguments."""

    words: str
    arguments: _Arguments
    forms: tuple[Form, ...]


class Audited(Protocol):
    """A run with a transcript that can be audited."""

    def audit_reports(
        self,
        *,
        forms: Sequence[Form] = ...,
        observer: Observer | None = ...,
        trail: PartyId | None = ...,
        worst: int | None = ...,
        delta: float = ...,
        replay: bool = ...,
    ) -> Mapping[str, str]:
        """Audit the record, and report in each of these forms."""


def check_record(rehearsal: Rehearsal) -> None:
    """Verify a run's transcript.

    Raises:
        AssertionError: it is not intact, or has another digest than was published.
    """
    verification = verify(rehearsal.content, digest=rehearsal.digest)
    for fault in verification.faults:
        raise AssertionError(f"verify: {fault}")


def check_audits(run: Audited, rehearsal: Rehearsal, *, everything: bool) -> None:
    """Audit a run and compare the reports with its rehearsal.

    Args:
        everything: whether to audit in every way, or in one.

    Raises:
        AssertionError: an audit fails, does not find the run sound, or has another epsilon than the
            ledger of the rehearsal.
    """
    for words, asked, forms in _asked(rehearsal) if everything else [_Asked("", {}, ("json",))]:
        where = f"audit {words}".strip()
        try:
            said = run.audit_reports(forms=forms, **asked)
            found = msgspec.json.decode(said["json"])
        except Exception as error:
            raise AssertionError(f"{where} fails: {type(error).__name__}: {error}") from error
        if found["verdict"] != "sound":
            first = next((f["text"] for f in found["findings"]), "the record is not whole")
            raise AssertionError(f"{where} finds the run {found['verdict']}: {first}")
        for form in forms:
            if form != "json" and "Record: sound" not in said.get(form, ""):
                raise AssertionError(f"{where}: the {form} does not say that the run is sound")
        ledger = rehearsal.ledger(asked.get("observer", rehearsal.serving))
        charged = ledger.record_epsilon if math.isfinite(ledger.record_epsilon) else None
        if found["privacy"]["record_epsilon"] != charged:
            raise AssertionError(
                f"{where} says epsilon {found['privacy']['record_epsilon']}, and the ledger of "
                f"the same run {charged}"
            )
        if asked.get("replay"):
            follow, members = found["replay"]["follow"], len(rehearsal.charter.roster.others)
            if follow != members:
                raise AssertionError(f"{where}: what {follow} of {members} members said follows")


def _asked(rehearsal: Rehearsal) -> Iterator[_Asked]:
    parties, ledger = rehearsal.charter.roster.parties, rehearsal.ledger(rehearsal.serving)
    first, last = parties[0], parties[-1]
    words = "--records"
    asked: _Arguments = {"replay": True}
    told = next((name for name in parties if name in ledger.accounts), None)
    if told is not None:
        words, asked["trail"] = f"{words} --trail {told}", told
    if len(parties) > 1:
        words, asked["worst"] = f"{words} --worst 1", 1
    yield _Asked(words, asked, ("json", "text", "page"))
    observer = Coalition((first,), ((AGGREGATOR, last),), (last,))
    words = f"--observer {first} --tap {AGGREGATOR}:{last} --key {last} --delta 0.1"
    yield _Asked(words, {"observer": observer, "delta": 0.1}, ("json", "text", "page"))
    asked = {"observer": RECORD, "delta": 0.0}
    yield _Asked(f"--observer {RECORD} --delta 0", asked, ("json", "text"))
