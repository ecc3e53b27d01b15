"""Claims beside the record: what is compared with what, and the factor between."""

from __future__ import annotations

import math
from typing import Any

import pytest

from protocol import AGGREGATOR, Claim, KeepUniform, Records, SecureSum, Variant
from protocol.audit.audit import Audit, audit
from protocol.audit.claims import ClaimCheck, check_claims
from protocol.audit.ledger import Ledger, LedgerWriter
from protocol.simulation.setting import make_setting
from protocol.variants import (
    RRBA,
    InpPS,
    PairRR,
    PrivKVVariant,
    RRClusters,
    RRIndependent,
    SecureSumVariant,
)
from tests.every_variant import BITS, FILMS
from tests.protocol.sessions import answers, talk
from tests.recorded.runs import recorded

P = 0.6


def audited(variant: Variant, records: Records | int = 8) -> Audit:
    run = recorded(variant, records, parties=8)
    found = audit(lambda: [run.content], type(variant))
    claims = variant.claims()
    assert found.verdict == "sound"
    assert tuple(check.claim for check in found.checks)[: len(claims)] == claims
    return found


def checks(variant: Variant) -> tuple[ClaimCheck, ...]:
    return audited(variant).checks


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("groups", ["one", "view"])
def test_the_theorem_of_rrba_holds_for_no_table(k: int, groups: Any) -> None:
    """The uniform table of K cells costs ln(1 + pK/(1-p)), the theorem says ln(1/(1-p))."""
    [check] = checks(RRBA(survey=BITS, k=k, p=P, block=4, groups=groups))
    cells = 2**k
    assert check.record == pytest.approx(math.log1p(P / (1 - P) * cells), rel=1e-9)
    assert check.claim.epsilon == pytest.approx(-math.log(1 - P))
    assert check.factor == pytest.approx(check.record / -math.log(1 - P))
    assert check.factor is not None
    assert check.factor > 1
    assert check.about == "per answer"


def test_what_the_configuration_of_rrba_promises_is_kept() -> None:
    theorem, promise = checks(RRBA(survey=BITS, epsilon=1.0, block=4))
    assert theorem.claim.source.startswith("RRBA")
    assert (promise.claim.epsilon, promise.claim.source) == (1.0, "the survey's configuration")
    assert promise.factor == pytest.approx(1.0)
    assert promise.record <= 1.0


@pytest.mark.parametrize("profile", ["sparse", "literal"])
def test_waived_composition_is_a_factor_of_the_number_of_pairs(profile: Any) -> None:
    [check] = checks(PairRR.with_keep(BITS, P, sums=SecureSum(profile=profile)))
    each = math.log1p(4 * P / (1 - P))
    assert check.claim.epsilon == pytest.approx(each)
    assert check.record == pytest.approx(3 * each)
    assert check.factor == pytest.approx(3)


@pytest.mark.parametrize("dependence", ["rr", "pair-rr", "secure-sum"])
def test_the_claims_of_clusters_are_about_their_own_messages(dependence: Any) -> None:
    """The release costs what is said; what the clusters are learned from is another bill."""
    variant = RRClusters(survey=BITS, p=P, tv=4, td=0.0, dependence=dependence)
    found = audited(variant)
    first, *others = found.checks
    single = 3 * math.log1p(2 * P / (1 - P))
    assert first.record == pytest.approx(single)
    assert first.factor == pytest.approx(1)
    assert first.about == "per record, in 'Report'"
    match dependence:
        case "rr":
            assert others == []
            assert found.ledger.record_epsilon == pytest.approx(2 * single)
        case "pair-rr":
            [waived] = others
            assert waived.factor == pytest.approx(3)
            assert waived.about == "per record, in 'Upload' and 'Partial'"
        case "secure-sum":
            [counts] = others
            assert (counts.record, counts.factor) == (math.inf, None)


