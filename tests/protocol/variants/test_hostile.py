"""What a hostile member can make of each built-in variant: questions twice, of elsewhere, noise."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    LocalProtocolError,
    Message,
    PartyId,
    ProtocolError,
    Records,
    SecureSum,
)
from protocol.messages import DONE, KERNEL_KINDS, Declined, Envelope, Head
from protocol.session.exchange import Exchange, Ruling
from protocol.session.machine import Machine
from protocol.simulation.setting import make_setting
from protocol.variants import RRBA
from protocol.variants.rrba.rrba import Question
from tests.every_variant import PARTIES, Example, examples
from tests.protocol.audit.test_audit import audited
from tests.protocol.sessions import answers, words_sent
from tests.protocol.sharing.test_sums_attacks import Rewrite, rewriting
from tests.recorded.runs import Run
from tests.tiers import thinned

EXAMPLES = examples()
EVERY = pytest.mark.parametrize(
    "place", thinned(range(len(EXAMPLES)), 14), ids=[e.name for e in EXAMPLES]
)
ONE = PartyId("party-1")
SEEDS = 3
"""How many times the first party of every example says other things."""

ONCE = (
    *("rr-independent", "rr-joint", "rr-ind-joint", "privkv", "spl", "smp", "rs-fd"),
    *("inp-rr", "inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht", "numeric-mean"),
)
"""Variants whose parties are asked once."""


def run(example: Example, records: Records | None = None, **options: Any) -> Run:
    """A run of an example, with its records or others."""
    setting = make_setting(example.variant, records or example.records, seed=1, parties=PARTIES)
    return Run(setting, **options)


@functools.cache
def honest(place: int) -> Run:
    """The run of an example, by its place among all."""
    return run(EXAMPLES[place])


def places(*names: str) -> pytest.MarkDecorator:
    """The examples of some variants."""
    found = [i for i, example in enumerate(EXAMPLES) if example.variant.name in names]
    return pytest.mark.parametrize("place", found, ids=[EXAMPLES[i].name for i in found])


def answered(place: int, heard: Callable[[Envelope], list[Envelope]]) -> Machine:
    """The first party after it has heard something else for each envelope of an honest run."""
    trial = honest(place)
    machine = trial.machine(ONE)
    machine.start(0.0)
    for item in trial.heard[ONE]:
        for other in heard(item):
            machine.receive(other, 0.0)
    return machine


@EVERY
def test_who_is_asked_twice_answers_once(place: int) -> None:
    def twice(item: Envelope) -> list[Envelope]:
        return [msgspec.structs.replace(item, seq=2 * item.seq + i) for i in range(2)]

    expected = [item for item in honest(place).said(sender=ONE) if item.kind != Head.kind()]
    assert words_sent(answered(place, twice)) == expected
    assert expected


@EVERY
def test_who_is_asked_about_another_survey_declines(place: int) -> None:
    """In ``rrba`` questions do not name the survey: the session's id does, as everywhere."""
    example = EXAMPLES[place]
    codec, asked = honest(place).charter.codec, list[Envelope]()

    def elsewhere(item: Envelope) -> list[Envelope]:
        message = codec.decode(item.kind, item.body)
        if isinstance(example.variant, RRBA):
            item = msgspec.structs.replace(item, session=bytes(32))
        elif not asked and hasattr(message, "survey"):
            asked.append(item)
            item = msgspec.structs.replace(
                item, body=codec.encode(msgspec.structs.replace(message, survey=bytes(32)))
            )
        return [item]

    machine = answered(place, elsewhere)
    if isinstance(example.variant, RRBA):
        assert words_sent(machine) == []
        assert {kept.reason.split(":")[0] for kept in machine.kept} == {"session"}
        return
    [declined] = words_sent(machine)
    assert codec.decode(declined.kind, declined.body) == Declined("terms")


@EVERY
def test_who_may_not_spend_says_nothing(place: int) -> None:
    """With the least budget a party says no word that depends on its records."""
    example = EXAMPLES[place]
    trial = run(example, budget=1e-9)
    assert {item.kind for item in trial.said() if item.sender != AGGREGATOR} == {
        Declined.kind(),
        Head.kind(),
    }
    assert isinstance(trial.failure, ProtocolError)


@places(*ONCE)
def test_a_party_hears_the_question_alone(place: int) -> None:
    assert {len(honest(place).heard[name]) for name in honest(place).setting.holdings} == {1}


def changed(message: Message, draw: random.Random) -> Message:
    """Another value of a field: of arrays other numbers or another length."""
    field = draw.choice(message.__struct_fields__)
    old = getattr(message, field)
    if isinstance(old, np.ndarray) and old.size:
        new = old.copy()
        way = draw.randrange(4)
        if way == 0:
            new = new[:-1]
        elif way == 1:
            new = np.concatenate([new, new[:1]])
        else:
            new.reshape(-1)[draw.randrange(new.size)] ^= draw.choice((1, 2, 3, 128))
        return msgspec.structs.replace(message, **{field: new})
    if isinstance(old, int):
        return msgspec.structs.replace(message, **{field: draw.choice((0, old - 1, old + 1, 9))})
    return message


def noise(place: int, seed: int) -> Rewrite:
    """The first party says other things, which the codec lets pass."""
    draw, codec = random.Random(seed), honest(place).charter.codec
    kernel = [kind.kind() for kind in KERNEL_KINDS]

    def rewrite(item: Envelope, message: Message) -> Message | None:
        if item.sender != ONE or item.kind in kernel:
            return None
        for _ in range(20):
            other = changed(message, draw)
            with suppress(ProtocolError, ValueError):
                if codec.encode(other) != item.body:
                    return other
        return None

    return rewrite


