"""Spot checks: the draw, and what it finds."""

from __future__ import annotations

import hashlib
from collections import Counter
from math import comb

import pytest

from protocol import PartyId
from protocol.audit.proofs.spot import Spot, draw_places

ROOT = bytes(range(32))
PLACES = tuple(PartyId(f"p-{place:03}") for place in range(40))


def test_the_draw_is_as_documented() -> None:
    key = hashlib.sha256(b"sottovoce spot 1\0" + ROOT + "Würfel 3 5".encode()).digest()
    wanted = sorted(PLACES, key=lambda name: hashlib.sha256(key + name.encode()).digest())
    for number in (1, 7, 40):
        assert draw_places(PLACES, ROOT, number, "Würfel 3 5") == tuple(wanted[:number])
    assert draw_places(PLACES, ROOT, 100, "Würfel 3 5") == tuple(wanted)


def test_everybody_draws_the_same_places() -> None:
    drawn = draw_places(PLACES, ROOT, 7)
    assert draw_places(PLACES[::-1], ROOT, 7) == drawn
    # A longer draw begins with a shorter one, and whoever is not counted changes no other's place.
    assert draw_places(PLACES, ROOT, 12)[:7] == drawn
    without = tuple(name for name in PLACES if name != drawn[0])
    assert draw_places(without, ROOT, 6) == drawn[1:]
    assert draw_places((), ROOT, 7) == ()


def test_root_and_words_decide() -> None:
    drawn = draw_places(PLACES, ROOT, 7)
    assert draw_places(PLACES, bytes(32), 7) != drawn
    assert draw_places(PLACES, ROOT, 7, "a") != drawn


def test_every_place_is_drawn_alike() -> None:
    rounds, number = 2000, 8
    times = Counter(
        name for i in range(rounds) for name in draw_places(PLACES, i.to_bytes(32, "big"), number)
    )
    share = number / len(PLACES)
    deviation = (rounds * share * (1 - share)) ** 0.5
    assert set(times) == set(PLACES)
    assert all(abs(found - rounds * share) < 4.5 * deviation for found in times.values())


@pytest.mark.parametrize("made_up", [0, 2, 4, 20, 40])
@pytest.mark.parametrize("number", [1, 5, 30, 40])
def test_no_more_is_missed_than_is_said(made_up: int, number: int) -> None:
    spot = Spot(
        asked=number,
        counted=40,
        root=ROOT,
        size=9,
        words="",
        places=draw_places(PLACES, ROOT, number),
    )
    exact = comb(40 - made_up, number) / comb(40, number)
    assert exact <= spot.missed(made_up / 40) + 1e-12
    if number == 1:
        assert exact == pytest.approx(spot.missed(made_up / 40))
