"""Coins in a sum: their law, and what of the sum they change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from protocol import (
    Coins,
    Masked,
    Message,
    Noise,
    PartyId,
    RemoteProtocolError,
    SecureSum,
    Seen,
    Stream,
)
from protocol.audit.audit import audit
from protocol.messages import Envelope
from protocol.randomizers.coins import FAIR
from protocol.sharing import messages as kinds
from protocol.sharing.messages import Totals
from protocol.testing import check_variant
from protocol.variants import PairCounts, PairRR, SecureSumVariant
from protocol.variants.sums.tallies import Tallied, Tally
from tests.protocol.sessions import SURVEY, answers, charter_of, holdings_of, rehearsed
from tests.protocol.sharing.test_contradicted_totals import watched
from tests.protocol.sharing.test_sums import counted, vanishing
from tests.recorded.runs import recorded

TEN = tuple(PartyId(f"party-{place}") for place in range(1, 11))


def noisy(trials: int, chance: int = FAIR, **options: Any) -> SecureSum:
    return SecureSum(noise=Noise(trials=trials, chance=chance), **options)


@pytest.mark.parametrize(("trials", "chance"), [(1, 300), (3, 9000), (5, FAIR), (143, FAIR)])
def test_coins_are_binomial(trials: int, chance: int) -> None:
    """By chi-square at 1e-4; a keystream gives the same coins for ever."""
    cells = 40_000
    drawn = Noise(trials=trials, chance=chance).draw(Stream(bytes(32)), cells)
    law = stats.binom(trials, chance / 2**16)
    low, high = (int(end) for end in law.ppf([1e-3, 1 - 1e-3]))
    seen = np.bincount(drawn.clip(low, high) - low, minlength=high - low + 1)
    expected = law.pmf(np.arange(low, high + 1))
    expected[0], expected[-1] = law.cdf(low), law.sf(high - 1)
    assert stats.chisquare(seen, expected * cells).pvalue > 1e-4
    # All cells, each of its own coins.
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / cells**0.5


def test_many_coins_are_drawn_in_parts() -> None:
    """What is drawn at once does not show."""
    noise = Noise(trials=2**14, chance=FAIR // 2)
    whole = noise.draw(Stream(bytes(32)), 100)
    stream = Stream(bytes(32))
    words = np.frombuffer(stream.bytes(100 * 2**15), "<u2").reshape(100, 2**14)
    assert whole.tolist() == (words < FAIR // 2).sum(axis=1).tolist()


@pytest.mark.parametrize("bad", [{"trials": 0}, {"trials": 1, "chance": FAIR + 1}])
def test_noise_out_of_range_is_refused_where_it_is_read(bad: dict[str, int]) -> None:
    import msgspec

    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(bad, Noise)


@pytest.mark.parametrize("kind", [SecureSumVariant, PairCounts])
@pytest.mark.parametrize("profile", ["sparse", "literal"])
def test_a_sum_is_of_counts_and_of_everybodys_coins(kind: type[Tallied[Any]], profile: Any) -> None:
    variant = kind(survey=SURVEY, sums=noisy(41, profile=profile), everyone=True, max_records=3)
    done = recorded(variant, answers(SURVEY, 25), parties=10)
    tally = done.published
    assert isinstance(tally, Tally)
    holdings = done.setting.holdings
    coins = tally.totals.astype(int) - counted(variant, holdings, done.charter.roster.parties)
    assert ((coins > 0) & (coins < 410)).all()
    assert abs(coins.mean() - 205) < 5 * (410 / 4 / len(coins)) ** 0.5
    assert len(set(coins.tolist())) > 1
    found = audit(lambda: [done.content], kind)
    assert found.verdict == "sound"
    assert found.estimate is not None
    assert found.estimate.n == 25


def test_who_vanishes_takes_its_coins_along() -> None:
    variant = SecureSumVariant(survey=SURVEY, sums=noisy(64, dropped=0.3))
    charter = charter_of(variant, 10)
    holdings = holdings_of(charter, answers(SURVEY, 10))
    gone = {TEN[2]: "Upload", TEN[5]: "Unmask"}
    done = rehearsed(charter, holdings, fate=vanishing(gone))
    stay = [name for name in charter.roster.parties if name != TEN[2]]
    tally = done.published
    assert isinstance(tally, Tally)
    coins = tally.totals.astype(int) - counted(variant, holdings, stay)
    assert coins.max() <= 9 * 64
    # Every cell's coins are within 6 standard deviations of those of 9.
    assert np.abs(coins - 9 * 32).max() < 6 * (9 * 64 / 4) ** 0.5


def test_coins_are_of_one_session_alone() -> None:
    """Two sums that differ by one party must not differ by its counts alone."""
    variant = SecureSumVariant(survey=SURVEY, sums=noisy(64))
    totals = []
    for attempt in (1, 2):
        charter = charter_of(variant, 10).again(attempt)
        holdings = holdings_of(charter, answers(SURVEY, 10))
        tally = rehearsed(charter, holdings).published
        assert isinstance(tally, Tally)
        totals.append(tally.totals.astype(int))
    assert (totals[0] != totals[1]).sum() > len(totals[0]) / 2


def test_a_contribution_tells_counts_with_coins() -> None:
    variant = PairCounts(survey=SURVEY, sums=noisy(7, 99))
    upload = kinds.Upload(np.zeros(9, np.uint16), np.zeros(2, np.uint8))
    assert variant.reveals(upload, Seen()) == Masked(Coins(7, 99, variant.tables))
    assert variant.most() == float("inf")


def test_randomized_reports_take_no_coins() -> None:
    with pytest.raises(ValueError, match="randomized already"):
        PairRR.with_keep(SURVEY, 0.5, sums=noisy(7))


def test_what_cannot_be_counts_and_coins_is_refused() -> None:
    sums, groups = noisy(100), (4, 4)
    fine = np.array([510, 520, 505, 495, 500, 530, 490, 515])
    sums.check(fine, 20, groups, 10)
    for wrong in (fine + 200, fine * [1, 0, 0, 1, 1, 1, 1, 1], fine * [1, 1, 1, 1, 3, 0, 0, 1]):
        with pytest.raises(RemoteProtocolError, match="expected"):
            sums.check(wrong, 20, groups, 10)
    with pytest.raises(RemoteProtocolError, match="sums to 20"):
        SecureSum().check(np.array([20, 0, 19, 0]), 21, (2, 2), 10)


def test_slack_is_that_of_honest_coins() -> None:
    """Wider than the exact quantiles at 2**-40, by less than a third."""
    for noise, cells, parties in (
        (Noise(trials=143), 12, 10),
        (Noise(trials=1, chance=99), 62, 9000),
    ):
        low, high = noise.slack(cells, parties)
        law = stats.binom(cells * parties * noise.trials, noise.chance / 2**16)
        exact = law.ppf(2.0**-41), law.isf(2.0**-41)
        assert low <= exact[0]
        assert high >= exact[1]
        assert high - low < 4 / 3 * (exact[1] - exact[0])


def test_a_party_compares_the_totals_with_what_it_has_uploaded() -> None:
    """Its own counts with its own coins are in them, and any less is noted for its member alone."""
    variant = SecureSumVariant(survey=SURVEY, sums=noisy(640), everyone=True)
    charter = charter_of(variant, 5)
    holdings = holdings_of(charter, answers(SURVEY, 5))

    def lying(envelope: Envelope, message: Message) -> Message | None:
        if not isinstance(message, Totals):
            return None
        moved = np.zeros_like(message.totals)
        moved[0] = message.totals[0] * 9 // 10
        return Totals(message.respondents, message.totals - moved + np.roll(moved, 1))

    assert watched(charter, holdings, lambda envelope, message: None).notices == {}
    assert set(watched(charter, holdings, lying).notices) == set(charter.roster.parties)


def test_the_contract_holds_of_sums_with_coins() -> None:
    variant = PairCounts(survey=SURVEY, sums=noisy(9, profile="literal"))
    assert check_variant(variant, answers(SURVEY, 6), executors={}) == ()
