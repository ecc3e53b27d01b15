"""How much of its keystream a party takes does not depend on what its records say.

The time of a draw follows from that, so nobody learns from it what was answered, nor whether the
answer was kept.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from protocol import OneReport, Records, Stream
from protocol.crypto.randomness import Streams
from tests.every_variant import examples

ONE_REPORT = [each for each in examples() if isinstance(each.variant, OneReport)]
KEYS = 30


def taken(variant: OneReport[Any, Any, Any], records: Records, key: int) -> int:
    """How many bytes of the keystream a report takes."""
    stream = Streams(hashlib.sha256(bytes([key])).digest(), bytes(32)).stream("anna", "role")
    with pytest.MonkeyPatch.context() as patch:
        sizes: list[int] = []
        words, octets = Stream.words, Stream.bytes

        def counted_words(self: Stream, n: int) -> Any:
            sizes.append(8 * n)
            return words(self, n)

        def counted_bytes(self: Stream, n: int) -> bytes:
            sizes.append(n)
            return octets(self, n)

        patch.setattr(Stream, "words", counted_words)
        patch.setattr(Stream, "bytes", counted_bytes)
        variant.answer(records, variant.question(), stream)
    return sum(sizes)


@pytest.mark.parametrize("example", ONE_REPORT, ids=lambda example: example.name)
def test_a_draw_takes_as_much_whatever_the_answer_and_whether_it_is_kept(example: Any) -> None:
    survey = example.variant.survey
    sizes = np.array([len(each.categories) for each in survey.attributes])
    first, last = (
        Records(survey, np.array([codes], survey.dtype)) for codes in (0 * sizes, sizes - 1)
    )
    found = {taken(example.variant, each, key) for each in (first, last) for key in range(KEYS)}
    assert len(found) == 1
    assert found != {0}
