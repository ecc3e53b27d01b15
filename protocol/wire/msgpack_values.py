"""Counts the values in msgpack before anything is made of it."""

from __future__ import annotations


def _forms() -> tuple[list[int], list[int]]:
    """Least length of a value, and the number of its length bytes, by first byte.

    The values in an array or a map follow it and count by themselves.
    """
    whole, length = [1] * 256, [0] * 256
    for form in range(0xA0, 0xC0):
        whole[form] = 1 + (form & 31)
    for first in (0xC4, 0xD9):
        for i in range(3):
            whole[first + i], length[first + i] = 1 + (1 << i), 1 << i
    for i in range(3):
        whole[0xC7 + i], length[0xC7 + i] = 2 + (1 << i), 1 << i
    for i in range(4):
        whole[0xCC + i] = whole[0xD0 + i] = 1 + (1 << i)
    for i in range(5):
        whole[0xD4 + i] = 2 + (1 << i)
    whole[0xCA], whole[0xCB] = 5, 9
    for first in (0xDC, 0xDE):
        whole[first], whole[first + 1] = 3, 5
    return whole, length


_WHOLE, _LENGTH = _forms()


def has_more_values(content: bytes, most: int) -> bool:
    """Check whether msgpack has more values than allowed, with nested ones and keys.

    A byte may be an empty list, which takes fifty in memory. Malformed input is counted up to the
    error.
    """
    end, at, count = len(content), 0, 0
    if end <= most:
        return False
    whole, length = _WHOLE, _LENGTH
    while at < end:
        count += 1
        if count > most:
            return True
        form = content[at]
        width = length[form]
        if width:
            at += int.from_bytes(content[at + 1 : at + 1 + width], "big")
        at += whole[form]
    return False
