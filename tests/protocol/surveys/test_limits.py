"""What a file may ask of its reader: reckoned from sizes, counted while it is read."""

from __future__ import annotations

import hashlib
import itertools
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import (
    AGGREGATOR,
    ArraySpec,
    Attribute,
    Bounds,
    Kind,
    PartyId,
    RemoteProtocolError,
    Survey,
    SurveyError,
    TranscriptError,
    Variant,
    Workload,
    key_survey,
)
from protocol.audit.completeness import OTHER_REASONS, REASONS, CompletenessWriter
from protocol.audit.ledger import REMARKS, LedgerWriter
from protocol.audit.walk import Walk
from protocol.messages import Envelope
from protocol.session.charter import Charter
from protocol.session.roster import Roster
from protocol.session.variant import build, plain_parameters
from protocol.surveys.limits import (
    BYTES_PER_STORED,
    FREE_BYTES,
    MAX_ATTRIBUTES,
    MAX_CELLS,
    MAX_RECORDS,
    MAX_RESPONDENTS,
    MAX_STEPS,
    MAX_TABLES,
    OVERHEAD,
    Held,
    TooMuchError,
    check_workload,
    workload_of_groups,
)
from protocol.transcript.entries import Departed, Refused, Sent, decode_item, encode_item
from protocol.transcript.header import make_header, read_charter
from protocol.transcript.reader import TranscriptReader
from protocol.variants import (
    RRBA,
    PairCounts,
    PairRR,
    PrivKVVariant,
    RRClusters,
    RRIndependent,
    RRJoint,
    SecureSumVariant,
)
from protocol.wire.codec import Codec, decode_envelope, encode_envelope
from scenarios.data.adult import ADULT
from scenarios.data.town import TOWN
from tests.protocol.sessions import Numbers, charter_of
from tests.recorded.runs import written

ALARM = (
    (2, 3, 3, 3, 3, 2, 2, 2, 2, 4, 3, 3, 4, 3, 3, 3, 2, 3, 4, 4, 3, 4, 4, 4, 4)
    + (2,) * 5
    + (
        *(3,) * 6,
        2,
    )
)
"""As many attributes as the Alarm network has, of such sizes."""


def survey_of(*sizes: int) -> Survey:
    return Survey(
        "sizes",
        tuple(
            Attribute(name=f"a{i}", categories=tuple(f"{c:x}" for c in range(size)))
            for i, size in enumerate(sizes)
        ),
    )


@settings(deadline=None)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=6), st.integers(1, 6))
def test_groups_are_reckoned_as_they_are_laid_out(sizes: list[int], k: int) -> None:
    groups = list(itertools.combinations(sizes, k))
    expected = Workload(len(groups), sum(map(math.prod, groups)))
    assert workload_of_groups(sizes, k) == expected


@pytest.mark.parametrize(
    "variant",
    [
        PairCounts(survey=ADULT),
        SecureSumVariant(survey=ADULT),
        PairRR.with_keep(ADULT, 0.5),
        RRClusters(survey=ADULT, p=0.5, tv=50, td=0.1),
        RRBA(survey=ADULT, p=0.5),
        RRBA(survey=ADULT, p=0.5, k=4),
    ],
    ids=lambda variant: variant.name,
)
def test_what_is_laid_out_is_what_was_reckoned(variant: Any) -> None:
    laid = next(
        owner.layout
        for owner in (
            variant,
            getattr(variant, "plan", None),
            getattr(variant, "negotiation", None),
        )
        if hasattr(owner, "layout")
    )
    assert variant.workload() == Workload(len(laid.tables), laid.cells)


def test_values_of_keys_are_reckoned() -> None:
    variant = PrivKVVariant(survey=key_survey("k", ("a", "b"), ((0.5,), (0.1, 0.2))), epsilon=1.0)
    assert variant.workload() == Workload(1, variant.values.size)


