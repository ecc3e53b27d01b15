"""Coalitions, and the envelopes that they see."""

from __future__ import annotations

import functools
from collections.abc import Collection, Container
from typing import TypeAlias

import msgspec

from protocol.errors import SurveyError
from protocol.messages import AGGREGATOR, RECORD, PartyId
from protocol.session.roster import Roster


class Coalition(msgspec.Struct, frozen=True, dict=True):
    """Members, taps and keys with combined knowledge.

    Args:
        members: parties; the aggregator, which hosts the switch and sees all that passes; or
            ``record``, the holder of the transcript, which sees as much.
        taps: pairs of members of the roster; messages between them are read.
        keys: members whose identity keys and session keys are known: the masks that they share, and
            boxes by or for them that are seen. The randomness of their answers is not known.
    """

    members: tuple[PartyId, ...]
    taps: tuple[tuple[PartyId, PartyId], ...] = ()
    keys: tuple[PartyId, ...] = ()

    @functools.cached_property
    def everything(self) -> bool:
        """True if they see all that passes."""
        return AGGREGATOR in self.members or RECORD in self.members

    @functools.cached_property
    def insiders(self) -> frozenset[PartyId]:
        """The parties whose secrets of a sum are known."""
        return frozenset((*self.members, *self.keys))

    @functools.cached_property
    def _own(self) -> frozenset[PartyId]:
        return frozenset(self.members)

    @functools.cached_property
    def _wires(self) -> frozenset[tuple[PartyId, PartyId]]:
        return frozenset({*self.taps, *((y, x) for x, y in self.taps)})

    def overhears(self, sender: PartyId, recipient: PartyId | None) -> bool:
        """True if they see a message when it is sent: on a wire, at the switch, or as its sender.

        Args:
            recipient: None for a message refused at the switch.
        """
        return (
            self.everything
            or recipient == RECORD
            or sender in self._own
            or (sender, recipient) in self._wires
        )

    def hears(self, sender: PartyId, recipient: PartyId | None) -> bool:
        """Check whether they see it when it is sent or when it comes."""
        return recipient in self._own or self.overhears(sender, recipient)

    def among(self, names: Container[PartyId]) -> Coalition:
        """Restrict the coalition to these members."""
        return Coalition(
            tuple(name for name in self.members if name == RECORD or name in names),
            tuple((x, y) for x, y in self.taps if x in names and y in names),
            tuple(name for name in self.keys if name in names),
        )

    def holding(self, disclosed: Collection[PartyId]) -> Coalition:
        """The same with the keys and records of others, which count as members."""
        members = dict.fromkeys((*self.members, *disclosed))
        return msgspec.structs.replace(self, members=tuple(members)) if disclosed else self

    def check(self, names: Collection[PartyId]) -> None:
        """Check that all members, taps and keys are on the roster.

        Args:
            names: the members of the roster.

        Raises:
            SurveyError: one is not on the roster, a tap is between a member and itself, or the
                coalition is empty.
        """
        if not (self.members or self.taps or self.keys):
            raise SurveyError("the coalition is empty: name a member, a tap or a key")
        parties = [name for name in self.members if name != RECORD]
        for name in (*parties, *(end for pair in self.taps for end in pair), *self.keys):
            if name not in names:
                raise SurveyError(f"{name!r} is not on the roster of {len(names)} members")
        for x, y in self.taps:
            if x == y:
                raise SurveyError(f"tap {x}-{y}: expected two different members")

    def __str__(self) -> str:
        parts = [", ".join(self.members)] if self.members else []
        parts += [f"tap {x}-{y}" for x, y in self.taps]
        parts += [f"key {name}" for name in self.keys]
        return "; ".join(parts)


Observer: TypeAlias = PartyId | Coalition
"""A member, ``record`` for the holder of the transcript, or a coalition."""


def parse_coalition(observer: Observer) -> Coalition:
    """An observer as a coalition, also if it is a single member."""
    return observer if isinstance(observer, Coalition) else Coalition((observer,))


def serving(roster: Roster) -> Coalition:
    """The aggregator and all services, as a coalition."""
    return Coalition((AGGREGATOR, *roster.services))


def observer_named(*texts: str) -> Coalition:
    """Members by their names, with commas between; of several texts all of them together."""
    names = (PartyId(name.strip()) for text in texts for name in text.split(","))
    return Coalition(tuple(dict.fromkeys(names)))
