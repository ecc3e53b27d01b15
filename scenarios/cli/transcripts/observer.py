"""The observer of an audit on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.audit.coalition.coalition import Coalition, observer_named
from protocol.errors import UsageError
from protocol.messages import RECORD, PartyId
from protocol.session.roster import Roster
from scenarios.cli.values import frozen_options, option
from scenarios.wording.hints import did_you_mean


@frozen_options
class ObserverOptions:
    """Members that collude, wires that they tap, and keys that they hold."""

    names: Sequence[str] = option(
        "--observer",
        multiple=True,
        metavar="A,B,C",
        help="The members whose joint knowledge is accounted for, of secure sums too, or 'record' "
        "for the transcript's holder.  [default: all who hold no records]",
    )
    taps: Sequence[str] = option(
        "--tap",
        multiple=True,
        metavar="X-Y",
        help="A wire that the observer taps, between two members (X:Y if names have hyphens); "
        "repeat for each.",
    )
    keys: Sequence[str] = option(
        "--key",
        multiple=True,
        metavar="MEMBER",
        help="Also give the observer this member's keys: it can open boxes to or from the member "
        "and knows its masks; repeat for each.",
    )

    def observer(self, roster: Roster) -> Coalition | None:
        """The observer, by a transcript's roster; None for the default.

        Raises:
            UsageError: a name is not on the roster, or a tap is ambiguous.
        """
        if not (self.names or self.taps or self.keys):
            return None
        members = observer_named(*self.names).members
        for name in members:
            if name != RECORD and name not in roster:
                raise UsageError(f"--observer: {stranger(roster, name)}")
        for key in self.keys:
            if key not in roster:
                raise UsageError(f"--key: {stranger(roster, key)}")
        return Coalition(
            members,
            tuple(dict.fromkeys(_wire(roster, tap) for tap in self.taps)),
            tuple(dict.fromkeys(map(PartyId, self.keys))),
        )


def stranger(roster: Roster, name: str) -> str:
    """The complaint that a name is not on the roster."""
    hint = did_you_mean(name, roster.parties)
    return f"{name!r} is not on the roster of {len(roster)} members{hint}"


def _wire(roster: Roster, text: str) -> tuple[PartyId, PartyId]:
    """The two ends of ``x:y``, or of ``x-y`` where that is unambiguous."""
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
