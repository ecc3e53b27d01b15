"""A variant whose randomizer is a user's own: what can be said of it, and what is refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from protocol import (
    Attribute,
    ExactAccountant,
    KeepUniform,
    PartyId,
    QuorumError,
    Randomized,
    Records,
    Survey,
    UnaryEncoding,
    UnsupportedEventError,
)
from protocol.accounting.accountants import PureAccountant, total
from protocol.attack.attack import _other_categories
from protocol.audit.at_delta import worst_respondent
from protocol.audit.ledger import Account, Ledger
from protocol.audit.linkage import bound_on_guess, link
from protocol.audit.passed import Charge
from protocol.crypto.randomness import WORDS
from protocol.randomizers.vetting import dominating_pairs
from scenarios import simulate
from tests.pages import Page
from tests.scenarios.command import sottovoce
from tests.scenarios.unary_variant import Lowered, OptimizedUnary, Silent, Unary

FILE = Path(__file__).parents[1] / "unary_variant.py"
OWN = f"{FILE}:Unary"
SURVEY = Survey("letters", (Attribute(name="a", categories=("p", "q", "r", "s")),))
RECORDS = Records.from_rows(SURVEY, [["p"], ["q"], ["r"], ["s"]] * 3)
WHY = "not computed: randomizer 'OptimizedUnary' does not bring its dominating pair"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unary") / "transcript.svt.zst"
    outcome = simulate(Unary(survey=SURVEY), RECORDS, parties=6, path=path)
    assert outcome.ledger.record_epsilon == pytest.approx(math.log(3))
    (path.parent / "records.csv").write_text(RECORDS.to_csv(), encoding="utf-8")
    return path


def test_an_audit_says_all_but_the_figure_at_a_delta(path: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    said = sottovoce("audit", path, "--variant", OWN, "--html", page, "--details")
    assert said.code == 0, said.err
    assert "\nRecord: sound. " in said.out
    assert "learned at most ε = 1.099 about each respondent (pure" in said.out
    assert f"At delta 1e-06: {WHY}" in said.out
    assert "The published result of 12 respondents follows" in said.out
    shown = Page(page.read_text(encoding="utf-8")).said
    assert f"At delta 1e-06: {WHY}" in shown
    assert "at most ε = 1.099 about each respondent" in shown
    found = sottovoce("audit", path, "--variant", OWN, "--json").json
    assert found["verdict"] == "sound"
    assert found["privacy"]["record_epsilon"] == pytest.approx(math.log(3))
    at_delta = found["privacy"]["at_delta"]
    assert (at_delta["exact"], at_delta["others"]) == (None, [])
    assert WHY in at_delta["missing"]
    assert found["linkage"]["groups"][0]["linked"] == ["Draws"]


@pytest.mark.parametrize(
    "asked",
    [
        ("--observer", "aggregator,party-1"),
        ("--worst", "1"),
        ("--delta", "0"),
        ("--delta", "0.1", "--json"),
        ("--pld",),
        ("--trail", "party-1"),
        ("--observer", "party-2"),
        ("--observer", "record"),
        ("--records", "records.csv"),
    ],
    ids=" ".join,
)
def test_every_option_of_an_audit(path: Path, asked: tuple[str, ...]) -> None:
    given = [path.parent / part if part.endswith(".csv") else part for part in asked]
    said = sottovoce("audit", path, "--variant", OWN, *given)
    assert said.code == 0, said.err
    assert ": not computed" in said.out
    assert ("nor a second opinion" in said.out) == ("--pld" in asked)


def test_what_is_wrong_otherwise_still_decides(path: Path) -> None:
    said = sottovoce("audit", path, "--variant", OWN, "--digest", "00" * 32)
    assert said.code == 1
    assert "Record: broken. " in said.out
    assert WHY in said.out


@pytest.mark.slow
def test_an_attack_goes_by_the_stated_epsilon(tmp_path: Path) -> None:
    survey = tmp_path / "letters.toml"
    categories = list(SURVEY.attributes[0].categories)
    survey.write_text(f'title = "x"\n[[attributes]]\nname = "a"\ncategories = {categories}\n')
    few = ("--survey", survey, "--trials", "2000", "--runs", "20", "--json")
    found = sottovoce("attack", OWN, *few).json
    assert (found["accused"], found["probes"][0]["bound"]) == (False, pytest.approx(math.log(3)))
    # Nobody knows which answers it tells apart best, so not the farthest alone.
    pairs = {probe["pair"] for probe in found["probes"]}
    assert len(pairs) == len(_other_categories(0, 4, "a", ()))


def test_without_an_epsilon_it_counts_as_the_answers_themselves(path: Path) -> None:
    said = sottovoce("audit", path, "--variant", f"{FILE}:Silent")
    assert said.code == 0, said.err
    assert "party-1 #0: randomizer 'Unjudgeable' has epsilon None: expected a number" in said.out
    assert "No ε bounds what the aggregator learned" in said.out
    assert "at delta" not in said.out.lower()
    assert "at a δ" not in said.out
    found = sottovoce("audit", path, "--variant", f"{FILE}:Silent", "--json").json
    assert found["privacy"]["record_epsilon"] is None
    # A party does not send what nobody can judge.
    with pytest.raises(QuorumError, match="0 of 2"):
        simulate(Silent(survey=SURVEY), RECORDS, parties=2)


class Stating(msgspec.Struct, frozen=True):
    """States what it likes."""

    epsilon: Any


class Loose(msgspec.Struct):
    """Cannot be hashed."""

    epsilon: float = 1.0


@pytest.mark.parametrize("epsilon", [None, "1", math.nan, -0.5, 1j])
def test_an_epsilon_that_is_none_is_refused(epsilon: object) -> None:
    with pytest.raises(UnsupportedEventError, match=r"'Stating' has epsilon .*: expected a number"):
        PureAccountant().judge(Randomized(Stating(epsilon), ("a",)))


def test_a_stated_epsilon_is_taken() -> None:
    for epsilon in (2, 2.0, np.float64(2.0), np.float32(2.0), np.int64(2)):
        loss = PureAccountant().judge(Randomized(Stating(epsilon), ("a",)))
        assert (loss.record, type(loss.record)) == (2.0, float)
    endless = PureAccountant().judge(Randomized(Stating(math.inf), ("a",)))
    assert endless.unbounded == ("a report on a can rule an answer out",)


def test_what_cannot_be_hashed_is_refused() -> None:
    with pytest.raises(UnsupportedEventError, match="expected a hashable, frozen randomizer"):
        PureAccountant().judge(Randomized(Loose(), ("a",)))


def test_a_derived_class_is_not_judged_by_its_base() -> None:
    for other in (OptimizedUnary(4, WORDS // 4), Lowered(4, WORDS // 2)):
        with pytest.raises(UnsupportedEventError, match=type(other).__name__):
            dominating_pairs(other)
        with pytest.raises(UnsupportedEventError, match=type(other).__name__):
            ExactAccountant(1e-6).judge([Randomized(other, ("a",))])
    assert dominating_pairs(KeepUniform(4, WORDS // 2)).tight
    assert dominating_pairs(UnaryEncoding.flipping(4, threshold=WORDS // 4)).tight


def ledger_of(*randomizers: Any) -> Ledger:
    judge = PureAccountant().judge
    events = [Randomized(randomizer, ("a",)) for randomizer in randomizers]
    trail = tuple(Charge(i, "Report", e, judge(e)) for i, e in enumerate(events))
    account = Account(PartyId("party-1"), total(charge.loss for charge in trail), trail)
    return Ledger(PartyId("aggregator"), {account.party: account}, ("a",), (4,))


def test_a_guess_from_several_reports_is_not_called_too_unlikely() -> None:
    lowered = Lowered(4, WORDS // 2)
    [group] = link(ledger_of(lowered, lowered)).groups
    [repeated] = group.repeated
    assert not repeated.exact
    assert repeated.success == bound_on_guess(2 * lowered.epsilon, 4)
    base = KeepUniform(4, WORDS // 2)
    assert link(ledger_of(base, base)).groups[0].repeated[0].exact


def test_who_told_less_than_the_dearest_does_not_matter() -> None:
    dear, cheap = KeepUniform(4, WORDS - 1), OptimizedUnary(4, WORDS // 4)
    ledger = ledger_of(dear)
    other = ledger_of(cheap).accounts[PartyId("party-1")]
    accounts = {**ledger.accounts, PartyId("party-2"): msgspec.structs.replace(other, party="p")}
    both = msgspec.structs.replace(ledger, accounts=accounts)
    found = worst_respondent(both, 1e-6, settled=True)
    assert found is not None
    assert found.everybody
    with pytest.raises(UnsupportedEventError):
        worst_respondent(ledger_of(cheap), 1e-6, settled=True)
