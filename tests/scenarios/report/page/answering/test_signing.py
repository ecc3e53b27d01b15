"""Signatures: by WebCrypto and by hand they are the same, and both judge as the program does."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from protocol import PartyId
from protocol.session.roster import Identity, is_signature
from tests.scenarios.report.page.answering.odd_signatures import (
    EIGHTH,
    ORDER,
    PRIME,
    OddMember,
    point_of,
)
from tests.vectors.pages.making import seed_of
from tests.verifier.bundles import needs_node, run

pytestmark = needs_node
HERE = Path(__file__).parent

WITHOUT = """
const known = crypto.subtle.importKey.bind(crypto.subtle);
crypto.subtle.importKey = async (format, key, algorithm, ...rest) => {
  if (algorithm.name === "Ed25519") throw new DOMException("", "NotSupportedError");
  return known(format, key, algorithm, ...rest);
};
"""
SIGNING = (HERE / "signing.js").read_text(encoding="utf-8")
JUDGING = (HERE / "verifying.js").read_text(encoding="utf-8")


def said(script: str, given: Any, *, by_hand: bool) -> Any:
    return json.loads(run(script, json.dumps(given).encode(), before=WITHOUT * by_hand))


@pytest.mark.parametrize("by_hand", [False, True])
def test_keys_and_signatures_are_the_programs(by_hand: bool) -> None:
    seeds = [seed_of(f"{number}") for number in range(12)]
    messages = [bytes(range(length * 17 % 251)) for length in range(12)]
    given = [[seed.hex(), message.hex()] for seed, message in zip(seeds, messages, strict=True)]
    keys = [Identity(PartyId("p-001"), seed) for seed in seeds]
    assert said(SIGNING, given, by_hand=by_hand) == [
        [key.public.hex(), key.sign(message).hex()]
        for key, message in zip(keys, messages, strict=True)
    ]


def cases() -> list[tuple[bytes, bytes, bytes]]:
    """Keys, signatures and messages: right ones, damaged ones, and such as only look strange."""
    draw = random.Random(1)
    found = []
    for number in range(12):
        identity = Identity(PartyId("p-001"), seed_of(f"signer {number}"))
        key, message = identity.public, draw.randbytes(number * 9)
        signature = identity.sign(message)
        found.append((key, signature, message))
        for _ in range(3):
            parts = [bytearray(key), bytearray(signature), bytearray(message + b"x")]
            part = draw.choice(parts)
            part[draw.randrange(len(part))] ^= 1 << draw.randrange(8)
            found.append((bytes(parts[0]), bytes(parts[1]), bytes(parts[2])))
        larger = int.from_bytes(signature[32:], "little") + ORDER
        found.append((key, signature[:32] + larger.to_bytes(32, "little"), message))
        found.append((key, signature[:63], message))
    for y in (0, 1, 2, PRIME - 1, PRIME, PRIME + 1, 2**255 - 1, 2**255 + 1):
        found.append((y.to_bytes(32, "little"), signature, message))
    for shift in (point_of(EIGHTH), point_of(0), point_of(PRIME - EIGHTH, True)):
        for fits in (0, 1, 4):
            odd = OddMember(shift=shift, fits=fits)
            found.append((odd.key, odd.sign(b"shifted"), b"shifted"))
        odd = OddMember(turn=shift)
        found.append((odd.key, odd.sign(b"turned"), b"turned"))
    return found


@pytest.mark.parametrize("by_hand", [False, True])
def test_signatures_are_judged_as_the_program_does(by_hand: bool) -> None:
    given = [[part.hex() for part in case] for case in cases()]
    wanted = [is_signature(signature, said, key=key) for key, signature, said in cases()]
    assert said(JUDGING, given, by_hand=by_hand) == wanted
    # Those of keys with a part of low order hold where the hash takes it away.
    assert wanted.count(True) > 12
