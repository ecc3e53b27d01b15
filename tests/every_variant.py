"""A small example of every variant of the project, for what has to work on all of them."""

from __future__ import annotations

import functools
from typing import NamedTuple

from protocol import Attribute, Records, SecureSum, Survey, Variant, key_survey
from protocol.variants import (
    BUILT_IN,
    RRBA,
    NumericMean,
    PairRR,
    RRClusters,
    RRIndependent,
    RRIndJoint,
    RRJoint,
)
from protocol.variants.keyvalue.privkv import KeyValueCollection
from protocol.variants.marginals.variant import MarginalRelease
from protocol.variants.numeric.numeric_mean import Mechanism
from protocol.variants.oracles.attributes import AttributeOracles
from protocol.variants.oracles.names import ORACLES
from protocol.variants.sums.tallies import Tallied
from tests.protocol.sessions import answers

BITS = Survey(
    "bits", tuple(Attribute(name=name, categories=("no", "yes")) for name in ("a", "b", "c"))
)
FILMS = key_survey("films", ("heat", "ran"), ((-0.5, 0.5), (1.0,)))
NUMBERS = Survey(
    "numbers",
    (
        Attribute(name="trips", categories=("0", "1", "2")),
        Attribute(name="mood", categories=("-1", "-0.5", "0", "0.5", "1")),
    ),
)
PARTIES = 6
LITERAL = SecureSum(profile="literal")
SPARSE = SecureSum(corrupt=0.15, dropped=0.34)
"""Of six parties two may be missing."""


class Example(NamedTuple):
    """A variant and the records of those who take part."""

    variant: Variant
    records: Records

    @property
    def name(self) -> str:
        """The variant's, with what sets this example apart."""
        words = [getattr(self.variant, set_, "") for set_ in ("dependence", "oracle", "mechanism")]
        sums = getattr(self.variant, "sums", None)
        if sums is not None:
            words.append(sums.profile)
        return " ".join(filter(None, (self.variant.name, *words)))


@functools.cache
def examples() -> tuple[Example, ...]:
    """At least one of every variant, with six parties of one or two respondents."""
    found = [example for name in BUILT_IN for example in _examples_of(name)]
    return tuple(Example(variant, answers(variant.survey, 2 * PARTIES - 3)) for variant in found)


def _examples_of(name: str) -> list[Variant]:
    cls = BUILT_IN[name]
    if issubclass(cls, RRIndependent | RRJoint | RRIndJoint):
        return [cls.with_keep(BITS, 0.6)]
    if issubclass(cls, PairRR):
        return [cls.with_keep(BITS, 0.6, sums=sums) for sums in (SPARSE, LITERAL)]
    if issubclass(cls, Tallied):
        alone, together = (
            cls(survey=BITS, sums=SPARSE, everyone=everyone) for everyone in (False, True)
        )
        return [alone, cls(survey=BITS, sums=LITERAL), together]
    if issubclass(cls, RRClusters):
        return [
            cls(survey=BITS, p=0.6, tv=4, td=0.1, dependence=dependence, sums=SPARSE)
            for dependence in ("rr", "rr-debiased", "secure-sum", "pair-rr")
        ]
    if issubclass(cls, RRBA):
        adaptive = cls(survey=BITS, p=0.5, mix=0.3, block=2, groups="view")
        return [cls(survey=BITS, epsilon=1.0, block=4), adaptive]
    if issubclass(cls, KeyValueCollection):
        return [cls(survey=FILMS, epsilon=2.0)]
    if issubclass(cls, MarginalRelease):
        return [cls(survey=BITS, epsilon=1.0)]
    if issubclass(cls, NumericMean):
        mechanisms: tuple[Mechanism, ...] = ("one-bit", "piecewise")
        return [cls(survey=NUMBERS, epsilon=1.0, mechanism=one) for one in mechanisms]
    if issubclass(cls, AttributeOracles):
        oracles = {"spl": ORACLES, "smp": ORACLES[:3]}.get(name, ())
        chosen = [cls(survey=BITS, epsilon=1.0, oracle=oracle) for oracle in oracles]
        return chosen or [cls(survey=BITS, epsilon=1.0)]
    raise LookupError(f"no example of {name}")
