"""What a party of each built-in variant is asked, as the page has it, and asked again."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from protocol import AGGREGATOR, PartyId, SecureSum, Variant
from protocol.accounting.accountants import PureAccountant
from protocol.messages import DONE, NO_ROUND, Declined, Envelope, Head
from protocol.session.machine import Machine
from protocol.session.roles import EARLY_PER_SENDER
from protocol.session.variant import message_event
from protocol.simulation.setting import make_setting
from protocol.variants import BUILT_IN, PairRR, RRClusters
from tests.every_variant import BITS, LITERAL, PARTIES, examples
from tests.protocol.sessions import answers, talk, words_sent
from tests.recorded.runs import Run
from tests.tiers import thinned

PAGE = Path(__file__).parents[3] / "docs/threats/asked.md"
ONE = PartyId("party-1")
VARIANTS = (
    *(example.variant for example in examples()),
    PairRR.with_keep(BITS, 0.6, everyone=True),
    RRClusters(survey=BITS, p=0.6, tv=4, td=0.1, dependence="pair-rr", sums=LITERAL),
)
EVERY = pytest.mark.parametrize(
    "place", thinned(range(len(VARIANTS)), 14), ids=[v.name for v in VARIANTS]
)


class Row(NamedTuple):
    """What the page says of some variants, with some setting."""

    hears: str
    says: list[str]
    pays: str


def names_in(cell: str) -> list[str]:
    return re.findall(r"`([\w-]+)`", cell)


def rows() -> Iterator[tuple[str, str, Row]]:
    """The page's rows: a variant, a setting that it is for or none, and what it says."""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            variants, settings, hears, says, pays = cells
            row = Row(hears, names_in(says), pays.partition("[^")[0])
            for name in names_in(variants):
                for setting in names_in(settings) or [""]:
                    yield name, setting, row


ROWS = {(name, setting): row for name, setting, row in rows()}


def setting_of_row(variant: Variant) -> str:
    """By which setting a variant has its row."""
    sums = getattr(variant, "sums", None)
    if not isinstance(sums, SecureSum):
        return ""
    if sums.profile == "literal":
        return "literal"
    if isinstance(variant, RRClusters):
        return variant.dependence
    return "everyone" if getattr(variant, "everyone", False) else "sparse"


@functools.cache
def finished_run(place: int, seed: int = 1) -> Run:
    records = answers(VARIANTS[place].survey, 2 * PARTIES - 3)
    return Run(make_setting(VARIANTS[place], records, seed=seed, parties=PARTIES))


def after(place: int, heard: Callable[[Envelope], list[Envelope]]) -> Machine:
    """The first party, after it has heard these for each envelope of an honest run."""
    trial = finished_run(place)
    machine = trial.machine(ONE)
    machine.start(0.0)
    number = 0
    for item in trial.heard[ONE]:
        for other in heard(item):
            machine.receive(msgspec.structs.replace(other, seq=number), 0.0)
            number += 1
    return machine


def honest_words(place: int) -> list[Envelope]:
    return [item for item in finished_run(place).said(sender=ONE) if item.kind != Head.kind()]


def heard_by(machine: Machine) -> str:
    """The waits of a party as a cell of the page has them."""
    found: dict[str, list[str]] = {}
    order = []
    for wait in machine.waits:
        assert [at for at, _ in wait.heard] == [0], "of another than the aggregator"
        if wait.round == NO_ROUND:
            order.append(f"`{wait.kind}`")
        elif wait.kind == "Fakes":
            found.setdefault(wait.kind, []).append(str(wait.round))
        else:
            order.append(f"`{wait.kind}` {wait.round}")
    order += [f"`{kind}` {each[0]} to {each[-1]}" for kind, each in found.items()]
    return ", ".join(order)


@EVERY
def test_a_row_says_what_a_party_is_asked(place: int) -> None:
    variant, trial = VARIANTS[place], finished_run(place)
    row = ROWS[variant.name, setting_of_row(variant)]
    machine = after(place, lambda item: [item])
    rounds = getattr(variant, "repeats", 1)
    assert heard_by(machine) == row.hears.replace("`rounds` - 1", str(rounds - 1))
    said = honest_words(place)
    assert list(dict.fromkeys(item.kind for item in said)) == row.says
    judge = PureAccountant().judge
    charged = [
        item.kind
        for item in said
        if judge(message_event(variant, trial.message(item), machine.seen, item.recipient)).record
        > 0
    ]
    times = {"once": 1, "twice": 2, "once for each of `rounds` rounds": rounds}
    assert len(charged) == times[row.pays.partition(", for")[0]]
    assert names_in(row.pays.partition(", for")[2]) in ([], charged)
    first = said_of(said, charged[0])
    told = message_event(variant, trial.message(first), machine.seen, first.recipient)
    exact = isinstance(getattr(variant, "sums", None), SecureSum) and not math.isfinite(
        judge(told).record
    )
    assert math.isinf(variant.most()) == exact


