"""Shamir's secret sharing: against slow arithmetic, and uniform below the threshold, exactly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import Stream
from protocol.crypto.shamir import MAX_SHARES, reconstruct, share
from tests.scripted import seeded
from tests.tiers import slow
from tests.vectors.formats import reciprocal, times


class Given(Stream):
    """A stream that yields the given bytes and then fails."""

    def __init__(self, content: bytes) -> None:
        super().__init__(bytes(32))
        self._content = content

    def bytes(self, n: int) -> bytes:
        drawn, self._content = self._content[:n], self._content[n:]
        assert len(drawn) == n, "more bytes drawn than given"
        return drawn


def octets(content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(content, np.uint8)


def value_at(coefficients: list[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = times(value, x) ^ coefficient
    return value


def interpolated(points: dict[int, int], at: int = 0) -> int:
    """Lagrange's formula."""
    total = 0
    for x, y in points.items():
        above = below = 1
        for other in points:
            if other != x:
                above, below = times(above, at ^ other), times(below, x ^ other)
        total ^= times(times(above, reciprocal(below)), y)
    return total


def test_slow_arithmetic_is_that_of_aes() -> None:
    assert times(0x57, 0x83) == 0xC1
    assert times(0x57, 0x13) == 0xFE
    assert times(0x53, 0xCA) == 1


def test_a_line_through_the_secret_is_shared_by_its_slope() -> None:
    secret, slope = bytes([0, 1, 0x57, 0xFF]), bytes([0x83, 0, 0x13, 0x02])
    shares = share(octets(secret), shares=255, threshold=2, stream=Given(slope))
    assert shares.dtype == np.uint8
    assert shares.tolist() == [
        [s ^ times(c, x) for s, c in zip(secret, slope, strict=True)] for x in range(1, 256)
    ]


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 12), st.integers(0, 243), st.binary(min_size=1, max_size=3), st.data())
def test_shares_lie_on_a_polynomial_of_degree_below_the_threshold(
    threshold: int, more: int, secret: bytes, data: st.DataObject
) -> None:
    shares = share(octets(secret), shares=threshold + more, threshold=threshold, stream=seeded(1))
    assert shares.shape == (threshold + more, len(secret))
    places = data.draw(
        st.lists(
            st.integers(0, threshold + more - 1),
            min_size=threshold,
            max_size=threshold,
            unique=True,
        )
    )
    other = data.draw(st.integers(0, threshold + more - 1))
    for column, octet in enumerate(secret):
        points = {place + 1: int(shares[place, column]) for place in places}
        assert interpolated(points) == octet
        assert interpolated(points, at=other + 1) == shares[other, column]


@settings(deadline=None, max_examples=25)
@given(st.lists(st.lists(st.integers(0, 255), min_size=1, max_size=6), min_size=1), st.data())
def test_reconstruct_takes_polynomials_to_their_values_at_zero(
    polynomials: list[list[int]], data: st.DataObject
) -> None:
    t = max(map(len, polynomials))
    places = [
        data.draw(st.lists(st.integers(0, 254), min_size=t, max_size=t, unique=True))
        for _ in polynomials
    ]
    shares = [
        [[value_at(polynomial, place + 1)] for place in row]
        for polynomial, row in zip(polynomials, places, strict=True)
    ]
    secrets = reconstruct(np.array(shares, np.uint8), np.array(places))
    assert secrets.tolist() == [[polynomial[0]] for polynomial in polynomials]


@settings(deadline=None, max_examples=100)
@given(st.data(), st.binary(max_size=40), st.integers(0, 1000))
def test_any_threshold_or_more_shares_give_the_secret(
    data: st.DataObject, secret: bytes, seed: int
) -> None:
    shares = data.draw(st.integers(1, MAX_SHARES))
    threshold = data.draw(st.integers(1, shares))
    t = data.draw(st.integers(threshold, shares))
    dealt = share(octets(secret), shares=shares, threshold=threshold, stream=seeded(seed))
    chosen = np.stack([seeded(seed + i).permutation(shares)[:t] for i in range(4)])
    secrets = reconstruct(dealt[chosen], chosen.astype(np.uint8))
    assert all(row.tobytes() == secret for row in secrets)


