"""The empirical audit: planted leaks are found, and no sound variant is accused."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np
import pytest

from protocol import (
    AGGREGATOR,
    RECORD,
    Attribute,
    Coalition,
    PartyId,
    Stream,
    Survey,
    Variant,
    secret_of,
)
from protocol.attack.attack import CROWDS, HELD, PARTIES, Attack, attack
from protocol.attack.bounds import epsilon_of_guesses
from protocol.attack.probes import Probe, strongest_probe
from protocol.attack.row_trials import aligned_fields, seen_rows
from protocol.attack.trials import (
    Pair,
    Study,
    Trials,
    many_parties,
    seen_in_whole_runs,
    seen_of_parties,
)
from protocol.crypto.randomness import WORDS
from protocol.testing import attacked, check_attack
from protocol.variants import BUILT_IN, RRIndependent, RRJoint
from scenarios.cli.example_variants import COPIES, example
from tests.protocol.leaks import (
    FOUR,
    MATRIX,
    ONE,
    THREE,
    TWO,
    AskedTwice,
    Biased,
    Forgetful,
    MaskedTwice,
    PartlyForgetful,
    Silent,
    Talkative,
    Understated,
    some,
)
from tests.scenarios.own_variants import PlainAnswers
from tests.statistical import ALPHA
from tests.tiers import slow, thinned

A = TypeVar("A")
R = TypeVar("R")

LONG = ("secure-sum", "pair-counts", "pair-rr", "rr-clusters")
"""Secure sums take longer."""


def tried(variant: Variant, *, n: int = 4, **options: Any) -> Attack:
    return attack(variant, some(variant.survey, n), **options)


# Planted leaks, each beside the same variant without it


def sound_and_leaking(
    cls: type[RRIndependent], survey: Survey, p: float, **leak: object
) -> tuple[RRIndependent, RRIndependent]:
    sound = cls.with_keep(survey, p)
    return sound, msgspec.structs.replace(sound, **leak)


@pytest.mark.slow
@pytest.mark.parametrize(("survey", "p"), [(FOUR, 0.3), (FOUR, 0.1)])
def test_a_variant_that_forgets_to_randomize_one_report_in_a_hundred(
    survey: Survey, p: float
) -> None:
    sound, leaking = sound_and_leaking(Forgetful, survey, p, share=0.01)
    assert not tried(sound, trials=1_000_000, runs=2).accused
    assert tried(leaking, trials=1_000_000, runs=2).accused


@pytest.mark.slow
def test_a_variant_that_forgets_to_randomize_one_attribute_of_many() -> None:
    names = [f"q{i}" for i in range(6)]
    survey = Survey("many", tuple(Attribute(name=n, categories=("n", "y")) for n in names))
    sound, leaking = sound_and_leaking(PartlyForgetful, survey, 0.5, forgotten=4)
    assert not tried(sound, trials=1000, runs=2).accused
    found = tried(leaking, trials=1000, runs=2)
    assert [p.pair.partition(":")[0] for p in found.probes if p.accused] == ["q4"]


@pytest.mark.parametrize("survey", thinned([FOUR, TWO], 1), ids=lambda survey: survey.title)
def test_a_variant_that_biases_its_coin(survey: Survey) -> None:
    sound, leaking = sound_and_leaking(Biased, survey, 0.6, factor=1.05)
    assert not tried(sound, trials=100_000, runs=2).accused
    found = tried(leaking, trials=100_000, runs=2)
    assert all(probe.accused for probe in found.probes)


@pytest.mark.slow
def test_a_variant_that_tells_the_truth_when_asked_twice() -> None:
    sound, leaking = sound_and_leaking(AskedTwice, TWO, 0.6, truthful=True)
    assert not tried(sound, trials=2000, runs=4).accused
    found = tried(leaking, trials=2000, runs=4)
    assert [probe.accused for probe in found.probes[:2]] == [True, True]
    assert found.worst.right == found.worst.guesses


@pytest.mark.slow
def test_a_variant_that_uses_its_masks_twice() -> None:
    options: dict[str, Any] = {"trials": 80, "runs": 4, "copies": 4, "n": 3}
    sound = tried(MaskedTwice(survey=TWO), **options)
    leaking = tried(MaskedTwice(survey=TWO, reused=True), **options)
    assert not sound.accused
    assert [(math.isinf(p.bound), p.accused) for p in leaking.probes] == (
        [(True, False)] * 3 + [(False, True)] * 3
    )
    # Two who exchange their records leave the sum as it is: the ledger says that nothing shows.
    assert [p.bound for p in leaking.probes[3:]] == [0.0] * 3
    assert "Hidden 2.values - " in leaking.worst.event
    assert leaking.worst.right == leaking.worst.guesses


@pytest.mark.slow
def test_a_variant_whose_party_fails_with_some_answers() -> None:
    sound, leaking = sound_and_leaking(Silent, ONE, 0.2, sensitive=True, quorum=1)
    for seed in (1, 3):
        # By chance no party of many fails, and every row is a trial; then single parties tell.
        assert not tried(sound, trials=104, runs=13, seed=seed).accused
        assert tried(leaking, trials=104, runs=13, seed=seed).accused


def test_an_event_that_leaves_an_attribute_out() -> None:
    found = tried(Understated.with_keep(TWO, 0.6), trials=2000, runs=2)
    bounds = {probe.pair.partition(":")[0]: probe.bound for probe in found.probes}
    assert bounds["drinks"] == 0.0
    assert {p.pair.partition(":")[0] for p in found.probes if p.accused} >= {"drinks"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        "by coming at all",
        pytest.param("", marks=pytest.mark.slow),
        pytest.param("by its length", marks=pytest.mark.slow),
    ],
)
def test_what_shows_in_no_row_is_found_with_default_settings(how: str) -> None:
    sound, leaking = sound_and_leaking(Talkative, ONE, 0.6, how=how)
    assert sound.randomizers[0].epsilon == pytest.approx(math.log(4))
    found = tried(leaking)
    assert found.rows == ("target's Report.codes",)
    assert found.accused == bool(how)
    assert not found.undecided
    if how:
        assert "target's Beside" in found.worst.event
        assert found.worst.right == found.worst.guesses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "event"),
    [
        ("", ""),
        slow("by coming early", "among its sender's"),
        slow("far behind", "Beside.body[40]"),
        ("in the last bits", "last bits of target's Beside.number"),
        slow("by whom it tells", "recipients of target's Beside"),
    ],
)
def test_a_word_that_tells_the_truth(how: str, event: str) -> None:
    _, leaking = sound_and_leaking(Talkative, ONE, 0.2, how=how)
    (probe,) = tried(leaking, trials=1000, runs=12).probes
    assert probe.accused == bool(how)
    assert event in probe.event


@pytest.mark.slow
def test_rows_in_the_order_of_the_true_answers() -> None:
    """No row of theirs is one respondent's: a party of many is looked at as a whole."""
    accused = []
    for how in ("", "by the order of rows"):
        _, variant = sound_and_leaking(Talkative, TWO, 0.6, how=how)
        study = Study(
            variant=variant,
            records=some(TWO, 4),
            target=0,
            mate=None,
            observer=Coalition((AGGREGATOR,)),
            stream=Stream(secret_of(1)),
        )
        pair = Pair("smokes", ("smokes",), (np.array([0, 0]), np.array([1, 0])))
        assert bool(aligned_fields(study, pair)) == (not how)
        crowds = many_parties(study, pair, CROWDS, copies=PARTIES, held=HELD)
        probe = strongest_probe(pair, [crowds], level=ALPHA / 24, delta=0.0)
        assert probe.bound == pytest.approx(math.log(4))
        accused.append(probe.accused)
    assert accused == [False, True]


