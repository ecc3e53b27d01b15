"""Parameters in a header: every variant comes back from its own, and refuses what does not fit."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from protocol import (
    KeepUniform,
    LocalProtocolError,
    MatrixRandomizer,
    SecureSum,
    SurveyError,
    Variant,
)
from protocol.messages import Declined
from protocol.session.variant import build, plain_parameters
from protocol.variants import (
    BUILT_IN,
    NumericMean,
    PairCounts,
    PairRR,
    RRClusters,
    RRIndependent,
    RRIndJoint,
    RRJoint,
    SecureSumVariant,
)
from protocol.variants.keyvalue.privkv import KeyValueCollection
from protocol.variants.marginals.variant import MarginalRelease
from protocol.variants.oracles.attributes import AttributeOracles
from protocol.variants.sums.tallies import Tallied
from tests.every_variant import examples
from tests.protocol.sessions import SURVEY

MIXED = (
    MatrixRandomizer.from_probabilities([[0.8, 0.2], [0.3, 0.7]]),
    KeepUniform.with_keep(3, p=0.5),
)
EVERY: dict[str, Variant] = {
    **{example.name: example.variant for example in examples()},
    "matrices": RRIndependent(
        survey=SURVEY, randomizers=MIXED, quorum=2, patience=None, max_records=7
    ),
    "clusters": RRIndJoint(survey=SURVEY, p=0.7, clusters=(("drinks", "smokes"),)),
    "literal": SecureSumVariant(survey=SURVEY, sums=SecureSum(profile="literal", corrupt=0.25)),
    "for everyone": PairCounts(
        survey=SURVEY, sums=SecureSum(corrupt=0.1, dropped=0.2), everyone=True
    ),
    "plain sums": PairRR.with_keep(SURVEY, 0.7),
    "learned": RRClusters(survey=SURVEY, p=0.7, tv=6, td=0.1, dependence="pair-rr"),
}

COMMON: tuple[dict[str, Any], ...] = (
    {"extra": 1},
    {"quorum": "two"},
    {"quorum": 0},
    {"max_records": 0},
    {"patience": 0.0},
    {"patience": -1.0},
    {"patience": math.nan},
)
EPSILONS = ({"epsilon": 0.0}, {"epsilon": math.inf})
SUMS = (
    {"profile": "dense"},
    {"opening": "hidden"},
    {"corrupt": 1.0},
    {"dropped": -0.1},
    {"dropped": 1.0},
)
OWN: tuple[tuple[type[Variant], tuple[dict[str, Any], ...]], ...] = (
    (
        RRJoint,
        (
            {"randomizer": None},
            {"randomizer": {"type": "keep", "size": 8, "threshold": 0}},
            {"randomizer": {"type": "keep", "size": 7, "threshold": 2**63}},
            {"randomizer": {"type": "none"}},
        ),
    ),
    (RRIndependent, ({"randomizers": [{"type": "keep", "size": 2, "threshold": 1}]},)),
    (
        RRIndJoint,
        (
            {"p": 0.0},
            {"p": 1.0},
            {"clusters": [["a"]]},
            {"clusters": [["a", "b"], ["a"]]},
            {"clusters": [["a", "weight"]]},
        ),
    ),
    (Tallied, tuple({"sums": sums} for sums in SUMS)),
    (AttributeOracles, (*EPSILONS, {"oracle": "none"})),
    (NumericMean, (*EPSILONS, {"mechanism": "none"})),
    (MarginalRelease, (*EPSILONS, {"k": 5})),
    (KeyValueCollection, (*EPSILONS, {"estimator": "none"})),
)
"""Beside those that no variant takes."""


@pytest.mark.parametrize("name", EVERY)
def test_a_variant_comes_back_and_refuses_what_does_not_fit(name: str) -> None:
    variant = EVERY[name]
    parameters, survey = msgspec.msgpack.decode(
        msgspec.msgpack.encode([plain_parameters(variant), msgspec.to_builtins(variant.survey)])
    )
    assert build(type(variant), parameters=parameters, survey=survey) == variant
    assert BUILT_IN[variant.name] is type(variant)
    own = [change for cls, changes in OWN if isinstance(variant, cls) for change in changes]
    for change in (*COMMON, *own):
        with pytest.raises(SurveyError, match="does not fit variant"):
            build(type(variant), parameters={**parameters, **change}, survey=survey)


@pytest.mark.parametrize("name", EVERY)
def test_no_other_message_is_a_result(name: str) -> None:
    with pytest.raises(LocalProtocolError, match="'Declined' is not a result of"):
        EVERY[name].estimate(Declined("terms"))
