"""Costs of a way to ask besides its error: privacy, traffic, rounds, trust and dropouts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from protocol.accounting.composition import ExactAccountant
from protocol.accounting.events import PrivacyEvent
from protocol.crypto.randomness import Stream
from protocol.errors import ProtocolError
from protocol.messages import AGGREGATOR, Closed, Envelope, Head
from protocol.randomizers.exact import Floats
from protocol.session.roles import Seen
from protocol.session.variant import Variant
from protocol.sharing.sums import SecureSum
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import make_setting
from protocol.variants import RRBA
from protocol.variants.reports.one_report import OneReport
from protocol.variants.reports.reports import Blockwise
from protocol.variants.sums.tallies import Tallied
from scenarios.designing.assumed import Shares
from scenarios.designing.summing import AmongHonest
from scenarios.wording.formatting import count
from scenarios.wording.formatting import epsilon as figure
from scenarios.wording.withstanding import trusting

RECORDS = (32, 64)
"""Respondents per party in two small runs that larger costs are extrapolated from."""

NEIGHBOURS = 10
"""Maximum number of neighbours in the sums of such a run."""

_JUDGED = 64


class Traffic(NamedTuple):
    """Traffic of one respondent: message bodies, without envelopes, signatures and TLS.

    Args:
        messages: number of messages from her party, divided by its respondents.
        bits: size of these messages.
        messages_back, bits_back: the same for messages to her party.
        rounds: number of waits of the aggregator for answers.
    """

    messages: float
    bits: float
    messages_back: float
    bits_back: float
    rounds: int


class Dropouts(NamedTuple):
    """Prospect of a result if some parties drop out.

    Args:
        withstands: whether it does.
        says: the answer in words.
    """

    withstands: bool
    says: str


def reckon_traffic(variant: Variant, respondents: int, parties: int, shares: Shares) -> Traffic:
    """The traffic of a survey, reckoned from small runs of it.

    Args:
        variant: the variant; its ``max_records`` is set to a party's number of respondents.
        parties: number of parties that hold the respondents.
        shares: assumed shares of the answers.

    Raises:
        ProtocolError, ValueError: such a run fails.
    """
    each = -(-respondents // parties)
    sums = _secure_sum(variant)
    if sums is None:
        return _by_records(variant, each, min(parties, 2), shares)._replace(
            rounds=_rounds(variant, parties)
        )
    neighbours = sums.degree(parties).neighbours
    if neighbours <= NEIGHBOURS:
        return _by_records(variant, each, parties, shares)
    near, far = (
        _by_records(variant, each, number + 1, shares) for number in (NEIGHBOURS // 2, NEIGHBOURS)
    )
    return _on_the_line(near, far, NEIGHBOURS // 2, NEIGHBOURS, neighbours)


def _by_records(variant: Variant, each: int, parties: int, shares: Shares) -> Traffic:
    """Traffic of one party with several respondents, per respondent."""
    if each <= RECORDS[1]:
        whole = _simulate(variant, each, parties, shares)
    else:
        near, far = (_simulate(variant, number, parties, shares) for number in RECORDS)
        whole = _on_the_line(near, far, *RECORDS, each)
    return _traffic(_figures(whole) / each, whole.rounds)


def _on_the_line(near: Traffic, far: Traffic, low: int, high: int, at: int) -> Traffic:
    step = (_figures(far) - _figures(near)) / (high - low)
    return _traffic(_figures(near) + step * (at - low), far.rounds)


def _figures(traffic: Traffic) -> Floats:
    return np.array(traffic[:4], np.float64)


def _traffic(figures: Floats, rounds: int) -> Traffic:
    messages, bits, messages_back, bits_back = figures.tolist()
    return Traffic(messages, bits, messages_back, bits_back, rounds)


def _simulate(variant: Variant, each: int, parties: int, shares: Shares) -> Traffic:
    records = shares.records(each * parties)
    run = Rehearsal(make_setting(variant, records, seed=1, parties=parties))
    _ = run.published
    envelopes = run.sent.values()
    sent = [one for one in envelopes if one.sender != AGGREGATOR and one.kind != Head.kind()]
    back = [one for one in envelopes if one.sender == AGGREGATOR and one.recipient in run.endings]
    rounds = sum(one.sender == AGGREGATOR and one.kind == Closed.kind() for one in envelopes)
    return Traffic(*_means(sent, parties), *_means(back, parties), rounds)


def _means(envelopes: Sequence[Envelope], parties: int) -> tuple[float, float]:
    bits = 8 * sum(len(envelope.body) for envelope in envelopes)
    return len(envelopes) / parties, bits / parties


def _rounds(variant: Variant, parties: int) -> int:
    if isinstance(variant, RRBA):
        return parties if variant.mode == "sequential" else -(-parties // variant.block)
    return 1


def _secure_sum(variant: Variant) -> SecureSum | None:
    sums = getattr(variant, "sums", None)
    return sums if isinstance(sums, SecureSum) else None


def epsilon_at(variant: Variant, delta: float, shares: Shares) -> float | None:
    """The epsilon of a respondent's reports at a delta; None where that is not known beforehand."""
    try:
        event = _report_event(variant, shares)
        if event is None:
            return None
        return min(ExactAccountant(delta).judge([event]).epsilon, variant.most())
    except (ProtocolError, ValueError):
        return None


