"""What the aggregator of a secure sum tells a party once, and which message counts if several do.

A party takes the first that is delivered to it and never looks at another. A record in which one
was only said, or says the same twice, shows no more than that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.audit.coalition.mask_graph import SumRecord
from protocol.messages import Message
from protocol.sharing.messages import PART_BYTES, Dealt, Graph, Survivors

Row = tuple[NDArray[Any], ...]
"""What one message says to a party, in the order of ``NOTED``."""

NOTED: dict[type[Message], tuple[str, ...]] = {
    Graph: ("hoods", "joined", "foreign"),
    Dealt: ("dealt",),
    Survivors: ("survivors",),
}
"""The kinds that a party is told once, and where a ``SumRecord`` has what they say."""

_NOTHING, _SAID, _DELIVERED = range(3)


class _UnderWay(NamedTuple):
    """A message that has been said.

    Args:
        stages: how far messages of its kind have come, by place.
        row: what it says, if that is not noted.
    """

    record: SumRecord
    kind: type[Message]
    place: int
    stages: NDArray[np.uint8]
    row: Row | None


class Instructions:
    """Notes what parties are told. Of every message under way it keeps a few numbers at most."""

    def __init__(self) -> None:
        self._under_way: dict[int, _UnderWay] = {}
        self._stages: dict[tuple[int, type[Message]], NDArray[np.uint8]] = {}

    def say(
        self, record: SumRecord, kind: type[Message], row: Row, *, index: int, place: int, seq: int
    ) -> bool:
        """Note what the aggregator says to a party, unless something is noted already.

        Args:
            index: of the record, among all.
            place: of the party.
            seq: of the message.

        Returns:
            Whether something else is noted.
        """
        if (index, kind) not in self._stages:
            self._stages[index, kind] = np.zeros(record.parties, np.uint8)
        stages = self._stages[index, kind]
        if stages[place] == _NOTHING:
            stages[place] = _SAID
            _put(record, kind, place, row)
        noted = [getattr(record, name)[place] for name in NOTED[kind]]
        same = all(map(np.array_equal, noted, row))
        if stages[place] == _SAID:
            under_way = _UnderWay(record, kind, place, stages, None if same else row)
            self._under_way[seq] = under_way
        return not same

    def deliver(self, seq: int) -> None:
        """Note that a message of the aggregator was delivered: nothing later takes its place."""
        under_way = self._under_way.pop(seq, None)
        if under_way is None or under_way.stages[under_way.place] == _DELIVERED:
            return
        under_way.stages[under_way.place] = _DELIVERED
        if under_way.row is not None:
            _put(under_way.record, under_way.kind, under_way.place, under_way.row)


def _put(record: SumRecord, kind: type[Message], place: int, row: Row) -> None:
    for name, values in zip(NOTED[kind], row, strict=True):
        getattr(record, name)[place] = values


def survivors_among(
    hood: NDArray[np.int32], place: int, parts: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Which neighbours a party was told have uploaded; none if that is not said.

    Whether it is under the root that was signed is for that party to check before it unmasks.
    """
    there = hood >= 0
    number, bit = np.divmod(hood[there], 8 * PART_BYTES)
    own = place // (8 * PART_BYTES)
    sent = np.zeros(max(own, int(number.max(initial=0))) + 1, np.bool_)
    sent[number] = sent[own] = True
    row = np.cumsum(sent) - 1
    among = np.zeros(len(hood), np.bool_)
    if row[-1] + 1 == len(parts):
        among[there] = np.unpackbits(parts, axis=1, bitorder="little")[row[number], bit]
    return among