def said_of(said: list[Envelope], kind: str) -> Envelope:
    return next(item for item in said if item.kind == kind)


def test_every_variant_has_a_row() -> None:
    assert {name for name, _ in ROWS} == set(BUILT_IN)
    assert {(variant.name, setting_of_row(variant)) for variant in VARIANTS} == set(ROWS)


@EVERY
def test_what_is_asked_again_in_other_words_is_not_heard(place: int) -> None:
    trial, other = finished_run(place), finished_run(place, seed=2)
    bodies: dict[str, list[bytes]] = {}
    for item in other.heard[ONE]:
        bodies.setdefault(item.kind, []).append(item.body)

    def again(item: Envelope) -> list[Envelope]:
        body = bodies[item.kind].pop(0)
        return [item, msgspec.structs.replace(item, body=body), item]

    machine = after(place, again)
    assert words_sent(machine) == honest_words(place)
    kept = [each for each in machine.kept if each.kind != Head.kind()]
    assert len(kept) == 2 * len(trial.heard[ONE])
    reasons = {each.reason.partition(":")[0] for each in kept}
    assert reasons <= {"late or repeated", "the role has ended"}


@EVERY
def test_what_comes_out_of_turn_waits_for_it(place: int) -> None:
    """All but the first come first, the last of them before the others."""
    trial = finished_run(place)
    first, *rest = trial.heard[ONE]
    machine = trial.machine(ONE)
    machine.start(0.0)
    for number, item in enumerate([*rest[::-1], first]):
        assert words_sent(machine) == []
        machine.receive(msgspec.structs.replace(item, seq=number), 0.0)
    assert words_sent(machine) == honest_words(place)


def split_rounds(place: int, many: int) -> list[Envelope]:
    """So many questions of rounds that no row names."""
    trial = finished_run(place)
    codec = trial.charter.codec
    item = next(i for i in trial.heard[ONE] if hasattr(trial.message(i), "round"))
    message = trial.message(item)
    bodies = (codec.encode(msgspec.structs.replace(message, round=10 + i)) for i in range(many))
    return [msgspec.structs.replace(item, body=body) for body in bodies]


IN_ROUNDS = [
    place
    for place, variant in enumerate(VARIANTS)
    if re.search(r"` \d", ROWS[variant.name, setting_of_row(variant)].hears)
]
ROUNDS = pytest.mark.parametrize("place", IN_ROUNDS, ids=[VARIANTS[i].name for i in IN_ROUNDS])


@EVERY
def test_other_rounds_and_kinds_wait_in_vain(place: int) -> None:
    trial = finished_run(place)
    own = honest_words(place)[0]
    strange = [msgspec.structs.replace(own, sender=AGGREGATOR, recipient=ONE)]
    if place in IN_ROUNDS:
        strange += split_rounds(place, EARLY_PER_SENDER // 2)
    ahead = [True]

    def besides(item: Envelope) -> list[Envelope]:
        return [*strange, item] if ahead and ahead.pop() else [item]

    machine = after(place, besides)
    assert words_sent(machine) == honest_words(place)
    assert trial.endings[ONE] == DONE
    assert machine.failure is None


@ROUNDS
def test_too_many_other_rounds_end_the_role(place: int) -> None:
    flood = split_rounds(place, EARLY_PER_SENDER + 1)
    machine = finished_run(place).machine(ONE)
    machine.start(0.0)
    for number, item in enumerate(flood):
        assert not machine.finished
        machine.receive(msgspec.structs.replace(item, seq=number), 0.0)
    assert machine.finished
    [declined] = words_sent(machine)
    assert finished_run(place).charter.codec.decode(declined.kind, declined.body) == Declined(
        "message"
    )


def test_by_default_a_variant_promises_no_bound() -> None:
    assert math.isinf(talk().most())
