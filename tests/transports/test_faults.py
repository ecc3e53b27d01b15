"""Faults are seeded decisions about envelopes, the same on every transport."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol import AGGREGATOR, PartyId, Variant
from protocol.messages import DONE, Envelope
from protocol.session.fates import PASS, Verdict
from protocol.transcript.entries import Delivered
from protocol.variants import RRIndependent, RRJoint
from tests.live import Live, run_live, town
from tests.protocol.sessions import SURVEY
from tests.recorded.runs import Run
from tests.tiers import paired
from transports.faults import Fault, crash, cut, delay, drop, duplicate, faults

TRANSPORTS = ("memory", "tcp", "tls")


def envelope(
    i: int = 0, *, kind: str = "Report", sender: str = "party-1", to: str = AGGREGATOR
) -> Envelope:
    return Envelope(bytes(16), PartyId(sender), PartyId(to), i, kind, b"")


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        (crash(1.0), Verdict.CRASH),
        (cut(1.0), Verdict.CUT),
        (drop(1.0), Verdict.DROP),
        (duplicate(1.0), Verdict.DUPLICATE),
        (delay(2.0), Verdict.PASS),
    ],
)
def test_every_fault_says_what_happens(rule: Fault, verdict: Verdict) -> None:
    fate = faults([rule], seed=1)(envelope())
    assert fate.verdict is verdict
    assert fate.delay == (2.0 if verdict is Verdict.PASS else 0.0)


def test_the_first_rule_that_has_something_to_say_decides() -> None:
    rules = [drop(1.0, kind="Ask"), duplicate(1.0), crash(1.0)]
    decide = faults(rules, seed=1)
    assert decide(envelope(kind="Ask")).verdict is Verdict.DROP
    assert decide(envelope()).verdict is Verdict.DUPLICATE


def test_rules_say_which_envelopes_they_are_about() -> None:
    rule = Fault(
        verdict=Verdict.DROP, sender=PartyId("party-1"), recipient=AGGREGATOR, kind="Report"
    )
    decide = faults([rule], seed=1)
    assert decide(envelope()).verdict is Verdict.DROP
    for other in (envelope(kind="Ask"), envelope(sender="party-2"), envelope(to="party-2")):
        assert decide(other) is PASS


def test_faults_of_parties_spare_the_aggregator_and_hold_for_a_whole_party() -> None:
    decide = faults([crash(0.5)], seed=3)
    for i in range(50):
        assert decide(envelope(sender=AGGREGATOR, to=f"party-{i}")) is PASS
        verdicts = {decide(envelope(seq, sender=f"party-{i}")).verdict for seq in range(20)}
        assert len(verdicts) == 1


@given(seed=st.integers(0, 2**64), share=st.floats(0.0, 1.0))
@settings(deadline=None, max_examples=50)
def test_a_seed_decides_everything_and_a_larger_share_includes_a_smaller(
    seed: int, share: float
) -> None:
    envelopes = [envelope(i) for i in range(40)]
    once, again, more = (
        [decide(e).verdict is Verdict.DROP for e in envelopes]
        for decide in (
            faults([drop(share)], seed=seed),
            faults([drop(share)], seed=seed),
            faults([drop((1.0 + share) / 2)], seed=seed),
        )
    )
    assert once == again
    assert all(later for earlier, later in zip(once, more, strict=True) if earlier)


def test_shares_are_what_they_say() -> None:
    """The seed is fixed; 20,000 draws are within 6 deviations, and not for a tenth more."""
    decide = faults([drop(0.3)], seed=5)
    hits = sum(decide(envelope(i)).verdict is Verdict.DROP for i in range(20_000))
    deviation = (20_000 * 0.3 * 0.7) ** 0.5
    assert abs(hits - 6000) < 6 * deviation
    assert abs(hits - 6600) > 6 * deviation


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="share"):
        drop(share)


def test_a_delay_into_the_past_is_refused() -> None:
    with pytest.raises(ValueError, match="delay"):
        delay(-1.0)


def variant_of(name: str) -> Variant:
    return {"rr-independent": RRIndependent, "rr-joint": RRJoint}[name].with_keep(SURVEY, 0.7)


@pytest.mark.parametrize("name", ["rr-independent", "rr-joint"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_executor_gives_one_result_and_one_digest(
    name: str, transport: str, tmp_path: Path
) -> None:
    """Under a plain ``trio.run``."""
    where = town(variant=variant_of(name))

    async def live() -> Live:
        return await run_live(where, transport, folder=tmp_path)

    local, remote = Run(where), trio.run(live)
    assert remote.result_bytes == local.result_bytes
    assert remote.digest == local.digest
    assert set(remote.endings.values()) == {DONE}
    assert remote.endings == local.endings
    assert not remote.refused()


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), parties=st.integers(1, 12), joint=st.booleans())
@settings(deadline=None, max_examples=25)
async def test_memory_equals_local_for_any_seed(seed: int, parties: int, joint: bool) -> None:
    where = town(parties, seed=seed, variant=variant_of("rr-joint" if joint else "rr-independent"))
    local, live = Run(where), await run_live(where)
    assert (live.result_bytes, live.digest) == (local.result_bytes, local.digest)
    assert live.endings == local.endings


async def test_no_rules_are_as_no_faults() -> None:
    where = town()
    assert Run(where, fate=faults([drop(0.0)], seed=1)).digest == Run(where).digest
    assert (await run_live(where, fate=faults([drop(0.0)], seed=1))).digest == Run(where).digest


RULES = {
    "crash": [crash(0.3)],
    "cut": [cut(0.3)],
    "duplicate": [duplicate(0.5)],
    "delay": [delay(0.05, share=0.5)],
    "drop": [drop(0.2, kind="Report")],
    "all": [
        crash(0.1),
        cut(0.1),
        drop(0.1, kind="Report"),
        duplicate(0.3),
        delay(0.03, share=0.4),
    ],
}


@pytest.mark.parametrize(("what", "transport"), paired([*RULES], TRANSPORTS))
async def test_seeded_faults_are_the_same_everywhere(
    what: str, transport: str, tmp_path: Path
) -> None:
    where = town(20)
    local = Run(where, fate=faults(RULES[what], seed=1))
    live = await run_live(where, transport, folder=tmp_path, fate=faults(RULES[what], seed=1))
    assert live.result_bytes == local.result_bytes
    assert live.digest == local.digest
    counted = int(live.published.counts.sum())
    assert counted == int(local.published.counts.sum())
    if what in ("duplicate", "delay"):
        assert counted == 20
    else:
        assert 0 < counted < 20
    gone = {party: why for party, why in live.departed().items() if why != "closed its link"}
    if what == "crash":
        assert set(gone.values()) == {"crashed"}
        assert counted == 20 - len(gone)
    if what == "cut":
        assert set(gone.values()) == {"link cut"}
        assert counted == 20 - len(gone)
    if what == "duplicate":
        times = Counter(e.repeat for e in live.entries if isinstance(e, Delivered))
        assert times[True] > 5