@EVERY
def test_no_report_crashes_the_aggregator(place: int) -> None:
    """It publishes, or says what is missing; no role fails by a bug."""
    example = EXAMPLES[place]
    codec, noisy = honest(place).charter.codec, 0
    for seed in range(SEEDS):
        trial = run(example, exchange=rewriting(codec, noise(place, seed)))
        noisy += trial.said(sender=ONE) != honest(place).said(sender=ONE)
        if trial.failure is None:
            assert example.variant.estimate(trial.published) is not None
        else:
            assert not isinstance(trial.failure, LocalProtocolError)
    assert noisy


LOTS: dict[str, Callable[[Any, Any], Any]] = {
    "smp": lambda variant, report: report.sampled,
    "privkv": lambda variant, report: report.keys,
    "privkvm": lambda variant, report: report.keys,
    "rrba": lambda variant, report: report.groups,
    **dict.fromkeys(
        ("inp-ht", "marg-rr", "marg-ps", "marg-ht"),
        lambda variant, report: variant.read(report).choices,
    ),
}
"""What a report names of what its sender drew."""


@places(*LOTS)
def test_lots_are_drawn_without_a_look_at_the_record(place: int) -> None:
    example = EXAMPLES[place]
    name, survey = example.variant.name, example.variant.survey
    others = Records(survey, (example.records.codes + 1) % np.array(survey.sizes, np.uint8))
    contribution = example.variant.contribution
    assert contribution is not None
    lots, bodies = [], []
    for trial in (honest(place), run(example, others)):
        said = {item.sender: item for item in trial.said(contribution.kind())}
        bodies.append({sender: item.body for sender, item in said.items()})
        lots.append(
            {
                sender: LOTS[name](trial.charter.variant, trial.message(item)).tolist()
                for sender, item in said.items()
            }
        )
    assert lots[0] == lots[1]
    assert len(set(map(str, lots[0].values()))) > 1
    assert bodies[0] != bodies[1]


def test_an_audit_finds_a_table_that_does_not_follow() -> None:
    """Within the bound, so the party answers; it has signed for what it was asked with."""
    [place] = (i for i, e in enumerate(EXAMPLES) if e.name == "rrba" and e.variant.most() > 1.1)
    example, codec = EXAMPLES[place], honest(place).charter.codec

    def rewrite(item: Envelope, message: Any) -> Any:
        if item.recipient != ONE or not isinstance(message, Question) or not len(message.weights):
            return None
        weights = message.weights.copy()
        weights[0], weights[1] = weights[0] + weights[1] // 2, weights[1] - weights[1] // 2
        return msgspec.structs.replace(message, weights=weights)

    trial = run(example, exchange=rewriting(codec, rewrite))
    assert trial.endings[ONE] == DONE
    found = audited(trial.content, type(example.variant))
    assert found.verification.signed == "all"
    assert found.verdict == "broken"
    assert "the record has another 'Question'" in str(found.findings[0])
    runs = honest(place), trial
    cost = [each.ledger(AGGREGATOR).accounts[ONE].loss.record for each in runs]
    assert cost[0] < cost[1] <= example.variant.most()


@places("secure-sum", "pair-counts", "pair-rr", "rr-clusters")
def test_whom_the_total_is_told(place: int) -> None:
    """The aggregator and the record have it in any case."""
    trial, variant = honest(place), EXAMPLES[place].variant
    literal = getattr(variant, "sums", SecureSum()).profile == "literal"
    clusters = getattr(variant, "dependence", "") in ("secure-sum", "pair-rr")
    told = {item.recipient for item in trial.said("Partials" if literal else "Totals")}
    everybody = literal or clusters or getattr(variant, "everyone", False)
    assert told == (set(trial.setting.holdings) if everybody else set())


@places(*ONCE, "privkvm", "rrba")
def test_a_report_tells_of_how_many_records_it_is(place: int) -> None:
    """By its length, or because it says so."""
    trial, contribution = honest(place), EXAMPLES[place].variant.contribution
    assert contribution is not None
    told: dict[int, set[int]] = {}
    for item in trial.said(contribution.kind()):
        number = getattr(trial.message(item), "respondents", None)
        size = number if isinstance(number, int) else len(item.body)
        told.setdefault(len(trial.setting.holdings[item.sender]), set()).add(size)
    assert told.keys() == {1, 2}
    assert max(told[1]) < min(told[2])


@places(*ONCE, "privkvm", "rrba")
def test_a_report_of_more_records_than_agreed_does_not_count(place: int) -> None:
    """By a program that was told of a larger number."""
    trial, contribution = honest(place), EXAMPLES[place].variant.contribution
    agreed = trial.charter.variant
    assert contribution is not None
    assert agreed.max_records == 2
    larger = msgspec.structs.replace(agreed, max_records=3)
    records = answers(agreed.survey, 3 * PARTIES)
    theirs = Run(make_setting(larger, records, seed=1, parties=PARTIES))
    body = theirs.said(contribution.kind(), ONE)[0].body

    class Forging(Exchange):
        def accept(
            self, link: PartyId, envelopes: Sequence[Envelope], *, start: int = 0, **rest: Any
        ) -> Ruling:
            said = envelopes[start]
            if said.kind == contribution.kind() and link == ONE:
                said = msgspec.structs.replace(said, body=body)
            return super().accept(link, [said], now=rest["now"])

    found = run(EXAMPLES[place], exchange=Forging)
    everybody = sum(map(len, trial.setting.holdings.values()))
    assert agreed.estimate(found.published).n == everybody - len(trial.setting.holdings[ONE])
