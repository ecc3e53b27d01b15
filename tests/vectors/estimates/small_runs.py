"""Small runs of every variant, with fixed seeds, to record."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from protocol import (
    Attribute,
    KeepElseTable,
    KeepUniform,
    MatrixRandomizer,
    Noise,
    Projection,
    Records,
    SecureSum,
    Survey,
    Variant,
    key_survey,
)
from protocol.estimators.analysis import Analysis
from protocol.messages import Envelope
from protocol.session.fates import PASS, Fate, FateRule, Verdict
from protocol.variants import (
    RRBA,
    InpHT,
    InpPS,
    InpRR,
    MargHT,
    MargPS,
    MargRR,
    NumericMean,
    PairCounts,
    PairRR,
    PrivKVMVariant,
    PrivKVVariant,
    RRClusters,
    RRIndependent,
    RRIndJoint,
    RRJoint,
    RsFd,
    SecureSumVariant,
    Smp,
    Spl,
)
from protocol.variants.clusters.negotiation import Dependence
from protocol.variants.keyvalue.estimate import Estimator
from protocol.variants.marginals.variant import MarginalRelease
from protocol.variants.numeric.numeric_mean import Mechanism
from protocol.variants.oracles.names import Oracle
from tests.recorded.runs import recorded


def survey(**sizes: int) -> Survey:
    """Attributes of these sizes; names in capitals are ordinal."""
    return Survey(
        "small",
        tuple(
            Attribute(name=name, categories=tuple("abcdefgh"[:size]), ordinal=name.isupper())
            for name, size in sizes.items()
        ),
    )


PAIR, THREE, FOUR = survey(x=2, y=3), survey(x=2, y=3, z=2), survey(x=2, y=3, Z=3, W=2)
BITS = survey(x=2, y=2, z=2)
FILMS = key_survey("films", ("heat", "ran", "alien"), ((-0.5, 0.5), (1.0,), (-1.0, 0.2)))
NUMBERS = Survey(
    "numbers",
    (
        Attribute(name="trips", categories=("0", "1", "2")),
        Attribute(name="mood", categories=("-1", "-0.5", "0", "0.5", "1")),
    ),
)
CRASH = Fate(Verdict.CRASH)
LITERAL = SecureSum(profile="literal")
SPARSE = SecureSum(corrupt=0.25, dropped=0.25)
MIXED = (
    KeepUniform.with_keep(2, p=0.6),
    KeepElseTable.with_table(p=0.5, table=[0.5, 0.3, 0.2], mix=0.25),
    MatrixRandomizer.from_probabilities([[0.8, 0.2], [0.3, 0.7]]),
)
"""A randomizer of every type that an attribute of ``THREE`` can have."""
WHOLE = MatrixRandomizer.from_probabilities(
    0.48 * np.eye(6) + 0.08 + 0.04 * np.eye(6, k=1) + 0.04 * np.eye(6, k=-5)
)
"""A matrix for the pairs of answers of ``PAIR``."""


class Small(NamedTuple):
    """A run to record.

    Args:
        name: of its case.
        variant: the protocol.
        parties, respondents: how many there are.
        projection: that is announced.
        lost: the kinds of message before which a party is gone: of the first one the last party,
            of the next one the party before it.
        strata: of the respondents, one after the other and again, where there are weights.
    """

    name: str
    variant: Variant
    parties: int
    respondents: int
    projection: Projection = "none"
    lost: tuple[str, ...] = ()
    strata: tuple[str, ...] = ()


def coins(sums: SecureSum, trials: int, chance: int) -> SecureSum:
    """The same sums with noise."""
    return msgspec.structs.replace(sums, noise=Noise(trials=trials, chance=chance))


def runs() -> Iterator[Small]:
    """At least one run of every variant."""
    yield Small(
        "rr-independent, every type of randomizer, a report missing",
        RRIndependent(survey=THREE, randomizers=MIXED),
        parties=4,
        respondents=20,
        projection="simplex",
        lost=("Report",),
    )
    yield Small(
        "rr-independent, EM",
        RRIndependent(survey=THREE, randomizers=MIXED),
        parties=2,
        respondents=24,
        projection="em",
    )
    joint = RRJoint.with_keep(THREE, 0.5)
    yield Small("rr-joint", joint, parties=2, respondents=20, projection="clip")
    dense = RRJoint(survey=PAIR, randomizer=WHOLE)
    yield Small("rr-joint, a matrix, EM", dense, parties=2, respondents=20, projection="em")
    clusters = RRIndJoint(survey=THREE, p=0.6, clusters=(("z", "x"), ("y",)))
    yield Small("rr-ind-joint", clusters, parties=2, respondents=30, projection="em")

    exact = SecureSumVariant(survey=PAIR, sums=LITERAL)
    yield Small("secure-sum, literal", exact, parties=3, respondents=9)
    exact = SecureSumVariant(survey=PAIR, sums=SPARSE)
    yield Small("secure-sum, sparse", exact, parties=4, respondents=8, lost=("Upload",))
    counts = PairCounts(survey=THREE, sums=LITERAL)
    yield Small("pair-counts, literal", counts, parties=3, respondents=9, projection="em")
    counts = PairCounts(survey=PAIR, sums=SPARSE, everyone=True)
    yield Small("pair-counts, sparse", counts, parties=4, respondents=8, lost=("Deal",))
    noisy = SecureSumVariant(survey=PAIR, sums=coins(LITERAL, 5, 2**15))
    yield Small("secure-sum, literal, coins", noisy, parties=3, respondents=60)
    noisy = PairCounts(survey=THREE, sums=coins(SPARSE, 3, 9000))
    yield Small(
        "pair-counts, sparse, coins",
        noisy,
        parties=5,
        respondents=200,
        projection="em",
        lost=("Upload",),
    )
    pairs = PairRR.with_keep(THREE, 0.6, sums=LITERAL)
    yield Small("pair-rr, literal", pairs, parties=3, respondents=24, projection="em")
    pairs = PairRR.with_keep(THREE, 0.6, sums=SPARSE)
    yield Small(
        "pair-rr, sparse", pairs, parties=4, respondents=20, projection="clip", lost=("Upload",)
    )

    learned: tuple[tuple[Dependence, str, Projection, tuple[str, ...]], ...] = (
        ("rr", "auto", "simplex", ("Report",)),
        ("rr-debiased", "auto", "em", ("PilotReport", "Report")),
        ("rr-debiased", "covariance", "none", ()),
        ("secure-sum", "auto", "clip", ("Upload", "Report")),
        ("pair-rr", "cramers-v", "em", ("Report",)),
    )
    for dependence, measure, projection, lost in learned:
        yield Small(
            f"rr-clusters, {dependence}, {measure}",
            RRClusters(
                survey=FOUR,
                p=0.8,
                tv=9,
                td=0.08,
                dependence=dependence,
                measure=measure,
                sums=SPARSE,
            ),
            parties=4,
            respondents=40,
            projection=projection,
            lost=lost,
        )

    blocks = RRBA(survey=THREE, epsilon=1.0, mix=0.4, block=2)
    yield Small(
        "rrba, pooled", blocks, parties=6, respondents=30, projection="em", lost=("Answers",)
    )
    blocks = RRBA(survey=THREE, p=0.5, mix=0.3, block=2, groups="view", release="last-two")
    yield Small("rrba, last-two", blocks, parties=6, respondents=6, projection="clip")
    blocks = RRBA(survey=FOUR, epsilon=1.5, k=3, block=3)
    yield Small("rrba, uniform fakes, groups of 3", blocks, parties=3, respondents=6)

    methods: tuple[tuple[type[MarginalRelease], Projection, dict[str, Any]], ...] = (
        (InpRR, "clip", {"unary": "oue"}),
        (InpPS, "em", {}),
        (InpHT, "em", {}),
        (MargRR, "simplex", {}),
        (MargPS, "em", {}),
        (MargHT, "em", {}),
    )
    for method, projection, more in methods:
        binary = method(survey=BITS, epsilon=1.0, k=2, **more)
        yield Small(f"{binary.name}, binary attributes", binary, 2, 24, projection)
        encoded = method(survey=PAIR, epsilon=1.0, k=3, **more)
        yield Small(f"{encoded.name}, encoded attributes", encoded, 2, 24, "simplex")

    estimators: tuple[Estimator, ...] = ("likelihood", "moment", "debiased", "em")
    for estimator in estimators:
        once = PrivKVVariant(survey=FILMS, epsilon=2.0, estimator=estimator)
        yield Small(f"privkv, {estimator}", once, parties=2, respondents=24)
    keyed = PrivKVMVariant(survey=FILMS, epsilon=2.0, rounds=2)
    yield Small("privkvm, likelihood", keyed, parties=4, respondents=32, lost=("KeyReport",))
    keyed = PrivKVMVariant(survey=FILMS, epsilon=3.0, rounds=3, estimator="moment", virtual=4)
    yield Small("privkvm, moment with virtual rounds", keyed, parties=2, respondents=24)
    keyed = PrivKVMVariant(survey=FILMS, epsilon=3.0, rounds=2, estimator="debiased")
    yield Small("privkvm, debiased", keyed, parties=2, respondents=24)

    all_asked: tuple[tuple[Oracle, Projection], ...] = (
        ("grr", "em"),
        ("oue", "simplex"),
        ("olh", "simplex"),
        ("hadamard-response", "simplex"),
    )
    for oracle, projection in all_asked:
        split = Spl(survey=PAIR, epsilon=2.0, oracle=oracle)
        yield Small(f"spl, {oracle}", split, parties=2, respondents=16, projection=projection)
    one_asked: tuple[Oracle, ...] = ("sue", "blh", "subset-selection")
    for oracle in one_asked:
        sampled = Smp(survey=survey(x=5, y=3), epsilon=1.0, oracle=oracle)
        yield Small(f"smp, {oracle}", sampled, parties=2, respondents=16, projection="clip")
    sampled = Smp(survey=THREE, epsilon=1.0, oracle="grr")
    yield Small("smp, an attribute without reports", sampled, parties=2, respondents=3)
    faked = RsFd(survey=THREE, epsilon=1.0)
    yield Small("rs-fd", faked, parties=2, respondents=20, projection="em")
    mechanisms: tuple[Mechanism, ...] = ("one-bit", "piecewise")
    for mechanism in mechanisms:
        means = NumericMean(survey=NUMBERS, epsilon=2.0, mechanism=mechanism)
        yield Small(f"numeric-mean, {mechanism}", means, parties=2, respondents=12)
    weights = {"north": 2.5, "south": 0.8, "west": 1.0}
    independent = RRIndependent(survey=THREE, randomizers=MIXED, weights=weights)
    for projection in ("simplex", "em"):
        yield Small(
            f"rr-independent, weights, {projection}",
            independent,
            parties=4,
            respondents=24,
            projection=projection,
            strata=("south", "north", "south"),
        )


def held(asked: Survey, respondents: int, seed: int) -> Records:
    """Answers that depend on the first one."""
    random = np.random.default_rng(seed)
    codes = random.integers(0, asked.sizes, (respondents, len(asked.sizes)))
    alike = random.random(codes.shape) < 0.6
    codes = np.where(alike, codes[:, :1] % np.array(asked.sizes), codes)
    return Records(asked, codes.astype(np.uint8))


def log_of(small: Small, seed: int) -> bytes:
    """The transcript of a run."""
    asked, parties = small.variant.survey, small.parties
    tables = [names for k in (1, 2, 3) for names in itertools.combinations(asked.names, k)]
    strata = itertools.islice(itertools.cycle(small.strata), small.respondents)
    run = recorded(
        small.variant,
        held(asked, small.respondents, seed),
        parties=parties,
        seed=seed,
        analysis=Analysis(tables=tuple(tables), projection=small.projection),
        fate=vanishing({f"party-{parties - i}": kind for i, kind in enumerate(small.lost)}),
        strata=[*strata] or None,
        seeded=False,
        signed=True,
    )
    if run.result is None:
        raise RuntimeError(f"{small.name}: {run.failure}")
    return run.content


def vanishing(when: dict[str, str]) -> FateRule:
    """Parties that are gone before they send a kind of message."""

    def decide(envelope: Envelope) -> Fate:
        return CRASH if when.get(envelope.sender) == envelope.kind else PASS

    return decide
