"""Candidates for a plan: every built-in variant, with parameters chosen for an epsilon.

The epsilon bounds the cost of a respondent's reports (``Variant.most``). A variant with several
setups has a candidate for each.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from protocol.errors import ProtocolError, UsageError
from protocol.session.variant import Variant
from protocol.sharing.sums import SecureSum
from protocol.surveys.survey import Survey
from protocol.variants import (
    BUILT_IN,
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
from protocol.variants.marginals.encoding import binary_encoding
from protocol.variants.marginals.variant import MarginalRelease
from protocol.variants.oracles.names import ORACLES
from protocol.variants.sums.tallies import Counted
from scenarios.designing.summing import AmongHonest, keep_in_sum, told_in_sum
from scenarios.designing.targets import Names, Target
from scenarios.running.making import make_variant, shorthands
from scenarios.wording.formatting import count

MOST_TABLES = 2**20
"""Maximum number of cells in the tables of a candidate's result."""

MOST_TRIED = 5_000
"""Maximum number of such cells for a candidate that has to be simulated."""

_PRECISION = 1e-7
"""Relative precision of keep probabilities."""

V = TypeVar("V", bound=Variant)


class Candidate(NamedTuple):
    """A way to ask, or the reason why a variant does not apply.

    Args:
        variant: the variant with its parameters; None if it does not apply.
        name: the variant's name, with a suffix such as ``:oue`` if there are several ways.
        chosen: its parameters in words, such as ``oracle=oue``.
        why: why it does not apply; empty if it does.
        among: the honest parties that its epsilon rests on; None if it holds whoever conspires.
    """

    variant: Variant | None
    name: str
    chosen: str
    why: str = ""
    among: AmongHonest | None = None

    @property
    def family(self) -> str:
        """The variant's name."""
        return self.name.partition(":")[0]


class _NotApplicableError(Exception):
    """Reason why a variant does not apply."""


class Wanted(NamedTuple):
    """Purpose for which parameters are chosen.

    Args:
        survey: the survey.
        epsilon: limit on the cost of a respondent's reports, in nats.
        target: the wanted tables.
        parties: number of parties that hold the respondents.
        dropout: expected share of parties that drop out.
        delta: delta of epsilons that rest on honest others; None for candidates that hold whoever
            conspires only.
    """

    survey: Survey
    epsilon: float
    target: Target
    parties: int = 250
    dropout: float = 0.0
    delta: float | None = None

    @property
    def share(self) -> float:
        """Epsilon of one attribute, if it is split evenly."""
        return self.epsilon / len(self.survey.names)

    @property
    def sums(self) -> SecureSum:
        """Secure sums that tolerate the expected dropouts and, where possible, a margin.

        Without a margin about half of all surveys would fail, as parties refuse a sum that lacks
        more parties than it tolerates.
        """
        deviation = math.sqrt(self.dropout * (1 - self.dropout) / self.parties)
        for spare in (2.0, 1.0, 0.5):
            with contextlib.suppress(ValueError):
                sums = self._tolerant_sums(self.dropout + spare * deviation)
                sums.degree(self.parties)
                return sums
        return self._tolerant_sums(self.dropout)

    def _tolerant_sums(self, dropped: float) -> SecureSum:
        usual = SecureSum()
        return msgspec.structs.replace(usual, dropped=max(usual.dropped, round(dropped, 3)))


def candidates(wanted: Wanted) -> tuple[Candidate, ...]:
    """Candidates of every built-in variant; each has at least one."""
    return tuple(found for cls in BUILT_IN.values() for found in variant_candidates(cls, wanted))


def variant_candidates(cls: type[Variant], wanted: Wanted) -> tuple[Candidate, ...]:
    """The candidates of a built-in variant, at least one.

    A variant without a rule here is set up like a user's own variant.
    """
    if cls not in _MAKERS:
        return (own_candidate(cls, {}, wanted),)
    try:
        return tuple(_MAKERS[cls](wanted))
    except (_NotApplicableError, ValueError, ProtocolError) as error:
        return (Candidate(None, cls.name, "", str(error)),)


def own_candidate(cls: type[Variant], parameters: Mapping[str, Any], wanted: Wanted) -> Candidate:
    """Candidate of a user's own variant, set up by its epsilon or keep probability if it has one.

    Args:
        parameters: the plan's parameters; unknown ones are left out.
    """
    survey, epsilon, name = wanted.survey, wanted.epsilon, cls.name or cls.__name__
    known = {*cls.__struct_fields__, *shorthands(cls)}
    given = {key: value for key, value in parameters.items() if key in known}
    rest = {key: value for key, value in given.items() if key not in ("p", "epsilon")}

    def make(**more: float) -> Variant:
        return make_variant(cls, survey, {**rest, **more}, strict=True)

    try:
        if "epsilon" in known:
            return Candidate(make(epsilon=epsilon), name, f"epsilon={epsilon:.4g}")
        if "p" in known:
            with contextlib.suppress(_NotApplicableError):
                return Candidate(largest(lambda p: make(p=p), epsilon), name, "p by epsilon")
        made = make_variant(cls, survey, given, strict=True)
    except (UsageError, ProtocolError, ValueError) as error:
        return Candidate(None, name, "", str(error))
    return Candidate(made, name, "as in the plan")


