"""Coalitions given on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.audit.coalition.coalition import Coalition
from protocol.errors import UsageError
from protocol.messages import RECORD, PartyId
from protocol.session.roster import Roster
from scenarios.cli.values import frozen_options, option


@frozen_options
class Conspirators:
    """The members who conspire, the wires that they tap, and whose keys they have besides."""

    names: Sequence[str] = option(
        "--coalition",
        multiple=True,
        metavar="A,B,C",
        help="The members who conspire: say what they know together.",
    )
    taps: Sequence[str] = option(
        "--tap",
        multiple=True,
        metavar="X-Y",
        help="A wire that the coalition taps, between two members (X:Y if names have hyphens); "
        "repeat for each.",
    )
    keys: Sequence[str] = option(
        "--key",
        multiple=True,
        metavar="MEMBER",
        help="Also give the coalition this member's keys: it can open boxes to or from the member "
        "and knows its masks; repeat for each.",
    )

    def coalition(self, roster: Roster) -> Coalition | None:
        """The coalition, of members of a transcript's roster; None if there is none.

        Raises:
            UsageError: a name is not on the roster, or a tap is ambiguous.
        """
        if not self.names and not self.taps and not self.keys:
            return None
        names = [name.strip() for text in self.names for name in text.split(",") if name.strip()]
        for name in names:
            if name != RECORD and name not in roster:
                raise UsageError(f"--coalition: {stranger(roster, name)}")
        for name in self.keys:
            if name not in roster:
                raise UsageError(f"--key: {stranger(roster, name)}")
        return Coalition(
            tuple(dict.fromkeys(map(PartyId, names))),
            tuple(dict.fromkeys(_wire(roster, tap) for tap in self.taps)),
            tuple(dict.fromkeys(map(PartyId, self.keys))),
        )


def stranger(roster: Roster, name: str) -> str:
    """The complaint that a name is not on the roster."""
    return f"{name!r} is not on the roster of {len(roster)} members"


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