def _report_event(variant: Variant, shares: Shares) -> PrivacyEvent | None:
    """Event of a respondent's reports; None if unknown."""
    if isinstance(variant, Blockwise):
        return variant.report_event
    if isinstance(variant, Tallied):
        return variant.contribution_event
    if not isinstance(variant, OneReport):
        return None
    # So many respondents that every kind of report occurs.
    stream = Stream(bytes(32)).derive("told")
    variant = msgspec.structs.replace(variant, max_records=_JUDGED)
    report = variant.answer(shares.records(_JUDGED), variant.question(), stream)
    read = variant.read(report)
    return None if read is None else variant.report_reveals(read, Seen())


def trust_in(variant: Variant, parties: int, among: AmongHonest | None = None) -> str:
    """Trust that a variant needs, in one sentence.

    Args:
        parties: number of parties that hold the respondents.
        among: the privacy that rests on enough honest parties, if it does.
    """
    most, sums = variant.most(), _secure_sum(variant)
    if among is not None and sums is not None:
        missing = sums.withstands(parties).missing
        alone = f"epsilon {figure(most)}" if math.isfinite(most) else "no bound"
        return (
            f"the other parties: (epsilon {figure(among.epsilon)}, delta {among.delta:g}) if at "
            f"most {parties - missing - among.honest:,} of them conspire with the aggregator"
            f"{_or_readers(sums, parties)}, so that at least {among.honest:,} are honest and stay; "
            f"{alone} if all others do"
        )
    if math.isfinite(most):
        when = "before they are summed" if isinstance(variant, Tallied) else "before they are sent"
        return f"nobody, as answers are randomized {when}"
    if sums is None:
        return "the aggregator with whatever it asks: this variant promises no bound"
    if sums.profile == "literal":
        return "all other parties, not to put their shares together; the counts are exact"
    return (
        f"the other parties, of which {sums.withstands(parties).colluders:,} may conspire with the "
        f"aggregator{_or_readers(sums, parties)}{trusting(sums.withstands(parties))}; the counts "
        "are exact, and a single person may be found in them"
    )


def _or_readers(sums: SecureSum, parties: int) -> str:
    return " or any reader of the record" if sums.withstands(parties).readers else ""


def survives_dropouts(variant: Variant, parties: int, dropout: float) -> Dropouts:
    """Check whether a survey ends with a result if a share of the parties vanishes.

    Raises:
        ValueError: there are too few parties for a sum.
    """
    quorum, stay = variant.quorum_of(parties), parties - round(parties * dropout)
    sums = _secure_sum(variant)
    missing = parties if sums is None else sums.withstands(parties).missing
    if stay < quorum:
        who = count(stay, "party stays", "parties stay")
        return Dropouts(False, f"fails: {who}, and the quorum is {quorum:,}")
    if sums is None:
        return Dropouts(True, "whoever vanishes is not counted")
    if sums.profile == "literal":
        return Dropouts(not dropout, "fails if one party vanishes")
    if parties - stay > missing:
        who = count(missing, "party that vanishes", "parties that vanish")
        return Dropouts(False, f"fails: it is made for at most {who}")
    return Dropouts(True, f"whoever vanishes is not counted, up to {missing:,}")