def largest(make: Callable[[float], V], epsilon: float) -> V:
    """The variant with the largest keep probability that costs no more than epsilon.

    Args:
        make: makes a variant from a keep probability; its cost grows with the probability.
        epsilon: in nats.

    Raises:
        _NotApplicableError: every probability costs more.
    """
    best: V | None = None
    low, high = 0.0, 1.0
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        try:
            made = make(middle)
        except (ValueError, UsageError):
            # Too small for the domain.
            low = middle
            continue
        if made.most() <= epsilon:
            low, best = middle, made
        else:
            high = middle
    if best is None:
        raise _NotApplicableError(f"no keep probability costs as little as epsilon {epsilon:g}")
    return best


def _rr_independent(wanted: Wanted) -> Iterator[Candidate]:
    made = RRIndependent.with_epsilon(wanted.survey, wanted.epsilon)
    yield Candidate(made, made.name, f"epsilon={wanted.share:.4g} per attribute")


def _rr_joint(wanted: Wanted) -> Iterator[Candidate]:
    cells = wanted.survey.cells
    if cells >= 2**64:
        raise _NotApplicableError("the attributes have 2**64 combinations of answers or more")
    made = RRJoint.with_epsilon(wanted.survey, wanted.epsilon)
    yield Candidate(made, made.name, f"one of {cells:,} combinations")


def _rr_ind_joint(wanted: Wanted) -> Iterator[Candidate]:
    yield _ind_joint(wanted, ())
    if len(wanted.target.tables) == 1 and wanted.target.ways > 1:
        yield _ind_joint(wanted, wanted.target.tables[0])


def _ind_joint(wanted: Wanted, cluster: Names) -> Candidate:
    survey = wanted.survey
    alone = tuple((name,) for name in survey.names if name not in cluster)
    clusters = (cluster, *alone) if cluster else ()
    made = largest(lambda p: RRIndJoint(survey=survey, p=p, clusters=clusters), wanted.epsilon)
    together = f", {'+'.join(cluster)} together" if cluster else ""
    name = f"{made.name}:together" if cluster else made.name
    return Candidate(made, name, f"p={made.p:.4g}{together}")


def _secure_sum(wanted: Wanted) -> Iterator[Candidate]:
    yield from _count_candidates(SecureSumVariant, wanted, "exact counts")


def _pair_counts(wanted: Wanted) -> Iterator[Candidate]:
    _check_pairs(wanted.survey)
    yield from _count_candidates(PairCounts, wanted, "exact counts of pairs")


def _count_candidates(cls: type[Counted], wanted: Wanted, exact: str) -> Iterator[Candidate]:
    """Candidates for counts: with coins where a delta is given, and exact."""
    if wanted.delta is not None:
        yield with_coins(cls, wanted, wanted.delta)
    made = cls.with_noise(wanted.survey, "none", sums=wanted.sums)
    yield Candidate(made, made.name, exact)


def _pair_rr(wanted: Wanted) -> Iterator[Candidate]:
    _check_pairs(wanted.survey)
    made = largest(lambda p: PairRR.with_keep(wanted.survey, p, sums=wanted.sums), wanted.epsilon)
    keep, pairs = made.randomizers[0].uniform_keep, count(len(made.randomizers), "pair")
    yield Candidate(made, made.name, f"p={keep:.4g} for {pairs}")
    if wanted.delta is not None:
        yield summed_reports(wanted, wanted.delta)


def with_coins(cls: type[Counted], wanted: Wanted, delta: float) -> Candidate:
    """Counts with the fewest coins that are enough, or the reason why none are."""
    name = f"{cls.name}:coins"
    try:
        made = cls.with_noise(
            wanted.survey,
            epsilon=wanted.epsilon,
            delta=delta,
            parties=wanted.parties,
            sums=wanted.sums,
        )
    except ValueError as error:
        return Candidate(None, name, "", str(error))
    among = told_in_sum(made, wanted.parties, delta)
    return Candidate(made, name, "coins", among=among)


def summed_reports(wanted: Wanted, delta: float) -> Candidate:
    """Reports on pairs, charged as a sum over honest parties, or the reason why not."""
    name = f"{PairRR.name}:summed"

    def make(p: float) -> PairRR:
        return PairRR.with_keep(wanted.survey, p, sums=wanted.sums)

    try:
        made = keep_in_sum(make, wanted.epsilon, wanted.parties, delta)
    except ValueError as error:
        return Candidate(None, name, "", str(error))
    keep, among = made.randomizers[0].uniform_keep, told_in_sum(made, wanted.parties, delta)
    return Candidate(made, name, f"p={keep:.4g}", among=among)