# Sound variants


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned([name for name in BUILT_IN if name not in LONG], 5))
def test_no_sound_variant_is_accused(name: str) -> None:
    variant, records = example(BUILT_IN[name], {})
    found = attack(variant, records, trials=16, runs=4, copies=4)
    assert not found.accused
    assert all(math.isinf(p.bound) or p.trials for p in found.probes)


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILT_IN)
def test_no_sound_variant_is_accused_by_a_long_attack(name: str) -> None:
    variant, records = example(BUILT_IN[name], {})
    found = attack(variant, records, copies=COPIES.get(name))
    assert not found.accused
    assert not found.undecided


@pytest.mark.slow
def test_few_trials_decide_nothing() -> None:
    sound, leaking = sound_and_leaking(Talkative, ONE, 0.6, how="by coming at all")
    for variant in (sound, leaking):
        few = tried(variant, trials=1000, runs=10)
        assert few.undecided
        assert not few.accused
        (probe,) = few.probes
        assert probe.undecided
        by_views = {one.views: one for one in probe.tried}
        assert list(by_views) == ["whole runs", "rows", "parties", "parties of 64"]
        whole = by_views["whole runs"]
        assert (whole.trials, whole.runs, by_views["parties"].trials) == (10, 10, 80)
        # Five are guessed at, and all guesses may be right.
        assert probe.weakest == whole
        assert whole.provable == epsilon_of_guesses(5, 5, alpha=ALPHA / 8)
        assert not by_views["rows"].undecided


