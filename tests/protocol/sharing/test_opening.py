"""What opens a sum: anybody can check it, no forgery of it passes, and a survey may withhold it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import trio

from protocol import AGGREGATOR, Message, PartyId, SecureSum, Stream
from protocol.audit.audit import Audit, audit
from protocol.audit.disclosure import Disclosure
from protocol.crypto.sealing import seal
from protocol.messages import Closed, Envelope
from protocol.session.machine import Machine
from protocol.sharing import messages, sparse
from protocol.sharing.messages import Dealt, Graph, Opening
from protocol.simulation.setting import make_setting
from protocol.transcript.entries import Entry, Sent
from protocol.transcript.reader import TranscriptReader
from protocol.variants import RRClusters, SecureSumVariant
from protocol.wire.codec import Codec, decode_envelope, encode_envelope
from tests.live import Live, run_live
from tests.protocol.sessions import SURVEY, answers
from tests.protocol.sharing.test_sums import vanishing
from tests.protocol.sharing.test_sums_attacks import (
    PARTIES,
    WARY,
    change,
    flipped,
    moved,
    rewriting,
)
from tests.recorded.runs import Run, written
from tests.recorded.signed import rewritten, without
from tests.tiers import paired, thinned

ONE, TWO, THREE, FOUR = PARTIES[:4]
GONE = {ONE: "Upload", FOUR: "Unmask"}
"""One party leaves the key to its seeds to be opened, and one is silent at the end."""

COUNTS = SecureSumVariant(survey=SURVEY, sums=WARY)
CLUSTERS = RRClusters(survey=SURVEY, p=0.6, tv=6, td=0.1, dependence="pair-rr", sums=WARY)
EVERYONE = msgspec.structs.replace(COUNTS, everyone=True)


def finished_run(
    variant: SecureSumVariant = COUNTS,
    gone: Mapping[PartyId, str] = GONE,
    rewrite: Callable[[Envelope, Message], Message | None] | None = None,
) -> Run:
    """A sum without a seed on record, by an aggregator that signs."""
    setting = make_setting(variant, answers(SURVEY, len(PARTIES)), seed=1)
    options: dict[str, Any] = {}
    if rewrite is not None:
        options["exchange"] = rewriting(setting.charter.codec, rewrite)
    return Run(setting, fate=vanishing(gone), seeded=False, signed=True, **options)


def audited(run: Run, content: bytes, *, keyed: bool = False) -> Audit:
    """What an auditor finds who has nothing but the record, or the aggregator's key too."""
    key = Disclosure(member=AGGREGATOR, identity=run.setting.identities[AGGREGATOR])
    kind = type(run.charter.variant)
    return audit(lambda: [content], kind, disclosed=[key] if keyed else [])


def forged(run: Run, changes: Mapping[str, Mapping[str, Any]]) -> bytes:
    """The record as its aggregator could sign it, with fields of its own messages changed."""
    codec = run.charter.codec
    rewrites = [change(kind, AGGREGATOR, None, **fields) for kind, fields in changes.items()]

    def changed(entries: list[Entry]) -> list[Entry]:
        return [_changed(entry) for entry in entries]

    def _changed(entry: Entry) -> Entry:
        if not isinstance(entry, Sent):
            return entry
        item = decode_envelope(entry.envelope)
        for rewrite in rewrites:
            other = rewrite(item, codec.decode(item.kind, item.body))
            if other is not None:
                item = msgspec.structs.replace(item, body=codec.encode(other))
        return msgspec.structs.replace(entry, envelope=encode_envelope(item))

    return rewritten(run, changed, signer=run.setting.identities[AGGREGATOR]).content


def at(place: int, value: Any) -> Callable[[Any], Any]:
    """Set one row of an array."""

    def put(old: Any) -> Any:
        old[place] = value
        return old

    return put


def swapped(old: Any) -> Any:
    """Two parties' secrets for each other."""
    old[[1, 2]] = old[[2, 1]]
    return old


@pytest.mark.parametrize(
    ("everyone", "gone"),
    paired(
        [False, True],
        [{}, *({ONE: kind} for kind in ("Join", "Deal", "Upload", "Tags", "Unmask")), GONE],
    ),
    ids=lambda value: (" ".join(value.values()) or "nobody") if isinstance(value, dict) else None,
)
def test_the_record_alone_shows_that_the_total_follows(
    gone: dict[PartyId, str], everyone: bool
) -> None:
    run = finished_run(EVERYONE if everyone else COUNTS, gone)
    [opening] = run.messages("Opening")
    dealt = [gone.get(name) not in ("Join", "Deal") for name in PARTIES]
    assert opening.opened.tolist() == dealt
    assert opening.secrets.any(axis=1).tolist() == dealt
    for keyed in (False, True):
        found = audited(run, run.content, keyed=keyed)
        assert (found.verdict, found.findings, found.remarks) == ("sound", (), ())


