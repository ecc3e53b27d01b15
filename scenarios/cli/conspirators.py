"""Coalitions given on the command line, and taps in them that add nothing."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.audit.coalition.coalition import Coalition
from protocol.audit.walk import Fold, Step
from protocol.messages import RECORD, PartyId
from protocol.session.roster import Roster
from protocol.transcript.entries import Sent
from scenarios.running.errors import UsageError


def coalition_of(
    roster: Roster, members: Sequence[str], taps: Sequence[str], keys: Sequence[str]
) -> Coalition | None:
    """The coalition that was given; None if there is none.

    Args:
        roster: of the transcript.
        members: names, or several names between commas.
        taps: wires, as ``X-Y`` or ``X:Y``.
        keys: names.

    Raises:
        UsageError: a name is not on the roster, or a tap is ambiguous.
    """
    if not members and not taps and not keys:
        return None
    names = [name.strip() for text in members for name in text.split(",") if name.strip()]
    for name in names:
        if name != RECORD and name not in roster:
            raise UsageError(f"--coalition: {stranger(roster, name)}")
    for name in keys:
        if name not in roster:
            raise UsageError(f"--key: {stranger(roster, name)}")
    return Coalition(
        tuple(dict.fromkeys(map(PartyId, names))),
        tuple(dict.fromkeys(_wire(roster, tap) for tap in taps)),
        tuple(dict.fromkeys(map(PartyId, keys))),
    )


def stranger(roster: Roster, name: str) -> str:
    """The complaint that a name is not on the roster."""
    return f"{name!r} is not on the roster of {len(roster)} members"


class SilentTaps(Fold):
    """The taps of a coalition whose wires carried no message."""

    def __init__(self, coalition: Coalition | None) -> None:
        taps = () if coalition is None else coalition.taps
        self._silent = {frozenset(tap): tap for tap in taps}

    def add(self, step: Step) -> None:
        if isinstance(step.entry, Sent) and step.envelope is not None:
            self._silent.pop(frozenset((step.envelope.sender, step.envelope.recipient)), None)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each of them."""
        return tuple(
            f"nothing passed on the wire between {x} and {y}: that tap adds nothing"
            for x, y in self._silent.values()
        )


def _wire(roster: Roster, text: str) -> tuple[PartyId, PartyId]:
    """The two ends of ``x:y``, or of ``x-y`` if only one wire can be meant."""
    if ":" in text:
        ends = [(text.partition(":")[0], text.partition(":")[2])]
    else:
        ends = [(text[:i], text[i + 1 :]) for i, sign in enumerate(text) if sign == "-"]
    wires = [(PartyId(x), PartyId(y)) for x, y in ends if x in roster and y in roster and x != y]
    if len(wires) > 1:
        several = " or ".join(f"{x}:{y}" for x, y in wires)
        raise UsageError(f"--tap {text}: ambiguous; expected {several}")
    if not wires:
        raise UsageError(f"--tap {text}: expected X-Y or X:Y, two members on the roster")
    return wires[0]