def _check_pairs(survey: Survey, most: int = MOST_TABLES) -> None:
    if len(survey.names) < 2:
        raise _NotApplicableError("it counts pairs of attributes, and there is one attribute")
    sizes = survey.sizes
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    if cells > most:
        raise _NotApplicableError(
            f"the tables of all pairs have {cells:,} cells, expected at most {most:,}"
        )


def _rr_clusters(wanted: Wanted) -> Iterator[Candidate]:
    survey = wanted.survey
    _check_pairs(survey, MOST_TRIED)
    # A cluster has room for any two attributes, and often for a third.
    tv, td = min(2 * math.prod(sorted(survey.sizes)[-2:]), 2**32), 0.1

    def make(p: float) -> RRClusters:
        return RRClusters(
            survey=survey, p=p, tv=tv, td=td, dependence="rr-debiased", sums=wanted.sums
        )

    made = largest(make, wanted.epsilon)
    yield Candidate(made, made.name, f"p={made.p:.4g} tv={tv} td={td} rr-debiased")


def _rrba(wanted: Wanted) -> Iterator[Candidate]:
    k = wanted.target.ways
    if k > 6:
        raise _NotApplicableError(f"a table of {k} attributes; its groups have at most 6")
    # With uniform fakes, one block is as good as many.
    made = RRBA(survey=wanted.survey, k=k, epsilon=wanted.epsilon, block=wanted.parties)
    yield Candidate(made, made.name, f"k={k} mix={made.mix:g} in one block")


def _marginals(cls: type[MarginalRelease]) -> _Maker:
    def make(wanted: Wanted) -> Iterator[Candidate]:
        encoding = binary_encoding(wanted.survey)
        d = len(encoding.binary.names)
        bits = max(len(encoding.name_bits(*names)) for names in wanted.target.tables)
        k = max(bits, *encoding.bits)
        if k > 4:
            raise _NotApplicableError(
                f"a table of the target takes {bits} bits and the largest attribute "
                f"{max(encoding.bits)}; its marginals have at most 4"
            )
        if d > 24:
            raise _NotApplicableError(f"the attributes take {d} bits, expected at most 24")
        if cls is InpPS and 2**d > MOST_TABLES:
            # The result has a count for every combination of bits.
            raise _NotApplicableError(
                f"{d} bits have 2**{d} combinations, expected at most {MOST_TABLES:,}"
            )
        made = cls(survey=wanted.survey, epsilon=wanted.epsilon, k=k)
        yield Candidate(made, cls.name, f"k={k} of {count(d, 'bit')}")

    return make


def _oracles(cls: type[Spl] | type[Smp], how: Callable[[Wanted], str]) -> _Maker:
    def make(wanted: Wanted) -> Iterator[Candidate]:
        for oracle in ORACLES:
            name = f"{cls.name}:{oracle}"
            try:
                made = cls(survey=wanted.survey, epsilon=wanted.epsilon, oracle=oracle)
                yield Candidate(made, name, how(wanted))
            except (ValueError, ProtocolError) as error:
                yield Candidate(None, name, "", str(error))

    return make


def _rs_fd(wanted: Wanted) -> Iterator[Candidate]:
    survey, epsilon = wanted.survey, wanted.epsilon
    # Its parameter is the paper's epsilon, which is less than the cost of a record.
    stated = math.log1p(math.expm1(min(epsilon, 100.0)) / len(survey.names))
    made = RsFd(survey=survey, epsilon=stated)
    while made.most() > epsilon:
        stated *= 1 - 2**-50
        made = RsFd(survey=survey, epsilon=stated)
    yield Candidate(made, made.name, f"epsilon={stated:.4g} as its paper counts")


def _never(why: str) -> _Maker:
    def make(wanted: Wanted) -> Iterator[Candidate]:
        raise _NotApplicableError(why)

    return make


_PRIVKV = _never(
    "it asks for keys with values, and estimates who holds a key and the mean of its values"
)

_Maker = Callable[[Wanted], Iterator[Candidate]]

_MAKERS: Mapping[type[Variant], _Maker] = {
    RRIndependent: _rr_independent,
    RRJoint: _rr_joint,
    RRIndJoint: _rr_ind_joint,
    SecureSumVariant: _secure_sum,
    PairCounts: _pair_counts,
    PairRR: _pair_rr,
    RRClusters: _rr_clusters,
    RRBA: _rrba,
    **{cls: _marginals(cls) for cls in (InpRR, InpPS, InpHT, MargRR, MargPS, MargHT)},
    PrivKVVariant: _PRIVKV,
    PrivKVMVariant: _PRIVKV,
    Spl: _oracles(Spl, lambda wanted: f"epsilon={wanted.share:.4g} per attribute"),
    Smp: _oracles(
        Smp, lambda wanted: f"one of {count(len(wanted.survey.names), 'attribute')} each"
    ),
    RsFd: _rs_fd,
    NumericMean: _never("it estimates means of numbers, and no shares of categories"),
}
