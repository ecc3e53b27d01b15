"""What a verifier remembers of the senders in a transcript, in little memory."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter


class Recipients:
    """To whom each envelope of one sender went, in little memory.

    A sender mostly addresses one recipient all the time, or its recipients in roster order; so
    (first seq, first position, step, length) of each run of evenly spaced positions is kept.
    """

    __slots__ = ("_next", "_odd", "_runs", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._runs: list[tuple[int, int, int]] = []
        self._next = 0
        self._odd: dict[int, int] = {}

    def put(self, seq: int, position: int) -> None:
        """Note to which member, by its position in the roster, an envelope went."""
        if seq < self._next:
            self._odd[seq] = position
            return
        if self._runs and seq == self._next:
            first, step, length = self._runs[-1]
            if length == 1:
                step = position - first
            if position == first + step * length:
                self._runs[-1] = (first, step, length + 1)
                self._next += 1
                return
        self._starts.append(seq)
        self._runs.append((position, 0, 1))
        self._next = seq + 1

    def get(self, seq: int) -> int | None:
        """The recipient's position; None if there is no such envelope."""
        if seq in self._odd:
            return self._odd[seq]
        i = bisect_right(self._starts, seq) - 1
        if i < 0:
            return None
        first, step, length = self._runs[i]
        ahead = seq - self._starts[i]
        return first + step * ahead if ahead < length else None


class Sender:
    """What is remembered of one sender."""

    __slots__ = ("departed", "gaps", "next", "recipients", "undelivered")

    def __init__(self) -> None:
        self.next = 0
        # (first, end, entry at which it showed) of every range of numbers that was passed over.
        self.gaps: list[tuple[int, int, int]] = []
        self.recipients = Recipients()
        self.undelivered: set[int] = set()
        self.departed = False

    def fill(self, seq: int) -> bool:
        """Take a number out of the gaps; whether it was in one."""
        i = bisect_right(self.gaps, seq, key=itemgetter(0)) - 1
        if i < 0 or seq >= self.gaps[i][1]:
            return False
        first, end, entry = self.gaps[i]
        parts = ((first, seq, entry), (seq + 1, end, entry))
        self.gaps[i : i + 1] = [part for part in parts if part[0] < part[1]]
        return True