@pytest.mark.parametrize(
    ("n", "t", "length"),
    [slow(5000, 3, 20), (2049, 2, 0), (3, 255, 300), (0, 4, 5), (0, 4, 0)],
)
def test_many_secrets_at_once(n: int, t: int, length: int) -> None:
    stream = seeded(2)
    secrets = octets(stream.bytes(n * length)).reshape(n, length)
    # Byte by byte, so the secrets of all rows can be shared as one.
    dealt = share(secrets.ravel(), shares=255, threshold=t, stream=stream)
    places = np.argsort(stream.words(n * 255).reshape(n, 255), axis=1)[:, :t]
    by_secret = dealt.reshape(255, n, length)
    shares = by_secret[places, np.arange(n)[:, None]]
    np.testing.assert_array_equal(reconstruct(shares, places), secrets)


def test_one_share_of_two_is_uniform_whatever_the_secret() -> None:
    every = bytes(range(256))
    for secret in (0, 1, 0xA7):
        shares = share(np.full(256, secret, np.uint8), shares=255, threshold=2, stream=Given(every))
        assert all(sorted(row) == list(every) for row in shares.tolist())


def test_two_shares_of_three_are_uniform_whatever_the_secret() -> None:
    every = bytes(a for a, _ in itertools.product(range(256), repeat=2))
    every += bytes(b for _, b in itertools.product(range(256), repeat=2))
    for secret in (0, 0x5C):
        shares = share(
            np.full(2**16, secret, np.uint8), shares=9, threshold=3, stream=Given(every)
        ).astype(np.int64)
        for one, other in itertools.combinations(shares, 2):
            # Every pair of values comes of exactly one polynomial.
            assert np.all(np.bincount(256 * one + other, minlength=2**16) == 1)


@pytest.mark.parametrize("places", [[[0, 1, 0]], [[254, 3, 254]], [[0, 1, 2], [7, 7, 7]]])
def test_a_share_given_twice_is_refused(places: list[list[int]]) -> None:
    shares = np.zeros((len(places), 3, 2), np.uint8)
    with pytest.raises(ValueError, match="distinct"):
        reconstruct(shares, np.array(places))


@pytest.mark.parametrize(
    ("shares", "places"),
    [
        (np.zeros((1, 2, 3), np.uint16), np.array([[0, 1]])),
        (np.zeros((2, 3), np.uint8), np.array([[0, 1]])),
        (np.zeros((1, 0, 3), np.uint8), np.zeros((1, 0), np.int64)),
        (np.zeros((1, 2, 3), np.uint8), np.array([0, 1])),
        (np.zeros((1, 2, 3), np.uint8), np.array([[0, 1, 2]])),
        (np.zeros((1, 2, 3), np.uint8), np.array([[0.0, 1.0]])),
        (np.zeros((1, 2, 3), np.uint8), np.array([[-1, 1]])),
        (np.zeros((1, 2, 3), np.uint8), np.array([[0, 255]])),
    ],
)
def test_shares_that_do_not_fit_are_refused(
    shares: NDArray[np.uint8], places: NDArray[np.int64]
) -> None:
    with pytest.raises(ValueError, match="expected"):
        reconstruct(shares, places)


@pytest.mark.parametrize("secret", [np.zeros(3, np.int64), np.zeros((1, 3), np.uint8)])
def test_what_is_no_row_of_bytes_is_not_shared(secret: NDArray[np.uint8]) -> None:
    with pytest.raises(ValueError, match="row of bytes"):
        share(secret, shares=3, threshold=2, stream=seeded())
