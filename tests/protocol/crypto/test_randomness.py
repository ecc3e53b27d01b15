"""Keystream randomness: known answers, exactness of the draws, and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol import Stream, secret_of
from protocol.crypto.randomness import WORDS, Streams, expand, modulo, public_nonce
from tests.scripted import Scripted
from tests.vectors.formats import keystream

KEY = bytes(range(32))


def test_expand_gives_the_first_block_of_rfc_5869_test_case_1() -> None:
    key = bytes.fromhex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5")
    okm = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    assert expand(key, bytes(range(0xF0, 0xFA))).hex() == okm


def test_keystream_of_the_zero_key_is_the_published_one() -> None:
    # The blocks of counters 0, 1 and 2 stand in test cases 13 and 14 of the GCM specification.
    published = (
        "dc95c078a2408989ad48a21492842087"
        "530f8afbc74536b9a963b4f1c4cb738b"
        "cea7403d4d606b6e074ec5d3baf39d18"
    )
    assert Stream(bytes(32)).bytes(48).hex() == published


def test_different_parties_purposes_and_sessions_have_different_streams() -> None:
    secret = secret_of(1)
    first, second = (
        Streams(secret, public_nonce(secret)),
        Streams(secret, public_nonce(secret_of(2))),
    )
    pairs = [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc"), ("c", "ab")]
    drawn = {s.stream(*pair).bytes(16) for s in (first, second) for pair in pairs}
    assert len(drawn) == 10
    assert first.stream("ab", "c").bytes(16) in drawn


def test_children_do_not_depend_on_draws_and_do_not_change_them() -> None:
    parent, other = Stream(KEY), Stream(KEY)
    parent.words(5)
    child = parent.derive("noise")
    child.words(100)
    assert parent.words(5).tolist() == Stream(KEY).words(10)[5:].tolist()
    assert (
        other.derive("noise").words(100).tolist() == Stream(KEY).derive("noise").words(100).tolist()
    )
    assert other.derive("noise").bytes(16) != other.derive("mask").bytes(16)
    assert other.derive("noise").derive("noise").bytes(16) != other.derive("noise").bytes(16)
    assert other.derive("noise").bytes(16) != Stream(KEY).bytes(16)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 40), max_size=8))
def test_how_draws_are_cut_does_not_matter(lengths: list[int]) -> None:
    stream = Stream(KEY)
    parts = [word for length in lengths for word in stream.words(length).tolist()]
    assert parts == Stream(KEY).words(sum(lengths)).tolist()
    stream = Stream(KEY)
    assert b"".join(stream.bytes(length) for length in lengths) == Stream(KEY).bytes(sum(lengths))


def test_a_large_draw_continues_the_small_one() -> None:
    stream = Stream(KEY)
    stream.words(3)
    large = stream.words(100_003)
    assert large[-1] == int.from_bytes(keystream(KEY, 16 * 50_003)[-8:], "little")


def test_words_may_be_written_to() -> None:
    words = Stream(KEY).words(4)
    words[0] = 1
    assert words.flags.writeable


def test_keys_do_not_show() -> None:
    secret = secret_of(7)
    streams = Streams(secret, public_nonce(secret))
    stream = Stream(KEY)
    stream.words(1)
    for shown in (repr(streams), str(streams), repr(stream), str(stream)):
        assert shown in ("Streams(<secret>)", "Stream(<key>)")


def test_bernoulli_takes_one_word_each_whatever_the_threshold() -> None:
    for threshold in (0, 1, WORDS):
        stream = Stream(KEY)
        assert stream.bernoulli(threshold, (2, 3)).shape == (2, 3)
        assert stream.words(1)[0] == Stream(KEY).words(7)[6]


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.integers(1, 9) | st.integers(1, WORDS - 1), min_size=1, max_size=6),
    st.lists(st.integers(WORDS - 9, WORDS - 1) | st.integers(0, WORDS - 1), min_size=6, max_size=6),
)
def test_bounds_in_an_array_are_held_one_by_one(bounds: list[int], words: list[int]) -> None:
    # What follows the scripted words is accepted for any bound.
    given_words = [*words[: len(bounds)], *([0] * len(bounds))]
    drawn = Scripted(*given_words).integers(np.array(bounds, np.uint64)).tolist()
    for value, high, word in zip(drawn, bounds, words, strict=False):
        accepted = word < WORDS - WORDS % high
        assert value == (word % high if accepted else 0)
        assert Scripted(word, 0).integers(high, 1).tolist() == [value]


def test_bounds_are_broadcast_to_the_size() -> None:
    bounds = np.array([1, 2, 1000], np.int64)
    drawn = Stream(KEY).integers(bounds, (500, 3))
    assert drawn.shape == (500, 3)
    assert drawn.max(axis=0).tolist()[:2] == [0, 1]
    assert 900 < drawn[:, 2].max() < 1000
    assert Stream(KEY).integers(bounds).shape == (3,)
    assert Stream(KEY).integers(9).shape == ()


@pytest.mark.parametrize(
    "high", [0, -1, WORDS + 1, np.array([3, 0], np.uint64), np.array([-2]), np.array([0.5])]
)
def test_integers_refuse_bounds_out_of_range(high: int | NDArray[np.integer]) -> None:
    with pytest.raises(ValueError, match="bound"):
        Stream(KEY).integers(high, 2)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.integers(0, WORDS - 1), max_size=8),
    st.one_of(st.integers(1, WORDS), st.integers(1, 300)),
)
def test_modulo_is_the_remainder(words: list[int], size: int) -> None:
    assert modulo(np.array(words, np.uint64), size).tolist() == [word % size for word in words]


def test_modulo_of_more_words_than_are_taken_at_once() -> None:
    words = Stream(KEY).words(10_001)
    assert np.array_equal(modulo(words.copy(), 101), words % np.uint64(101))


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutation_holds_every_place_once(n: int) -> None:
    permutation = Stream(KEY).permutation(n)
    assert permutation.dtype == np.int64
    assert sorted(permutation.tolist()) == list(range(n))