def test_a_bound_in_one_sort_of_views_says_nothing_of_another() -> None:
    """Of every sort of trials the bound is that of the ledgers of its own runs."""
    pair = Pair("nothing", ("mood",), (np.array([0]), np.array([1])))
    bits = Stream(secret_of(1)).bernoulli(WORDS // 2, 600)
    telling = {"told": bits.astype(np.int64)}
    sound = Trials("whole runs", bits, {"noise": np.arange(600) % 7}, None, 9.0, 600)
    leaking = Trials("rows", bits, telling, None, 1.0, 2)
    probe = strongest_probe(pair, [sound, leaking], level=ALPHA, delta=0.0)
    assert (probe.accused, probe.undecided, probe.bound) == (True, False, 1.0)
    alone = strongest_probe(pair, [sound], level=ALPHA, delta=0.0)
    assert (alone.accused, alone.undecided, alone.bound) == (False, True, 9.0)
    endless = strongest_probe(pair, [leaking._replace(bound=math.inf)], level=ALPHA, delta=0.0)
    assert (endless.accused, endless.undecided) == (False, False)


def test_what_is_learned_is_tried_on_other_trials() -> None:
    """Of many tables of noise, few seem to tell something: no more than alpha allows."""
    seeming = 0
    pair = Pair("nothing", ("mood",), (np.array([0]), np.array([1])))
    for number in range(20):
        stream = Stream(secret_of(number))
        bits = stream.bernoulli(WORDS // 2, 400)
        columns = {f"{i}": stream.integers(9, 400).astype(np.int64) for i in range(10)}
        trials = Trials("rows", bits, columns, None, 0.0, 1)
        seeming += strongest_probe(pair, [trials], level=0.05, delta=0.0).accused
    assert seeming <= 4


@pytest.mark.slow
def test_the_attack_comes_near_to_what_is_true() -> None:
    """A bound that proves little would accuse nobody."""
    for variant in (RRJoint.with_keep(TWO, 0.5), RRIndependent.with_keep(TWO, 0.5)):
        found = tried(variant, trials=100_000, runs=2)
        assert found.rows == ("target's Report.codes",)
        for probe in found.probes:
            assert 0.9 * probe.bound < probe.lower < probe.bound
            assert probe.first.low > probe.second.high


@pytest.mark.slow
@pytest.mark.parametrize("name", thinned(["inp-ps", "inp-ht", "marg-rr", "marg-ps", "marg-ht"], 3))
def test_rows_that_are_packed_in_bits_are_found(name: str) -> None:
    variant, records = example(BUILT_IN[name], {})
    found = attack(variant, records, trials=100_000, runs=2)
    (rows,) = found.rows
    assert rows.startswith("target's Bits.bits in groups of ")
    assert all(probe.runs == 2 and probe.lower < probe.bound for probe in found.probes)
    assert max(probe.lower for probe in found.probes) > 0.8


def test_the_worst_alternative_is_chosen_by_the_matrix() -> None:
    variant = RRIndependent(survey=THREE, randomizers=(MATRIX,))
    records = some(THREE, 3)
    (probe,) = attack(variant, records, trials=20_000, runs=2).probes
    own = int(records.codes[0, 0])
    farthest = {0: "high", 1: "high", 2: "low"}[own]
    assert probe.pair == f"mood: {THREE.attributes[0].categories[own]} or {farthest}"
    assert probe.lower > 0.8 * probe.bound


@pytest.mark.slow
def test_a_party_sees_what_is_published() -> None:
    variant = RRIndependent.with_keep(FOUR, 0.9)
    party = tried(variant, n=2, observer=PartyId("party-2"), trials=300)
    holder = tried(variant, n=2, observer=RECORD, trials=300, runs=10)
    assert not party.accused
    assert not holder.accused
    # With two respondents the published table tells nearly everything.
    assert max(probe.lower for probe in party.probes) > 0.5
    assert {probe.runs for probe in party.probes} == {300}


@pytest.mark.slow
def test_nobody_exchanges_her_record_with_the_observer() -> None:
    for n, exchanges in ((3, 3), (2, 0)):
        variant = MaskedTwice(survey=TWO)
        found = tried(variant, n=n, observer=PartyId("party-2"), trials=20)
        assert not found.accused
        assert sum("exchanged" in probe.pair for probe in found.probes) == exchanges


def test_nothing_exceeds_what_is_unbounded() -> None:
    found = tried(PlainAnswers.with_keep(TWO, 0.6))
    assert not found.accused
    assert all(math.isinf(p.bound) and p.unbounded for p in found.probes)
    assert {p.trials for p in found.probes} == {0}


@pytest.mark.slow
def test_the_same_seed_gives_the_same_attack() -> None:
    variant = RRIndependent.with_keep(ONE, 0.5)
    one, again, other = (tried(variant, trials=500, runs=4, seed=s) for s in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.slow
def test_it_does_not_matter_where_the_runs_are_made() -> None:
    """In other processes, in any order: whole runs, parties and rows."""
    kernels = set()

    def elsewhere(kernel: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
        kernels.add(kernel)
        sent = [pickle.loads(pickle.dumps(argument)) for argument in arguments]
        found = [pickle.loads(pickle.dumps(kernel(argument))) for argument in reversed(sent)]
        return found[::-1]

    variant, records = example(BUILT_IN["rr-joint"], {})
    few = {"trials": 24, "runs": 10, "copies": 12}
    assert attack(variant, records, **few, carried=elsewhere) == attack(variant, records, **few)
    assert kernels == {seen_in_whole_runs, seen_of_parties, seen_rows}


def test_delta_leaves_less_to_prove() -> None:
    variant = RRIndependent.with_keep(FOUR, 0.5)
    pure, approximate = (
        tried(variant, trials=50_000, runs=2, delta=delta).probes[0] for delta in (0.0, 0.2)
    )
    assert 0.0 < approximate.lower < pure.lower
    assert not tried(variant, trials=50_000, runs=2, delta=0.99).probes[0].lower


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target": 4}, "target 4: expected 0 to 3"),
        ({"trials": 1}, "expected at least 2"),
        ({"alpha": 0.0}, "alpha"),
        ({"delta": 1.0}, "delta 1.0"),
        ({"observer": PartyId("nobody")}, "'nobody' is not on the roster of 5 members"),
        ({"observer": PartyId("party-1")}, "is the target"),
    ],
)
def test_what_cannot_be_attacked(options: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tried(RRIndependent.with_keep(TWO, 0.5), **options)


test_in_one_line = attacked(RRIndependent.with_keep(TWO, 0.5), some(TWO, 4), trials=2000, runs=4)


@pytest.mark.slow
def test_what_the_line_says() -> None:
    leaking = AskedTwice(
        **{**msgspec.structs.asdict(AskedTwice.with_keep(TWO, 0.3)), "truthful": True}
    )
    with pytest.raises(AssertionError, match=r"the view tells at least epsilon .* ledger says at"):
        check_attack(leaking, some(TWO, 4), trials=500, runs=4)


def test_the_worst_probe_is_the_one_that_exceeds_most() -> None:
    probes = (
        Probe(pair="a", bound=1.0, lower=0.9),
        Probe(pair="b", bound=math.inf),
        Probe(pair="c", bound=0.1, lower=0.2),
    )
    found = Attack(
        variant="x",
        observer=AGGREGATOR,
        target=PartyId("party-1"),
        alpha=ALPHA,
        delta=0.0,
        rows=(),
        probes=probes,
    )
    assert found.worst.pair == "c"
    assert found.accused
