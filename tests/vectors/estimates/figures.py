"""Figures that an audit finds in a record, as the vectors have them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from protocol import (
    AGGREGATOR,
    RECORD,
    KeepElseTable,
    KeepUniform,
    MatrixRandomizer,
    PrivKV,
    ProtocolError,
)
from protocol.audit.audit import Audit, audit
from protocol.transcript.entries import Sent
from protocol.transcript.reader import TranscriptReader
from protocol.variants import (
    BUILT_IN,
    RRBA,
    PairRR,
    RRClusters,
    RRIndependent,
    RRIndJoint,
    RRJoint,
)
from protocol.variants.keyvalue.privkv import KeyValueCollection
from protocol.variants.marginals.variant import MarginalRelease
from protocol.variants.oracles.attributes import AttributeOracles
from protocol.variants.reports.by_stratum import ByStratum
from protocol.wire.codec import Codec, decode_envelope
from tests.vectors.formats import number


def audited(log: bytes) -> Audit:
    """The audit of a log."""
    return audit(lambda: (log,), BUILT_IN[TranscriptReader(log).header.variant])


def output_of(log: bytes) -> dict[str, Any]:
    """What an audit of a log finds: the figures of a case."""
    found = audited(log)
    if found.verdict != "sound" or found.estimate is None:
        raise RuntimeError(f"{found.charter.variant.name}: {found.verdict}: {found.findings}")
    estimate = found.estimate
    output: dict[str, Any] = {
        "epsilon": found.ledger.record_epsilon,
        "respondents": estimate.n,
        "tables": list(tables_of(found)),
    }
    if means := estimate.attribute_means():
        output["means"] = {name: mean.value for name, mean in means.items()}
    if keyed := estimate.keyed:
        output["frequencies"], output["means"] = keyed.frequencies, keyed.means
    output["between"] = between(found, log)
    return {name: shown(value) for name, value in output.items()}


def tables_of(found: Audit) -> Iterator[dict[str, Any]]:
    """The announced tables that there are, raw and projected."""
    analysis, estimate = found.charter.analysis, found.estimate
    assert analysis is not None
    assert estimate is not None
    projection = analysis.projection
    for names in analysis.tables:
        try:
            raw, made = estimate.table(*names), estimate.table(*names, projection=projection)
        except (ProtocolError, ValueError):
            continue
        table: dict[str, Any] = {"attributes": names, "raw": raw.values}
        if projection != "none":
            table[projection] = made.values
        if made.fit is not None:
            table["steps"] = made.fit.steps
        yield table


def between(found: Audit, log: bytes) -> dict[str, Any]:
    """What lies between a record and its figures: the published counts and the laws of reports."""
    variant = found.charter.variant
    codec = found.charter.codec
    *_, last = (
        envelope
        for entry in TranscriptReader(log)
        if isinstance(entry, Sent)
        and (envelope := decode_envelope(entry.envelope)).sender == AGGREGATOR
        and envelope.recipient == RECORD
    )
    published = codec.decode(last.kind, last.body)
    if isinstance(published, ByStratum):
        single = Codec(variant.kinds(found.charter.parties), members=1)
        parts = {
            name: single.decode("Pooled", content)
            for name, content in zip(variant.strata, published.results, strict=True)
            if content
        }
        return {
            "strata": {
                name: {field: getattr(part, field) for field in part.__struct_fields__}
                for name, part in parts.items()
            },
            "effective_n": found.estimate and found.estimate.weighted_n,
        }
    known: dict[str, Any] = {
        field: value
        for field in published.__struct_fields__
        if not isinstance(value := getattr(published, field), bytes) and field != "errors"
    }
    laws: list[Any] = []
    match variant:
        case RRBA():
            laws = [{"threshold": threshold} for threshold in variant.plan.thresholds]
        case KeyValueCollection():
            laws = [variant.client.each]
        case RRClusters():
            negotiated = variant.negotiated(published)
            learned = negotiated.dependences
            cautious = variant.dependence == "rr-debiased"
            known["dependences"] = learned.cautious if cautious else learned.matrix
            laws = [block.randomizer for block in negotiated.blocks]
        case RRIndJoint():
            laws = [block.randomizer for block in variant.blocks]
        case MarginalRelease():
            laws = [variant.plan.randomizer]
        case RRJoint():
            laws = [variant.randomizer]
        case RRIndependent() | PairRR() | AttributeOracles():
            laws = list(variant.randomizers)
    if laws and isinstance(laws[0], KeepUniform | KeepElseTable | MatrixRandomizer | PrivKV):
        known["law"] = laws[0].matrix()
    return {**known, "randomizers": msgspec.to_builtins(laws)}


def shown(value: Any) -> Any:
    """A value as the files of vectors have it."""
    match value:
        case np.ndarray():
            return shown(value.tolist())
        case float() if math.isnan(value):
            return None
        case float() if math.isinf(value):
            return "infinite"
        case bool():
            return value
        case int():
            return number(value)
        case dict():
            return {name: shown(item) for name, item in value.items()}
        case list() | tuple():
            return [shown(item) for item in value]
    return value