@pytest.mark.slow
def test_what_is_said_truly_has_the_factor_1() -> None:
    for variant in (
        RRIndependent.with_keep(BITS, P),
        InpPS(survey=BITS, epsilon=1.5),
        PrivKVVariant(survey=FILMS, epsilon=2.0),
    ):
        first = checks(variant)[0]
        assert first.factor is not None
        assert first.about == "per record"
        if not isinstance(variant, PrivKVVariant):
            assert first.factor == pytest.approx(1)
    assert checks(SecureSumVariant(survey=BITS)) == ()


def claiming(claim: Claim | None, epsilon: float | None = None) -> Variant:
    """A talk of which something is claimed."""

    class Claiming(type(talk()), frozen=True, kw_only=True):
        epsilon: float | None = None

        def claims(self) -> tuple[Claim, ...]:
            return () if claim is None else (claim,)

    made: Variant = Claiming(survey=BITS, epsilon=epsilon)
    return made


def ledger_of(variant: Variant) -> Ledger:
    setting = make_setting(variant, answers(variant.survey, 3), seed=1)
    return LedgerWriter(setting.charter).ledger(AGGREGATOR)


@pytest.mark.parametrize(
    ("claimed", "factor"), [(None, None), (0.0, None), (2.0, 0.0), (math.inf, 0.0)]
)
def test_where_nothing_was_told(claimed: float | None, factor: float | None) -> None:
    variant = claiming(Claim("somebody", "something", claimed))
    [check] = check_claims(variant, ledger_of(variant))
    assert (check.record, check.factor) == (0.0, factor)


@pytest.mark.parametrize(
    ("claimed", "factor"),
    [(None, None), (0.0, math.inf), (2.0, math.inf), (math.inf, None)],
)
def test_what_is_unbounded_is_infinitely_many_times_the_claim(
    claimed: float | None, factor: float | None
) -> None:
    found = audited(SecureSumVariant(survey=BITS))
    for per in ("record", "answer"):
        claim = Claim("somebody", "something", claimed, per=per)
        [check] = check_claims(claiming(claim), found.ledger)
        assert (check.record, check.factor) == (math.inf, factor)


def test_a_parameter_epsilon_is_a_promise_unless_a_claim_accounts_for_it() -> None:
    variant = claiming(None, epsilon=3.0)
    [check] = check_claims(variant, ledger_of(variant))
    assert (check.claim.says, check.claim.epsilon) == ("the parameter epsilon", 3.0)
    variant = claiming(Claim("somebody", "something", 3.0), epsilon=3.0)
    [check] = check_claims(variant, ledger_of(variant))
    assert check.claim.source == "somebody"
    variant = claiming(None)
    assert check_claims(variant, ledger_of(variant)) == ()


def test_a_record_without_signatures_does_not_look_as_if_it_kept_a_promise() -> None:
    """Who leaves all heads out hides that more was told than is claimed."""
    for variant in (
        RRBA(survey=BITS, k=2, p=P, block=4),
        RRIndependent.with_keep(BITS, P),
    ):
        claim = Claim("somebody", "something", 0.5)
        run = recorded(variant, 8, parties=8)
        names = [str(name) for name in run.charter.roster.parties]
        silent = recorded(variant, 8, parties=8, unsigned=names)
        signed, unsigned = (
            audit(lambda content=each.content: [content], type(variant)) for each in (run, silent)
        )
        assert unsigned.ledger.record_epsilon == 0.0
        for one, other in zip(signed.checks, unsigned.checks, strict=True):
            assert other.record >= one.record > 0.0
        [check] = check_claims(claiming(claim), unsigned.ledger)
        assert check.record == unsigned.ledger.unsigned_epsilon >= signed.ledger.record_epsilon


def test_kinds_that_nobody_sent_cost_nothing() -> None:
    found = audited(RRIndependent.with_keep(BITS, P))
    for per in ("record", "answer"):
        claim = Claim("somebody", "something", 1.0, per=per, kinds=("Upload",))
        [check] = check_claims(claiming(claim), found.ledger)
        assert (check.record, check.factor) == (0.0, 0.0)
    claim = Claim("somebody", "something", 1.0, per="answer", kinds=("Report",))
    [check] = check_claims(claiming(claim), found.ledger)
    assert check.record == KeepUniform.with_keep(2, p=P).epsilon
