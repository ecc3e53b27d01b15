"""What members and forgers may try against audit, ledger and consent: each was possible once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    Attribute,
    Block,
    KeepUniform,
    LocalProtocolError,
    MatrixRandomizer,
    Message,
    PartyId,
    PrivacyError,
    PrivacyEvent,
    Seen,
    Survey,
)
from protocol.audit.audit import Audit, audit
from protocol.session.exchange import Exchange
from protocol.session.local import run_locally
from protocol.simulation.setting import make_setting
from protocol.variants import RRIndependent
from protocol.variants.reports.reports import Ask, Pooled, Report, consent
from tests.protocol.sessions import SURVEY, answers
from tests.recorded.forgeries import Forgery
from tests.recorded.runs import recorded

ONE = PartyId("party-1")
VARIANT = RRIndependent.with_keep(SURVEY, 0.6)


@pytest.fixture(scope="module")
def honest() -> bytes:
    # Party-1 signs nothing, so that a word can be put before its own.
    return recorded(VARIANT, 4, unsigned=(ONE,)).content


def audited(forgery: Forgery, observer: PartyId = AGGREGATOR) -> Audit:
    file = forgery.write()
    return audit(lambda: [file], RRIndependent, observer=observer)


def delivery(forgery: Forgery, sender: str, seq: int) -> int:
    """Where a delivery stands."""
    [place] = [
        i
        for i, entry in enumerate(forgery.entries)
        if entry[0] == "Delivered" and entry[2] == sender and entry[4] == seq
    ]
    return place


def test_a_malformed_message_does_not_spoil_an_honest_run(honest: bytes) -> None:
    """The machine refused it and counted the next one; so must a replay."""
    forgery = Forgery(honest)
    place, handed = forgery.place(ONE, 0), delivery(forgery, ONE, 0)
    sent: list[Any] = forgery.entries[place]
    junk = ["Sent", sent[1], [*sent[2][:5], b"\x90"]]
    sent[2][3] = forgery.entries[handed][4] = 1
    forgery.entries[place:place] = [junk, ["Delivered", sent[1], ONE, AGGREGATOR, 0, False]]
    found = audited(forgery)
    assert found.findings == ()
    assert found.verdict == "sound"
    assert [str(remark)[:10] for remark in found.remarks] == ["party-1 #0"]
    assert math.isinf(found.ledger.unsigned[ONE].loss.record)


def test_where_an_envelope_cannot_be_decoded_no_figure_is_a_bound(honest: bytes) -> None:
    """Nobody knows whose it is, so nobody can be charged with it."""
    forgery = Forgery(honest)
    assert not audited(forgery).partial
    sent: list[Any] = forgery.entries[forgery.place(ONE, 0)]
    sent[2][3] = "no number"
    found = audited(forgery)
    assert ONE not in found.ledger.accounts
    assert found.partial
    assert found.verdict == "broken"


def test_what_was_refused_is_charged_in_full(honest: bytes) -> None:
    forgery = Forgery(honest)
    forgery.entries.insert(-1, ["Refused", 0, ONE, "a wrong number", b""])
    forgery.entries.insert(-1, ["Refused", 0, "", "a stranger", b"GET /"])
    for observer in (AGGREGATOR, RECORD):
        ledger = audited(forgery, observer).ledger
        accounts = {**ledger.accounts, **ledger.unsigned}
        assert math.isinf(accounts[ONE].loss.record)
        assert sum(math.isinf(a.loss.record) for a in accounts.values()) == 1


def test_what_was_counted_had_been_delivered(honest: bytes) -> None:
    forgery = Forgery(honest)
    late = forgery.entries.pop(delivery(forgery, ONE, 0))
    forgery.entries.append(late)
    found = audited(forgery)
    assert found.verdict == "broken"
    early, finding = map(str, found.findings)
    assert early == "'Report' was counted before it was delivered: party-1"
    assert "party-1 is counted, but no message of this kind from it was delivered" in finding


def test_an_unbounded_agreement_is_no_licence() -> None:
    """One attribute's matrix can rule an answer out; that is no consent to plain answers."""
    zero = MatrixRandomizer.from_probabilities(
        [[1 / 2, 1 / 2, 0], [0, 1 / 2, 1 / 2], [0.2, 0.3, 0.5]]
    )
    smokes = Block(("smokes",), KeepUniform.with_keep(2, p=0.5))
    own = (smokes, Block(("drinks",), zero))
    plain = Block(("drinks",), KeepUniform(3, 2**64 - 1))
    consent(SURVEY, own, Ask(SURVEY.digest, own))
    with pytest.raises(PrivacyError, match="another randomizer on drinks"):
        consent(SURVEY, own, Ask(SURVEY.digest, (smokes, plain)))


@pytest.mark.parametrize(
    ("codes", "counts"),
    [
        ([[0, 0], [0, 1]], [1]),
        ([[0, 1], [0, 0]], [1, 1]),
        ([[0, 1], [0, 1]], [1, 1]),
        ([[1, 0], [0, 2]], [1, 1]),
    ],
)
def test_what_is_no_result_is_refused(codes: list[list[int]], counts: list[int]) -> None:
    result = Pooled(np.array(codes, np.uint8), np.array(counts, np.uint32))
    with pytest.raises(ValueError, match="one count for each"):
        VARIANT.estimate(result)


@pytest.mark.parametrize("m", [1, 3, 11, 22])
def test_a_budget_split_evenly_is_kept(m: int) -> None:
    attributes = tuple(Attribute(name=f"a{i}", categories=("no", "yes")) for i in range(m))
    for epsilon in (0.1, 0.3, 1.0, 7.7):
        variant = RRIndependent.with_epsilon(Survey("many", attributes), epsilon)
        spent = sum(r.epsilon for r in variant.randomizers)
        [claim] = variant.claims()
        assert claim.epsilon is not None
        assert claim.epsilon <= epsilon
        assert spent == pytest.approx(epsilon, abs=1e-12)


def test_an_event_that_cannot_be_told_ends_the_party_alone() -> None:
    class Confused(RRIndependent, frozen=True):
        name = "confused"

        def reveals(self, message: Message, seen: Seen) -> PrivacyEvent:
            if isinstance(message, Report):
                raise KeyError("smokes")
            return super().reveals(message, seen)

    setting = make_setting(
        Confused(survey=SURVEY, randomizers=VARIANT.randomizers), answers(SURVEY, 2), seed=1
    )
    with pytest.raises(LocalProtocolError, match=r"party 'party-1', .*KeyError: 'smokes'"):
        run_locally(Exchange(setting.charter), setting.streams, setting.holdings)