@pytest.mark.parametrize(
    ("attributes", "workload", "says"),
    [
        (MAX_ATTRIBUTES + 1, Workload(), "16,385 attributes, at most 16,384"),
        (2, Workload(MAX_TABLES + 1, 4), "131,073 tables, at most 131,072"),
        (2, Workload(1, MAX_CELLS + 1), "8,388,609 cells of tables, at most 8,388,608"),
        (200, Workload(100_000, 400_000), "20,000,000 steps of 100,000 tables, at most 16,777,216"),
    ],
)
def test_what_is_too_large(attributes: int, workload: Workload, says: str) -> None:
    with pytest.raises(ValueError, match=f"^the survey is too large: {says}$"):
        check_workload(attributes, workload)


def test_the_caps_themselves_are_allowed() -> None:
    check_workload(MAX_ATTRIBUTES, Workload())
    check_workload(MAX_STEPS // MAX_TABLES, Workload(MAX_TABLES, MAX_CELLS))


def test_a_variant_is_refused_before_it_lays_anything_out() -> None:
    wide = survey_of(*(2,) * 1500)
    with pytest.raises(ValueError, match="1,124,250 tables"):
        PairCounts(survey=wide)
    with pytest.raises(SurveyError, match="1,124,250 tables"):
        build(PairCounts, parameters={}, survey=msgspec.to_builtins(wide))


def test_respondents() -> None:
    with pytest.raises(ValueError, match="1,048,577 respondents of one party, at most 1,048,576"):
        msgspec.structs.replace(RRJoint.with_keep(ADULT, 0.5), max_records=MAX_RECORDS + 1)
    parties = MAX_RESPONDENTS // MAX_RECORDS
    for more in (0, 1):
        variant = msgspec.structs.replace(RRJoint.with_keep(TOWN, 0.5), max_records=MAX_RECORDS)
        if more:
            with pytest.raises(ValueError, match="135,266,304 respondents, at most 134,217,728"):
                charter_of(variant, parties + more)
        else:
            charter_of(variant, parties)


USED: tuple[Variant, ...] = (
    RRJoint.with_keep(ADULT, 0.5),
    RRIndependent.with_keep(TOWN, 0.5),
    PairCounts(survey=survey_of(*ALARM)),
    PairRR.with_keep(survey_of(*ALARM), 0.5),
    RRClusters(survey=survey_of(*ALARM), p=0.5, tv=1000, td=0.1),
    RRBA(survey=survey_of(*ALARM), epsilon=1.0, k=3),
    PrivKVVariant(
        survey=key_survey("films", [f"{i}" for i in range(10_677)], [(0.1, 0.2)] * 10_677),
        epsilon=1.0,
    ),
)


@pytest.mark.parametrize("variant", USED, ids=lambda variant: variant.name)
def test_what_is_used_passes(variant: Variant) -> None:
    again = build(
        type(variant),
        parameters=plain_parameters(variant),
        survey=msgspec.to_builtins(variant.survey),
    )
    assert again == variant
    if variant.name == "rr-joint":
        assert variant.survey.cells == 1_814_400


def test_alarm_in_groups_of_four_passes() -> None:
    assert len(ALARM) == 37
    check_workload(37, workload_of_groups(ALARM, 4))


@pytest.mark.slow
def test_a_hundred_thousand_parties_pass() -> None:
    # Keys are as random as hashes.
    names = (AGGREGATOR, *(PartyId(f"party-{i:06}") for i in range(100_000)))
    roster = Roster(tuple((name, hashlib.sha256(name.encode()).digest()) for name in names))
    charter = Charter(variant=RRJoint.with_keep(ADULT, 0.5), roster=roster)
    assert len(charter_read(charter, RRJoint).roster) == 100_001


def charter_read(charter: Charter, variant: type[Variant]) -> Charter:
    """The charter, from a record and back."""
    file = written(make_header(charter), ()).content
    return read_charter(TranscriptReader(file).header, variant)


@pytest.mark.slow
def test_ten_thousand_keys_pass_as_a_header() -> None:
    variant = USED[-1]
    assert charter_read(charter_of(variant), PrivKVVariant).variant == variant


def test_held_bytes_may_grow_with_the_file_alone() -> None:
    stored = 0
    held = Held(lambda: stored)
    held.take(FREE_BYTES - OVERHEAD)
    with pytest.raises(TooMuchError, match="at most 67,108,864 for a file of this length"):
        held.take(1)
    held.drop(1)
    stored = 1000
    held.take(BYTES_PER_STORED * 1000 - OVERHEAD)
    with pytest.raises(TooMuchError):
        held.take(0)
    held.drop(0)
    held.drop(BYTES_PER_STORED * 1000 - OVERHEAD)
    held.take(0)


def test_texts_of_entries_are_short() -> None:
    long = "x" * 256
    for entry in (
        Departed(at=0, party=PartyId(long), reason=""),
        Departed(at=0, party=PartyId("x"), reason="x" * 1025),
        Refused(at=0, link=long, reason="", excerpt=b""),
        Refused(at=0, link="", reason="x" * 1025, excerpt=b""),
    ):
        with pytest.raises(TranscriptError, match=r"length <= (255|1024)"):
            decode_item(encode_item(entry))
    for change in ({"sender": long}, {"recipient": long}, {"kind": long}, {"session": bytes(256)}):
        fields: dict[str, Any] = {
            "session": bytes(32),
            "sender": "a",
            "recipient": "b",
            "kind": "K",
        }
        envelope = Envelope(**{**fields, **change}, seq=0, body=b"")
        with pytest.raises(RemoteProtocolError, match="length <= 255"):
            decode_envelope(encode_envelope(envelope))


def test_a_codec_remembers_few_large_bodies() -> None:
    kind = Kind(Numbers, values=ArraySpec(dtype="u2", shape=(Bounds(0, 1 << 23),)))
    codec = Codec([kind], members=2)
    bodies = [codec.encode(Numbers(np.full(1 << 22, i, np.uint16))) for i in range(6)]
    first = codec.decode("Numbers", bodies[0])
    assert codec.decode("Numbers", bodies[0]) is first
    for body in bodies[1:]:
        assert codec.decode("Numbers", body) is codec.decode("Numbers", body)
    # Of 8 MiB each, four fit; the first has gone.
    assert codec.decode("Numbers", bodies[0]) is not first
    assert codec.decode("Numbers", bodies[5]) is codec.decode("Numbers", bodies[5])


CHARTER = charter_of(RRIndependent.with_keep(TOWN, 0.5))


def test_reasons_of_refusals_are_counted_and_few_are_told_apart() -> None:
    writer, walk = CompletenessWriter(CHARTER), Walk(CHARTER.codec)
    for i in range(REASONS + 5):
        writer.add(walk.add(Refused(at=0, link="", reason=f"{i}", excerpt=b"")))
    writer.add(walk.add(Refused(at=0, link="", reason="0", excerpt=b"")))
    refused = writer.completeness().refused
    assert (len(refused), refused["0"], refused[OTHER_REASONS]) == (REASONS + 1, 2, 5)


def test_strangers_do_not_depart() -> None:
    writer, walk = CompletenessWriter(CHARTER), Walk(CHARTER.codec)
    for name in ("nobody", "party-1", AGGREGATOR):
        writer.add(walk.add(Departed(at=0, party=PartyId(name), reason="lost")))
    assert writer.completeness().departed == {"party-1": "lost"}


def test_few_remarks_are_kept_of_what_is_malformed() -> None:
    writer, walk = LedgerWriter(CHARTER), Walk(CHARTER.codec)
    for seq in range(REMARKS + 5):
        envelope = Envelope(CHARTER.session, PartyId("party-1"), AGGREGATOR, seq, "Report", b"")
        writer.add(walk.add(Sent(at=0, envelope=encode_envelope(envelope))))
    assert len(writer.malformed) == REMARKS
    assert len(writer.ledger(AGGREGATOR).unsigned[PartyId("party-1")].trail) == REMARKS + 5