@pytest.mark.parametrize("gone", [{}, {TWO: "Upload"}], ids=["nobody", "one"])
@pytest.mark.parametrize("variant", [COUNTS, CLUSTERS], ids=lambda variant: variant.name)
def test_a_record_of_tls_needs_no_key(
    variant: SecureSumVariant | RRClusters, gone: dict[PartyId, str], tmp_path: Path
) -> None:
    where = make_setting(variant, answers(SURVEY, len(PARTIES)), seed=1)
    live = Live(where, fate=vanishing(gone), seeded=False)
    trio.run(functools.partial(run_live, where, "tls", folder=tmp_path, live=live))
    found = audit(lambda: [live.content], type(variant))
    assert (found.verdict, found.findings, found.simulated) == ("sound", (), False)
    assert found.completeness.counted == len(PARTIES) - len(gone)


def test_an_opening_is_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight parties in parts of three: the last part has a row that stands for nobody."""
    for module in ("messages", "opening"):
        monkeypatch.setattr(f"protocol.sharing.{module}.OPENED", 3)
    monkeypatch.setattr("protocol.audit.coalition.sums.OPENED", 3)
    run = finished_run()
    parts = run.messages("Opening")
    assert [part.round for part in parts] == [0, 1, 2]
    assert {len(part.secrets) for part in parts} == {3}
    assert parts[-1].opened.tolist() == [1, 1, 0]
    assert audited(run, run.content).verdict == "sound"
    assert audited(run, run.content, keyed=True).verdict == "sound"
    found = audited(run, forged(run, {"Opening": {"round": lambda old: min(old, 1)}}))
    assert found.verdict == "broken"
    # The last row of every part: in the last part it stands for nobody.
    found = audited(run, forged(run, {"Opening": {"secrets": at(2, 1)}}))
    assert "the opening has a row that stands for no party" in str(found.findings[0])


NOT_COMMITTED = "the secret that opens {}'s masks is not what it committed to"
FORGERIES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "one bit of a seed": (
        {"secrets": flipped(place=32 * 1 + 5)},
        NOT_COMMITTED.format(TWO),
    ),
    "one bit of the key to seeds": (
        {"secrets": flipped(place=32 * 0 + 5)},
        NOT_COMMITTED.format(ONE),
    ),
    "another's secret": ({"secrets": swapped}, NOT_COMMITTED.format(TWO)),
    "nobody's secret": ({"secrets": at(2, 0)}, NOT_COMMITTED.format(THREE)),
    "somebody left out": (
        {"opened": at(1, 0), "secrets": at(1, 0)},
        f"the opening lacks the secret of {TWO}, of which 5 neighbours have revealed shares",
    ),
    "an accusation of who revealed nothing": (
        {"accused": at(3, 1)},
        f"the opening accuses {FOUR}, who revealed nothing",
    ),
    "another accusation than the result has": (
        {"accused": at(2, 1)},
        "the record has another 'Tally'",
    ),
}


@pytest.mark.parametrize(
    ("what", "keyed"),
    [
        *itertools.product(FORGERIES, [False]),
        *thinned(itertools.product(FORGERIES, [True]), 2),
    ],
)
def test_an_opening_that_is_false_is_found(what: str, keyed: bool) -> None:
    run = finished_run()
    fields, why = FORGERIES[what]
    found = audited(run, forged(run, {"Opening": fields}), keyed=keyed)
    assert found.verification.intact
    assert found.verdict == "broken"
    [finding] = found.findings
    says = "the record has another 'Opening'" if keyed else why
    assert str(finding).startswith("the result does not follow: ")
    assert says in str(finding)


@pytest.mark.parametrize("gone", [{}, {TWO: "Upload"}, {ONE: "Upload"}], ids=["all", "one", "its"])
def test_a_sum_without_the_mask_of_two_who_differ_follows(gone: dict[PartyId, str]) -> None:
    run = finished_run(gone=gone, rewrite=change("Deal", TWO, digests=flipped()))
    assert TWO in run.names(run.published.accused)
    for keyed in (False, True):
        found = audited(run, run.content, keyed=keyed)
        assert (found.verdict, found.findings) == ("sound", ())


def test_an_aggregator_that_says_falsely_that_two_differ_is_found() -> None:
    """Both are told so, and the sum comes out: what shows it are their digests."""
    hoods: dict[PartyId, tuple[str, ...]] = {}

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if isinstance(message, Graph):
            hoods[item.recipient] = message.names
        if not isinstance(message, Dealt) or item.recipient not in (ONE, TWO):
            return None
        other = TWO if item.recipient == ONE else ONE
        dealt = message.dealt * np.array([name != other for name in hoods[item.recipient]])
        return msgspec.structs.replace(message, dealt=dealt)

    run = finished_run(gone={}, rewrite=rewrite)
    assert run.failure is None
    found = audited(run, run.content)
    assert found.verdict == "broken"
    [finding] = found.findings
    assert "the record has another 'Dealt', which does not follow" in str(finding)


@pytest.mark.parametrize("field", ["opened", "secrets"])
def test_an_opening_of_who_dealt_nothing_is_found(field: str) -> None:
    run = finished_run(gone={ONE: "Deal"})
    found = audited(run, forged(run, {"Opening": {field: at(0, 1)}}))
    [finding] = found.findings
    assert f"the opening has a secret of {ONE}, who dealt none" in str(finding)
    assert found.verdict == "broken"


@pytest.mark.parametrize("field", ["round", "body"])
def test_an_opening_that_cannot_be_read_or_is_another_part_is_found(field: str) -> None:
    run = finished_run()
    if field == "round":
        content = forged(run, {"Opening": {"round": 2**40}})
    else:
        [place] = [p for p in run.places(AGGREGATOR) if _kind(run.entries[p]) == Opening.kind()]
        entries = run.retold(place, b"\x00")
        signer = run.setting.identities[AGGREGATOR]
        content = rewritten(run, lambda _: entries, signer=signer).content
    found = audited(run, content)
    assert found.verdict == "broken"
    assert "was said before what it follows from had been delivered" in str(found.findings[0])


def _kind(entry: Entry) -> str:
    assert isinstance(entry, Sent)
    return decode_envelope(entry.envelope).kind


def test_a_record_without_the_opening_is_broken() -> None:
    run = finished_run()
    signer = run.setting.identities[AGGREGATOR]
    change_ = without(sender=AGGREGATOR, kinds=["Opening"])
    found = audited(run, rewritten(run, change_, signer=signer).content)
    assert found.verification.intact
    assert found.verdict == "broken"


def test_another_total_than_the_opening_gives_is_found() -> None:
    run = finished_run()
    found = audited(run, forged(run, {"Tally": {"totals": moved}}))
    assert found.verdict == "broken"
    [finding] = found.findings
    assert "the record has another 'Tally'" in str(finding)


def test_an_accusation_that_takes_the_key_is_remarked() -> None:
    run = finished_run(gone={ONE: "Upload"}, rewrite=change("Unmask", THREE, box=flipped()))
    assert run.names(run.published.accused) == [THREE]
    found = audited(run, run.content)
    assert (found.verdict, found.findings) == ("sound", ())
    [remark] = found.remarks
    assert str(remark) == (
        "the aggregator found boxes or shares of party-3 invalid; no check looked at that, for it "
        "takes the aggregator's key"
    )
    assert remark.party == THREE
    keyed = audited(run, run.content, keyed=True)
    assert (keyed.verdict, keyed.remarks) == ("sound", ())


def test_a_false_accusation_is_found_with_the_key_alone() -> None:
    """The aggregator accuses somebody in its opening, and in its result accordingly."""
    run = finished_run()
    accused = run.charter.roster.bitmap([THREE])
    changes = {"Opening": {"accused": at(2, 1)}, "Tally": {"accused": accused}}
    content = forged(run, changes)
    found = audited(run, content)
    assert (found.verdict, len(found.remarks)) == ("sound", 1)
    keyed = audited(run, content, keyed=True)
    assert keyed.verdict == "broken"
    assert "the record has another 'Opening'" in str(keyed.findings[0])


def failed() -> Run:
    """Two of the boxes cannot be opened, and two parties are silent: a share too few."""
    spoilt = [change("Unmask", name, box=flipped()) for name in (THREE, FOUR)]

    def rewrite(item: Envelope, message: Message) -> Message | None:
        found = (spoil(item, message) for spoil in spoilt)
        return next((other for other in found if other is not None), None)

    run = finished_run(gone={ONE: "Unmask", TWO: "Unmask"}, rewrite=rewrite)
    assert "the sum cannot be unmasked: 4 of 5 shares of party-1's secret" in str(run.failure)
    return run


def test_a_sum_that_fails_says_whose_secret_is_missing_and_tells_no_other() -> None:
    run = failed()
    [opening] = run.messages("Opening")
    assert not opening.opened.all()
    assert not opening.secrets.any()
    assert opening.accused.tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    found = audited(run, run.content)
    says = [str(finding) for finding in found.findings]
    assert says == [
        "the run did not come to its end: ProtocolError",
        "nothing was published",
    ]
    ends, remark = found.remarks
    assert "the aggregator's role ends so: the sum cannot be unmasked: 4 of 5 shares" in str(ends)
    assert "of party-3, party-4 invalid; no check looked at that" in str(remark)
    assert audited(run, run.content, keyed=True).remarks == (ends,)


def test_a_false_account_of_a_failure_is_found_with_the_key() -> None:
    run = failed()
    content = forged(run, {"Opening": {"accused": at(4, 1)}})
    found = audited(run, content, keyed=True)
    assert any(
        str(finding).startswith("what the aggregator sent does not follow: #")
        for finding in found.findings
    )


@pytest.mark.parametrize(("what", "keyed"), thinned(itertools.product(FORGERIES, [False, True]), 4))
def test_a_failure_that_hides_a_false_opening_is_seen(what: str, keyed: bool) -> None:
    """The aggregator says that its run failed, and cuts off what it said after the opening."""
    run = finished_run()
    content = forged(run, {"Opening": FORGERIES[what][0]})
    reader = TranscriptReader(content)
    entries = list(reader)
    openings = [
        place
        for place, entry in enumerate(entries)
        if isinstance(entry, Sent) and decode_envelope(entry.envelope).kind == "Opening"
    ]
    signer = run.setting.identities[AGGREGATOR]
    kept = entries[: openings[-1] + 1]
    cut = written(reader.header, kept, signer=signer, complete=False, reason="ProtocolError")
    found = audited(run, cut.content, keyed=keyed)
    if keyed:
        assert found.verdict == "broken"
        assert any("the record has another 'Opening'" in str(each) for each in found.findings)
    elif "accusation" not in what:
        assert found.verdict == "incomplete"
        assert any("the aggregator's role ends so: " in str(each) for each in found.remarks)


def test_an_opening_of_too_few_shares_is_found() -> None:
    """All who unmask come after the wait is over, and the opening is full all the same."""
    run = finished_run()
    codec = run.charter.codec

    def fewer(entries: list[Entry]) -> list[Entry]:
        return [_with_fewer(codec, run, entry) for entry in entries]

    content = rewritten(run, fewer).content
    found = audited(run, content)
    assert found.verdict == "broken"


def _with_fewer(codec: Codec, run: Run, entry: Entry) -> Entry:
    if not isinstance(entry, Sent):
        return entry
    envelope = decode_envelope(entry.envelope)
    if (envelope.sender, envelope.kind) != (AGGREGATOR, "Closed"):
        return entry
    closed = codec.decode("Closed", envelope.body)
    assert isinstance(closed, Closed)
    if closed.of != "Unmask":
        return entry
    few = msgspec.structs.replace(closed, counted=run.charter.roster.bitmap((ONE,)))
    body = codec.encode(few)
    return Sent(at=entry.at, envelope=encode_envelope(msgspec.structs.replace(envelope, body=body)))


def test_who_reveals_zeros_is_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(stream: Stream, kind: str, letters: Sequence[Any]) -> Any:
        spoilt = [
            (edge, bytes(len(content)) if edge.ends[0] == TWO.encode() else content, bound)
            for edge, content, bound in letters
        ]
        return seal(stream, kind, spoilt)

    monkeypatch.setattr(sparse, "seal", zeros)
    run = finished_run(gone={})
    [opening] = run.messages("Opening")
    assert opening.accused.tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert opening.opened.all()
    assert audited(run, run.content, keyed=True).verdict == "sound"


def test_what_is_withheld_is_not_on_record() -> None:
    sums = msgspec.structs.replace(WARY, opening="withheld")
    run = finished_run(msgspec.structs.replace(COUNTS, sums=sums))
    assert Opening.kind() not in run.charter.codec.names
    assert run.messages("Opening") == []
    found = audited(run, run.content)
    assert found.verdict == "unchecked"
    assert [str(finding) for finding in found.findings] == [
        "whether the result follows is unknown: it takes secrets that are not on record"
    ]
    assert audited(run, run.content, keyed=True).verdict == "sound"


def test_parties_are_bound_to_whether_it_is_published() -> None:
    sessions = {
        make_setting(
            SecureSumVariant(survey=SURVEY, sums=SecureSum(opening=opening)),
            answers(SURVEY, 8),
            seed=1,
        ).charter.session
        for opening in ("published", "withheld")
    }
    assert len(sessions) == 2


def test_a_live_role_is_not_told_by_anybody_what_it_said() -> None:
    """A message from the record's name is no message of a member's."""
    run = finished_run()
    machine: Machine = run.machine(AGGREGATOR)
    machine.start(0.0)
    [opening] = run.said("Opening")
    machine.receive(
        msgspec.structs.replace(opening, sender=opening.recipient, recipient=AGGREGATOR), 0.0
    )
    assert "'record' is not another member" in machine.kept[0].reason


def test_a_part_is_no_larger_than_other_messages() -> None:
    """What a link has to take in one piece does not grow with the number of parties."""
    codec = SecureSumVariant(survey=SURVEY).kinds(4096)
    sizes = {kind.name: kind.max_bytes for kind in codec}
    assert sizes["Opening"] < sizes["Dealt"]
    assert messages.OPENED < 4096
