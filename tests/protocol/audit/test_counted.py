"""Who the estimate is made of, in every variant, whatever else was said before it."""

from __future__ import annotations

import pytest

from protocol.audit.completeness import Completeness, CompletenessWriter
from protocol.audit.walk import steps
from protocol.messages import AGGREGATOR, Envelope
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.session.roles import Me
from protocol.session.variant import Variant
from protocol.simulation.rehearsal import Rehearsal
from protocol.simulation.setting import setting_of
from protocol.variants import PrivKVMVariant, RRClusters
from protocol.variants.keyvalue.estimate import KeyValueTables
from protocol.variants.keyvalue.privkv import KeyReport
from tests.every_variant import BITS, FILMS, PARTIES, Example, examples
from tests.protocol.sessions import Turn, Word, answers, talk
from tests.recorded.runs import fate_of

EXAMPLES = examples()


def run(variant: Variant, fate: FateRule | None = None) -> Rehearsal:
    """One party per respondent."""
    return Rehearsal(setting_of(variant, answers(variant.survey, PARTIES), seed=1), fate=fate)


def completeness(done: Rehearsal) -> Completeness:
    writer = CompletenessWriter(done.charter)
    for step in steps(done.charter.codec, done.entries):
        writer.add(step)
    return writer.completeness()


def kind_of(variant: Variant) -> str:
    assert variant.contribution is not None
    return variant.contribution.kind()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_everybody_is_counted_where_nothing_is_lost(example: Example) -> None:
    done = run(example.variant)
    estimate = example.variant.estimate(done.published)
    assert completeness(done).counted == estimate.n == PARTIES


def whole(variant: Variant) -> bool:
    sums = getattr(variant, "sums", None)
    return sums is None or sums.profile == "sparse"


@pytest.mark.parametrize("example", [e for e in EXAMPLES if whole(e.variant)], ids=lambda e: e.name)
def test_whose_report_was_lost_is_not_counted(example: Example) -> None:
    variant = example.variant
    if hasattr(variant, "sums"):
        # Among so few, one that vanishes has to be allowed for.
        sums = type(variant.sums)(corrupt=0.0, dropped=0.2)
        variant = type(variant)(**{**fields(variant), "sums": sums})
    done = run(variant, fate_of(Fate(Verdict.DROP), "party-2", kind_of(variant)))
    found = completeness(done)
    assert found.counted == variant.estimate(done.published).n == PARTIES - 1
    assert found.parties == PARTIES


def fields(variant: Variant) -> dict[str, object]:
    return {name: getattr(variant, name) for name in variant.__struct_fields__}


@pytest.mark.parametrize("dependence", ["rr", "rr-debiased"])
def test_who_was_heard_of_dependences_alone_is_counted(dependence: str) -> None:
    variant = RRClusters(survey=BITS, p=0.6, tv=4, td=0.1, dependence=dependence)
    done = run(variant, fate_of(Fate(Verdict.DROP), "party-3", "Report"))
    found = completeness(done)
    assert [(c.kind, c.awaited, c.counted) for c in found.closings] == [
        ("Join", PARTIES, PARTIES),
        ("PilotReport", PARTIES, PARTIES),
        ("Tags", PARTIES, PARTIES),
        ("Report", PARTIES, PARTIES - 1),
    ]
    assert found.counted == variant.estimate(done.published).n == PARTIES
    assert variant.final(done.published).n == PARTIES - 1


def test_who_misses_a_later_round_stays_in_the_frequencies() -> None:
    variant = PrivKVMVariant(survey=FILMS, epsilon=4.0, rounds=3)
    heard: list[Envelope] = []

    def second(envelope: Envelope) -> Fate:
        if envelope.kind == KeyReport.kind() and envelope.sender == "party-1":
            heard.append(envelope)
            return Fate(Verdict.DROP, 0.0) if len(heard) == 2 else PASS
        return PASS

    done = run(variant, second)
    found = completeness(done)
    assert [c.counted for c in found.closings] == [PARTIES, PARTIES - 1, PARTIES]
    estimate = variant.estimate(done.published)
    assert isinstance(estimate, KeyValueTables)
    assert found.counted == estimate.n == PARTIES


def test_a_variant_that_does_not_say_is_taken_by_what_it_waits_for_last() -> None:
    async def party(me: Me) -> None:
        await me.send(AGGREGATOR, Turn(0, "a"))
        await me.send(AGGREGATOR, Word("b"))

    async def aggregator(me: Me) -> Word:
        first = await me.gather(Turn, me.roster.parties, round=0)
        await me.gather(Word, tuple(first)[:2])
        return Word("done")

    variant = talk(party=party, aggregator=aggregator)
    assert variant.contribution is None
    found = completeness(run(variant))
    assert [c.counted for c in found.closings] == [PARTIES, 2]
    assert found.counted == 2
