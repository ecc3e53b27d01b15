"""Ed25519 by hand: keys and signatures that libraries do not make."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass

PRIME, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
"""The y of a point of order 8; that of the others is its negative."""

_D = -121665 * pow(121666, -1, PRIME) % PRIME

Point = tuple[int, int]


def point_of(y: int, odd: bool = False) -> Point:
    """The point with this y whose x is odd, or even."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if x * x % PRIME != square:
        raise ValueError("not a point of the curve")
    return (x if x % 2 == odd else PRIME - x), y


def added(one: Point, other: Point) -> Point:
    (a, b), (c, d) = one, other
    t = _D * a * b * c * d
    x = (a * d + b * c) * pow(1 + t, -1, PRIME)
    return x % PRIME, (b * d + a * c) * pow(1 - t, -1, PRIME) % PRIME


NOWHERE: Point = (0, 1)
"""The point of order 1."""


def multiplied(times: int, point: Point) -> Point:
    found = NOWHERE
    while times:
        if times & 1:
            found = added(found, point)
        point, times = added(point, point), times >> 1
    return found


def encoded_point(point: Point) -> bytes:
    return (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")


BASE = point_of(4 * pow(5, -1, PRIME) % PRIME)


@dataclass(frozen=True)
class OddMember:
    """A member whose key or signatures are made in an odd way.

    Args:
        shift: a point of low order that is added to its key.
        turn: a point of low order that is added to the signature's point.
        fits: how the hash of point, key and content ends, in its lower three bits.
    """

    shift: Point = NOWHERE
    turn: Point = NOWHERE
    fits: int | None = None

    @functools.cached_property
    def _number(self) -> int:
        half = int.from_bytes(hashlib.sha512(b"odd").digest()[:32], "little")
        return half & (1 << 254) - 8 | 1 << 254

    @functools.cached_property
    def key(self) -> bytes:
        return encoded_point(added(multiplied(self._number, BASE), self.shift))

    def sign(self, content: bytes) -> bytes:
        for nonce in range(1000, 2000):
            point = encoded_point(added(multiplied(nonce, BASE), self.turn))
            hashed = hashlib.sha512(point + self.key + content).digest()
            times = int.from_bytes(hashed, "little") % ORDER
            if self.fits is None or times % 8 == self.fits:
                break
        return point + ((nonce + times * self._number) % ORDER).to_bytes(32, "little")
